-- SPDX-License-Identifier: MIT
--- The end of a light thread's request is the end of its hold.
-- nginx ends light threads without running any more of their Lua: by ngx.exit(), ngx.exec(), a client that goes away.
-- So a light thread of the same request sleeps on a semaphore as long as the hold is needed: when it has gone, and the
-- hold was not released, the request has ended.  The pump looks twice a second.
-- While nginx starts no timer for the pump the library does not renew the hold: that light thread does, so that the lease
-- ends if it has gone.

local semaphore = require "ngx.semaphore"
local native = require "resty.lockshm.native"
local pump = require "resty.lockshm.pump"
local C = native.load()

local M = {}

local SLEEP = 86400
local SLICE = 0.3      -- seconds between two looks of a light thread that renews
local AWAIT_PUMP = 0.1 -- seconds

local ties = {} -- by semaphore

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
    if C.lockshm_release(hold.memory, 0) >= 0 then
        ngx.log(ngx.WARN, "lockshm: '", native.printable(hold.key), "' was released: the request that held it has ended before its function")
    end
end

--- Releases the holds of requests that have ended.
-- @return true if there are others
local function look()
    for sleeper, tie in pairs(ties) do
        if sleeper:count() >= 0 then
            ties[sleeper] = nil
            release(tie.hold)
        end
    end
    return next(ties) ~= nil
end
pump.look_after(look)

--- Renews what the library does not, for max_hold at most.
local function renew(tie)
    local max_hold_ns = tie.hold.spec.max_hold_ns
    if max_hold_ns == 0 or native.now() - tie.since < native.to_seconds(max_hold_ns) then
        C.lockshm_renew(tie.hold.memory, tie.lease_ns)
    end
end

local function stay(sleeper, tie)
    while not sleeper:wait(tie.renewed and SLEEP or math.min(SLICE, native.to_seconds(tie.lease_ns) / 4)) do
        if not tie.renewed then
            pump.ask()
            renew(tie)
        end
    end
end

--- Is a hold that is to be tied safe with the library, which renews it as long as the process lives?  May yield.
function M.may_renew()
    return pump.refusal() or pump.runs() or inside_c_call() or pump.await({}, AWAIT_PUMP) ~= false
end

--- Ties a hold to the running request, where that can end early.
-- @param renewed the library renews it, as may_renew() said before
-- @return tie, with the hold's lease_ns and the time since it is renewed by its owner; or nil
function M.tie(hold, renewed)
    if pump.refusal() or inside_c_call() then
        return nil
    end
    local sleeper = semaphore.new()
    local tie = {
        sleeper = sleeper, hold = hold, renewed = renewed, lease_ns = hold.spec.ttl_ns, since = native.now(),
    }
    if ngx.thread.spawn(stay, sleeper, tie) then
        ties[sleeper] = tie
        return tie
    end
end

--- The hold is released as usual.
function M.free(tie)
    if tie then
        ties[tie.sleeper] = nil
        tie.sleeper:post(1)
    end
end

return M
