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

local kinds = {
    locks = "count", requests = "count", owners = "count", permissions = "count", user = "string",
    redis = "servers", redis_ttl = "seconds", redis_policy = "policy", redis_prefix = "string", redis_quorum = "boolean",
    redis_gap = "seconds", redis_retain = "seconds", host_leases = "count", redis_wait = "count", global_keys = "prefixes",
}

local function needed(what, value)
    return what .. ", not " .. tostring(value)
end

local function list_fault(value, what)
    if type(value) ~= "table" then
        return type(value) ~= "string" and needed(what, value) or native.text_error(value)
    end
    for _, entry in pairs(value) do
        local fault = native.text_error(entry)
        if fault then
            return fault
        end
    end
    return #value == 0 and needed(what, "an empty table") or nil
end

local faults = {
    count = function(value)
        if type(value) ~= "number" or value < 0 or value > 0xffffffff or value % 1 ~= 0 then
            return needed("a whole number is needed", value)
        end
    end,
    string = native.text_error,
    boolean = function(value) return type(value) ~= "boolean" and needed("true or false is needed", value) end,
    servers = function(value) return list_fault(value, "a URI, or a table of them, is needed") end,
    prefixes = function(value) return list_fault(value, "'*', a prefix, or a table of them, is needed") end,
    seconds = function(value)
        if type(value) ~= "number" or not native.to_ns(value) or value == math.huge then
            return needed("seconds are needed", value)
        end
    end,
    policy = function(value) return value ~= "fail" and value ~= "wait" and needed("'fail' or 'wait' is needed", value) end,
}

--- Checks the options of a segment.
-- @return error string, or nil
function M.options_error(options)
    if type(options) ~= "table" then
        return "the options are a table, not " .. tostring(options)
    end
    for name, value in pairs(options) do
        local kind = kinds[name]
        if not kind then
            return ("unknown option '%s'"):format(tostring(name))
        end
        local fault = faults[kind](value)
        if fault then
            return ("option '%s': %s"):format(name, fault)
        end
    end
end

--- Opens a segment, or makes it.  Makes system calls; waits for no other process.
-- @param name    letters, digits, '.', '_', '-'
-- @param options of a new segment: locks, requests, owners (capacities), permissions, user (owner of what root makes in nginx);
--                for keys across hosts redis: a URI, or a table of them, and as for lockctl create: redis_ttl (10 s),
--                redis_policy ("fail"; "wait"), redis_prefix ("lk:"), redis_quorum (false), redis_gap (0 s),
--                redis_retain (0 s), host_leases (1024), redis_wait (0); global_keys ("*", or prefixes of keys that
--                exclude other hosts in each request, without option global).  They are to be the same on all hosts, where
--                a lockshm-bridge serves the segment
-- @return locks object, in one Lua VM the same for the same name; or nil, error string
function M.open(name, options)
    local err = native.text_error(name)
    if err then
        return nil, "the name of a segment: " .. err
    elseif opened[name] then
        return opened[name]
    end
    err = M.options_error(options == nil and {} or options)
    if err then
        return nil, err
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
