-- SPDX-License-Identifier: MIT
--- Waiting in nginx while no timer starts (timer.lua), so that there is no pump: each light thread looks after its wait itself.
-- Its request has its place in the queue as any other.  It is in a loop of its own, so that no other light thread collects a
-- grant for it: what a light thread that was killed does not collect, the library passes on after a second.

local ffi = require "ffi"
local semaphore = require "ngx.semaphore"
local native = require "resty.lockshm.native"
local suspend = require "resty.lockshm.suspend"
local C = native.load()

local M = {}

local PENDING = C.LOCKSHM_PENDING
local CANCELLED = C.LOCKSHM_CANCELLED
local SHORTEST, LONGEST = 0.001, 0.1 -- seconds between two looks

local exiting = ngx.worker.exiting
local max, min = math.max, math.min
local outcome = native.sized("struct lockshm_outcome")

local waits = {} -- set: holds and reports stay referenced

local function close(loop)
    C.lockshm_loop_close(ffi.gc(loop, nil))
end

--- Ends the waits of light threads that have gone.
-- @return true if there are others
function M.look()
    for wait in pairs(waits) do
        if wait.semaphore:count() >= 0 then
            waits[wait] = nil
            close(wait.loop)
        end
    end
    return next(waits) ~= nil
end

--- Looks at ever longer intervals.
-- @param ask called at each
-- @return status; or nil, error string
local function look_until_decided(wait, ask)
    local pause = SHORTEST
    while true do
        local err = suspend.sleep(wait.hold, wait.semaphore, pause)
        if err ~= "timeout" then
            return nil, err
        elseif C.lockshm_loop_next(wait.loop, outcome) == 1 then
            return outcome.status
        elseif exiting() and not wait.deadline then
            return CANCELLED
        end
        ask()
        pause = min(pause * 2, LONGEST, wait.deadline and max(wait.deadline - native.now(), SHORTEST) or LONGEST)
    end
end

--- Queues a request and suspends the light thread until its outcome.
-- @param loop for this wait only; closed
-- @return status, and after a wait nil, true; or nil, error string
function M.wait(loop, request, hold, report, ask)
    M.look()
    local status = C.lockshm_loop_acquire(loop, request, hold, nil)
    if status ~= PENDING then
        close(loop)
        return status
    end
    local wait = { hold = hold, report = report, loop = loop, semaphore = semaphore.new() }
    if request.timeout_ns ~= native.FOREVER then
        wait.deadline = native.now() + native.to_seconds(request.timeout_ns)
    end
    waits[wait] = true
    local reached, err = look_until_decided(wait, ask)
    waits[wait] = nil
    close(loop)
    return reached, err and "cannot wait: " .. err, true
end

return M
