-- SPDX-License-Identifier: MIT
--- Clock, kill and pauses of the benchmark.

local ffi = require "ffi"

ffi.cdef [[
struct bench_timespec { long seconds; long nanoseconds; };
int bench_clock_gettime(int clock, struct bench_timespec *now) __asm__("clock_gettime");
int bench_kill(int pid, int signal) __asm__("kill");
]]

local M = {}

local SIGKILL = 9
local timespec = ffi.new("struct bench_timespec")

--- Seconds of the clock that all processes share.
function M.now()
    ffi.C.bench_clock_gettime(1, timespec)
    return tonumber(timespec.seconds) + tonumber(timespec.nanoseconds) / 1e9
end

--- Uses the processor until a time.
function M.spin_until(time)
    while M.now() < time do
    end
end

--- Waits until a time: the last two milliseconds on the processor, as a timer of nginx is that coarse.
function M.wait_until(time)
    local left = time - M.now()
    if left > 0.003 then
        ngx.sleep(left - 0.002)
    end
    M.spin_until(time)
end

--- Waits for a condition, and returns what it returned; a watchdog of 60 s.
-- @param spin uses the processor, else looks each millisecond
function M.await(what, condition, spin)
    local limit = M.now() + 60
    repeat
        local value = condition()
        if value then
            return value
        elseif not spin then
            ngx.sleep(0.001)
        end
    until M.now() > limit
    error("waited 60 s: " .. what)
end

function M.kill(pid)
    return ffi.C.bench_kill(pid, SIGKILL)
end

return M
