-- SPDX-License-Identifier: MIT
--- Options of a request, checked: what acquire.lua reads.

local bor = require("bit").bor
local native = require "resty.lockshm.native"
local C = native.load()

local M = {}

local number = native.number

--- Options and defaults of locks:exclusive() and locks:shared(); false stands for "not".
M.defaults = {
    timeout = 5, lease = 30, max_hold = 0, renew = false, robust = false, fair = true, tag = false,
}

local function merge(defaults, options)
    local merged = {}
    for name, value in pairs(defaults) do
        merged[name] = value
    end
    for name, value in pairs(options or merged) do
        if defaults[name] == nil then
            return nil, ("unknown option '%s'"):format(tostring(name))
        end
        merged[name] = value
    end
    return merged
end

--- The flags of a request.  Without a wish for order an exclusive lock goes to the running worker first (BARGE).
function M.flags(mode, options)
    local flags = 0
    if options.renew then
        flags = bor(flags, number.AUTO_RENEW)
    end
    if options.robust then
        flags = bor(flags, number.ROBUST)
    end
    if not options.fair and mode == C.LOCKSHM_EXCLUSIVE and not options.renew then
        flags = bor(flags, number.BARGE)
    end
    return flags
end

--- Checks a tag: nil, false or a short string.
-- @return error string, or nil
function M.tag_error(tag)
    if tag and (type(tag) ~= "string" or #tag > number.TAG_MAX or tag:find("%z")) then
        return ("option 'tag': a string of up to %d bytes is needed"):format(number.TAG_MAX)
    end
end

--- A number of seconds as nanoseconds.
-- @return nanoseconds; or nil, error string
function M.duration(name, value)
    local ns = native.to_ns(value)
    if not ns or ns < 0 then
        return nil, ("option '%s': a number of seconds is needed, not %s"):format(name, tostring(value))
    end
    return ns
end

--- The request of some options.
-- @param mode     enum lockshm_mode
-- @param defaults the options that exist, with their defaults
-- @param options  or nil
-- @return spec; or nil, error string that names the option
function M.make(mode, defaults, options)
    local merged, err = merge(defaults, options)
    if not merged then
        return nil, err
    end
    err = M.tag_error(merged.tag)
    if err then
        return nil, err
    end
    local spec = { mode = mode, flags = M.flags(mode, merged), tag = merged.tag or nil, options = merged }
    for field, name in pairs { ttl_ns = "lease", timeout_ns = "timeout", max_hold_ns = "max_hold" } do
        spec[field], err = M.duration(name, merged[name])
        if not spec[field] then
            return nil, err
        end
    end
    return spec
end

return M
