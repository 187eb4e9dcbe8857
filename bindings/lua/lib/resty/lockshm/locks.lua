-- SPDX-License-Identifier: MIT
--- The locks of one segment.

local native = require "resty.lockshm.native"
local acquire = require "resty.lockshm.acquire"
local holder = require "resty.lockshm.holder"
local hold = require "resty.lockshm.hold"
local recipes = require "resty.lockshm.recipes"
local segment = require "resty.lockshm.segment"
local spec = require "resty.lockshm.spec"
local C = native.load()

local M = {}
local class = { __index = M }

local opened = {} -- by name

--- Opens a segment, or makes it.  Makes system calls; waits for no other process.
-- @param name    letters, digits, '.', '_', '-'
-- @param options of a new segment, those of `lockctl create --help` with _ for -: { keys = 100000, permissions = 432 (0660),
--                redis = { "redis://10.0.0.5" }, redis_ttl = 10 (seconds), redis_quorum = true }; and user (owner of what root
--                makes in nginx).  What concerns Redis is to be the same on all hosts, where a lockshm-bridge serves the segment
-- @return locks object, in one Lua VM the same for the same name; or nil, error string
function M.open(name, options)
    local err = native.text_error(name)
    if err then
        return nil, "the name of a segment: " .. err
    elseif opened[name] then
        return opened[name]
    end
    if options ~= nil and type(options) ~= "table" then
        return nil, "the options are a table, not " .. tostring(options)
    end
    local opened_segment
    opened_segment, err = segment.open(name, options or {})
    if not opened_segment then
        return nil, err
    end
    opened[name] = setmetatable({ name = name, segment = opened_segment, hot = 0 }, class)
    return opened[name]
end

--- Removes the name of a segment; see resty.lockshm.destroy().
function M.destroy(name)
    local err = native.text_error(name)
    if err then
        return nil, "the name of a segment: " .. err
    end
    return segment.destroy(name)
end

--- Opens the segment anew that an operator removed or replaced.  Holds in the old one go on there.
function M:reopen()
    local fresh, err = segment.open(self.name, self.segment.options)
    if not fresh then
        return nil, err
    end
    if type(ngx) == "table" then
        ngx.log(ngx.WARN, "lockshm: segment '", self.name, "' was removed while in use, and is opened anew; a request that ",
            "still holds a key in the old one does not exclude those in the new one")
    end
    self.segment = fresh
    return fresh:open_loop(-1)
end

--- Takes a lock by a finished request.
-- @return hold; or nil, error string, holder
function M:take(key, request)
    local err = acquire.key_error(key)
    if err then
        return nil, err
    end
    local memory = acquire.take_memory()
    local status, reason, report = acquire.acquire(self, request, key, memory)
    if not status then
        acquire.give_back(memory)
        return nil, reason, report and holder.of_report(report)
    end
    return hold.new(memory, key, request, status)
end

local exclusive = spec.make(C.LOCKSHM_EXCLUSIVE, spec.defaults)
local shared = spec.make(C.LOCKSHM_SHARED, spec.defaults)

local function take(self, name, key, options, mode, default)
    local err = acquire.self_error(self, name)
    if err then
        return nil, err
    elseif not options then
        return self:take(key, default)
    end
    local request
    request, err = spec.make(mode, spec.defaults, options)
    if not request then
        return nil, err
    end
    return self:take(key, request)
end

--- Takes a lock alone.
-- Waits until it is granted, in order of arrival: in nginx the light thread, elsewhere the process.
-- @param key     string of 1 to 65535 bytes
-- @param options timeout (5 s; 0 = try once, math.huge = no bound), lease (30 s; math.huge = strict), renew (true: the
--                library renews the lease as long as the process lives and the hold is not collected; of 0.2 s at least),
--                max_hold (bound for that), robust (false), fair (true; false: not renewed), tag, global (false: exclude the other hosts with the same Redis, too; always waits, a
--                try for 1.5 s at most), redis_policy ("fail", "wait", "local-only"; default: that of the segment).
--                A wait without bound ends with "cancelled" when its nginx worker is to exit
-- @return hold, whose status is "local only" if Redis was out of reach and the policy permits it; or nil, error string
--         ("timeout", "busy", "bridge", "cannot wait in ...", or a sentence), holder: what was in the way, for
--         "timeout" and "busy", if known.  tostring() of it is a sentence, which is all there is of another host, and
--         for "bridge": there is no exclusion across hosts, since no lockshm-bridge runs, or Redis is out of reach or refuses
function M:exclusive(key, options)
    return take(self, "exclusive", key, options, C.LOCKSHM_EXCLUSIVE, exclusive)
end

--- Takes a lock together with other shared holds; otherwise as exclusive().
function M:shared(key, options)
    return take(self, "shared", key, options, C.LOCKSHM_SHARED, shared)
end

--- What holds a key, oldest first, and what waits for it, in order; without requests of dead processes.  Does not wait.
-- @return list of tables: state ("holding", "waiting", "cooling", "bargeable"), mode, pid, tid, name, tag, token, age,
--         expires_in; tostring() of each is a sentence; or nil, error string
function M:holders(key)
    local err = acquire.self_error(self, "holders") or acquire.key_error(key)
    if err then
        return nil, err
    end
    return holder.list(self.segment.handle, key)
end

M.single_flight = recipes.single_flight
M.once = recipes.once
M.seat = recipes.seat

return M
