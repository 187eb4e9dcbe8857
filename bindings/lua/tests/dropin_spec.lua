-- SPDX-License-Identifier: MIT
--- new(), lock(), unlock(), expire() and what was added to their objects: results and error strings.
local nginx = require "support.nginx"
local posix = require "support.posix"

describe("a lock object", function()
	local server, worker
	setup(function()
		server = nginx.start { workers = 1 }
		worker = server:workers(4)[1]
	end)
	teardown(nginx.stop_all)

	local function same(expected, code) assert.same(expected, { worker:run(code) }) end

	it("takes the place of resty.lock", function()
		same({ 0, 1 }, [[
			package.loaded["resty.lock"] = require "resty.lockshm"
			local lock = require("resty.lock"):new(dict)
			return lock:lock("place"), lock:unlock()
		]])
	end)

	it("is not made for a dictionary that does not exist", function()
		same({ nil, "dictionary not found" }, [[return lockshm:new("no_such_dictionary")]])
		same({ nil, "dictionary not found" }, [[return lockshm.dict("no_such_dictionary")]])
		same({ nil, "dictionary not found" }, [[return lockshm:new(nil)]])
	end)

	it("refuses wrong options by their name", function()
		local lock, err = worker:run [[return lockshm:new(dict, { exptime = "soon" })]]
		assert.is_nil(lock)
		assert.matches("exptime", err)
		lock, err = worker:run [[return lockshm:new(dict, { tag = ("x"):rep(31) })]]
		assert.is_nil(lock)
		assert.matches("tag", err)
		lock, err = worker:run [[return lockshm:new(dict, 5)]]
		assert.is_nil(lock)
		assert.matches("options are a table, not 5", err)
	end)

	it("names a call without a colon", function()
		for _, code in ipairs { "lockshm.new(dict)", "lockshm.new(dict, { timeout = 0 })", "new().lock('key')" } do
			local value, err = worker:run("return " .. code)
			assert.is_nil(value)
			assert.matches("^call it with a colon: lock", err)
		end
	end)

	it("refuses a second lock, a missing key and keys without place", function()
		same({ nil, "nil key" }, [[return new():lock(nil)]])
		same({ nil, "nil key" }, [[return new():lock(false)]])
		same({ nil, "empty key" }, [[return new():lock("")]])
		same({ nil, "key too long" }, [[return new():lock(("x"):rep(65536))]])
		same({ 0, "locked", 1, 0, 1 }, [[
			local lock = new()
			local first, _, second = lock:lock("second"), lock:lock("other")
			return first, second, lock:unlock(), lock:lock("other"), lock:unlock()
		]])
	end)

	it("takes a number as a key, the same as its text", function()
		same({ 0, "timeout", 1 }, [[
			local lock, other = new(), new { timeout = 0 }
			local got, _, err = lock:lock(42), other:lock("42")
			return got, err, lock:unlock()
		]])
	end)

	it("takes any bytes as a key", function()
		same({ 0, 0, 1, 1 }, [[
			local one, two = new { timeout = 0 }, new { timeout = 0 }
			return one:lock("a\0b"), two:lock("a\0c"), one:unlock(), two:unlock()
		]])
	end)

	it("logs a key of any bytes as one printable line", function()
		same({ 1 }, [[
			local lock, other = new { exptime = 0.01 }, new { timeout = 60, tag = "t\226\128\174\27[2J\nt" }
			local key = "a\n2026/01/01 00:00:00 [emerg] 1#1: forged \226\128\174\0"
			assert(lock:lock(key))
			assert(other:lock(key))
			lock:unlock()
			local try = new { timeout = 0 }
			assert(not try:lock(key))
			ngx.log(ngx.WARN, "holder: ", tostring(try:holder()))
			return other:unlock()
		]])
		local log = server:log()
		assert.matches("lockshm: 'a%%0A2026/01/01 00:00:00 %[emerg%] 1#1: forged %%E2%%80%%AE%%00' was lost before unlock", log)
		assert.matches("holder: held exclusive by pid %d+ %(nginx%) 't%?%?%?%?%[2J%?t' for", log)
	end)

	it("that is not locked is 'unlocked' in every call", function()
		same({ "unlocked", "unlocked", "unlocked", "unlocked", "unlocked", "unlocked", "unlocked" }, [[
			local lock, errors = new(), {}
			for i, name in ipairs { "unlock", "expire", "check", "upgrade", "downgrade", "acknowledge", "token" } do
				errors[i] = select(2, lock[name](lock))
			end
			return unpack(errors)
		]])
	end)

	it("expire() moves the end of its lease", function()
		local before, ok, after, default, reset = worker:run [[
			local lock = new { exptime = 30 }
			assert(lock:lock("expire"))
			local before = lock:check()
			local ok = lock:expire(300)
			local after = lock:check()
			local default = lock:expire()
			local reset = lock:check()
			assert(lock:unlock())
			return before, ok, after, default, reset
		]]
		assert.is_true(before <= 30.1 and after > 100 and after <= 300.1 and reset <= 30.1)
		assert.same({ true, true }, { ok, default })
	end)

	it("a lost lock is lost in every call, and unlock() leaves the other's", function()
		same({ "lost", "lost", "lost", "unlocked", "lost", true, 1 }, [[
			local lock, other = new { exptime = 0.01 }, new { timeout = 60 }
			assert(lock:lock("lost"))
			assert(other:lock("lost"))
			local _, expired = lock:expire(1)
			local _, checked = lock:check()
			local _, upgraded = lock:upgrade()
			local _, err, why = lock:unlock()
			return expired, checked, upgraded, err, why, other:check() ~= nil, other:unlock()
		]])
	end)

	it("has rising tokens, with fair=true also of holds that follow at once", function()
		same({ true, true }, [[
			local lock, last, rising = new { fair = true }, 0, true
			for i = 1, 100 do
				assert(lock:lock("token"))
				local token = tonumber(lock:token())
				rising = rising and token > last
				last = token
				assert(lock:unlock())
			end
			return rising, last > 0
		]])
	end)

	it("renew=true keeps the lease for longer than exptime", function()
		same({ "timeout", 1 }, [[
			local lock, other = new { exptime = 0.25, renew = true }, new { timeout = 0.8 }
			assert(lock:lock("renew"))
			local _, err = other:lock("renew")
			return err, lock:unlock()
		]])
	end)

	it("without renew it does not", function()
		local got, err, why = worker:run [[
			local lock, other = new { exptime = 0.25 }, new { timeout = 60 }
			assert(lock:lock("no renew"))
			assert(other:lock("no renew"))
			return lock:unlock()
		]]
		assert.same({ nil, "unlocked", "lost" }, { got, err, why })
	end)

	it("shared=true holds together, and holder() says what was in the way", function()
		local one, two, err, mode, tag, text, gone = worker:run [[
			local one, two = new { shared = true }, new { shared = true, tag = "reader" }
			local writer = new { timeout = 0 }
			local first, second = one:lock("shared"), two:lock("shared")
			local _, err = writer:lock("shared")
			local holder = writer:holder()
			one:unlock()
			two:unlock()
			assert(writer:lock("shared"))
			assert(writer:unlock())
			return first, second, err, holder.mode, holder.tag, tostring(holder), new():holder() == nil
		]]
		assert.same({ 0, 0, "timeout", "shared", "reader", true }, { one, two, err, mode, tag, gone })
		assert.matches("^held shared by pid " .. worker.pid .. " %(nginx%) 'reader' for ", text)
	end)

	it("robust=true gives the status of a key whose holder overran its lease, until it is acknowledged", function()
		same({ "took over expired", "took over expired", true, 0 }, [[
			local lock, other = new { exptime = 0.01, robust = true }, new { timeout = 60, robust = true }
			assert(lock:lock("robust"))
			local _, _, status = other:lock("robust")
			local previous = other:damage()
			local acknowledged = other:acknowledge()
			assert(other:unlock())
			lock:unlock()
			return status, previous.status, acknowledged, other:lock("robust")
		]])
	end)

	it("timeout is at most exptime, and a negative one is a try", function()
		same({ "timeout", "timeout", 1 }, [[
			local lock = new { exptime = 300 }
			assert(lock:lock("clamp"))
			local short, negative = new { exptime = 0.05, timeout = 100000 }, new { timeout = -1 }
			local _, one = short:lock("clamp")
			local _, two = negative:lock("clamp")
			return one, two, lock:unlock()
		]])
	end)

	it("a wait inside require() is refused by name, a free key is not", function()
		posix.make_directory(server.dir .. "/lua")
		local file = io.open(server.dir .. "/lua/waits.lua", "w")
		file:write [[
			local worker = require "support.worker"
			local free, busy = worker.new { timeout = 60 }, worker.new { timeout = 60 }
			local got = free:lock("require")
			local elapsed, err = busy:lock("require")
			return { got = got, err = err, unlock = free:unlock() }
		]]
		file:close()
		local result = worker:run(([[
			package.path = %q .. package.path
			return require "waits"
		]]):format(server.dir .. "/lua/?.lua;"))
		assert.equal(0, result.got)
		assert.equal(1, result.unlock)
		assert.matches("^cannot wait", result.err)
		server:await_free("require")
	end)

	it("a segment that was removed is made anew", function()
		local name = server:segment()
		assert.is_true(select(2, require("support.segment").lockctl("rm", name)))
		same({ 0, 1 }, [[
			local lock = new()
			return lock:lock("again"), lock:unlock()
		]])
		assert.same({ name }, require("support.segment").find(server.dict))
	end)
end)

-- Figures are the benchmark's.  Here: what LuaJIT compiled once goes on to serve, where leaving it would cost as much as
-- the lock itself.
describe("compiled code of a free pair", function()
	local worker
	setup(function() worker = nginx.start({ workers = 1 }):workers(4)[1] end)
	teardown(nginx.stop_all)

	it("serves after the first wait of the worker, too", function()
		local first, later, later_object = worker:run [[
			local compiled = 0
			local function count(what) compiled = compiled + (what == "start" and 1 or 0) end
			local function traces_of(fn)
				compiled = 0
				jit.attach(count, "trace")
				fn(2000)
				jit.attach(count)
				return compiled
			end
			local lock, locks = new(), lockshm.dict(dict)
			local function pairs_of(n)
				for _ = 1, n do
					lock:lock("pair")
					lock:unlock()
				end
			end
			local function pairs_of_holds(n)
				for _ = 1, n do
					locks:exclusive("pair"):release()
				end
			end
			local first = traces_of(pairs_of) + traces_of(pairs_of_holds)
			local held, waiter = new(), new { timeout = 0.01 }
			assert(held:lock("held"))
			assert(not waiter:lock("held"))
			assert(held:unlock())
			for _ = 1, 20000 do -- until the wait is forgotten
				held:lock("held")
				held:unlock()
			end
			return first, traces_of(pairs_of), traces_of(pairs_of_holds)
		]]
		assert.is_true(first > 0)
		assert.same({ 0, 0 }, { later, later_object })
	end)
end)
