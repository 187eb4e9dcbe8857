-- SPDX-License-Identifier: MIT
--- Waiting in nginx: a light thread sleeps, the worker goes on.
-- The pump is a timer that runs while requests of this Lua VM wait, and ends about a second after the last wait.  It
-- owns a socket whose other end the library writes to (socketpair.lua), collects outcomes and posts a semaphore for
-- each: semaphores may cross requests, cosockets may not.  One socket serves the loops of all segments.
-- While nginx starts no timer for it, each light thread looks after its wait itself (slices.lua).

local ffi = require "ffi"
local semaphore = require "ngx.semaphore"
local native = require "resty.lockshm.native"
local slices = require "resty.lockshm.slices"
local socketpair = require "resty.lockshm.socketpair"
local suspend = require "resty.lockshm.suspend"
local timer = require "resty.lockshm.timer"
local C = native.load()

local M = {
    count = 0, -- requests in queues
    sleep = ngx.sleep,
    awaits = suspend.awaits,
}

local PENDING = C.LOCKSHM_PENDING
local CANCELLED = C.LOCKSHM_CANCELLED
local TICK = 0.5         -- seconds between two looks at waits whose light thread has gone
local IDLE_TICKS = 2     -- ticks without a wait after which the pump ends
local START_WITHIN = 0.1 -- seconds: a timer that has not begun by then was dropped, or comes late
local SLEEP = 86400      -- a semaphore's longest sleep; an endless wait sleeps again
local DIRECT_MAX = 64    -- collections between two reads of the socket

local exiting = ngx.worker.exiting
local get_phase = ngx.get_phase

local yieldable = {
    rewrite = true, access = true, content = true, timer = true, preread = true, server_rewrite = true,
    ssl_cert = true, ssl_session_fetch = true, ssl_client_hello = true,
}

local pump             -- the running one: { pair (nil: no socket could be made), segments }
local starters = {}    -- semaphores of those that wait for its start, in order
local dropped = false  -- the last one that was asked for did not begin in time
local waking = 0       -- starters that were woken and have not run yet
local waits = {}       -- by number: a hold stays referenced until its outcome
local last_number = 0
local delivered = {}   -- waits that were posted, not yet seen by their light thread; with their ticks
local direct = 0       -- collections since the socket was read
local outcome = native.sized("struct lockshm_outcome")

local new_semaphore = semaphore.new

local function log(level, ...)
    ngx.log(level, "lockshm: ", ...)
end

--- The reason why this light thread cannot wait, or nil.
-- @param global it is to wait for a reply of the bridge
function M.refusal(global)
    local phase = get_phase()
    if not yieldable[phase] then
        if global then
            return "cannot take a key across hosts in the " .. phase .. " phase: nginx cannot suspend it; use ngx.timer.at()"
        end
        return "cannot wait in the " .. phase .. " phase: nginx cannot suspend it; use timeout 0, or ngx.timer.at()"
    end
end

local function forget(number)
    waits[number] = nil
    M.count = M.count - 1
end

local function wake(wait, status)
    wait.status = status
    delivered[wait] = 0
    suspend.woken(wait.hold, true)
    wait.semaphore:post(1)
end

--- Passes an outcome on; a grant for a light thread that has gone is released at once.
local function finish(number, status)
    local wait = waits[number]
    forget(number)
    if wait.semaphore:count() < 0 then
        wake(wait, status)
    elseif status >= 0 then
        C.lockshm_release(wait.hold, 0)
    end
end

local function collect()
    local segments = pump and pump.segments or {}
    for i = 1, #segments do
        local loop = segments[i].loop
        while C.lockshm_loop_next(loop, outcome) == 1 do
            finish(tonumber(ffi.cast("intptr_t", outcome.user)), outcome.status)
        end
    end
end

--- Collects outcomes directly after a release, which saves a turn of the event loop; but not for ever: the light threads
-- that it wakes run in the same turn of nginx, and release in their turn.
function M.drain()
    if direct < DIRECT_MAX then
        direct = direct + 1
        collect()
    end
end

--- Ends waits whose light thread was killed, or all endless ones, or all.  A grant that raced is released by the library.
local function cancel_waits(endless, all)
    for number, wait in pairs(waits) do
        local gone = wait.semaphore:count() >= 0
        if gone or all or endless and wait.endless then
            C.lockshm_loop_cancel(wait.loop, wait.hold)
            forget(number)
            if not gone then
                wake(wait, CANCELLED)
            end
        end
    end
end

--- Forgets light threads that were killed between the post and their turn, which comes within one tick.
local function release_untaken()
    for wait, ticks in pairs(delivered) do
        if ticks == 0 then
            delivered[wait] = 1
        else
            delivered[wait] = nil
            suspend.woken(wait.hold, false)
            if wait.status >= 0 then
                C.lockshm_release(wait.hold, 0)
            end
        end
    end
end

local function starter_lives()
    for i = 1, #starters do
        if starters[i]:count() < 0 then
            return true
        end
    end
    return false
end

local function look()
    direct, waking = 0, 0
    collect()
    release_untaken()
    cancel_waits(exiting())
    return M.count > 0 or next(delivered) ~= nil or starter_lives()
end

local looks = { look, slices.look }

--- Lets the pump look after something else, too, at each tick.
-- @param fn function: true while there is something to look after; the pump goes on as long
function M.look_after(fn)
    looks[#looks + 1] = fn
end

local function tick()
    local busy = false
    for i = 1, #looks do
        busy = looks[i]() or busy
    end
    return busy
end

local function read_wakes(self)
    while true do
        local data, err = self.pair.socket:receiveany(4096)
        if self.ended then
            self.pair.socket:close()
            return
        elseif data then
            direct = 0
            collect()
        elseif err ~= "timeout" then
            log(ngx.ERR, "the socket that wakes waits failed: ", err)
            return -- ticks drain until the pump ends
        end
    end
end

--- At least one tick: the requests that the pump was started for are yet to come.
local function run_until_idle()
    local idle = 0
    repeat
        ngx.sleep(TICK)
        idle = tick() and 0 or idle + 1
    until idle >= IDLE_TICKS or exiting() and idle > 0
end

local function started()
    dropped = false
    local woken = starters
    starters = {}
    for i = 1, #woken do
        if woken[i]:count() < 0 then
            waking = waking + 1
            woken[i]:post(1)
        end
    end
end

local function serve(self)
    local err
    self.pair, err = socketpair.open()
    if not self.pair then
        log(ngx.ERR, "waits are slow: no socket to wake them: ", err)
    end
    started()
    if self.pair then
        ngx.thread.spawn(read_wakes, self)
    end
    run_until_idle()
end

local function run()
    if pump or not tick() then
        dropped = false
        return
    end
    local self = { segments = {} }
    pump = self
    local ok, err = pcall(serve, self)
    pump, self.ended = nil, true
    if not ok then
        log(ngx.ERR, "waits end: ", err)
        cancel_waits(true, true)
    end
    if self.pair then
        self.pair:wake()
        self.pair:close_written()
    end
end

local function awake()
    waking = math.max(waking - 1, 0)
end

--- Lets those run first that were woken earlier: requests are queued in the order of their calls.
local function queue_behind_woken()
    waking = waking + 1
    local ok = pcall(ngx.sleep, 0.001) -- 0 is a line in the log of an nginx without OpenResty's patches
    awake()
    return ok, not ok and "cannot wait: " .. suspend.C_CALL or nil
end

function M.runs()
    return pump ~= nil
end

--- Asks for the pump, if it does not run.
-- @return false: refused
local function ask()
    return pump ~= nil or timer.start(run)
end
M.ask = ask

local function is_dropped()
    if not dropped then
        dropped = true
        log(ngx.WARN, "waits are slow: no timer began in ", START_WITHIN, " s: see lua_max_running_timers, ",
            "lua_max_pending_timers")
    end
    timer.insist()
end

--- Makes the pump run, if nginx has a timer for it in time.  May yield.
-- @param key     hold that will be awaited, or another object
-- @param seconds how long to wait for it at most
-- @return true if it runs, or false; or nil, error string
function M.await(key, seconds)
    if not ask() then
        is_dropped()
    end
    if pump or dropped then
        return pump ~= nil
    end
    local own = new_semaphore()
    starters[#starters + 1] = own
    local err = suspend.sleep(key, own, math.min(seconds, START_WITHIN))
    if own:count() == 0 then -- this use keeps it from the garbage collector
        awake()
    end
    if err and err ~= "timeout" then
        return nil, "cannot wait: " .. err
    elseif err and seconds >= START_WITHIN / 10 then
        is_dropped()
    end
    return pump ~= nil
end

--- Makes the pump serve this segment, if it runs.  May yield.
-- @param hold       that will be awaited
-- @param timeout_ns of the wait
-- @return what wait() takes; or nil, error string
function M.attach(segment, hold, timeout_ns)
    local ok, err = true, nil
    if not pump then
        ok, err = M.await(hold, timeout_ns > 0 and native.to_seconds(timeout_ns) / 2 or START_WITHIN)
    elseif waking > 0 then
        ok, err = queue_behind_woken()
    end
    if ok == nil or err then
        return nil, err
    elseif not pump or not pump.pair then
        return segment:new_loop(-1)
    end
    if segment.pump ~= pump then
        ok, err = segment:open_loop(pump.pair.written)
        if not ok then
            return nil, err
        end
        segment.pump = pump
        pump.segments[#pump.segments + 1] = segment
    end
    return segment
end

local function sleep_until_woken(wait)
    local err
    repeat
        err = suspend.sleep(wait.hold, wait.semaphore, SLEEP)
    until wait.status or err ~= "timeout"
    delivered[wait] = nil -- the memory may have another use from now on
    return err
end

--- Queues a request and suspends the light thread until its outcome.
-- If the light thread is killed meanwhile the wait ends within a tick, and a grant is released.
-- @param place of attach()
-- @return status, and after a wait nil, true; or nil, error string
function M.wait(place, request, hold, report)
    if type(place) == "cdata" then
        return slices.wait(place, request, hold, report, ask)
    end
    local wait = { hold = hold, report = report, loop = place.loop, semaphore = new_semaphore() }
    wait.endless = request.timeout_ns == native.FOREVER
    last_number = last_number + 1
    local number = last_number
    local status = C.lockshm_loop_acquire(place.loop, request, hold, ffi.cast("void *", number))
    if status ~= PENDING then
        return status
    end
    waits[number] = wait
    M.count = M.count + 1
    local err = sleep_until_woken(wait)
    if wait.status then
        return wait.status, nil, true
    end
    C.lockshm_loop_cancel(wait.loop, hold)
    forget(number)
    return nil, "cannot wait: " .. err
end

return M
