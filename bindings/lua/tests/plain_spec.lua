-- SPDX-License-Identifier: MIT
--- LuaJIT without nginx: a wait blocks the process; a child made by fork() owns nothing.
local lockshm = require "resty.lockshm"
local posix = require "support.posix"
local segment = require "support.segment"
local wait = require "support.wait"

local name = ("lt%d-plain"):format(posix.pid())

--- A child that holds @key until it is killed or the file @go exists; returns its pid when it holds.
local function holder(key, go, release)
	local pid = posix.fork(function()
		local hold = assert(lockshm.open(name):exclusive(key, { lease = 300 }))
		while not (go and io.open(go)) do posix.sleep(0.005) end
		if release then assert(hold:release()) end
		return 0
	end)
	wait.for_condition("the child holds", function()
		local found = segment.show(name, key).holders[1]
		return found and found.pid == pid
	end)
	return pid
end

local function await_child(pid)
	return wait.for_condition("child ended", function()
		local status = posix.collect(pid)
		return status ~= nil and status
	end)
end

local function await_waiters(key, n)
	wait.for_condition(n .. " waiters of " .. key, function() return #segment.show(name, key).waiters == n end)
end

describe("without nginx", function()
	local locks, folder
	setup(function()
		folder = posix.temporary_directory("lockshm-lua")
		locks = assert(lockshm.open(name, { keys = 1000 }))
	end)
	teardown(function()
		segment.remove(name)
		os.execute("rm -rf '" .. folder .. "'")
	end)

	it("one name is one locks object, with the capacities asked for", function()
		assert.equal(locks, lockshm.open(name))
		assert.is_true(segment.stat(name).keys < 16384)
	end)

	it("a hold has its key, a token of digits and its remaining time", function()
		local hold = assert(locks:exclusive("life", { lease = 100 }))
		assert.equal("life", hold.key)
		local token = hold:token()
		assert.matches("^%d+$", token)
		assert.equal(segment.show(name, "life").holders[1].token, tonumber(token))
		assert.is_true(hold:check() <= 100.1 and hold:check() > 100 - wait.WATCHDOG)
		assert.is_true((hold:renew(1000)))
		assert.is_true(hold:check() > 900)
		assert.is_true((hold:release()))
	end)

	it("holders() has what holds a key, then what waits for it, without the dead", function()
		local child = holder("queue")
		local waiter = posix.fork(function()
			return locks:shared("queue", { timeout = 200, tag = "second" }) and 0 or 1
		end)
		await_waiters("queue", 1)
		local first, second = unpack(locks:holders("queue"))
		assert.same({ "holding", "exclusive", child }, { first.state, first.mode, first.pid })
		assert.equal(segment.show(name, "queue").holders[1].token, tonumber(first.token))
		assert.is_true(first.age >= 0 and first.expires_in > 0 and #first.name > 0)
		assert.same({ "waiting", "shared", waiter, "second" }, { second.state, second.mode, second.pid, second.tag })
		assert.is_nil(second.token)
		assert.matches("^awaited shared by pid " .. waiter, tostring(second))
		posix.kill(waiter, posix.SIGKILL)
		await_child(waiter)
		assert.equal(1, #locks:holders("queue"))
		posix.kill(child, posix.SIGKILL)
		await_child(child)
		assert.same({}, locks:holders("queue"))
		assert.same({ nil, "empty key" }, { locks:holders("") })
	end)

	it("a process that has closed all descriptors waits on", function()
		local before, hold = assert(locks:exclusive("before")), assert(locks:exclusive("closed"))
		local child = posix.fork(function()
			if locks:exclusive("before", { timeout = 0.01 }) then return 2 end -- it has a loop now
			for fd = 3, 255 do posix.close(fd) end
			return assert(locks:exclusive("closed", { timeout = 200 })):release() and 0 or 1
		end)
		await_waiters("closed", 1)
		assert.is_true((hold:release() and before:release()))
		assert.equal(0, await_child(child))
	end)

	it("time-out and busy name the holder", function()
		local child = holder("named")
		for _, case in ipairs { { 0, "busy" }, { 0.05, "timeout" } } do
			local hold, err, in_the_way = locks:exclusive("named", { timeout = case[1] })
			assert.same({ nil, case[2], child, "exclusive", "holding" },
				{ hold, err, in_the_way.pid, in_the_way.mode, in_the_way.state })
			assert.matches("^held exclusive by pid " .. child .. " %(luajit%) for [%d.]+ s", tostring(in_the_way))
		end
		posix.kill(child, posix.SIGKILL)
		await_child(child)
	end)

	it("a child made by fork() owns nothing, and its end releases nothing of the parent's", function()
		local hold = assert(locks:exclusive("parent", { lease = 300 }))
		local child = posix.fork(function()
			assert.same({ nil, "not held" }, { hold:check() })
			assert.same({ nil, "not held" }, { hold:release() })
			local refused, reason = locks:exclusive("parent", { timeout = 0 })
			assert.same({ nil, "busy" }, { refused, reason })
			local own = assert(locks:exclusive("child"))
			assert.is_true((own:release()))
			local _, err = locks:exclusive("parent", { timeout = 0.02 })
			assert.equal("timeout", err)
			hold = nil
			collectgarbage()
			collectgarbage()
			return 0
		end)
		assert.equal(0, await_child(child))
		assert.is_number((hold:check()))
		assert.equal(posix.pid(), segment.show(name, "parent").holders[1].pid)
		assert.is_true((hold:release()))
	end)

	it("a child's child does too, after the parent has waited", function()
		local go = folder .. "/go-fork"
		local first = holder("waited", go, true)
		io.open(go, "w"):close()
		assert.is_true((assert(locks:exclusive("waited", { timeout = 200 })):release()))
		await_child(first)
		local child = posix.fork(function()
			local inner = posix.fork(function()
				local hold = assert(locks:exclusive("inner"))
				return hold:release() and 0 or 1
			end)
			return await_child(inner)
		end)
		assert.equal(0, await_child(child))
	end)

	it("a hold without references is released by the garbage collector", function()
		assert(locks:exclusive("dropped", { lease = 300 }))
		collectgarbage()
		collectgarbage()
		assert.equal(0, #segment.show(name, "dropped").holders)
	end)

	it("a released hold's garbage does not end a later hold", function()
		for i = 1, 2000 do
			local old = assert(locks:exclusive("reused"))
			old:release()
			old = nil -- luacheck: ignore
			local hold = assert(locks:exclusive("reused"))
			if i % 100 == 0 then collectgarbage() end
			assert.is_number((hold:check()))
			assert.is_true((hold:release()))
			assert.same({ nil, "not held" }, { hold:release() })
		end
	end)

	it("a released hold is not held, also while a later hold is", function()
		local old = assert(locks:exclusive("old"))
		assert.is_true((old:release()))
		local hold = assert(locks:exclusive("new", { lease = 300 }))
		assert.same({ nil, "not held" }, { old:check() })
		assert.same({ nil, "not held" }, { old:release() })
		assert.is_number((hold:check()))
		assert.is_true((hold:release()))
	end)

	it("single_flight, once and seat work", function()
		local value
		local function look() return value end
		assert.equal("text", (locks:single_flight("page", look, function(hold)
			assert(hold:check())
			value = "text"
			return value
		end)))
		assert.equal("text", (locks:single_flight("page", look, function() error("rendered again") end)))
		assert.same({ true, 1, 2 }, { locks:once("once", 1000, function() return 1, 2 end) })
		local ran, in_the_way = locks:once("once", 1000, function() error("ran again") end)
		assert.is_false(ran)
		assert.equal("cooling", in_the_way.state)
		local sat
		assert(locks:seat("seat", function(seat)
			sat = seat:held() and #segment.show(name, "seat").holders
		end))
		assert.equal(1, sat)
		assert.equal(0, #segment.show(name, "seat").holders)
	end)

	describe("wrong input is an error that names it:", function()
		local function refused(pattern, ...)
			local value, err = ...
			assert.is_nil(value)
			assert.matches(pattern, err)
		end

		it("keys", function()
			refused("empty key", locks:exclusive(""))
			refused("key too long", locks:exclusive(("x"):rep(65536)))
			refused("a key is a string, not nil", locks:exclusive(nil))
			refused("a key is a string, not table", locks:exclusive({}))
			refused("colon: locks:exclusive%(", locks.exclusive("k"))
			refused("colon: locks:exclusive%(", locks.exclusive("k", { timeout = 0 }))
			refused("colon: locks:shared%(", locks.shared("k"))
			refused("colon: locks:single_flight%(", locks.single_flight("k", print, print))
			refused("colon: locks:once%(", locks.once("k", 60, print))
			refused("colon: locks:seat%(", locks.seat("k", print))
			assert.is_true((assert(locks:exclusive(("x"):rep(65535))):release()))
			assert.is_true((assert(locks:exclusive("a\0b")):release()))
		end)

		it("options", function()
			refused("unknown option 'ttl'", locks:exclusive("k", { ttl = 1 }))
			refused("'timeout'.*soon", locks:exclusive("k", { timeout = "soon" }))
			refused("'lease'.*nan", locks:exclusive("k", { lease = 0 / 0 }))
			refused("'tag'", locks:exclusive("k", { tag = 7 }))
			refused("period", locks:once("k", 0, function() end))
			refused("period", locks:once("k", nil, function() end))
			assert.equal(0, #segment.show(name, "k").holders)
		end)

		it("segments", function()
			refused("a string", lockshm.open(nil))
			refused("a segment has no option 'lock'", lockshm.open(name .. "-no", { lock = 1 }))
			refused("keys is 'many', must be 1%.%.", lockshm.open(name .. "-no", { keys = "many" }))
			refused("keys is 0, must be 1%.%.", lockshm.open(name .. "-no", { keys = 0 }))
			local file = assert(io.open("/dev/shm/" .. name .. "-file", "w"))
			file:write(("no segment"):rep(1000))
			file:close()
			refused("segment", lockshm.open(name .. "-file"))
			os.remove("/dev/shm/" .. name .. "-file")
		end)

		it("strings that a NUL byte would cut", function()
			local before = segment.find(name)
			for _, options in ipairs {
				{ user = "root\0x" }, { redis = "redis://127.0.0.1\0x" }, { redis = { "redis://127.0.0.1", "redis://127.0.0.2\0" } },
				{ redis_prefix = "lk:\0x" }, { global_keys = "job:\0x" }, { global_keys = { "a:", "\0" } },
			} do
				local option = next(options)
				refused("^option '" .. option .. "': a string without a NUL byte is needed, not '.*%%00x?'$",
					lockshm.open(name .. "-nul", options))
			end
			refused("option 'redis_policy'", lockshm.open(name .. "-nul", { redis_policy = "fail\0" }))
			refused("^the name of a segment: a string without a NUL byte is needed, not '" .. name:gsub("%-", "%%-") .. "%%00x'$",
				lockshm.open(name .. "\0x"))
			refused("the name of a segment: a string without a NUL", lockshm.open("\0"))
			refused("option 'tag': a string without a NUL byte", locks:exclusive("k", { tag = "a\0" }))
			refused("option 'tag': a string without a NUL byte", locks:once("k", 60, print, { tag = "\0" }))
			refused("option 'redis_policy'", locks:exclusive("k", { global = true, redis_policy = "wait\0" }))
			for setting, value in pairs { library = "lib\0x", user = "u\0", instance = "i\0", segment = { locks = "shop\0x" } } do
				local ok, err = pcall(lockshm.configure, { [setting] = value })
				assert.is_false(ok)
				assert.matches("'" .. setting .. "'", err)
			end
			assert.same(before, segment.find(name))
		end)

		it("entries of lists", function()
			refused("option 'redis': a string is needed, not table", lockshm.open(name .. "-no", { redis = { {} } }))
			refused("redis is empty", lockshm.open(name .. "-no", { redis = {} }))
			refused("option 'global_keys': a string is needed, not 5", lockshm.open(name .. "-no", { global_keys = { "a", 5 } }))
			refused("the options are a table, not 5", lockshm.open(name .. "-no", 5))
			refused("the options are a table, not false", lockshm.open(name .. "-no", false))
		end)

		it("settings", function()
			local ok, err = pcall(lockshm.configure, { colour = "red" })
			assert.is_false(ok)
			assert.matches("unknown setting 'colour'", err)
			ok, err = pcall(lockshm.configure, { user = 7 })
			assert.is_false(ok)
			assert.matches("'user' is a string, not 7", err)
		end)

		it("a full segment", function()
			local small = assert(lockshm.open(name .. "-small", { keys = 1, requests = 8 }))
			local holds, err = {}, nil
			for i = 1, 1000 do
				holds[i], err = small:exclusive("k" .. i, { timeout = 0 })
				if not holds[i] then break end
			end
			assert.is_true(#holds < 1000)
			assert.matches("%a+ %a+", err)
			for _, hold in ipairs(holds) do assert.is_true((hold:release())) end
			assert.is_true((assert(small:exclusive("k")):release()))
		end)

		it("the drop-in without nginx", function()
			local ok, value, err = pcall(lockshm.new, lockshm, "locks")
			assert.is_true(not ok or value == nil)
			assert.matches("nginx", tostring(ok and err or value))
		end)
	end)
end)
