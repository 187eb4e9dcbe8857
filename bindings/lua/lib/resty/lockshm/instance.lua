-- SPDX-License-Identifier: MIT
--- Which nginx this is, and which user its workers run as.
-- The instance is a hash of the prefix, the master's arguments and the pid namespace: the same in the master, in each
-- worker, after a reload and after a binary upgrade; another one for a second nginx on the host, and for a container
-- that shares /dev/shm.

local ffi = require "ffi"
local native = require "resty.lockshm.native"

local M = {}

native.declare([[
struct lockshm_lua_passwd { char *name; char *password; unsigned int uid; unsigned int gid; };
struct lockshm_lua_passwd *lockshm_lua_getpwnam(const char *name) __asm__("getpwnam");
long lockshm_lua_readlink(const char *path, char *buffer, size_t size) __asm__("readlink");
int lockshm_lua_getppid(void) __asm__("getppid");
]], "struct lockshm_lua_passwd")

local TITLE = "nginx: "
local MASTER_TITLE = "nginx: master process "
-- Options of `nginx -t`, which reads the same configuration.
local TEST_OPTIONS = { ["-t"] = true, ["-T"] = true, ["-q"] = true, ["-tq"] = true, ["-qt"] = true }

local function read(path)
    local file = io.open(path, "rb")
    if not file then
        return nil
    end
    local text = file:read("*a")
    file:close()
    return text
end

--- The arguments of a process as nginx itself joins them for its title.
local function command_line(process)
    local text = read("/proc/" .. process .. "/cmdline")
    return text and text:gsub("%z+$", ""):gsub("%z", " "):gsub("%s+$", "")
end

local function begins_with(text, head)
    return text:sub(1, #head) == head
end

--- The arguments of the master, in the master as in its workers.  Only their titles differ: a worker may run
-- init_by_lua*, too, and the first master has no title while it reads its configuration.
-- @return string; nil in a worker whose master has ended
local function master_command_line()
    local text = command_line("self") or ""
    if begins_with(text, TITLE) and not begins_with(text, MASTER_TITLE) then
        text = command_line(ffi.C.lockshm_lua_getppid()) or ""
        if not begins_with(text, MASTER_TITLE) then
            return nil
        end
    end
    return begins_with(text, MASTER_TITLE) and text:sub(#MASTER_TITLE + 1) or text
end

--- The arguments without the name of the program; or nil.
local function read_arguments()
    local text = master_command_line()
    if not text then
        return nil
    end
    local list = {}
    for word in text:gmatch("%S+") do
        if not TEST_OPTIONS[word] then
            list[#list + 1] = word
        end
    end
    table.remove(list, 1)
    return table.concat(list, " ")
end

-- At load, which is in the init phase for most: a master that is killed later leaves workers that go on.
local arguments = read_arguments()
local NO_MASTER = "the name of the segment depends on the arguments of nginx's master process, which has ended: start nginx"
    .. ' anew; require "resty.lockshm" in init_by_lua* prevents it'

local function pid_namespace()
    local buffer = ffi.new("char[64]")
    local length = ffi.C.lockshm_lua_readlink("/proc/self/ns/pid", buffer, 64)
    return length > 0 and ffi.string(buffer, length) or ""
end

local function absolute(path)
    return path:sub(1, 1) == "/" and path or ngx.config.prefix() .. path
end

local function configuration_file(args)
    local named = (" " .. args):match("%s%-c%s*(%S+)") or ngx.config.nginx_configure():match("%-%-conf%-path=([^%s']+)")
    return named and absolute(named) or ngx.config.prefix() .. "conf/nginx.conf"
end

--- The user of the `user` directive in a main configuration text; blocks and comments do not count.
local function user_directive(text)
    text = ("\n" .. text .. "\n"):gsub("#[^\n]*", ""):gsub("%b{}", ";")
    return text:match("[;%s]user%s+['\"]?([%w_.%-]+)['\"]?[^;]*;")
end

--- The name of the workers' user, as the master will read it.
-- @return string; or nil, error string
function M.user()
    if not arguments then
        return nil, NO_MASTER
    end
    local global = arguments:match("%-g%s+(.*)") or ""
    return user_directive(global) or user_directive(read(configuration_file(arguments)) or "")
        or ngx.config.nginx_configure():match("%-%-user=([^%s']+)") or "nobody"
end

--- User and group number of a user.
-- @return uid, gid; or nil if there is no such user
function M.ids_of(name)
    local entry = ffi.C.lockshm_lua_getpwnam(name)
    if entry == nil then
        return nil
    end
    return tonumber(entry.uid), tonumber(entry.gid)
end

local id

--- Twelve hexadecimal digits for this nginx.
-- @return string; or nil, error string
function M.id()
    if not arguments then
        return nil, NO_MASTER
    end
    id = id or ngx.md5(table.concat({ ngx.config.prefix(), arguments, pid_namespace() }, "\n")):sub(1, 12)
    return id
end

--- The name of the segment of a dictionary of this instance.
-- @return string; or nil, error string
function M.segment_name(dict, instance)
    local err
    if not instance then
        instance, err = M.id()
        if not instance then
            return nil, err
        end
    end
    local shown = dict:gsub("[^%w_.-]", "_"):sub(1, 120)
    if shown ~= dict then
        shown = shown .. "-" .. ngx.md5(dict):sub(1, 8)
    end
    local subsystem = ngx.config.subsystem == "stream" and "resty-lock-stream." or "resty-lock."
    return subsystem .. shown .. "." .. instance
end

return M
