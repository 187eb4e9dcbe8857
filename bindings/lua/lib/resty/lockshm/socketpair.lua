-- SPDX-License-Identifier: MIT
--- A pair of connected sockets: one end a cosocket, the other a descriptor for the library.
-- A cosocket cannot adopt a descriptor, but it can connect.  It connects to a socket in a directory of this worker's
-- own, which is removed at once.  The cosocket belongs to the timer that calls this.

local ffi = require "ffi"
local native = require "resty.lockshm.native"

local M = {}
local class = { __index = M }

native.declare([[
struct lockshm_lua_sockaddr { unsigned short family; char path[108]; };
int lockshm_lua_socket(int domain, int type, int protocol) __asm__("socket");
int lockshm_lua_bind(int fd, const struct lockshm_lua_sockaddr *address, unsigned length) __asm__("bind");
int lockshm_lua_listen(int fd, int backlog) __asm__("listen");
int lockshm_lua_accept4(int fd, void *address, unsigned *length, int flags) __asm__("accept4");
int lockshm_lua_close(int fd) __asm__("close");
int lockshm_lua_unlink(const char *path) __asm__("unlink");
int lockshm_lua_rmdir(const char *path) __asm__("rmdir");
char *lockshm_lua_mkdtemp(char *template) __asm__("mkdtemp");
long lockshm_lua_send(int fd, const void *bytes, size_t length, int flags) __asm__("send");
char *lockshm_lua_strerror(int code) __asm__("strerror");
]], "struct lockshm_lua_sockaddr")

local c = ffi.C
local AF_UNIX = 1
local SOCK_STREAM = 1
local SOCK_NONBLOCK, SOCK_CLOEXEC = 0x800, 0x80000
local MSG_DONTWAIT, MSG_NOSIGNAL = 0x40, 0x4000
local LONGEST_TIMEOUT = 0x7fffffff -- milliseconds
-- Any one will do: the directory exists for the time of one connect().
local PARENTS = { "/tmp", "/dev/shm", "/run", "/var/tmp" }

local function reason(what)
    return what .. ": " .. ffi.string(c.lockshm_lua_strerror(ffi.errno()))
end

local function make_directory()
    local err
    for _, parent in ipairs(PARENTS) do
        local path = parent .. "/lockshm-XXXXXX"
        local template = ffi.new("char[?]", #path + 1, path)
        if c.lockshm_lua_mkdtemp(template) ~= nil then
            return ffi.string(template)
        end
        err = reason(parent)
    end
    return nil, "no directory for a socket: " .. err
end

local function listen(path)
    local listener = c.lockshm_lua_socket(AF_UNIX, SOCK_STREAM + SOCK_NONBLOCK + SOCK_CLOEXEC, 0)
    if listener < 0 then
        return nil, reason("socket")
    end
    local address = ffi.new("struct lockshm_lua_sockaddr", AF_UNIX, path)
    if c.lockshm_lua_bind(listener, address, ffi.sizeof(address)) < 0 or c.lockshm_lua_listen(listener, 1) < 0 then
        local err = reason(path)
        c.lockshm_lua_close(listener)
        return nil, err
    end
    return listener
end

local function connect(path, listener)
    local socket = ngx.socket.tcp()
    socket:settimeouts(LONGEST_TIMEOUT, LONGEST_TIMEOUT, LONGEST_TIMEOUT)
    local ok, err = socket:connect("unix:" .. path)
    if not ok then
        return nil, "connect: " .. err
    end
    local written = c.lockshm_lua_accept4(listener, nil, nil, SOCK_NONBLOCK + SOCK_CLOEXEC)
    if written < 0 then
        err = reason("accept")
        socket:close()
        return nil, err
    end
    return setmetatable({ socket = socket, written = written }, class)
end

--- Makes a pair: `socket` is to be read, `written` is the descriptor at the other end.
-- @return the pair; or nil, error string
function M.open()
    local directory, err = make_directory()
    if not directory then
        return nil, err
    end
    local path = directory .. "/wake"
    local listener, pair
    listener, err = listen(path)
    if listener then
        pair, err = connect(path, listener)
        c.lockshm_lua_close(listener)
        c.lockshm_lua_unlink(path)
    end
    c.lockshm_lua_rmdir(directory)
    return pair, err
end

--- Makes the cosocket readable.
function M:wake()
    c.lockshm_lua_send(self.written, "x", 1, MSG_DONTWAIT + MSG_NOSIGNAL)
end

--- Closes the descriptor; the library's duplicates stay.
function M:close_written()
    c.lockshm_lua_close(self.written)
end

return M
