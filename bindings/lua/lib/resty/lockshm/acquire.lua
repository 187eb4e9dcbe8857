-- SPDX-License-Identifier: MIT
--- One request for one lock, in every environment.
-- A free key costs one call of the library, which neither waits nor makes a system call.  Its report has what was in the way
-- of a busy one.  With a time-out a second call waits: in nginx as a light thread (pump.lua), elsewhere as the process.
-- A key across hosts always waits, for the bridge: also a try, and also if it is free.

local ffi = require "ffi"
local native = require "resty.lockshm.native"
local holder = require "resty.lockshm.holder"
local C = native.load()

local M = {}

local BUSY = C.LOCKSHM_BUSY
local PENDING = C.LOCKSHM_PENDING
local NOT_HELD = C.LOCKSHM_NOT_HELD
local NO_SEGMENT = C.LOCKSHM_NO_SEGMENT
local INVALID = C.LOCKSHM_INVALID
local FULL = C.LOCKSHM_FULL

local in_nginx = type(ngx) == "table" and ngx.get_phase ~= nil
local waiting = in_nginx and require "resty.lockshm.pump" or require "resty.lockshm.poll"

-- A request is not used after the call, so that these serve all.  The key and the tag are referenced by their caller.
local try = native.sized("struct lockshm_request")
local queued = native.sized("struct lockshm_request")
local try_report = native.sized("struct lockshm_report")
try.report = try_report

local function fill(request, spec, key)
    request.key = key
    request.key_len = #key
    request.mode = spec.mode
    request.flags = spec.flags
    request.ttl_ns = spec.ttl_ns
    request.tag = spec.tag or nil
    request.max_hold_ns = spec.max_hold_ns
end

local function failed(segment, status, report)
    local err = native.message(status, report.error.message)
    if status == FULL then
        err = ("%s (segment '%s': more capacity is for a new one: stop its users, lockctl rm, %s)"):format(err,
            segment.name, in_nginx and "configure{ options = ... } with more keys, requests or owners" or "open() with larger options")
    end
    return nil, err, report
end

--- Opens what is missing: the loop of this process, or the segment where an operator removed it.
local function repair(locks, status)
    local ok, err
    if status ~= NO_SEGMENT then
        ok, err, status = locks.segment:open_loop(-1)
    end
    if status == NO_SEGMENT then
        return locks:reopen()
    end
    return ok, err
end

local HOT = 16384 -- requests after a busy key that count as hot

--- A lock that was busy is hot: where order was not asked for, its holders take it again before a waiter runs (BARGE),
-- which costs more on a free key.
local function heat(locks, spec)
    locks.hot = HOT
    spec.flags = spec.hot_flags or spec.flags
end

--- The rest of a time-out, which does not become a try.
local function left_of(timeout_ns, started)
    if timeout_ns == 0 or timeout_ns == native.FOREVER then
        return timeout_ns
    end
    return math.max(timeout_ns - math.floor((native.now() - started) * 1e9), 1)
end

local function wait(locks, spec, key, hold)
    local started = native.now()
    local segment = locks.segment
    local place, err = waiting.attach(segment, hold, spec.timeout_ns)
    if not place then
        return nil, err
    end
    local report = native.sized("struct lockshm_report")
    fill(queued, spec, key)
    if waiting.count > 0 and spec.fair_flags then
        queued.flags = spec.fair_flags -- the next holder may be in this worker: it runs without a wake-up
    end
    queued.timeout_ns = left_of(spec.timeout_ns, started)
    queued.redis_policy = spec.redis_policy
    queued.report = report
    local status, reason, waited = waiting.wait(place, queued, hold, report)
    if not status then
        return nil, reason, report
    elseif status < 0 then
        local _, text = failed(segment, status, report)
        return nil, text, report, status
    end
    return status, waited and native.now() - started or nil
end

--- A key across hosts.
local function wait_for_bridge(locks, spec, key, hold)
    local refusal = waiting.refusal(true)
    if refusal then
        return nil, refusal
    end
    local status, reason, report, code = wait(locks, spec, key, hold)
    if code ~= NO_SEGMENT and code ~= NOT_HELD then
        return status, reason, report
    end
    local ok, err = repair(locks, code)
    if not ok then
        return nil, err
    end
    return wait(locks, spec, key, hold)
end

--- All that is not a free key.
local function slow(locks, spec, key, hold, status)
    local segment = locks.segment
    if status == NO_SEGMENT or status == NOT_HELD or status == INVALID and segment.loop == nil then
        local ok, err = repair(locks, status)
        if not ok then
            return nil, err
        end
        status = C.lockshm_loop_acquire(locks.segment.loop, try, hold, nil)
        if status >= 0 then
            return status
        end
    end
    if status ~= PENDING then
        heat(locks, spec)
        local refusal = spec.timeout_ns > 0 and waiting.refusal()
        if status == BUSY and spec.timeout_ns > 0 and not refusal then
            return wait(locks, spec, key, hold)
        end
        local _, err = failed(locks.segment, status, try_report)
        return nil, status == BUSY and refusal or err, try_report
    end
    -- The segment makes the key global.
    C.lockshm_loop_cancel(locks.segment.loop, hold)
    return wait_for_bridge(locks, spec, key, hold)
end

--- Takes a lock, or waits for it until the time-out.
-- Waits only if timeout_ns is positive: then the light thread or, without nginx, the process sleeps.
-- @param locks the locks object
-- @param spec  mode, flags, hot_flags (or nil: flags for a key that was busy), ttl_ns, max_hold_ns,
--              timeout_ns (0 = try once), tag, global and redis_policy of the request
-- @param key   string of 1 to 65535 bytes
-- @param hold  lockshm_hold_t, filled if granted
-- @return status (0, or positive with robust keys), and after a wait its seconds; or nil, error string, report
--         or nil (valid until the next request)
function M.acquire(locks, spec, key, hold)
    if spec.global then
        return wait_for_bridge(locks, spec, key, hold)
    end
    fill(try, spec, key)
    local status = C.lockshm_loop_acquire(locks.segment.loop, try, hold, nil)
    if status >= 0 then
        return status
    end
    return slow(locks, spec, key, hold, status)
end

M.awaits = waiting.awaits

--- Sleeps: the light thread or, without nginx, the process.
M.sleep = waiting.sleep

--- Lets local waiters run that were granted a lock by this process just now.
function M.drain()
    if waiting.count > 0 then
        waiting.drain()
    end
end

local LOST = C.LOCKSHM_LOST
local POOL_MAX = 1024

-- Memory of ended holds: making it anew costs more than a lock.  The newest is kept outside of the table, where compiled
-- code of a pair has it in a register.
local spare = false
local pool, pooled = {}, 0

local function release_unused(memory)
    C.lockshm_release(memory, 0)
end

--- Memory for a hold.  If it becomes garbage while it is held the hold ends.
function M.take_memory()
    local memory = spare
    if memory then
        spare = false
        return memory
    elseif pooled > 0 then
        memory = pool[pooled]
        pool[pooled] = nil
        pooled = pooled - 1
        return memory
    end
    return ffi.gc(ffi.new("lockshm_hold_t"), release_unused)
end

--- Gives back memory that is not held and not awaited; the caller keeps no reference to it.
function M.give_back(memory)
    if not spare then
        spare = memory
    elseif pooled < POOL_MAX then
        pooled = pooled + 1
        pool[pooled] = memory
    end
end

--- Checks that a method was called as one.
-- @return error string, or nil
function M.self_error(self, name)
    if type(self) ~= "table" then
        return ("call it with a colon: locks:%s(...)"):format(name)
    end
end

--- Checks a key.
-- @return error string, or nil
function M.key_error(key)
    if type(key) ~= "string" then
        return "a key is a string, not " .. tostring(key)
    elseif key == "" then
        return "empty key"
    elseif #key > native.number.KEY_MAX then
        return "key too long"
    end
end

--- Ends a hold and gives its memory back.  Local waiters run without a turn of the event loop.
-- @return the code of lockshm_release(); LOCKSHM_INVALID: still held, and the memory is the caller's
function M.release(memory, cooldown_ns)
    local status = C.lockshm_release(memory, cooldown_ns)
    if status >= 0 or status == LOST then
        M.give_back(memory)
    end
    M.drain()
    return status
end

--- Memory that is never held.
M.no_hold = ffi.new("lockshm_hold_t")

--- What was in the way, to be kept: a copy of the struct, or holder.of_report() of a report without one.
function M.copy_blocker(report)
    if report.blocker.state == 0 then
        return holder.of_report(report) or false
    end
    return ffi.new("struct lockshm_blocker", report.blocker)
end

return M
