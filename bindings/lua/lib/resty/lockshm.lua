-- SPDX-License-Identifier: MIT
--- Keyed, fair, crash-proof read-write locks for nginx and LuaJIT.
-- new(), lock(), unlock() and expire() are those of resty.lock: `package.loaded["resty.lock"] = require "resty.lockshm"`
-- puts this in its place.  What differs: a killed worker frees its locks at once, waiters do not poll, a late unlock
-- never ends another request's lock, and a free key and a try (timeout 0) work in every phase.
-- open() and dict() give locks objects with more: see resty.lockshm.locks.

local native = require "resty.lockshm.native"

local M = { _VERSION = require("resty.lockshm.cdef").version }
local class = { __index = M }

local min, max = math.min, math.max
local tonumber, tostring, type = tonumber, tostring, type

local in_nginx = type(ngx) == "table" and ngx.shared ~= nil
local instance = in_nginx and require "resty.lockshm.instance"

local settings = {}
local NO_NGINX = "dictionaries are nginx's: without it, use open(name)"

-- Loaded by the first use, so that configure{ library = ... } may come before.
local acquire, holder, hold, locks, segment, spec, result
local C
local EXCLUSIVE, SHARED

local function load()
    C = native.load(settings.library)
    acquire = require "resty.lockshm.acquire"
    holder = require "resty.lockshm.holder"
    hold = require "resty.lockshm.hold"
    locks = require "resty.lockshm.locks"
    segment = require "resty.lockshm.segment"
    spec = require "resty.lockshm.spec"
    result = hold.result
    EXCLUSIVE, SHARED = C.LOCKSHM_EXCLUSIVE, C.LOCKSHM_SHARED
end

local known_settings = { library = "string", instance = "string", segment = "table", user = "string", options = "table" }

local function segment_table_error(names)
    for dict, name in pairs(names) do
        if type(dict) ~= "string" or native.text_error(name) then
            return "'segment' is a table of dictionary = segment name: " .. (native.text_error(name) or "dictionaries have names")
        elseif in_nginx and not ngx.shared[dict] then
            return ("'segment': there is no dictionary '%s'"):format(dict)
        end
    end
end

local function setting_error(name, value)
    local wanted = known_settings[name]
    if not wanted then
        return ("unknown setting '%s'"):format(tostring(name))
    elseif type(value) ~= wanted then
        local shown = type(value) == "string" and "'" .. value .. "'" or tostring(value)
        return ("'%s' is a %s, not %s"):format(name, wanted, shown)
    elseif wanted == "string" and native.text_error(value) then
        return ("'%s': %s"):format(name, native.text_error(value))
    elseif name == "instance" and not value:find("^[%w_.-]+$") then
        return ("'instance' has letters, digits, '_', '.' and '-' only, not '%s'"):format(value)
    end
    return name == "segment" and segment_table_error(value) or nil
end

--- Settings of this Lua VM, to be made before the first lock: in init_by_lua*, or where a module is loaded.
-- Raises an error that names a wrong setting, and after the first use, when they would have no effect.
-- @param options library (path of liblockshm.so.0), and for the segments of dictionaries: instance (in place of the
--                computed one), segment (table: dictionary = segment name), user (of the workers; default: as nginx
--                reads its configuration), options (table, as for open(); those of Redis count for the segments that
--                `segment` names).  A wrong one of these is an error of the first dict()
function M.configure(options)
    local err = type(options) ~= "table" and "a table of settings is needed, not " .. tostring(options) or nil
    for name, value in pairs(err and {} or options) do
        err = err or setting_error(name, value)
    end
    if not err and options.options and options.options.redis and not options.segment then
        err = "'redis' is for dictionaries that 'segment' names, as lockshm-bridge needs the name: segment = { dictionary = name }"
    end
    if acquire and not err then
        err = "too late: the library is in use; call it before the first open(), dict() or new()"
    end
    if err then
        error("configure: " .. err, 2)
    end
    for name, value in pairs(options) do
        settings[name] = value
    end
end

--- Opens a segment, or makes it: see resty.lockshm.locks.
function M.open(name, options)
    if not acquire then
        load()
    end
    return locks.open(name, options)
end

--- Removes the name of a segment.  Holds in it go on, and every later request is one in a new segment.
-- @return true; or nil, error string
function M.destroy(name)
    if not acquire then
        load()
    end
    return locks.destroy(name)
end

--- The name of the segment of a dictionary: for lockctl.
-- @return string; or nil, error string
function M.segment_name(dict)
    if type(dict) ~= "string" then
        return nil, "the name of a dictionary is a string, not " .. tostring(dict)
    elseif not in_nginx then
        return nil, NO_NGINX
    end
    local chosen = settings.segment and settings.segment[dict]
    if chosen then
        return chosen
    end
    return instance.segment_name(dict, settings.instance)
end

local of_dict = {}

--- The locks object of a dictionary: what lock objects of new() use.
-- @return locks object; or nil, error string ("dictionary not found", or a sentence)
function M.dict(name)
    local found = of_dict[name]
    if found then
        return found
    elseif not in_nginx then
        return nil, NO_NGINX
    elseif name == nil or not ngx.shared[name] then
        return nil, "dictionary not found"
    end
    local segment_name, err = M.segment_name(name)
    if not segment_name then
        return nil, err
    end
    if not acquire then
        load()
    end
    local options = { user = settings.user }
    for option, value in pairs(settings.options or {}) do
        if settings.segment and settings.segment[name] or not segment.is_of_redis(option) then
            options[option] = value
        end
    end
    found, err = M.open(segment_name, options)
    of_dict[name] = found
    return found, err
end

-- Debug builds of nginx count what is in use, as resty.lock does there: memo has an entry for each lock object and each
-- held key.  A free entry has the number of the next free one.  Counting begins when memo is read for the first time.
local memo, free_entry = {}, nil
local counting = false

local function ref_obj(object)
    if object == nil then
        return -1
    end
    local entry = free_entry or #memo + 1
    free_entry, memo[entry] = memo[entry], object
    return entry
end

local function unref_obj(entry)
    if entry and entry >= 0 then
        memo[entry], free_entry = free_entry, entry
    end
end

if type(ngx) == "table" and ngx.config and ngx.config.debug then
    local counters = { memo = memo, ref_obj = ref_obj, unref_obj = unref_obj }
    setmetatable(M, {
        __index = function(_, name)
            counting = counting or counters[name] ~= nil
            return counters[name]
        end,
    })
end

--- Counts a lock object as long as it exists.  The finaliser must not refer to the object.
local function count_object(self, dict_name)
    local entry = ref_obj(dict_name)
    self.counted = newproxy(true)
    getmetatable(self.counted).__gc = function()
        unref_obj(entry)
    end
end

local function count_key(self, key)
    self.entry = key and ref_obj(key) or unref_obj(self.entry)
end

--- exptime 0 never ends, as in a dictionary; otherwise the shortest lease is a millisecond, and the longest ten years.
-- @return nanoseconds; nil if it is no number of at least 0
local function lease(exptime)
    exptime = tonumber(exptime)
    if exptime == 0 then
        return native.FOREVER
    elseif exptime and exptime >= 0 then
        return native.to_ns(exptime == math.huge and exptime or max(min(exptime, native.LONGEST), 0.001))
    end
end

--- Without a loop, at which compiled code of new() would end.
local function option_error(opts)
    if type(opts) ~= "table" then
        return "the options are a table, not " .. tostring(opts)
    end
    local timeout, exptime = opts.timeout, opts.exptime
    if timeout and not tonumber(timeout) then
        return "bad option 'timeout': a number of seconds is needed, not " .. tostring(timeout)
    elseif exptime and not lease(exptime) then
        return "bad option 'exptime': a number of at least 0 seconds is needed, not " .. tostring(exptime)
    end
    return spec.tag_error(opts.tag) or select(2, spec.policy(opts.redis_policy))
end

--- An option that counts for elapsed only: not used where it is no number, or less than the least.
local function schedule(value, default, least)
    value = tonumber(value or default)
    return value and value == value and max(value, least) or default
end

local none = {}

--- Makes a lock object, for one key at a time.  Does not lock.
-- @param dict_name a lua_shared_dict; only its name is used
-- @param opts those of resty.lock: exptime (30 s), timeout (5 s, at most exptime; 0 = try once), step (1 ms), ratio (2),
--             max_step (0.5 s); and shared, robust, renew, fair (order of arrival, also against this worker's next
--             request), tag, honest (lock() returns the real time waited), global (false: exclude other hosts, too; the
--             segment has Redis) and redis_policy, as for exclusive()
-- @return lock object; or nil, error string ("dictionary not found", or a sentence)
function M.new(module, dict_name, opts)
    local group, err = M.dict(dict_name)
    if not group then
        local no_colon = type(module) == "string" and type(dict_name) ~= "string"
        return nil, no_colon and "call it with a colon: lockshm:new(dictionary, options)" or err
    end
    opts = opts or none
    err = opts ~= none and option_error(opts)
    if err then
        return nil, err
    end
    local exptime = tonumber(opts.exptime or 30)
    local timeout = tonumber(opts.timeout)
    local step = schedule(opts.step, 0.001, 0)
    if timeout then
        timeout = max(min(min(timeout, exptime), native.LONGEST), 0)
        step = opts.step and min(step, timeout) or step
    end
    timeout = timeout or 5
    local ttl_ns, timeout_ns = lease(exptime), native.to_ns(timeout)
    err = spec.lease_error("exptime", ttl_ns, opts.renew)
    if err then
        return nil, err
    end
    local mode = opts.shared and SHARED or EXCLUSIVE
    local fair_flags = spec.flags(mode, opts.renew, opts.robust, true, opts.global)
    local self = setmetatable({
        locks = group,
        memory = false,  -- while held
        pending = false, -- while lock() runs
        key = false,
        mode = mode,
        flags = fair_flags,
        fair_flags = fair_flags,
        hot_flags = spec.flags(mode, opts.renew, opts.robust, opts.fair, opts.global),
        global = opts.global or false,
        redis_policy = spec.policy(opts.redis_policy),
        ttl_ns = ttl_ns,
        timeout_ns = timeout_ns,
        max_hold_ns = 0,
        tag = opts.tag or false,
        blocker = false,
        timeout = timeout,
        step = step,
        ratio = schedule(opts.ratio, 2, 0),
        max_step = schedule(opts.max_step, 0.5, 0.001),
        honest = opts.honest or false,
    }, class)
    if counting then
        count_object(self, dict_name)
    end
    return self
end

--- What a poller with the object's step, ratio and max_step would have slept for a wait.
local function polled(self, waited)
    local step, left, slept = self.step, self.timeout, 0
    repeat
        slept = slept + step
        left = left - step
        step = min(max(0.001, step * self.ratio), left, self.max_step)
    until slept >= waited or step <= 0
    return min(slept, self.timeout)
end

local function elapsed_of(self, waited)
    if not waited then
        return 0
    end
    return self.honest and waited or polled(self, waited)
end

local function not_locked(self, err, report)
    self.blocker = report and acquire.copy_blocker(report) or false
    if err == "busy" then
        err = "timeout"
    end
    return nil, err
end

--- Takes the lock of a key, or waits for it until the time-out: the light thread sleeps, the worker goes on.
-- A free key and a try work in every phase; a wait does where nginx can suspend.
-- @param key 1 to 65535 bytes
-- @return seconds waited, 0 = it was free (as a poller would have slept, or real with option honest); with option
--         robust also nil, "owner died" or "took over expired"; or nil and an error string: "timeout", "locked" (this
--         object holds a lock, or waits for one), "nil key", "empty key", "key too long", "cannot wait in ...", or a
--         sentence
function M.lock(self, key)
    if not key then
        return nil, type(self) == "table" and "nil key" or "call it with a colon: lock:lock(key)"
    elseif self.memory or self.pending and acquire.awaits(self.pending) then
        return nil, "locked"
    end
    if type(key) ~= "string" then
        key = tostring(key)
    end
    if key == "" or #key > native.number.KEY_MAX then
        return nil, key == "" and "empty key" or "key too long"
    end
    local group, memory = self.locks, acquire.take_memory()
    if group.hot > 0 then
        group.hot = group.hot - 1
        self.flags = self.hot_flags
    else
        self.flags = self.fair_flags
    end
    self.pending = memory
    local status, waited, report = acquire.acquire(group, self, key, memory)
    self.pending = false
    if not status then
        acquire.give_back(memory)
        return not_locked(self, waited, report)
    end
    self.memory, self.key = memory, key
    if counting then
        count_key(self, key)
    end
    if status > 0 then
        return elapsed_of(self, waited), nil, native.status(status)
    end
    return waited and elapsed_of(self, waited) or 0
end

local LOST = " was lost before unlock(): another request may have worked meanwhile; a longer exptime, expire() or option renew"
    .. " prevents it"
local PARENT = " was locked by the process that this one was forked from, such as nginx' master in init_by_lua*, whose it stays"

local function not_unlocked(self, code)
    local reason = native.message(code)
    ngx.log(ngx.WARN, "lockshm: '", native.printable(self.key), "'", reason == "lost" and LOST or PARENT)
    return nil, "unlocked", reason
end

--- Releases the lock.  Works in every phase.
-- @return 1; or nil, "unlocked".  After a loss (the lease had run out and another request took the key) a third value
--         says "lost", and a warning is logged; the other request's lock stays.  In a process that was forked since, it
--         says "not held": the lock is the parent's.
function M.unlock(self)
    if not self.memory then
        return nil, "unlocked"
    end
    local memory = self.memory
    self.memory = false
    if counting then
        count_key(self, nil)
    end
    local code = acquire.release(memory, 0)
    if code < 0 then
        return not_unlocked(self, code)
    end
    return 1
end

--- Restarts the lease.  Works in every phase.
-- @param time seconds; nil = exptime, 0 = for ever
-- @return true; or nil, "unlocked", "lost" or a sentence
function M.expire(self, time)
    if not self.memory then
        return nil, "unlocked"
    end
    local ns = self.ttl_ns
    if time then
        ns = lease(time)
        if not ns then
            return nil, "bad time: a number of at least 0 seconds is needed, not " .. tostring(time)
        end
    end
    local ok, err = result(C.lockshm_renew(self.memory, ns))
    if ok then
        return true
    end
    return nil, err
end

local function while_held(name)
    return function(self)
        if not self.memory then
            return nil, "unlocked"
        end
        return hold[name](self)
    end
end

--- The fencing token, a string of digits: larger than that of every earlier holder of the key, or, without option fair,
-- the same as that of the previous one in this worker.
M.token = while_held "token"
--- Seconds left of the lease (math.huge = strict); or nil, "late" (it has run out, but no other request has taken the
-- key), "lost" or "unlocked".
M.check = while_held "check"
--- Shared to exclusive; true, or nil, "busy", "lost" or "unlocked".
M.upgrade = while_held "upgrade"
--- Exclusive to shared; true, or nil, "lost" or "unlocked".
M.downgrade = while_held "downgrade"
--- The damage mark of the key: table or nil; or nil, "lost" or "unlocked".
M.damage = while_held "damage"
--- Clears the damage mark; true, or nil, "lost" or "unlocked".
M.acknowledge = while_held "acknowledge"

--- What was in the way of the last lock() of this object that failed: state, mode, pid, tid, token, age, expires_in,
-- name, tag; tostring() of it is a sentence, which is all there is of another host, and for the error "bridge".  nil if
-- nothing was, or it is not known.
function M.holder(self)
    if type(self.blocker) == "table" then
        return self.blocker
    end
    return self.blocker and holder.of_blocker(self.blocker) or nil
end

return M
