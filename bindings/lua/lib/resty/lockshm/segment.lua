-- SPDX-License-Identifier: MIT
--- An open segment and the loop of this process in it.
-- What root makes in nginx is given to the workers' user, and stays closed to others (permissions 0600).

local ffi = require "ffi"
local native = require "resty.lockshm.native"
local C = native.load()

local M = {}
local class = { __index = M }

local NO_SEGMENT = C.LOCKSHM_NO_SEGMENT
local ANY_OWNER = native.number.OPEN_ANY_OWNER
local in_nginx = type(ngx) == "table" and ngx.get_phase ~= nil

native.declare([[
struct lockshm_lua_statx {
    uint32_t mask, blksize; uint64_t attributes; uint32_t nlink, uid, gid; uint16_t mode, spare; uint64_t rest[28];
};
int lockshm_lua_open(const char *path, int flags, ...) __asm__("open");
int lockshm_lua_close_file(int fd) __asm__("close");
int lockshm_lua_statx(int fd, const char *path, int flags, unsigned mask, struct lockshm_lua_statx *out)
    __asm__("statx");
int lockshm_lua_fchown(int fd, unsigned uid, unsigned gid) __asm__("fchown");
unsigned lockshm_lua_geteuid(void) __asm__("geteuid");
]], "struct lockshm_lua_statx")

local O_RDONLY, O_NOFOLLOW, O_CLOEXEC = 0, 0x20000, 0x80000
if ffi.arch == "arm64" then
    O_NOFOLLOW = 0x8000
end
local AT_EMPTY_PATH = 0x1000
local STATX_NLINK_UID = 0x4 + 0x8

local err = ffi.new("struct lockshm_error")
local handle_out = ffi.new("lockshm_t *[1]")
local loop_out = ffi.new("lockshm_loop_t *[1]")
local no_loop = ffi.cast("lockshm_loop_t *", nil)

local function refused(name, code)
    local reason = native.message(code, err.message)
    if not reason:find(name, 1, true) then
        reason = ("segment '%s': %s"):format(name, reason)
    end
    if code == C.LOCKSHM_PERMISSION then
        reason = ("%s (this process is user %d%s)"):format(reason, ffi.C.lockshm_lua_geteuid(),
            in_nginx and "; in nginx let the master open it: assert(lockshm.dict(...)) in init_by_lua*" or "")
    end
    return nil, reason, code
end

local SECONDS = { redis_ttl = "redis_ttl_ns", redis_gap = "redis_gap_ns", redis_retain = "redis_retain_ns" }
local servers, global_keys -- of the last call: referenced by what it returned

local function joined(list)
    return type(list) == "table" and table.concat(list, ",") or list
end

local function add_redis(create, options)
    servers, global_keys = joined(options.redis), joined(options.global_keys)
    create.redis, create.global_keys = servers, global_keys
    create.redis_prefix = options.redis_prefix
    if options.redis_policy then
        create.redis_policy = require("resty.lockshm.spec").policy(options.redis_policy)
    end
    if options.redis_quorum then
        create.flags = create.flags + native.number.CREATE_REDIS_QUORUM
    end
    for name, field in pairs(SECONDS) do
        if options[name] then
            create[field] = native.to_ns(options[name])
        end
    end
end

local function create_options(options)
    local create = native.sized("struct lockshm_create_options")
    for name, value in pairs(require("resty.lockshm.cdef").capacity) do
        create[name] = value
    end
    create.group = 0xffffffff
    create.flags = native.number.CREATE_OR_OPEN
    for _, name in ipairs { "locks", "requests", "owners", "permissions", "host_leases", "redis_wait" } do
        if options[name] ~= nil then
            create[name] = options[name]
        end
    end
    add_redis(create, options)
    return create
end

--- Removes the name of a segment.
-- @return true; or nil, error string
function M.destroy(name)
    local code = C.lockshm_destroy(name, err)
    if code < 0 then
        return refused(name, code)
    end
    return true
end

--- The owner and the number of names of the file of a segment, and a descriptor for it.
local function file_of(name)
    local path = "/dev/shm/" .. name:gsub("^/", "")
    local fd = ffi.C.lockshm_lua_open(path, O_RDONLY + O_NOFOLLOW + O_CLOEXEC)
    local facts = ffi.new("struct lockshm_lua_statx")
    if fd < 0 or ffi.C.lockshm_lua_statx(fd, "", AT_EMPTY_PATH, STATX_NLINK_UID, facts) ~= 0 then
        return nil
    end
    return facts.uid, facts.nlink, fd
end

--- Root in nginx: the segment is root's, and becomes the workers' user's; or it is that already.
local function share_with_workers(name, user, uid, gid)
    local owner, names, fd = file_of(name)
    if not owner then
        return nil, "/dev/shm/" .. name .. " cannot be examined"
    end
    local done = owner == uid or owner == 0 and names == 1 and ffi.C.lockshm_lua_fchown(fd, uid, gid) == 0
    ffi.C.lockshm_lua_close_file(fd)
    if not done then
        return nil, ("segment '%s' belongs to user %d, neither root nor the workers' user '%s'"):format(name, owner, user)
    end
    return true
end

local function open_as_root(name, options)
    local instance = require "resty.lockshm.instance"
    local user, reason = options.user, nil
    if not user then
        user, reason = instance.user()
    end
    if not user then
        return nil, reason
    end
    local uid, gid = instance.ids_of(user)
    if not uid then
        return nil, "the workers' user '" .. user .. "' does not exist"
    end
    local code = C.lockshm_open(handle_out, name, ANY_OWNER, err)
    local made = code == NO_SEGMENT
    if made then
        code = C.lockshm_create(handle_out, name, create_options(options), err)
    end
    if code < 0 then
        return refused(name, code)
    end
    local handle = handle_out[0]
    local ok
    ok, reason = share_with_workers(name, user, uid, gid)
    if not ok then
        C.lockshm_close(handle)
        if made then
            C.lockshm_destroy(name, nil)
        end
        return nil, reason
    end
    return handle
end

local function open(name, options)
    if in_nginx and ffi.C.lockshm_lua_geteuid() == 0 then
        return open_as_root(name, options)
    end
    local code = C.lockshm_create(handle_out, name, create_options(options), err)
    if code < 0 then
        return refused(name, code)
    end
    return handle_out[0]
end

--- Opens a segment, or makes it.  The handle stays open as long as the process: its holds depend on it.
-- The loop is opened by the first request of each process.
-- @param name    as for lockshm_create()
-- @param options capacities, permissions and Redis of a new one; `user` for what root makes
-- @return segment; or nil, error string
function M.open(name, options)
    local handle, reason = open(name, options)
    if not handle then
        return nil, reason
    end
    -- With all fields from the beginning: compiled code is left where a table has grown since.
    return setmetatable({ name = name, options = options, handle = handle, loop = no_loop, pump = false }, class)
end

--- A loop of its own for one wait, or of this process for many.
-- @param fd for its wakes, or -1
-- @return loop; or nil, error string, code
function M:new_loop(fd)
    local code = C.lockshm_loop_open(self.handle, loop_out, fd, err)
    if code < 0 then
        return refused(self.name, code)
    end
    return ffi.gc(loop_out[0], C.lockshm_loop_close)
end

--- Gives this process a loop, in place of the one it has, which must have no waits.  Holds go on.
-- @param fd for its wakes, or -1
-- @return true; or nil, error string, code
function M:open_loop(fd)
    local loop, reason, code = self:new_loop(fd)
    if not loop then
        return nil, reason, code
    end
    local old = self.loop
    self.loop = loop
    if old ~= nil then
        C.lockshm_loop_close(ffi.gc(old, nil))
    end
    return true
end

return M
