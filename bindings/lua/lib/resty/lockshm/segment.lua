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

local function all_rows()
    local row, found, i = native.sized("struct lockshm_option"), {}, 0
    while C.lockshm_create_option_at(i, row) == 0 do
        found[ffi.string(row.name)] = { kind = row.kind, initial = ffi.string(row.initial), of_redis = row.of_redis ~= 0 }
        i = i + 1
    end
    return found
end

local rows = all_rows() -- the options of a segment, by name

--- Is it an option that only keys across hosts need?
function M.is_of_redis(name)
    return rows[name] and rows[name].of_redis or name == "redis"
end

--- The value of an option as the library takes it.
-- @return string; or nil, error string
local function text_of(kind, value)
    if type(value) == "boolean" then
        return value and "yes" or "no"
    elseif type(value) == "number" then
        local format = kind == C.LOCKSHM_OPTION_DURATION and "%.9fs" or kind == C.LOCKSHM_OPTION_PERMISSIONS and "%o" or "%.14g"
        return format:format(value)
    end
    for _, part in ipairs(type(value) == "table" and value or { value }) do
        local fault = native.text_error(part)
        if fault then
            return nil, fault
        end
    end
    return type(value) == "table" and table.concat(value, ",") or value
end

local function set(create, name, value)
    local text, fault = text_of(rows[name] and rows[name].kind, value)
    if not text then
        return ("option '%s': %s"):format(tostring(name), fault)
    end
    return C.lockshm_create_option(create, tostring(name), text, err) ~= 0 and ffi.string(err.message) or nil
end

--- @return struct lockshm_create_options; or nil, error string
local function create_options(options)
    local create = native.sized("struct lockshm_create_options")
    create.group = 0xffffffff
    create.flags = native.number.CREATE_OR_OPEN
    for name, row in pairs(rows) do
        if row.initial ~= "" then
            assert(C.lockshm_create_option(create, name, row.initial, nil) == 0)
        end
    end
    for name, value in pairs(options) do
        local fault = name == "user" and native.text_error(value) or name ~= "user" and set(create, name, value)
        if fault then
            return nil, name == "user" and "option 'user': " .. fault or fault
        end
    end
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

local function open_as_root(name, user, create)
    local instance = require "resty.lockshm.instance"
    local reason
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
        code = C.lockshm_create(handle_out, name, create, err)
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
    local create, reason = create_options(options)
    if not create then
        return nil, reason
    elseif in_nginx and ffi.C.lockshm_lua_geteuid() == 0 then
        return open_as_root(name, options.user, create)
    end
    local code = C.lockshm_create(handle_out, name, create, err)
    if code < 0 then
        return refused(name, code)
    end
    return handle_out[0]
end

--- Opens a segment, or makes it.  The handle stays open as long as the process: its holds depend on it.
-- The loop is opened by the first request of each process.
-- @param name    as for lockshm_create()
-- @param options of a new one, as lockctl create has them; `user` for what root makes
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
    local code = C.lockshm_loop_open(loop_out, self.handle, fd, err)
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
