-- SPDX-License-Identifier: MIT
--- How late a timer of 1 ms is in a worker while its requests wait for one lock, and while they get it in turn.

local kinds = require "bench.kinds"
local machine = require "bench.machine"
local system = require "bench.system"
local workers = require "bench.workers"

local M = {}

local now = system.now
local ARRIVALS = 0.5 -- seconds over which requests arrive, so that pollers are not in step

--- Sleeps 1 ms again and again until a condition.
-- @return the longest delay in milliseconds
local function longest_delay(ended)
    local longest, before = 0, now()
    repeat
        ngx.sleep(0.001)
        local time = now()
        longest = math.max(longest, time - before - 0.001)
        before = time
    until ended(time)
    return longest * 1e3
end

--- Light threads that wait for the lock, and release it at once.
local function arrive(kind, waits)
    local left, threads = { waits = waits }, {}
    local start = now()
    for i = 1, waits do
        threads[i] = ngx.thread.spawn(function()
            local lock = kinds[kind] { timeout = 30 }
            assert(lock:lock("ticker"))
            assert(lock:unlock())
            left.waits = left.waits - 1
        end)
        if now() < start + ARRIVALS * i / waits then
            ngx.sleep(0.001)
        end
    end
    return left, threads
end

local function measure(kind, waits, emit)
    workers.start(1, "hold_until_told", kind, "ticker")
    workers.take("held")
    local left, threads = arrive(kind, waits)
    local finish = now() + 1
    emit("wait" .. waits, kind, longest_delay(function(time)
        return time > finish
    end))
    workers.put("told", 1)
    emit("grant" .. waits, kind, longest_delay(function()
        return left.waits == 0
    end))
    for i = 1, waits do
        assert(ngx.thread.wait(threads[i]))
    end
    workers.result(1)
end

--- @param rounds of all kinds and numbers of waits
function M.run(rounds)
    machine.describe()
    workers.await_all()
    for round = 1, rounds do
        for _, waits in ipairs { 1, 100, 10000 } do
            kinds.each(round, function(kind)
                measure(kind, waits, machine.emit)
            end)
        end
    end
end

return M
