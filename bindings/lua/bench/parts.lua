-- SPDX-License-Identifier: MIT
--- What a worker does in a scenario, on its own or by command of worker 0.

local kinds = require "bench.kinds"
local system = require "bench.system"
local workers = require "bench.workers"

local M = {}

local now = system.now
local kept

--- Holder: takes the lock, waits for the waiter, releases after a time.
function M.hold_for(kind, seconds)
    local lock = kinds[kind]()
    assert(lock:lock("handover"))
    workers.put("held", 1)
    local asked = workers.take("asked", true)
    system.wait_until(asked + seconds)
    local released = now()
    assert(lock:unlock())
    return released
end

--- Holder: releases when worker 0 says so.
function M.hold_until_told(kind, key)
    local lock = kinds[kind]()
    assert(lock:lock(key))
    workers.put("held", 1)
    workers.take("told")
    assert(lock:unlock())
    return 0
end

--- Waiter: returns when it had the lock.
function M.wait_for(kind)
    local lock = kinds[kind]()
    workers.take("held")
    workers.put("asked", now())
    assert(lock:lock("handover"))
    local running = now()
    assert(lock:unlock())
    return running
end

--- Holder that is going to be killed.
function M.hold_until_killed(kind)
    kept = kinds[kind] { exptime = 0.9 }
    assert(kept:lock("killed"))
    return 1
end

--- Takes a hot lock again and again from a start time on, holds it for 1 us.
-- @return pairs, longest lock() in seconds
function M.hot_pairs(kind, start, seconds)
    local lock = kinds[kind] { exptime = 30, timeout = 30 }
    local count, longest = 0, 0
    system.wait_until(start)
    local asked = now()
    while asked < start + seconds do
        assert(lock:lock("hot"))
        local held = now()
        longest = math.max(longest, held - asked)
        system.spin_until(held + 1e-6)
        assert(lock:unlock())
        count = count + 1
        asked = now()
    end
    return count, longest
end

--- The same for a command: leaves the longest lock() for worker 0.
function M.hot(kind, start, seconds)
    local count, longest = M.hot_pairs(kind, start, seconds)
    workers.put("longest:" .. ngx.worker.id(), longest)
    return count
end

--- Runs a function in many light threads of this worker at once, as many requests would.
local function each_of(size, fn)
    local threads = {}
    for i = 1, size do
        threads[i] = assert(ngx.thread.spawn(fn))
    end
    for i = 1, size do
        assert(ngx.thread.wait(threads[i]))
    end
end

--- Requests for one value that is not in the cache: one fills it in within 20 ms, the others find it.
-- @return seconds until all are done
function M.cache_miss(kind, size)
    local start, value = now(), nil
    each_of(size, function()
        local lock = kinds[kind]()
        assert(lock:lock("cache"))
        if not value then
            ngx.sleep(0.02)
            value = true
        end
        assert(lock:unlock())
    end)
    return now() - start
end

--- Requests that hold one lock for 1 ms each and wait for it up to a second.
-- @return how many got it
function M.crowd(kind, size)
    local granted = 0
    each_of(size, function()
        local lock = kinds[kind] { timeout = 1 }
        if lock:lock("crowd") then
            granted = granted + 1
            ngx.sleep(0.001)
            assert(lock:unlock())
        end
    end)
    return granted
end

return M
