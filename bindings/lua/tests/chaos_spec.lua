-- SPDX-License-Identifier: MIT
--- Workers are killed and stopped at any moment while requests of four workers use one key.  LONG=1: 60 rounds.
local nginx = require "support.nginx"
local posix = require "support.posix"
local segment = require "support.segment"
local wait = require "support.wait"

local ROUNDS = os.getenv("LONG") and 60 or 6

--- Turns under the lock until the round is over.  A worker that is inside has its pid in the dictionary; another one that is there must have been
-- killed.
local TURNS = [[
	local data, me, violations, turns = ngx.shared[dict], ngx.worker.pid(), 0, 0
	local lock = new { timeout = 400, exptime = 500 }
	repeat
		local elapsed, err = lock:lock("chaos")
		if not elapsed then error(err) end
		local other = data:get("inside")
		if other and not data:get("killed" .. other) then violations = violations + 1 end
		data:set("inside", me)
		ngx.sleep(turns % 2 == 0 and 0.001 or 0)
		if data:get("inside") ~= me then violations = violations + 1 end
		data:delete("inside")
		local ok, why = lock:unlock()
		if not ok then error(why) end
		turns = turns + 1
	until turns >= 5 and data:get("round") > @round
	return violations, turns
]]

local function finish_all(started)
	local closed, turns = 0, 0
	for _, connection in ipairs(started) do
		local status, body = connection:finish()
		if status == "closed" then
			closed = closed + 1
		else
			assert.equal(200, status, body)
			local violations, its_turns = assert(loadstring(body))()
			assert.equal(0, violations)
			turns = turns + its_turns
		end
	end
	return closed, turns
end

describe(ROUNDS .. " rounds of four workers", function()
	teardown(nginx.stop_all)

	it("with the holder killed, or stopped for a while, exclude each other, and all others are served", function()
		local server = nginx.start { workers = 4, level = "notice" }
		local deaths = 0
		server:run 'ngx.shared[dict]:set("round", 1)'
		for round = 1, ROUNDS do
			local workers, started, turns_text = server:workers(3), {}, TURNS:gsub("@round", round)
			local function over(survivor, killed)
				survivor:run(('ngx.shared[dict]:set("killed%d", true) ngx.shared[dict]:set("round", %d)'):format(killed, round + 1))
			end
			for _, worker in ipairs(workers) do
				for _ = 1, 2 do started[#started + 1] = worker:start(turns_text) end
			end
			local victim = wait.for_condition("a holder with waiters", function()
				local lock = server:segment() and server:show("chaos")
				return lock and #lock.waiters > 0 and lock.holders[1]
			end).pid
			local survivor = workers[1].pid ~= victim and workers[1] or workers[2]
			if round % 3 == 0 then
				posix.kill(victim, posix.SIGSTOP)
				posix.sleep(0.02)
				posix.kill(victim, posix.SIGCONT)
				over(survivor, 0)
				assert.equal(0, (finish_all(started)))
			else
				survivor:run(('ngx.shared[dict]:set("killed%d", true)'):format(victim))
				posix.kill(victim, posix.SIGKILL)
				wait.for_condition("another holder", function()
					local holder = server:show("chaos").holders[1]
					return holder and holder.pid ~= victim
				end)
				over(survivor, victim)
				local closed, turns = finish_all(started)
				assert.is_true(closed <= 2 and turns >= 6 * 5)
				deaths = deaths + 1
				wait.for_condition("four workers", function()
					posix.collect_all()
					return #server:pids() == 4 and posix.process(victim) ~= "Z"
				end)
			end
			for _, worker in ipairs(workers) do
				for _, connection in ipairs(worker.idle) do connection:close() end
			end
		end
		server:await_free("chaos")
		local stat = segment.stat(server:segment())
		assert.equal(0, stat.keys_busy)
		assert.is_true(segment.verify(server:segment()))
		print(("# %d deaths, %d holds reaped, %d grants after a wait"):format(deaths, stat.recovered, stat.waits))
	end)
end)
