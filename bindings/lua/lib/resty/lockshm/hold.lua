-- SPDX-License-Identifier: MIT
--- A granted request.
-- It belongs to the process: any light thread may use it.  It ends by release(), with its object (garbage collection),
-- with the process, or when its lease has run out and another request wants the key.  No call here waits.
-- "not held" is a hold that was released, or is of the process that this one was forked from.

local ffi = require "ffi"
local native = require "resty.lockshm.native"
local acquire = require "resty.lockshm.acquire"
local holder = require "resty.lockshm.holder"
local C = native.load()

local M = {}
local class = { __index = M }

local INVALID = C.LOCKSHM_INVALID
local remaining = ffi.new("int64_t[1]")
local damage = ffi.new("struct lockshm_damage")

--- true, or nil and the error string.  "late": done, though the lease had ended; no other request had taken the key.
local function result(code)
    if code == 0 then
        return true
    elseif code > 0 then
        return true, native.status(code)
    end
    return nil, native.message(code)
end
M.result = result

--- A hold object for the memory of a hold.
function M.new(memory, key, spec, status)
    return setmetatable({ memory = memory, key = key, spec = spec, status = native.status(status) }, class)
end

--- The fencing token: larger than that of every earlier exclusive hold of the key.
-- A string of digits, since Lua prints numbers of this size inexactly; tonumber() of it is exact, for comparisons.
function M:token()
    return native.token(C.lockshm_token(self.memory))
end

--- Is the hold still valid?
-- @return seconds left of the lease (math.huge = strict); or nil, "late" (it has run out, but no other request has taken
--         the key: renew() is possible), "lost" or "not held"
function M:check()
    local code = C.lockshm_check(self.memory, remaining)
    if code < 0 then
        return nil, native.message(code)
    elseif code > 0 then
        return nil, native.status(code)
    end
    return native.to_seconds(remaining[0])
end

--- Restarts the lease.
-- @param seconds new length; nil = as requested
-- @return true (and "late" if it had run out); or nil, "lost", "not held" or the reason
function M:renew(seconds)
    local ns = seconds == nil and self.spec.ttl_ns or native.to_ns(seconds)
    if not ns then
        return nil, "renew: " .. native.DURATION .. ", not " .. tostring(seconds)
    end
    local tie = self.tie
    if tie then
        tie.lease_ns, tie.since = ns, native.now()
    end
    return result(C.lockshm_renew(self.memory, ns))
end

--- Moves the end of the lease.
-- @param seconds added to what is left
-- @return true (and "late" if it had run out); or nil, "lost", "not held" or the reason: a hold without a lease has no end
function M:extend(seconds)
    local ns = native.to_ns(seconds)
    if not ns or ns == native.FOREVER then
        return nil, "extend: " .. native.DURATION .. ", not " .. tostring(seconds)
    end
    return result(C.lockshm_extend(self.memory, ns))
end

--- Ends the hold.
-- @param cooldown seconds for which the key stays closed to all; exclusive holds only; nil = 0
-- @return true (and "late"); or nil, "lost", "not held" or the reason
function M:release(cooldown)
    local ns = cooldown == nil and 0 or native.to_ns(cooldown)
    if not ns then
        return nil, "release: " .. native.DURATION .. ", not " .. tostring(cooldown)
    end
    local code = acquire.release(self.memory, ns)
    if code ~= INVALID then
        self.memory = acquire.no_hold
    end
    return result(code)
end

--- Shared to exclusive, if it is the only hold and no request waits.
-- @return true; or nil, "busy", "lost", "not held", or the reason: not for a key across hosts that this host has shared
function M:upgrade()
    local code = C.lockshm_upgrade(self.memory)
    if code == INVALID then
        return nil, "this host has the key shared: release it, then acquire it exclusive"
    end
    return result(code)
end

--- Exclusive to shared; shared requests next in the queue are granted.
-- @return true; or nil, "lost" or "not held"
function M:downgrade()
    local code = C.lockshm_downgrade(self.memory)
    acquire.drain()
    return result(code)
end

--- The damage mark of the key: what its last exclusive holder left that died inside or overran its lease (robust).
-- @return table (status, pid, tid, token, age, tag); nil if there is none; or nil, "lost" or "not held"
function M:damage()
    local code = C.lockshm_damage(self.memory, damage)
    if code < 0 then
        return nil, native.message(code)
    end
    return holder.of_damage(damage)
end

--- Clears the damage mark: what the lock protects is good again.
-- @return true; or nil, "lost" or "not held"
function M:acknowledge()
    return result(C.lockshm_acknowledge(self.memory))
end

return M
