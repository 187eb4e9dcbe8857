-- SPDX-License-Identifier: MIT
--- Single flight, once and seat: one call each, for locks objects.
-- Their leases are renewed while the process lives.  Whatever the function given does, the lock is released: behind it,
-- also if it raises an error, and, if nginx ends its request meanwhile, within a second; at the end of the lease where nginx
-- has no timer.  Options global and redis_policy
-- are those of locks:exclusive(): the recipe is for all hosts then.

local bit = require "bit"
local acquire = require "resty.lockshm.acquire"
local native = require "resty.lockshm.native"
local spec = require "resty.lockshm.spec"
local C = native.load()

local M = {}

local in_nginx = type(ngx) == "table" and ngx.get_phase ~= nil
local anchor = in_nginx and require "resty.lockshm.anchor"
local timer = in_nginx and require "resty.lockshm.timer"
local AUTO_RENEW = native.number.AUTO_RENEW
local RETRY_SEAT = 1 -- seconds between the error of a seat's function and the next request for the seat
local SLICE = 0.5    -- longest sleep of a seat that does not see the worker's exit

local function log(level, ...)
    if in_nginx then
        ngx.log(ngx[level], "lockshm: ", ...)
    end
end

local function is_callable(value)
    local class = type(value) ~= "function" and getmetatable(value)
    return type(value) == "function" or class and type(class.__call) == "function"
end

local function function_error(name, value)
    if not is_callable(value) then
        return ("'%s' is a function, not %s"):format(name, tostring(value))
    end
end

--- The request of a recipe; errors name the argument or the option.
local function request_of(self, recipe, key, name, fn, defaults, options)
    local err = acquire.self_error(self, recipe) or acquire.key_error(key) or function_error(name, fn)
    if err then
        return nil, recipe .. ": " .. err
    end
    return spec.make(C.LOCKSHM_EXCLUSIVE, defaults, options)
end

--- Takes a lock for the running function: its hold ends with the request.
local function take(self, key, request)
    if not anchor then
        return self:take(key, request)
    end
    local may_renew = anchor.may_renew()
    request.flags = may_renew and bit.bor(request.flags, AUTO_RENEW) or bit.band(request.flags, bit.bnot(AUTO_RENEW))
    local hold, err, holder = self:take(key, request)
    if hold then
        hold.tie = anchor.tie(hold, may_renew)
    end
    return hold, err, holder
end

--- Ends what take() gave.
local function release(hold, cooldown)
    if anchor then
        anchor.free(hold.tie)
    end
    local released, err = hold:release(cooldown)
    if err == "lost" then
        log("WARN", "'", native.printable(hold.key), "' was not released: lost; the work may have overlapped with another holder's")
    end
    return released
end

local function pack(...)
    return { count = select("#", ...), ... }
end

--- Runs a function under a hold and releases.  An error of the function goes on after the release.
-- @param cooldown function of the packed results: seconds; or nil
local function run_and_release(hold, cooldown, fn, ...)
    local results = pack(pcall(fn, ...))
    release(hold, cooldown and cooldown(results) or 0)
    if not results[1] then
        error(results[2], 0)
    end
    return unpack(results, 2, results.count)
end

local flight_defaults = {
    timeout = 5, lease = 30, max_hold = 0, renew = true, robust = false, fair = true, tag = false, stale = false,
    global = false, redis_policy = false,
    fixed = { renew = true, fair = true },
}

local function look_and_fill(look, fill, hold)
    local value = look()
    if value ~= nil then
        return value
    end
    return fill(hold)
end

--- Of all that need a value, one fills it in; the others wait and find it.
-- If the filler is killed, exactly the next request goes on.
-- @param key     string
-- @param look    function: the value from the cache, or nil
-- @param fill    function(hold): computes the value, stores it where look() finds it, and returns it
-- @param options timeout (5 s), lease (30 s, renewed), max_hold (bound for that), tag,
--                stale: function(err, holder) whose result is returned when the lock was not obtained
-- @return value, or what fill() returned; or nil, error string, holder
function M:single_flight(key, look, fill, options)
    local wrong = acquire.self_error(self, "single_flight") or function_error("look", look)
    if wrong then
        return nil, "single_flight: " .. wrong
    end
    local value = look()
    if value ~= nil then
        return value
    end
    local request, err = request_of(self, "single_flight", key, "fill", fill, flight_defaults, options)
    local stale = request and options and options.stale
    err = err or stale and function_error("stale", stale)
    if err then
        return nil, err
    end
    local hold, reason, holder = take(self, key, request)
    if hold then
        return run_and_release(hold, nil, look_and_fill, look, fill, hold)
    end
    if stale then
        return stale(reason, holder)
    end
    return nil, reason, holder
end

local once_defaults = {
    timeout = 0, lease = 30, max_hold = 0, renew = true, robust = false, fair = true, tag = false,
    retry_on_failure = false, global = false, redis_policy = false, fixed = { timeout = true, renew = true, fair = true },
}

local function has_failed(results)
    return not results[1] or not results[2] and results[3] ~= nil
end

--- Runs a function at most once in a period, on all processes of the host together.
-- The period counts from the grant.  If the process is killed half way the next call runs.  A function that takes longer
-- than the period excludes others until it ends.  The rest of the period closes the key to all requests: use keys of
-- their own for jobs.
-- @param key     string
-- @param period  seconds
-- @param fn      function(hold); it fails by an error, or by returning nil or false and a reason
-- @param options lease (30 s, renewed), tag, retry_on_failure (false): a failed run leaves no rest of the period
-- @return true and the results of fn; false, holder where it was skipped; or nil, error string
function M:once(key, period, fn, options)
    local request, err = request_of(self, "once", key, "fn", fn, once_defaults, options)
    local period_ns = request and native.to_ns(period)
    if not request or not period_ns or period_ns == 0 or period_ns == native.FOREVER then
        return nil, err or "once: a period of more than 0 seconds, up to 315360000, is needed, not " .. tostring(period)
    end
    local hold, reason, holder = take(self, key, request)
    if not hold and reason == "busy" then
        log("INFO", "'", native.printable(key), "' skipped: ", tostring(holder or "another request is in the way"))
        return false, holder
    elseif not hold then
        return nil, reason
    end
    local granted = native.now()
    return true, run_and_release(hold, function(results)
        if options and options.retry_on_failure and has_failed(results) then
            return 0
        end
        return math.max(0, period - (native.now() - granted))
    end, fn, hold)
end

local seat_defaults = {
    timeout = math.huge, lease = 30, max_hold = 0, renew = true, robust = false, fair = true, tag = false,
    global = false, redis_policy = false,
    fixed = { timeout = true, renew = true, fair = true },
}

--- Options of the recipes and their defaults; fixed: those that a caller cannot set.
M.defaults = { flight = flight_defaults, once = once_defaults, seat = seat_defaults }

local Seat = {}
Seat.__index = Seat

local function exiting()
    return in_nginx and ngx.worker.exiting()
end

--- Does this worker have the seat?  Also false after stop(), and as soon as the worker is to exit.
function Seat:held()
    if not self.hold or self.stopped or exiting() then
        return false
    end
    local left, reason = self.hold:check()
    return left ~= nil or reason == "late"
end

--- Sleeps in slices, so that a graceful exit is not delayed.
-- @param seconds at most
-- @return held()
function Seat:sleep(seconds)
    local deadline = native.now() + seconds
    while self:held() do
        local left = deadline - native.now()
        if left <= 0 then
            return true
        end
        acquire.sleep(math.min(left, SLICE))
    end
    return false
end

--- Asks the function to end: held() is false from now on, and this worker does not compete again.
function Seat:stop()
    self.stopped = true
end

--- One turn: waits for the seat, runs the function.
-- @return "done", "again" or "pause"
local function take_turn(self, locks, key, request, fn)
    local hold, err = take(locks, key, request)
    if not hold and exiting() then
        return "done"
    elseif not hold then
        log("ERR", "seat '", native.printable(key), "': ", err)
        return "pause"
    elseif self.stopped or exiting() then
        release(hold)
        return "done"
    end
    self.hold = hold
    local ok, reason = xpcall(fn, debug.traceback, self)
    self.hold = nil
    local released = release(hold)
    if not ok then
        log("ERR", "seat '", native.printable(key), "': ", reason)
        return "pause"
    end
    return released and "done" or "again"
end

local function serve_seat(premature, self, ...)
    while not premature and not self.stopped and not exiting() do
        local turn = take_turn(self, ...)
        if turn == "done" then
            return
        elseif turn == "pause" and not exiting() then
            acquire.sleep(RETRY_SEAT)
        end
    end
end

local function block_in_seat(self, locks, key, request, fn)
    local hold, err = take(locks, key, request)
    if not hold then
        return nil, err
    end
    self.hold = hold
    run_and_release(hold, nil, fn, self)
    return self
end

--- Exactly one process runs a function; when it ends another one takes over.
-- In nginx it returns at once, in any phase: a timer waits for the seat and runs the function.  The function is to
-- return when seat:held() is false, most simply: while seat:sleep(60) do ... end.  When it returns the seat is free, and
-- this worker does not compete again; when it raises an error that is logged, and the worker competes again after a
-- second; when the seat was lost meanwhile, at once.  Without nginx the call blocks and runs the function once.
-- @param key     string
-- @param fn      function(seat)
-- @param options lease (30 s, renewed), tag
-- @return seat; or nil, error string
function M:seat(key, fn, options)
    local request, err = request_of(self, "seat", key, "fn", fn, seat_defaults, options)
    if not request then
        return nil, err
    end
    local seat = setmetatable({ key = key }, Seat)
    if not in_nginx then
        return block_in_seat(seat, self, key, request, fn)
    end
    local ok
    ok, err = timer.promise(function(premature)
        serve_seat(premature, seat, self, key, request, fn)
    end)
    return ok and seat or nil, err and "seat: no timer for it: " .. err
end

return M
