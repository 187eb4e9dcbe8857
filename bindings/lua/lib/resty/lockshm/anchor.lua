-- SPDX-License-Identifier: MIT
--- The end of a light thread's request is the end of its hold.
-- nginx ends light threads without running any more of their Lua: by ngx.exit(), ngx.exec(), a client that goes away.
-- So a light thread of the same request sleeps on a semaphore as long as the hold is needed: when it has gone, and the
-- hold was not released, the request has ended.  A timer looks twice a second while there are such holds.

local semaphore = require "ngx.semaphore"
local native = require "resty.lockshm.native"
local C = native.load()

local M = {}

local TICK = 0.5
local IDLE_TICKS = 4 -- ticks without a hold after which the timer ends
local SLEEP = 86400

local anchored = {}  -- by semaphore: the hold
local watching = false

-- C functions through which LuaJIT can suspend.
local transparent = { [pcall] = true, [xpcall] = true }

--- Is the light thread inside a C call, where a new one cannot be started?
local function inside_c_call()
    local level = 2
    local info = debug.getinfo(level, "Sf")
    while info do
        if info.what == "C" and not transparent[info.func] then
            return true
        end
        level = level + 1
        info = debug.getinfo(level, "Sf")
    end
    return false
end

local function release(hold)
    local memory = hold.memory
    if C.lockshm_release(memory, 0) >= 0 then
        ngx.log(ngx.WARN, "lockshm: '", hold.key, "' was released: the request that held it has ended before its function")
    end
end

local function watch()
    local idle = 0
    repeat
        ngx.sleep(TICK)
        for sleeper, hold in pairs(anchored) do
            if sleeper:count() >= 0 then
                anchored[sleeper] = nil
                release(hold)
            end
        end
        idle = next(anchored) and 0 or idle + 1
    until idle >= IDLE_TICKS or ngx.worker.exiting() and not next(anchored)
    watching = false
end

local function sleep(sleeper)
    while not sleeper:wait(SLEEP) do end
end

local suspends = { rewrite = true, access = true, content = true, timer = true, server_rewrite = true, preread = true }

--- Ties a hold to the running request, where that can end early.
-- @return what free() takes; or nil
function M.tie(hold)
    if not suspends[ngx.get_phase()] or inside_c_call() then
        return nil
    end
    if not watching then
        watching = ngx.timer.at(0, watch) ~= nil
    end
    local sleeper = semaphore.new()
    if watching and ngx.thread.spawn(sleep, sleeper) then
        anchored[sleeper] = hold
        return sleeper
    end
end

--- The hold is released as usual.
function M.free(sleeper)
    if sleeper then
        anchored[sleeper] = nil
        sleeper:post(1)
    end
end

return M
