-- SPDX-License-Identifier: MIT
--- An nginx of the test: its own directory, unix socket, log and dictionary.  server:stop() ends all of it.
local posix = require "support.posix"
local wait = require "support.wait"
local client = require "support.client"
local segment = require "support.segment"
local configuration = require "support.configuration"

local nginx = {}
local Server, Worker = {}, {}
Server.__index, Worker.__index = Server, Worker

posix.adopt_orphans()

local tree = debug.getinfo(1, "S").source:match("^@(.*)/tests/support/") -- with lib, tests, examples
local running, count = {}, 0
local function absolute(name)
	local pipe = io.popen("command -v '" .. name .. "'")
	local path = pipe:read("*l")
	pipe:close()
	return assert(path, "no " .. name)
end
local program = absolute(os.getenv("NGINX_PROGRAM") or "nginx") -- absolute: a binary upgrade executes it without PATH
local modules = os.getenv("NGINX_MODULES")

--- The user of the workers where the driver is root.
nginx.USER = os.getenv("NGINX_USER")
--- Where there is no directive.
nginx.DEFAULT_USER = os.getenv("NGINX_DEFAULT_USER")

local function read(path)
	local file = io.open(path)
	local text = file and file:read("*a") or ""
	if file then file:close() end
	return text
end

local function write(path, text)
	local file = assert(io.open(path, "w"))
	file:write(text)
	file:close()
end

local function configure(server, options)
	local values = {
		modules = modules, lua = tree, dir = server.dir, dict = server.dict, instance = server.tag,
		user = options.user or posix.is_root() and not options.as and ("user " .. nginx.USER .. ";") or "",
		daemon = options.daemon and "on" or "off", workers = options.workers or 1,
		level = options.level or "info", cache = options.code_cache == false and "off" or "on",
		main = options.main or "", init = options.init or "", init_worker = options.init_worker or "",
		http = options.http or "", server = options.server or "",
		running_timers = options.running_timers or 4096, pending_timers = options.pending_timers or 4096,
	}
	if options.example then
		return configuration.example(read(tree .. "/examples/nginx.conf"), values)
	end
	return configuration.own(values)
end

--- What nginx has logged so far.
function Server:log()
	return read(self.dir .. "/error.log")
end

--- Pid of the master that the pid file names now.
function Server:master()
	return tonumber(read(self.dir .. "/pid"))
end

--- Pids of the workers of @master that accept connections.
function Server:pids(master)
	local found = {}
	for _, pid in ipairs(posix.children(master or self.pid)) do
		if read("/proc/" .. pid .. "/cmdline"):find("nginx: worker process%z") or
		   read("/proc/" .. pid .. "/cmdline"):match("^nginx: worker process *%z*$") then
			found[#found + 1] = pid
		end
	end
	return found
end

--- A connection to any worker.
function Server:connect()
	return assert(client.open(self.dir .. "/socket"))
end

--- Runs Lua text in any worker.
function Server:run(code)
	local connection = self:connect()
	local results = { connection:run(code) }
	connection:close()
	return unpack(results, 1, table.maxn(results))
end

local function fail_with_log(server, what)
	error(what .. "; its log:\n" .. server:log(), 3)
end

local function await_ready(server)
	wait.for_condition("nginx accepts a connection", function()
		if not server.daemon and posix.collect(server.pid) then fail_with_log(server, "nginx ended") end
		if server.daemon then
			local status = posix.collect(server.starter)
			if status and status ~= 0 then fail_with_log(server, "nginx did not start") end
			server.pid = server:master()
		end
		local connection = server.pid and client.open(server.dir .. "/socket")
		if connection then connection:close() end
		return connection and #server:pids() >= server.workers_wanted
	end)
end

--- Starts a server and waits until its workers run.
-- @param options workers (1); user (the directive; of nginx.USER, where the driver is root); as: run the master as this user; init,
--   init_worker: Lua text; http, server, main: configuration; code_cache, daemon, level, dict, running_timers,
--   pending_timers (4096); example: the example server
function nginx.start(options)
	count = count + 1
	local tag = ("lt%d_%d"):format(posix.pid(), count)
	local server = setmetatable({
		dict = options.example and "locks" or options.dict or tag, tag = options.dict or tag,
		dir = posix.temporary_directory("lockshm-lua"),
		daemon = options.daemon, workers_wanted = options.workers or 1, connections = {},
	}, Server)
	running[server] = true
	if options.as then posix.give(server.dir, posix.user(options.as)) end
	write(server.dir .. "/nginx.conf", configure(server, options))
	server.argv = { program, "-p", server.dir .. "/", "-c", server.dir .. "/nginx.conf", "-e", server.dir .. "/error.log" }
	local pid = posix.start(server.argv, { output = server.dir .. "/output", user = options.as, env = options.env })
	server[options.daemon and "starter" or "pid"] = pid
	await_ready(server)
	return server
end

--- Replaces text in the configuration file, for a reload.
function Server:rewrite(old, new)
	local path = self.dir .. "/nginx.conf"
	local text, n = read(path):gsub(old:gsub("%p", "%%%0"), (new:gsub("%%", "%%%%")))
	assert(n > 0, "not in the configuration: " .. old)
	write(path, text)
end

--- SIGHUP, and waits for the new workers.  Returns the pids of the old ones.
function Server:reload()
	local old, is_old = self:pids(), {}
	for _, pid in ipairs(old) do is_old[pid] = true end
	posix.kill(self.pid, posix.SIGHUP)
	wait.for_condition("new workers alone accept connections", function()
		local pids = self:pids()
		for _, pid in ipairs(pids) do
			if is_old[pid] then return false end
		end
		return #pids >= self.workers_wanted
	end)
	return old
end

--- SIGUSR2: a second master beside the first.  Returns its pid.  Needs the option daemon.
function Server:upgrade()
	posix.kill(self.pid, posix.SIGUSR2)
	self.second = wait.for_condition("a second master", function()
		local new = self:master()
		return new and new ~= self.pid and #self:pids(new) >= self.workers_wanted and new
	end)
	return self.second
end

local function each_process(server, fn)
	for _, master in pairs({ server.second or server.pid, server.second and server.pid }) do
		if master then
			for _, pid in ipairs(posix.children(master)) do fn(pid) end
			fn(master)
		end
	end
end

local function ended(pid)
	local state = posix.process(pid)
	return state == nil or state == "Z"
end

--- One connection for each new request of this worker, opened before.
function Worker:connection()
	for _, connection in ipairs(self.idle) do
		if not connection.pending and connection.fd then return connection end
	end
	error("all connections of the worker are in use: ask server:workers() for more", 3)
end

function Worker:start(code) return self:connection():start(code) end
function Worker:get(path) return self:connection():request(path) end
function Worker:run(code) return self:connection():run(code) end
function Worker:kill(signal) posix.kill(self.pid, signal or posix.SIGKILL) end

--- SIGSTOP, and waits until it has stopped.
function Worker:stop()
	self:kill(posix.SIGSTOP)
	wait.for_condition("worker stopped", function() return posix.process(self.pid) == "T" end)
end

function Worker:continue() self:kill(posix.SIGCONT) end
function Worker:ended() return ended(self.pid) end

--- The workers, each with @n connections of its own (4).  While it connects the others are stopped, so that the
-- kernel gives the connection to the right one.
function Server:workers(n, master)
	local pids, workers, all = self:pids(master), {}, self:pids()
	for _, pid in ipairs(self.second and self:pids(self.second) or {}) do all[#all + 1] = pid end
	for i, pid in ipairs(pids) do
		for _, other in ipairs(all) do
			if other ~= pid then Worker.stop({ pid = other, kill = Worker.kill }) end
		end
		local worker = setmetatable({ pid = pid, idle = {} }, Worker)
		for k = 1, n or 4 do
			local connection = self:connect()
			self.connections[#self.connections + 1] = connection
			local served = connection:run("return ngx.worker.pid()")
			assert(served == pid, "served by " .. served .. ", not " .. pid)
			worker.idle[k] = connection
		end
		for _, other in ipairs(all) do posix.kill(other, posix.SIGCONT) end
		workers[i] = worker
	end
	table.sort(workers, function(a, b) return a.pid < b.pid end)
	return workers
end

--- Name of the segment of the server's dictionary; nil if there is none yet.
function Server:segment()
	return segment.find(self.tag)[1]
end

--- State of a key of the dictionary's segment: see segment.show().
function Server:show(key)
	return segment.show(assert(self:segment(), "no segment of " .. self.dict), key)
end

function Server:await_waiters(key, n)
	return wait.for_condition(n .. " waiters of " .. key, function()
		return self:segment() and #self:show(key).waiters == n
	end)
end

--- Waits until @key has neither holder nor waiter.
function Server:await_free(key)
	return wait.for_condition(key .. " is free", function()
		local lock = self:show(key)
		return #lock.waiters == 0 and #lock.holders == 0
	end)
end

--- Ends the server, its files and its segments.
function Server:stop()
	if not running[self] then return end
	running[self] = nil
	for _, connection in ipairs(self.connections) do connection:close() end
	each_process(self, function(pid) posix.kill(pid, posix.SIGCONT) end)
	local masters = { self.second or self.pid, self.second and self.pid }
	for _, master in pairs(masters) do posix.kill(master, posix.SIGTERM) end
	local ok = pcall(wait.for_condition, "nginx has ended", function()
		posix.collect_all()
		return (not masters[1] or ended(masters[1])) and (not masters[2] or ended(masters[2]))
	end, 30)
	if not ok then each_process(self, function(pid) posix.kill(pid, posix.SIGKILL) end) end
	local log = self:log()
	os.execute("rm -rf '" .. self.dir .. "'")
	segment.remove(self.tag)
	local crash = log:match("[^\n]*exited on signal [674]%D[^\n]*") or log:match("[^\n]*exited on signal 11[^\n]*")
	if crash then error("a worker crashed: " .. crash .. "\n" .. log, 2) end
	if not ok then error("nginx did not end in 30 s and was killed; its log:\n" .. log, 2) end
end

--- Ends every server that still runs: for teardown, also after a failed case.
function nginx.stop_all()
	local reason
	for server in pairs(running) do
		local ok, why = pcall(server.stop, server)
		reason = reason or (not ok and why)
	end
	if reason then error(reason, 2) end
end

return nginx
