-- SPDX-License-Identifier: MIT
--- Waiting in nginx: a light thread sleeps, the worker goes on.
-- The pump is a timer that runs while requests of this Lua VM wait, and ends about a second after the last wait.  It
-- owns a socket whose other end the library writes to (socketpair.lua), collects outcomes and posts a semaphore for
-- each: semaphores may cross requests, cosockets may not.  One socket serves the loops of all segments.

local ffi = require "ffi"
local semaphore = require "ngx.semaphore"
local native = require "resty.lockshm.native"
local socketpair = require "resty.lockshm.socketpair"
local C = native.load()

local M = {
    count = 0, -- requests in queues
    sleep = ngx.sleep,
}

local PENDING = C.LOCKSHM_PENDING
local CANCELLED = C.LOCKSHM_CANCELLED
local TICK = 0.5         -- seconds between two looks at waits whose light thread has gone
local IDLE_TICKS = 2     -- ticks without a wait after which the pump ends
local STARTED_WITHIN = 60
local SLEEP = 86400      -- a semaphore's longest sleep; an endless wait sleeps again
local DIRECT_MAX = 64    -- collections between two reads of the socket

local C_CALL = "inside a C call, such as require() or table.sort(), nginx cannot suspend"

local exiting = ngx.worker.exiting
local get_phase = ngx.get_phase

local yieldable = {
    rewrite = true, access = true, content = true, timer = true, preread = true, server_rewrite = true,
    ssl_cert = true, ssl_session_fetch = true, ssl_client_hello = true,
}

local pump             -- the running one: { pair, segments }
local starters          -- semaphores of those that wait for its start, in order; or nil
local start_error
local waking = 0       -- starters that were woken and have not run yet
local waits = {}       -- by number: a hold stays referenced until its outcome
local last_number = 0
local delivered = {}   -- waits that were granted and posted, not yet seen by their light thread; with their ticks
local direct = 0       -- collections since the socket was read
local outcome = native.sized("struct lockshm_outcome")

local new_semaphore = semaphore.new

-- A light thread inside a C call cannot be suspended, which shows only in the attempt.  nginx then counts it among those
-- that wait for the semaphore, until its next operation that can wait or its end.
local stranded = {}

local function keep_stranded(one)
    for other in pairs(stranded) do
        if other:count() >= 0 then
            stranded[other] = nil
        end
    end
    stranded[one] = true
end

--- Suspends the light thread.
-- @return nil when posted; else the reason, such as "timeout"
local function sleep(on, seconds)
    local done, ok, err = pcall(on.wait, on, seconds)
    if done then
        return not ok and err or nil
    elseif tostring(ok):find("C-call boundary", 1, true) then
        keep_stranded(on)
        return C_CALL
    end
    return tostring(ok)
end

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
    wait.semaphore:post(1)
end

--- Passes an outcome on; a grant for a light thread that has gone is released at once.
local function finish(number, status)
    local wait = waits[number]
    forget(number)
    if wait.semaphore:count() < 0 then
        wake(wait, status)
        if status >= 0 then
            delivered[wait] = 0
        end
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

--- Ends waits whose light thread was killed, or all endless ones.  A grant that raced is released by the library.
local function cancel_waits(all_endless)
    for number, wait in pairs(waits) do
        local gone = wait.semaphore:count() >= 0
        if gone or all_endless and wait.endless then
            C.lockshm_loop_cancel(wait.loop, wait.hold)
            forget(number)
            if not gone then
                wake(wait, CANCELLED)
            end
        end
    end
end

--- Releases grants whose light thread was killed between the post and its turn, which comes within one tick.
local function release_untaken()
    for wait, ticks in pairs(delivered) do
        if ticks == 0 then
            delivered[wait] = 1
        else
            delivered[wait] = nil
            C.lockshm_release(wait.hold, 0)
        end
    end
end

local function tick()
    direct, waking = 0, 0
    collect()
    release_untaken()
    cancel_waits(exiting())
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
        tick()
        idle = (M.count == 0 and not next(delivered)) and idle + 1 or 0
    until idle >= IDLE_TICKS or exiting() and M.count == 0
end

local function started(err)
    local woken = starters
    starters, start_error = nil, err
    for i = 1, #woken do
        if woken[i]:count() < 0 then
            waking = waking + 1
            woken[i]:post(1)
        end
    end
end

local function run()
    local pair, err = socketpair.open()
    if not pair then
        return started(err)
    end
    local self = { pair = pair, segments = {} }
    pump = self
    started()
    ngx.thread.spawn(read_wakes, self)
    run_until_idle()
    pump, self.ended = nil, true
    pair:wake()
    pair:close_written()
end

local function awake()
    waking = math.max(waking - 1, 0)
end

--- Lets those run first that were woken earlier: requests are queued in the order of their calls.
local function queue_behind_woken()
    waking = waking + 1
    local ok = pcall(ngx.sleep, 0)
    awake()
    return ok, not ok and "cannot wait: " .. C_CALL or nil
end

local function start()
    if not starters then
        local ok, err = ngx.timer.at(0, run)
        if not ok then
            return nil, "cannot wait: no timer for it: " .. err
        end
        starters, start_error = {}, nil
    end
    local own = new_semaphore()
    starters[#starters + 1] = own
    local err = sleep(own, STARTED_WITHIN)
    if own:count() == 0 then -- this use keeps it from the garbage collector
        awake()
    end
    if err == "timeout" then
        err = "the timer for it did not run"
    end
    err = err or start_error
    return not err, err and "cannot wait: " .. err
end

--- Makes the pump run and serve this segment.  May yield.
-- @return true; or nil, error string
function M.attach(segment)
    local ok, err = true, nil
    if not pump then
        ok, err = start()
    elseif waking > 0 then
        ok, err = queue_behind_woken()
    end
    if not ok or not pump then
        return nil, err or "cannot wait: the timer for it has ended"
    end
    if segment.pump ~= pump then
        ok, err = segment:open_loop(pump.pair.written)
        if not ok then
            return nil, err
        end
        segment.pump = pump
        pump.segments[#pump.segments + 1] = segment
    end
    return true
end

local function sleep_until_woken(wait)
    local err
    repeat
        err = sleep(wait.semaphore, SLEEP)
    until wait.status or err ~= "timeout"
    delivered[wait] = nil -- the memory may have another use from now on
    return err
end

--- Is there a wait for this memory, whose light thread lives?
function M.awaits(hold)
    for _, wait in pairs(waits) do
        if wait.hold == hold and wait.semaphore:count() < 0 then
            return true
        end
    end
    return false
end

--- Queues a request and suspends the light thread until its outcome.
-- If the light thread is killed meanwhile the wait ends within a tick, and a grant is released.
-- @return status, and after a wait nil, true; or nil, error string
function M.wait(segment, request, hold, report)
    local wait = { hold = hold, report = report, loop = segment.loop, semaphore = new_semaphore() }
    wait.endless = request.timeout_ns == native.FOREVER
    last_number = last_number + 1
    local number = last_number
    local status = C.lockshm_loop_acquire(segment.loop, request, hold, ffi.cast("void *", number))
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
