-- SPDX-License-Identifier: MIT
--- Options of a request, checked: what acquire.lua reads.

local bor = require("bit").bor
local native = require "resty.lockshm.native"
local C = native.load()

local M = {}

local number = native.number
local EXCLUSIVE = C.LOCKSHM_EXCLUSIVE

--- Options and defaults of locks:exclusive() and locks:shared(); false stands for "not".
M.defaults = {
    timeout = 5, lease = 30, max_hold = 0, renew = true, robust = false, fair = true, tag = false, global = false,
    redis_policy = false,
}

local function is_known(defaults, name)
    return defaults[name] ~= nil and name ~= "fixed" and not (defaults.fixed and defaults.fixed[name])
end

local function known_names(defaults)
    local names = {}
    for name in pairs(defaults) do
        if is_known(defaults, name) then
            names[#names + 1] = name
        end
    end
    table.sort(names)
    return table.concat(names, ", ")
end

local function unknown_name(defaults, options)
    if options == defaults then
        return nil
    end
    for name in pairs(options) do
        if not is_known(defaults, name) then
            return ("unknown option '%s'; there are %s"):format(tostring(name), known_names(defaults))
        end
    end
end

--- The value of an option, or its default.
local function option(options, defaults, name)
    local value = options[name]
    if value == nil then
        return defaults[name]
    end
    return value
end
M.option = option

--- The flags of a request.  Where order is not asked for, an exclusive lock goes to the running worker first (BARGE).
function M.flags(mode, renew, robust, fair, global)
    local flags = global and number.GLOBAL or 0
    if renew then
        flags = bor(flags, number.AUTO_RENEW)
    end
    if robust then
        flags = bor(flags, number.ROBUST)
    end
    if not fair and mode == EXCLUSIVE and not renew then
        flags = bor(flags, number.BARGE)
    end
    return flags
end

--- Checks a tag: nil, false or a short string.
-- @return error string, or nil
function M.tag_error(tag)
    local err = tag and (native.text_error(tag) or #tag > number.TAG_MAX and #tag .. " bytes are too many")
    return err and ("option 'tag': %s; it has up to %d bytes"):format(err, number.TAG_MAX) or nil
end

local policies = {
    fail = C.LOCKSHM_REDIS_FAIL, wait = C.LOCKSHM_REDIS_WAIT, ["local-only"] = C.LOCKSHM_REDIS_LOCAL_ONLY,
}

--- Checks a policy of a request: nil or false, or its name.
-- @return enum lockshm_redis_policy, or 0; or nil, error string
function M.policy(policy)
    if not policy then
        return 0
    elseif policies[policy] then
        return policies[policy]
    end
    return nil, ("option 'redis_policy': 'fail', 'wait' or 'local-only' is needed, not %s"):format(tostring(policy))
end

local function duration(options, defaults, name)
    local value = option(options, defaults, name)
    local ns = native.to_ns(value)
    if not ns then
        return nil, ("option '%s': %s, not %s"):format(name, native.DURATION, tostring(value))
    end
    return ns
end

--- Checks a lease, the option of that name.
-- @return error string, or nil
function M.lease_error(name, lease, renew)
    local shortest = renew and number.AUTO_RENEW_TTL_MIN or number.TTL_MIN
    if lease < shortest then
        local condition = renew and " to be renewed, or renew = false" or ""
        return ("option '%s': at least %g s are needed%s"):format(name, shortest / 1e9, condition)
    end
end

--- Is the lease to be renewed?  One without an end needs none, and a lock that need not be fair cannot be.
local function renews(options, defaults, lease)
    local given = options.renew
    if given == nil then
        given = defaults.renew and option(options, defaults, "fair")
    end
    return given and lease ~= native.FOREVER
end

--- The request of some options.
-- @param mode     enum lockshm_mode
-- @param defaults the options that exist, with their defaults; fixed = those that a caller cannot set
-- @param options  or nil
-- @return spec; or nil, error string that names the option
function M.make(mode, defaults, options)
    options = options or defaults
    if type(options) ~= "table" then
        return nil, "the options are a table, not " .. tostring(options)
    end
    local tag = option(options, defaults, "tag")
    local err = unknown_name(defaults, options) or M.tag_error(tag)
    if err then
        return nil, err
    end
    local lease, bad_lease = duration(options, defaults, "lease")
    local timeout, bad_timeout = duration(options, defaults, "timeout")
    local max_hold, bad_max_hold = duration(options, defaults, "max_hold")
    local renew = renews(options, defaults, lease)
    local global = option(options, defaults, "global")
    local policy, bad_policy = M.policy(option(options, defaults, "redis_policy"))
    err = bad_lease or bad_timeout or bad_max_hold or bad_policy or M.lease_error("lease", lease, renew)
    if err then
        return nil, err
    end
    return {
        mode = mode,
        flags = M.flags(mode, renew, option(options, defaults, "robust"), option(options, defaults, "fair"), global),
        global = global or false,
        redis_policy = policy,
        ttl_ns = lease,
        timeout_ns = timeout,
        max_hold_ns = max_hold,
        tag = tag or nil,
    }
end

return M
