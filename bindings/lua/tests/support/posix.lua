-- SPDX-License-Identifier: MIT
--- Processes, signals, descriptors and unix sockets for the test driver, by FFI.
-- Every function raises an error that names the call and errno's text, unless stated.
local ffi = require "ffi"
local C = ffi.C

ffi.cdef [[
typedef int lt_pid_t;
typedef unsigned int lt_socklen_t;
struct lt_sockaddr_un { unsigned short family; char path[108]; };
struct lt_pollfd { int fd; short events; short revents; };
struct lt_timespec { long sec; long nsec; };
struct lt_passwd { char *name; char *passwd; unsigned uid; unsigned gid; char *gecos; char *dir; char *shell; };

lt_pid_t fork(void);
lt_pid_t getpid(void);
lt_pid_t getppid(void);
unsigned geteuid(void);
int execvp(const char *file, char *const argv[]);
void _exit(int status);
int kill(lt_pid_t pid, int sig);
lt_pid_t waitpid(lt_pid_t pid, int *status, int options);
int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int setgroups(size_t n, const unsigned *list);
int setgid(unsigned gid);
int setuid(unsigned uid);
struct lt_passwd *getpwnam(const char *name);
int chown(const char *path, unsigned uid, unsigned gid);
int chmod(const char *path, unsigned mode);
char *mkdtemp(char *template);
int mkdir(const char *path, unsigned mode);
int open(const char *path, int flags, ...);
int dup2(int from, int to);
int close(int fd);
int access(const char *path, int mode);
int setenv(const char *name, const char *value, int overwrite);
long read(int fd, void *buf, size_t n);
int socket(int domain, int type, int protocol);
int connect(int fd, const void *addr, lt_socklen_t len);
long send(int fd, const void *buf, size_t n, int flags);
long recv(int fd, void *buf, size_t n, int flags);
int poll(struct lt_pollfd *fds, unsigned long n, int timeout);
int clock_gettime(int clock, struct lt_timespec *ts);
char *strerror(int errnum);
]]

local posix = {
	SIGHUP = 1, SIGINT = 2, SIGQUIT = 3, SIGKILL = 9, SIGUSR2 = 12, SIGTERM = 15, SIGCHLD = 17, SIGCONT = 18,
	SIGSTOP = 19, SIGWINCH = 28,
}

local EINTR, EAGAIN, ECHILD, ESRCH = 4, 11, 10, 3
local WNOHANG = 1
local POLLIN = 1
local AF_UNIX, SOCK_STREAM, SOCK_CLOEXEC = 1, 1, 0x80000
local MSG_NOSIGNAL, MSG_DONTWAIT = 0x4000, 0x40
local O_WRONLY, O_CREAT, O_APPEND = 1, 0x40, 0x400
local PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

local function refused(call)
	error(call .. ": " .. ffi.string(C.strerror(ffi.errno())), 3)
end

--- Seconds of CLOCK_MONOTONIC.
function posix.now()
	local ts = ffi.new("struct lt_timespec")
	C.clock_gettime(1, ts)
	return tonumber(ts.sec) + tonumber(ts.nsec) / 1e9
end

function posix.sleep(seconds)
	C.poll(nil, 0, math.ceil(seconds * 1000))
end

function posix.pid() return C.getpid() end
function posix.is_root() return C.geteuid() == 0 end

function posix.setenv(name, value)
	if C.setenv(name, value, 1) ~= 0 then refused("setenv") end
end

--- User and group number of a user name; nil if there is none.
function posix.user(name)
	local entry = C.getpwnam(name)
	if entry == nil then return nil end
	return entry.uid, entry.gid
end

function posix.temporary_directory(prefix)
	local path = (os.getenv("TMPDIR") or "/tmp") .. "/" .. prefix .. ".XXXXXX"
	local buffer = ffi.new("char[?]", #path + 1, path)
	if C.mkdtemp(buffer) == nil then refused("mkdtemp " .. path) end
	local made = ffi.string(buffer)
	if C.chmod(made, 493) ~= 0 then refused("chmod " .. made) end -- 0755: workers of another user connect here
	return made
end

function posix.make_directory(path)
	if C.mkdir(path, 493) ~= 0 then refused("mkdir " .. path) end
end

function posix.give(path, uid, gid)
	if C.chown(path, uid, gid) ~= 0 then refused("chown " .. path) end
end

--- Orphans of this process's children become its children, so that they can be ended and waited for.
function posix.adopt_orphans()
	if C.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) ~= 0 then refused("prctl") end
end

local function become(spec)
	C.prctl(PR_SET_PDEATHSIG, posix.SIGTERM, 0, 0, 0)
	if spec.output then
		local fd = C.open(spec.output, O_WRONLY + O_CREAT + O_APPEND, ffi.cast("int", 420))
		if fd < 0 or C.dup2(fd, 1) < 0 or C.dup2(fd, 2) < 0 then C._exit(126) end
	end
	for fd = 3, 255 do C.close(fd) end
	if spec.user then
		local uid, gid = posix.user(spec.user)
		if C.setgroups(0, nil) ~= 0 or C.setgid(gid) ~= 0 or C.setuid(uid) ~= 0 then C._exit(126) end
	end
end

--- Starts a program.
-- @param argv program and arguments
-- @param spec output: file for its standard output and errors; user: name it runs as; env: variables
-- @return its pid.  It gets SIGTERM when this process ends.
function posix.start(argv, spec)
	local args = ffi.new("char *[?]", #argv + 1)
	local strings = {}
	for i, arg in ipairs(argv) do
		strings[i] = ffi.new("char[?]", #arg + 1, arg)
		args[i - 1] = strings[i]
	end
	args[#argv] = nil
	io.flush()
	local pid = C.fork()
	if pid < 0 then refused("fork") end
	if pid == 0 then
		become(spec)
		for name, value in pairs(spec.env or {}) do C.setenv(name, value, 1) end
		C.execvp(args[0], args)
		C._exit(127)
	end
	return pid
end

--- Runs @fn in a child made by fork().
-- @return pid; the child's status is fn's result, or 99 if it raised an error, which goes to standard error.  It is
-- killed when this process ends.
function posix.fork(fn)
	io.flush()
	local pid = C.fork()
	if pid < 0 then refused("fork") end
	if pid == 0 then
		C.prctl(PR_SET_PDEATHSIG, posix.SIGKILL, 0, 0, 0)
		local ok, result = pcall(fn)
		if not ok then
			io.stderr:write(tostring(result), "\n")
			result = 99
		end
		C._exit(result or 0)
	end
	return pid
end

--- Sends a signal.  Returns false if there is no such process.
function posix.kill(pid, signal)
	if C.kill(pid, signal) == 0 then return true end
	if ffi.errno() == ESRCH then return false end
	refused("kill")
end

--- Collects an ended child.
-- @return its status as waitpid() gives it; nil while it runs; false if it is no child (any more)
function posix.collect(pid)
	local status = ffi.new("int[1]")
	local got = C.waitpid(pid, status, WNOHANG)
	if got == pid then return status[0] end
	if got == 0 then return nil end
	if ffi.errno() == ECHILD then return false end
	refused("waitpid")
end

--- Collects every child that has ended.
function posix.collect_all()
	local status = ffi.new("int[1]")
	while C.waitpid(-1, status, WNOHANG) > 0 do end
end

--- Name of a user's own group.
function posix.group(user)
	local pipe = io.popen("id -gn '" .. user .. "'")
	local group = pipe:read("*l")
	pipe:close()
	return group
end

--- User name of the owner of a file, or its number; nil if there is no file.
function posix.owner(path)
	local pipe = io.popen("stat -c '%U %a' '" .. path .. "' 2>/dev/null")
	local owner, mode = (pipe:read("*l") or ""):match("(%S+) (%d+)")
	pipe:close()
	return owner, mode
end

--- State letter and parent of a process from /proc; nil if there is none.
function posix.process(pid)
	local file = io.open("/proc/" .. pid .. "/stat")
	if not file then return nil end
	local text = file:read("*a") or ""
	file:close()
	local state, parent = text:match("%) (%a) (%d+)")
	return state, tonumber(parent)
end

--- Pids of the running children of a process.
function posix.children(parent)
	local found = {}
	local file = io.open(("/proc/%d/task/%d/children"):format(parent, parent))
	for pid in (file and file:read("*a") or ""):gmatch("%d+") do
		if posix.process(pid) ~= "Z" then found[#found + 1] = tonumber(pid) end
	end
	if file then file:close() end
	return found
end

--- A blocking connection to a unix socket.  Returns the descriptor, or nil and errno's text.
function posix.connect(path)
	local fd = C.socket(AF_UNIX, SOCK_STREAM + SOCK_CLOEXEC, 0)
	if fd < 0 then refused("socket") end
	local address = ffi.new("struct lt_sockaddr_un")
	address.family = AF_UNIX
	ffi.copy(address.path, path)
	if C.connect(fd, address, ffi.sizeof(address)) ~= 0 then
		local reason = ffi.string(C.strerror(ffi.errno()))
		C.close(fd)
		return nil, reason
	end
	return fd
end

function posix.close(fd) C.close(fd) end

--- Sends all of @text.  Returns false if the peer has closed.
function posix.send(fd, text)
	local at, base = 0, ffi.cast("const char *", text)
	while at < #text do
		local n = tonumber(C.send(fd, base + at, #text - at, MSG_NOSIGNAL))
		if n < 0 and ffi.errno() ~= EINTR then return false end
		if n > 0 then at = at + n end
	end
	return true
end

local buffer = ffi.new("char[65536]")

--- What has arrived: text; "" = the peer has closed; nil = nothing yet.
function posix.receive(fd)
	local n = tonumber(C.recv(fd, buffer, 65536, MSG_DONTWAIT))
	if n >= 0 then return ffi.string(buffer, n) end
	local errno = ffi.errno()
	if errno == EAGAIN or errno == EINTR then return nil end
	return ""
end

--- Waits until one of the descriptors is readable, @seconds at most.
function posix.poll(fds, seconds)
	local set = ffi.new("struct lt_pollfd[?]", math.max(#fds, 1))
	for i, fd in ipairs(fds) do
		set[i - 1].fd = fd
		set[i - 1].events = POLLIN
	end
	C.poll(set, #fds, math.ceil(math.max(seconds, 0) * 1000))
end

return posix
