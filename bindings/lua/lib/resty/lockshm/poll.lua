-- SPDX-License-Identifier: MIT
--- Waiting without nginx: the process sleeps in poll() on the loop's descriptor.
-- A signal wakes it, so that the interpreter may act on it; an error raised there ends the wait and leaves nothing.

local ffi = require "ffi"
local native = require "resty.lockshm.native"
local C = native.load()

local M = { count = 0 }

native.declare([[
struct lockshm_lua_pollfd { int fd; short events; short revents; };
int lockshm_lua_poll(struct lockshm_lua_pollfd *descriptors, unsigned long count, int timeout) __asm__("poll");
]], "struct lockshm_lua_pollfd")

local POLLIN = 1
local PENDING = C.LOCKSHM_PENDING
local descriptor = ffi.new("struct lockshm_lua_pollfd")
local outcome = native.sized("struct lockshm_outcome")

local function poll_outcome(loop)
    descriptor.fd = C.lockshm_loop_fd(loop)
    descriptor.events = POLLIN
    -- A program that closes all descriptors takes the loop's, too: then there is nothing to sleep on.
    local timeout = descriptor.fd < 0 and 10 or -1
    while C.lockshm_loop_next(loop, outcome) ~= 1 do
        ffi.C.lockshm_lua_poll(descriptor, 1, timeout)
    end
    return outcome.status
end
-- Compiled code would not run the hook by which the interpreter passes on a signal.
require("jit").off(poll_outcome)

--- nil: a wait is possible.
function M.refusal()
end

--- Gives the segment a loop, if it has none.
-- @return what wait() takes; or nil, error string
function M.attach(segment)
    if segment.loop == nil then
        local ok, err = segment:open_loop(-1)
        if not ok then
            return nil, err
        end
    end
    return segment
end

function M.drain()
end

function M.awaits()
    return false
end

--- Sleeps some seconds, or until a signal.
function M.sleep(seconds)
    ffi.C.lockshm_lua_poll(nil, 0, math.ceil(seconds * 1000))
end

--- Waits for the outcome of a request.
-- @return status, and after a wait nil, true
function M.wait(segment, request, hold)
    local status = C.lockshm_loop_acquire(segment.loop, request, hold, nil)
    if status ~= PENDING then
        return status
    end
    local done, result = pcall(poll_outcome, segment.loop)
    if done then
        return result, nil, true
    end
    C.lockshm_loop_cancel(segment.loop, hold)
    error(result, 0)
end

return M
