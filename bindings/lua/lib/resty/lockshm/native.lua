-- SPDX-License-Identifier: MIT
--- The C library: loads it, proves that it is the one these modules were made for, and converts values.
-- The library is found as "liblockshm.so.0", or at the path given to `load`, or in the variable LOCKSHM_LIBRARY.
-- No call of it takes a callback.  Every symbol is resolved at load, so that a finaliser never has to.

assert(type(jit) == "table", "resty.lockshm needs LuaJIT")

local ffi = require "ffi"
local cdef = require "resty.lockshm.cdef"

local M = {}

local floor, huge = math.floor, math.huge
local NANO = 1e9
local LONGEST = cdef.number.TIME_MAX / NANO
local FOREVER = 0x7fffffffffffffffLL

M.FOREVER = FOREVER
M.LONGEST = LONGEST
M.number = cdef.number

local function declare(text, probe)
    -- Another copy of this module in the same VM may have declared it all: the layout check below is for both.
    if not pcall(ffi.typeof, probe) then
        ffi.cdef(text)
    end
end

local function check_layout()
    for name, layout in pairs(cdef.layout) do
        local size = ffi.sizeof(name)
        if size ~= layout[1] then
            error(("resty.lockshm: %s has %d bytes here and %d in the header it was made from"):format(
                name, size, layout[1]))
        end
        for field, offset in pairs(layout[2]) do
            local here = ffi.offsetof(name, field)
            if here ~= offset then
                error(("resty.lockshm: %s.%s is at byte %s here and at %d in the header it was made from"):format(
                    name, field, tostring(here), offset))
            end
        end
    end
end

local function check_version(library)
    local version = ffi.string(library.lockshm_version())
    if version:match("^%d+%.%d+") ~= cdef.version:match("^%d+%.%d+") then
        error(("resty.lockshm: liblockshm is version %s, and these modules were made for %s"):format(version, cdef.version))
    end
end

local function resolve(library)
    for name in cdef.declarations:gmatch("(lockshm_[%w_]+)%(") do
        local _ = library[name]
    end
end

local function find(path)
    local found, library = pcall(ffi.load, path)
    if not found then
        error(("resty.lockshm: %s: install liblockshm and run ldconfig, or name the file by configure{ library = ... }")
            :format(library))
    end
    if not pcall(function() return library.lockshm_version end) then
        error(("resty.lockshm: %s is not liblockshm"):format(path))
    end
    check_version(library)
    resolve(library)
    return library
end

--- Loads the library; later calls return the same one.
-- @param path of the file, or nil
-- @return the library's name space; raises an error that names what is missing or does not fit
function M.load(path)
    if M.C then
        return M.C
    end
    declare(cdef.declarations, "struct lockshm_request")
    check_layout()
    local library = find(path or os.getenv("LOCKSHM_LIBRARY") or "liblockshm.so.0")
    M.C = library
    return library
end

--- Seconds as whole nanoseconds: a number or, for ever (math.huge), an int64_t.
-- @return nanoseconds; nil if it is no number, negative or finite and more than ten years
function M.to_ns(seconds)
    seconds = tonumber(seconds)
    if seconds == huge then
        return FOREVER
    elseif not seconds or not (seconds >= 0 and seconds <= LONGEST) then
        return nil
    end
    return floor(seconds * NANO + 0.5)
end

local function percent(byte)
    return ("%%%02X"):format(byte:byte())
end

--- A text of others for a message or a log: printable ASCII, other bytes as %XX.
function M.printable(text)
    return (text:gsub("[^ -~]", percent))
end

--- Checks what the library takes as a C string, which a NUL byte would cut; keys have a length, and may have any bytes.
-- @return error: "a string is needed, not 5"; or nil
function M.text_error(value)
    if type(value) ~= "string" then
        return "a string is needed, not " .. tostring(value)
    elseif value:find("%z") then
        return "a string without a NUL byte is needed, not '" .. M.printable(value) .. "'"
    end
end

--- What to_ns() takes, for messages.
M.DURATION = ("a number of seconds up to %d, or math.huge, is needed"):format(LONGEST)

--- A token as decimal digits: as a number, Lua would print 14 of its 15 or 16.
-- @return string, or nil for 0
function M.token(token)
    return token ~= 0 and ("%d"):format(tonumber(token)) or nil
end

--- Nanoseconds as seconds.
function M.to_seconds(ns)
    if ns == FOREVER then
        return huge
    end
    return tonumber(ns) / NANO
end

--- A buffer with the size field that the library expects in front.
function M.sized(type)
    local buffer = ffi.new(type)
    buffer.size = ffi.sizeof(type)
    return buffer
end

local words = {
    [-1] = "timeout", [-2] = "busy", [-3] = "cancelled", [-4] = "lost", [-5] = "not held",
    [-16] = "bridge",
}

--- The error string of a code.
-- @param code    negative
-- @param message of the library, or nil
function M.message(code, message)
    if words[code] then
        return words[code]
    end
    local text = message and ffi.string(message) or ""
    return text ~= "" and text or ffi.string(M.C.lockshm_strerror(code))
end

--- Does a code have a word, so that its message says more?
function M.has_word(code)
    return words[code] ~= nil
end

local statuses = { "owner died", "took over expired", "late", "local only" }

--- The word for a positive status; nil for 0.
function M.status(code)
    return statuses[code]
end

-- Functions of the C library that other modules declare, too: by names of our own.
declare([[
struct lockshm_lua_timespec { long seconds; long nanoseconds; };
int lockshm_lua_clock_gettime(int clock, struct lockshm_lua_timespec *now) __asm__("clock_gettime");
]], "struct lockshm_lua_timespec")

local CLOCK_MONOTONIC = 1
local timespec = ffi.new("struct lockshm_lua_timespec")

--- Seconds of the clock that leases use; not the time of day.
function M.now()
    ffi.C.lockshm_lua_clock_gettime(CLOCK_MONOTONIC, timespec)
    return tonumber(timespec.seconds) + tonumber(timespec.nanoseconds) / NANO
end

M.declare = declare

return M
