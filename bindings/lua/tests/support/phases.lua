-- SPDX-License-Identifier: MIT
--- What a lock does in the phase that calls phases.visit(); phases.results has it, by phase.
local worker = require "support.worker"

local phases = { results = {} }

local function pack(...) return { n = select("#", ...), ... } end

local function attempt(phase)
	local lock, other = worker.new(), worker.new { timeout = 0 }
	local waiter = worker.new { timeout = 0.05 }
	local key = "phase-" .. phase
	return {
		free = pack(lock:lock(key)), try = pack(other:lock(key)), wait = pack(waiter:lock(key)),
		unlock = pack(lock:unlock()), again = pack(other:lock(key)), again_unlock = pack(other:unlock()),
	}
end

--- Takes a free key, tries and waits for the busy one, unlocks, takes it again.
function phases.visit()
	local phase = ngx.get_phase()
	local ok, result = pcall(attempt, phase)
	phases.results[phase] = ok and result or { err = tostring(result) }
end

return phases
