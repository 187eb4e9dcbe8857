-- SPDX-License-Identifier: MIT
--- Keys across hosts: two segments play hosts, each with a bridge to one redis-server, which hosts.sh has started.
local lockshm = require "resty.lockshm"
local nginx = require "support.nginx"
local posix = require "support.posix"
local segment = require "support.segment"
local wait = require "support.wait"

local A, B, URI = os.getenv("HOST_A"), os.getenv("HOST_B"), os.getenv("REDIS_URI")
local OPTIONS = { redis = URI, redis_ttl = 60, redis_policy = "wait", keys = 64, global_keys = { "seg:", "other:" } }
local FAR = 120 -- a time-out that a test never reaches

local function far(options)
	options = options or {}
	options.global, options.timeout = true, options.timeout or FAR
	return options
end

--- A command to the server.
local function redis(...)
	local fd = assert(posix.connect(os.getenv("REDIS_SOCKET")))
	assert(posix.send(fd, table.concat({ ... }, " ") .. "\r\n"))
	local text = ""
	wait.for_condition("redis replies", function()
		text = text .. (posix.receive(fd) or "")
		return text:find("\n")
	end)
	posix.close(fd)
	return (text:match("^[^\r\n]*"))
end

local function await_child(pid)
	return wait.for_condition("child ended", function()
		local status = posix.collect(pid)
		return status ~= nil and status
	end)
end

local function await_waiter(name, key)
	wait.for_condition("a request waits", function() return #segment.show(name, key).waiters + #segment.show(name, key).holders > 0 end)
end

local function read(path)
	local file = assert(io.open(path))
	local text = file:read("*a")
	file:close()
	return text
end

local function write(path, text, mode)
	local file = assert(io.open(path, mode or "w"))
	file:write(text)
	file:close()
end

--- The text of a worker that adds n times to the file count, and its tokens to the file log.
local ADD = [[
	local locks, folder, n, options, key = ...
	for _ = 1, n do
		local hold = assert(locks:exclusive(key or "count", options))
		local file = io.open(folder .. "/count")
		local count = tonumber(file:read("*a"))
		file:close()
		file = io.open(folder .. "/log", "a")
		file:write(hold:token(), "\n")
		file:close()
		file = io.open(folder .. "/count", "w")
		file:write(count + 1)
		file:close()
		assert(hold:release())
	end
]]

local function assert_counted(folder, n)
	assert.equal(tostring(n), read(folder .. "/count"))
	local last = 0
	for token in read(folder .. "/log"):gmatch("%d+") do
		assert.is_true(tonumber(token) > last)
		last = tonumber(token)
	end
end

local function is_named(holder)
	return tostring(holder):find("another host holds it: " .. A .. " (", 1, true) ~= nil
end

describe("across hosts, without nginx,", function()
	local a, b, folder
	setup(function()
		folder = posix.temporary_directory("lockshm-lua")
		a, b = assert(lockshm.open(A, OPTIONS)), assert(lockshm.open(B, OPTIONS))
		for _, locks in ipairs { a, b } do -- the bridge leads
			assert(assert(locks:exclusive("first", far())):release())
		end
		local hold = assert(a:exclusive("first", far()))
		wait.for_condition("host b has the name of host a", function()
			return is_named(select(3, b:exclusive("first", far { timeout = 0 })))
		end)
		assert(hold:release())
	end)
	teardown(function() os.execute("rm -rf '" .. folder .. "'") end)

	for _, key in ipairs { "count", "seg:count" } do
		it("two processes on each of two hosts exclude each other: " .. key, function()
			write(folder .. "/count", "0")
			write(folder .. "/log", "")
			local children = {}
			for i = 1, 4 do
				children[i] = posix.fork(function()
					local options = key == "count" and far() or { timeout = FAR }
					assert(loadstring(ADD))(i % 2 == 0 and a or b, folder, 25, options, key)
					return 0
				end)
			end
			for i = 1, 4 do assert.equal(0, await_child(children[i])) end
			assert_counted(folder, 100)
		end)
	end

	it("a key that the segment makes global needs no option", function()
		local hold = assert(a:exclusive("seg:key", { timeout = 0 }))
		local none, err, holder = b:exclusive("seg:key", { timeout = 0 })
		assert.same({ nil, "busy", true }, { none, err, is_named(holder) })
		none, err, holder = b:exclusive("seg:key", { timeout = 0.2 })
		assert.same({ nil, "timeout", true }, { none, err, is_named(holder) })
		assert.is_true((assert(b:exclusive("key", { timeout = 0 })):release()))
		assert.is_true((hold:release()))
		assert.is_true((a:once("seg:once", 600, function() end)))
		assert.is_false((b:once("seg:once", 600, function() end)))
		assert.equal(0, await_child(posix.fork(function()
			return assert(b:exclusive("seg:child", { timeout = FAR })):release() and 0 or 1
		end)))
	end)

	it("a refused try and a time-out name the other host", function()
		local hold = assert(a:exclusive("busy", far()))
		local none, err, holder = b:exclusive("busy", far { timeout = 0 })
		assert.same({ nil, "busy", nil }, { none, err, holder.pid })
		assert.equal(("not free: another host holds it: %s"):format(A), (tostring(holder):gsub(" %(%x+%)$", "")))
		none, err, holder = b:exclusive("busy", far { timeout = 0.3 })
		assert.same({ nil, "timeout" }, { none, err })
		assert.matches("^not granted in time, other hosts; last: another host holds it: " .. A:gsub("%-", "%%-"), tostring(holder))
		none, err, holder = a:exclusive("busy", far { timeout = 0 }) -- of this process
		assert.same({ nil, "busy", posix.pid() }, { none, err, holder.pid })
		assert.is_true((assert(b:exclusive("busy")):release())) -- without the option it is a key of host b alone
		assert.is_true((hold:release()))
		assert.is_true((assert(b:exclusive("busy", far())):release()))
	end)

	it("readers share, and do not upgrade", function()
		local one, two = assert(a:shared("readers", far())), assert(b:shared("readers", far()))
		local none, err = b:exclusive("readers", far { timeout = 0 })
		assert.same({ nil, "busy" }, { none, err })
		assert.same({ nil, "this host has the key shared: release it, then acquire it exclusive" }, { two:upgrade() })
		assert.is_true((one:release()))
		assert.is_true((two:release()))
	end)

	it("a host that has lost the key has lost its holds", function()
		local hold = assert(a:exclusive("lost", far()))
		assert.equal(":1", redis("DEL", "lk:lost"))
		wait.for_condition("the hold is lost", function() return select(2, hold:check()) == "lost" end)
		local other = assert(b:exclusive("lost", far()))
		assert.same({ nil, "lost" }, { hold:release() })
		assert.is_true((other:release()))
	end)

	it("a killed holder of a robust key is told to the other host, until that acknowledges", function()
		local child = posix.fork(function()
			assert(a:exclusive("robust", far { robust = true }))
			write(folder .. "/held", "")
			while true do posix.sleep(1) end
		end)
		wait.for_condition("the child holds", function() return io.open(folder .. "/held") end)
		posix.kill(child, posix.SIGKILL)
		await_child(child)
		local hold = assert(b:exclusive("robust", far { robust = true }))
		local previous = hold:damage()
		assert.same({ "owner died", "owner died", 0 }, { hold.status, previous.status, previous.pid or 0 })
		assert.matches("^" .. child .. "@%x+$", previous.tag)
		assert.is_true((hold:acknowledge()))
		assert.is_nil(hold:damage())
		assert.is_true((hold:release()))
		for _, locks in ipairs { a, b } do
			hold = assert(locks:exclusive("robust", far { robust = true }))
			assert.same({}, { hold.status, hold:damage() })
			assert.is_true((hold:release()))
		end
	end)

	it("a child made by fork() takes its own", function()
		local hold = assert(a:exclusive("parent", far()))
		assert.equal(0, await_child(posix.fork(function()
			local none, err = a:exclusive("parent", far { timeout = 0 })
			assert.same({ nil, "busy" }, { none, err })
			return assert(a:exclusive("child", far())):release() and 0 or 1
		end)))
		assert.is_true((hold:release()))
	end)

	it("without a bridge the error says how to start one, or the key is local", function()
		local name = ("lt%d-bare"):format(posix.pid())
		local bare = assert(lockshm.open(name, { redis = URI }))
		local message = ('no bridge to Redis runs: start one with "lockshm-bridge /%s"'):format(name)
		for _, timeout in ipairs { FAR, 0 } do
			local none, err, reason = bare:exclusive("k", far { timeout = timeout })
			assert.same({ nil, "bridge", message }, { none, err, tostring(reason) })
		end
		local none, err, reason = bare:exclusive("k", far { timeout = 0.2, redis_policy = "wait" })
		assert.same({ nil, "timeout", "not granted in time: " .. message }, { none, err, tostring(reason) })
		local hold = assert(bare:exclusive("k", far { redis_policy = "local-only" }))
		assert.same({ "local only", nil }, { hold.status, hold:token() })
		assert.is_true((hold:release()))
		hold = assert(bare:exclusive("k"))
		assert.is_nil(hold.status)
		assert.is_true((hold:release()))
		segment.remove(name)
	end)

	it("the example of the README runs", function()
		local bare = ("lt%d-readme"):format(posix.pid())
		local _, text = read(os.getenv("README")):match("\n```lua\n(.-)\n```.*\n```lua\n(.-)\n```")
		local function output(name, timeout)
			local lines = {}
			local code = text:gsub('"shop"', '"' .. name .. '"'):gsub("redis://10.0.0.5", URI):gsub("timeout = 5", "timeout = " .. timeout)
			setfenv(assert(loadstring(code)), setmetatable({ print = function(line) lines[#lines + 1] = line end }, { __index = _G }))()
			return table.concat(lines, "\n")
		end
		assert.matches("^token %d+$", output(A, FAR))
		local hold = assert(a:exclusive("report", far()))
		assert.equal("timeout: not granted in time, other hosts; last: another host holds it: " .. A,
			(output(B, 0.3):gsub(" %(%x+%)$", "")))
		assert.is_true((hold:release()))
		assert.equal(('bridge: no bridge to Redis runs: start one with "lockshm-bridge /%s"'):format(bare), output(bare, FAR))
		segment.remove(bare)
	end)

	it("recipes are for all hosts", function()
		assert.is_true((a:once("once", 600, function() end, { global = true })))
		assert.is_false((b:once("once", 600, function() error("ran again") end, { global = true })))
		local value
		for _, locks in ipairs { a, b } do
			assert.equal("text", (locks:single_flight("page", function() return value end, function()
				assert.is_nil(value)
				value = "text"
				return value
			end, far())))
		end
		assert(a:seat("seat", function()
			local none, err = b:exclusive("seat", far { timeout = 0 })
			assert.same({ nil, "busy" }, { none, err })
		end, { global = true }))
		assert.is_true((assert(b:exclusive("seat", far())):release()))
	end)

	it("a segment gets its options", function()
		local name = ("lt%d-options"):format(posix.pid())
		assert(lockshm.open(name, {
			redis = { "redis://192.0.2.1", "redis://192.0.2.2", URI }, redis_ttl = 5, redis_policy = "wait",
			redis_prefix = "mine:", redis_quorum = true, redis_gap = 0.05, redis_retain = 0.5, host_leases = 8,
			global_keys = "*",
		}))
		local stat = segment.stat(name)
		assert.same({ "redis://192.0.2.1,redis://192.0.2.2," .. URI, "mine:", "wait", true, 5000, 50, 500, 8, "*" }, {
			stat.bridge_servers, stat.bridge_prefix, stat.bridge_policy, stat.redis_quorum, stat.bridge_ttl_ms,
			stat.bridge_gap_ms, stat.bridge_retain_ms, stat.bridge_host_leases, stat.global_keys,
		})
		segment.remove(name)
	end)

	it("wrong input is an error that names it", function()
		local function refused(pattern, value, err)
			assert.is_nil(value)
			assert.matches(pattern, err)
		end
		local name = ("lt%d-wrong"):format(posix.pid())
		refused("must begin with redis://", lockshm.open(name, { redis = "http://x" }))
		refused("must begin with redis://", lockshm.open(name, { redis = 5 }))
		refused("global_keys", lockshm.open(name, { global_keys = "*" }))
		refused("redis_ttl is 500ms, must be 1s%.%.1h", lockshm.open(name, { redis = URI, redis_ttl = 0.5 }))
		refused("redis_ttl is 'soon', must be 1s%.%.1h", lockshm.open(name, { redis = URI, redis_ttl = "soon" }))
		refused("redis_policy is local%-only, must be fail or wait",
			lockshm.open(name, { redis = URI, redis_policy = "local-only" }))
		refused("option 'redis_policy': 'fail', 'wait' or 'local%-only' is needed, not no",
			a:exclusive("k", { global = true, redis_policy = "no" }))
		refused("has 641 bytes, a global one at most 640", a:exclusive(("x"):rep(641), far()))
		assert.is_true((assert(a:exclusive(("x"):rep(640), far())):release()))
		local plain = assert(lockshm.open(name))
		refused("in a segment without Redis", plain:exclusive("k", { global = true }))
		local ok, err = pcall(lockshm.configure, { options = { redis = URI } })
		assert.is_false(ok)
		assert.matches("'redis' is for dictionaries that 'segment' names", err)
		segment.remove(name)
	end)
end)

describe("across hosts, in nginx,", function()
	local a, b, folder
	local INIT = [[
		require("resty.lockshm").configure {
			segment = { ["@dict"] = %q },
			options = { redis = %q, redis_ttl = 60, redis_policy = "wait", keys = 64, global_keys = "seg:" },
		}
		assert(require("resty.lockshm").dict("@dict"))
	]]

	setup(function()
		folder = posix.temporary_directory("lockshm-lua")
		os.execute("chmod 777 '" .. folder .. "'")
		local servers = {}
		for i, name in ipairs { A, B } do
			segment.lockctl("rm", name) -- it is made anew, for the workers' user, and its bridge serves the new one
			servers[i] = nginx.start {
				workers = 2, dict = ("lt%d_%d"):format(posix.pid(), i + 10), init = INIT:format(name, URI),
				init_worker = [[
					local locks = require("resty.lockshm").dict("@dict")
					local worker = require "support.worker"
					worker.early = { locks:exclusive("early", { global = true }) }
					worker.seg = { locks:exclusive("seg:early") }
					worker.own = { locks:exclusive("own", { timeout = 0 }) }
					if worker.own[1] then worker.own[1]:release() end
				]],
			}
			servers[i]:run [[assert(assert(lockshm.dict(dict):exclusive("first", { global = true, timeout = 120 })):release())]]
		end
		a, b = unpack(servers)
		local holding = a:workers()[1]
		holding:run [[T.hold = assert(lockshm.dict(dict):exclusive("first", { global = true, timeout = 120 }))]]
		wait.for_condition("host b has the name of host a", function()
			return is_named((b:run [[return tostring(select(3, lockshm.dict(dict):exclusive("first", { global = true, timeout = 0 })))]]))
		end)
		holding:run [[assert(T.hold:release())]]
	end)
	teardown(function()
		nginx.stop_all()
		os.execute("rm -rf '" .. folder .. "'")
	end)

	for _, key in ipairs { "count", "seg:count" } do
		it("two workers on each of two hosts exclude each other: " .. key, function()
			write(folder .. "/count", "0")
			write(folder .. "/log", "")
			os.execute("chmod 666 '" .. folder .. "'/*")
			local connections = {}
			for i = 1, 8 do
				connections[i] = (i % 2 == 0 and a or b):connect():start(([[
					assert(loadstring(%q))(lockshm.dict(dict), %q, 10, { global = %s, timeout = 120 }, %q)
					return true
				]]):format(ADD, folder, key == "count", key))
			end
			for i = 1, 8 do assert.is_true((connections[i]:result())) end
			assert_counted(folder, 80)
		end)
	end

	it("resty.lock takes a key that the segment makes global, too", function()
		local holding = a:workers()[1]
		assert.is_number((holding:run [[T.lock = new {} return T.lock:lock("seg:k")]]))
		assert.same({ nil, "timeout", true }, { b:run [[
			local lock = new { timeout = 0 }
			local elapsed, err = lock:lock("seg:k")
			return elapsed, err, tostring(lock:holder()):find("another host holds it", 1, true) ~= nil
		]] })
		local waiting = b:connect():start [[local lock = new { timeout = 120, exptime = 120 } return lock:lock("seg:k"), lock:unlock()]]
		await_waiter(B, "seg:k")
		assert.equal(1, (holding:run "return T.lock:unlock()"))
		local elapsed, unlocked = waiting:result()
		assert.is_true(elapsed > 0)
		assert.equal(1, unlocked)
	end)

	it("a wait suspends the light thread, and a refusal names the other host", function()
		local holding, worker = a:workers()[1], b:workers()[1]
		holding:run [[T.hold = assert(lockshm.dict(dict):exclusive("k", { global = true, timeout = 120 }))]]
		assert.same({ nil, "busy" }, { worker:run [[
			local none, err, holder = lockshm.dict(dict):exclusive("k", { global = true, timeout = 0 })
			T.text = tostring(holder)
			return none, err
		]] })
		assert.matches("^not free: another host holds it: " .. A:gsub("%-", "%%-"), (worker:run "return T.text"))
		assert.same({ nil, "timeout", true }, { worker:run [[
			local lock = new { global = true, timeout = 0.3 }
			local elapsed, err = lock:lock("k")
			return elapsed, err, tostring(lock:holder()):find("another host holds it", 1, true) ~= nil
		]] })
		assert.same({ 0, 1 }, { worker:run [[local lock = new {} return lock:lock("k"), lock:unlock()]] }) -- local
		local waiting = worker:start [[
			local hold = assert(lockshm.dict(dict):exclusive("k", { global = true, timeout = 120 }))
			return hold:token(), hold:release()
		]]
		await_waiter(B, "k")
		assert.equal(2, (worker:run "return 1 + 1"))
		local first = holding:run "local token = T.hold:token() assert(T.hold:release()) return token"
		local token, released = waiting:result()
		assert.is_true(tonumber(token) > tonumber(first) and released)
	end)

	it("a client that goes away leaves no wait", function()
		local holding = a:workers()[1]
		holding:run [[T.hold = assert(lockshm.dict(dict):exclusive("gone", { global = true, timeout = 120 }))]]
		local client = b:connect()
		client:start [[lockshm.dict(dict):exclusive("gone", { global = true, timeout = 120 })]]
		await_waiter(B, "gone")
		client:close()
		wait.for_condition("the wait has gone", function()
			local shown = segment.show(B, "gone")
			return #shown.waiters + #shown.holders == 0
		end)
		assert.is_true((holding:run "return (T.hold:release())"))
	end)

	it("a lost key is noticed", function()
		local worker = a:workers()[1]
		worker:run [[T.hold = assert(lockshm.dict(dict):exclusive("lost", { global = true, timeout = 120 }))]]
		assert.equal(":1", redis("DEL", "lk:lost"))
		wait.for_condition("the hold is lost", function() return select(2, worker:run "return T.hold:check()") == "lost" end)
		assert.same({ nil, "lost" }, { worker:run "return T.hold:release()" })
	end)

	it("a phase that cannot wait is named", function()
		for _, case in ipairs { "early", "seg" } do
			local none, err = a:run(("return T.%s[1], T.%s[2]"):format(case, case))
			assert.is_nil(none)
			assert.equal("cannot take a key across hosts in the init_worker phase: nginx cannot suspend it; use ngx.timer.at()", err)
		end
		assert.is_nil((a:run "return T.own[2] ~= 'busy' and T.own[2] or nil")) -- of its host: free, or another worker's
	end)
end)
