-- SPDX-License-Identifier: MIT
--- Worker 0: runs the scenarios in rounds, all kinds of locks in each, and prints samples: scenario, kind, value.

local free_pair = require "bench.free-pair"
local kinds = require "bench.kinds"
local machine = require "bench.machine"
local parts = require "bench.parts"
local system = require "bench.system"
local workers = require "bench.workers"

local M = {}

local now = system.now
local emit = machine.emit
local HOT_SECONDS = 0.2

--- From unlock() in worker 1 to running code in this worker; microseconds.
local function hand_over(kind, scenario, seconds, times)
    for _ = 1, times do
        workers.start(1, "hold_for", kind, seconds)
        local running = parts.wait_for(kind)
        emit(scenario, kind, (running - workers.result(1)) * 1e6)
    end
end

--- From SIGKILL of the holder to running code in this worker; milliseconds.
local function kill_holder(kind)
    workers.start(1, "hold_until_killed", kind)
    workers.result(1)
    local lock = kinds[kind]()
    local running
    local waiter = ngx.thread.spawn(function()
        assert(lock:lock("killed"))
        running = now()
    end)
    ngx.sleep(0.02)
    local killed = workers.kill(1)
    assert(ngx.thread.wait(waiter))
    assert(lock:unlock())
    emit("killed", kind, (running - killed) * 1e3)
    workers.pid(1)
end

--- Thousands of pairs a second by all workers together; longest lock() in milliseconds.
local function hot(kind)
    local others = ngx.worker.count() - 1
    local start = now() + 0.02
    for id = 1, others do
        workers.start(id, "hot", kind, start, HOT_SECONDS)
    end
    local count, longest = parts.hot_pairs(kind, start, HOT_SECONDS)
    for id = 1, others do
        count = count + workers.result(id)
        longest = math.max(longest, workers.take("longest:" .. id))
    end
    emit("hot" .. others + 1, kind, count / HOT_SECONDS / 1e3)
    emit("hot" .. others + 1 .. "-longest", kind, longest * 1e3)
end

local function requests(kind)
    emit("cache-miss", kind, parts.cache_miss(kind, 100) * 1e3)
    emit("crowd", kind, parts.crowd(kind, 100))
end

local function round_of_two(round)
    free_pair.run(emit)
    kinds.each(round, function(kind)
        hand_over(kind, "hand-over-0.7", 0.0007, 10)
        hand_over(kind, "hand-over-20", 0.02, 4)
        hand_over(kind, "hand-over-200", 0.2, 1)
        kill_holder(kind)
        requests(kind)
        hot(kind)
    end)
end

--- @param rounds of all kinds
function M.run(rounds)
    workers.await_all()
    if ngx.worker.count() == 4 then
        for round = 1, rounds do
            kinds.each(round, hot)
        end
        return
    end
    machine.describe()
    free_pair.prepare()
    free_pair.run(machine.emit)
    kinds.each(0, requests)
    io.stdout:write("begin\n") -- what came before is not counted
    for round = 1, rounds do
        round_of_two(round)
    end
end

return M
