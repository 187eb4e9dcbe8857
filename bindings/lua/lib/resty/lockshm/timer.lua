-- SPDX-License-Identifier: MIT
--- Timers that start.
-- nginx refuses a timer while lua_max_pending_timers others are to come.  It drops an accepted one, with an alert in its
-- log and no word to Lua, if lua_max_running_timers others run when its turn comes.  A timer that repeats is not lost: nginx
-- accepts its next run before it drops this one.  So one of these starts again what did not start.

local native = require "resty.lockshm.native"

local M = {}

local RETRY = 0.3 -- seconds

local exiting = ngx.worker.exiting
local now = native.now

local due = {}          -- jobs that have not begun: when to ask for a timer again
local repeating = false -- for the rest of the worker's life: nginx cannot end it

local function begin(premature, job)
    if due[job] then
        due[job] = nil
        job(premature)
    end
end

--- One job begins here, where a timer runs already; the others ask again.
local function begin_again(premature)
    local job = next(due)
    local other = job and next(due, job)
    while other do
        ngx.timer.at(0, begin, other)
        other = next(due, other)
    end
    if job then
        begin(premature, job)
    end
end

--- Jobs that have not begun are asked for again and again from now on, also if no request runs.
-- @return true; or nil, error string
function M.insist()
    local err
    if not repeating then
        repeating, err = ngx.timer.every(RETRY, begin_again)
    end
    return repeating, err
end

--- Asks for a timer that runs a job.  Does nothing where one was asked for some tenths of a second ago.
-- @param job function(premature), which begins once for each start
-- @return true, which says little; or false: refused
function M.start(job)
    local again = due[job]
    if again and now() < again then
        return true
    end
    due[job] = now() + RETRY
    return again and repeating and not exiting() or ngx.timer.at(0, begin, job) ~= nil
end

--- As start(), for a job that begins whatever happens, unless the worker exits before.
-- @return true; or nil, error string
function M.promise(job)
    if exiting() then
        return nil, "the worker is to exit"
    end
    local done, ok, err = pcall(M.insist)
    if not done then
        return nil, "nginx has none in the " .. ngx.get_phase() .. " phase"
    elseif not ok then
        return nil, err
    end
    M.start(job)
    return true
end

return M
