-- SPDX-License-Identifier: MIT
--- Who holds, and in which order, among requests of one worker and over several.
local nginx = require "support.nginx"
local wait = require "support.wait"

--- Lua text of a request that waits for @key, appends @name to the list "order", and releases.
local function visitor(key, name, options)
	return ([[
		local lock = new(%s)
		local elapsed, err = lock:lock(%q)
		if not elapsed then return nil, err end
		ngx.shared[dict]:rpush("order", %q)
		assert(lock:unlock())
		return elapsed
	]]):format(options or "{ timeout = 200, exptime = 300 }", key, name)
end

local HOLD = [[
	T.locks.%s = new { timeout = 0, exptime = 300 }
	return T.locks.%s:lock(%q)
]]
local function hold(worker, key) assert.equal(0, (worker:run(HOLD:format(key, key, key)))) end
local function unlock(worker, key) return worker:run(("return T.locks.%s:unlock()"):format(key)) end

local function order(worker)
	return worker:run [[
		local names = {}
		while true do
			local name = ngx.shared[dict]:lpop("order")
			if not name then return names end
			names[#names + 1] = name
		end
	]]
end

--- What @n increments of a counter amount to, each by reading, yielding, and writing.
local INCREMENTS = [[
	local data, lost, threads = ngx.shared[dict], 0, {}
	local function increment()
		local lock = new { timeout = 200, exptime = 300 }
		for i = 1, %d do
			local elapsed, err = lock:lock("counter")
			if not elapsed then error(err) end
			local value = data:get("counter") or 0
			ngx.sleep(0)
			data:set("counter", value + 1)
			assert(lock:unlock())
		end
	end
	for i = 1, %d do threads[i] = ngx.thread.spawn(increment) end
	for i = 1, #threads do assert(ngx.thread.wait(threads[i])) end
]]

for _, n in ipairs { 1, 2, 4 } do
	describe(("with %d worker%s"):format(n, n == 1 and "" or "s"), function()
		local server, workers
		setup(function()
			server = nginx.start { workers = n }
			workers = server:workers(16)
		end)
		teardown(nginx.stop_all)

		it("no increment under the lock is lost", function()
			local started = {}
			for i = 1, 8 do started[i] = workers[i % n + 1]:start(INCREMENTS:format(20, 4)) end
			for _, connection in ipairs(started) do connection:result() end
			assert.equal(8 * 20 * 4, workers[1]:run 'return ngx.shared[dict]:get("counter")')
			server:await_free("counter")
		end)

		it("waits are granted in the order of their arrival", function()
			local started, expected = {}, {}
			hold(workers[1], "order")
			for i = 1, 12 do
				expected[i] = "visitor" .. i
				started[i] = workers[i % n + 1]:start(visitor("order", expected[i]))
				server:await_waiters("order", i)
			end
			assert.equal(1, unlock(workers[1], "order"))
			for _, connection in ipairs(started) do assert.is_number((connection:result())) end
			assert.same(expected, order(workers[1]))
		end)

		it("with fair=true a holder that asks again is behind the request that waits", function()
			local first, second = workers[1], workers[n]
			hold(first, "fair")
			first:run "T.again = new { timeout = 200, exptime = 300, fair = true }"
			local waiting = second:start(visitor("fair", "waiter", "{ timeout = 200, exptime = 300, fair = true }"))
			server:await_waiters("fair", 1)
			first:run [[
				assert(T.locks.fair:unlock())
				assert(T.again:lock("fair"))
				ngx.shared[dict]:rpush("order", "holder")
				assert(T.again:unlock())
			]]
			waiting:result()
			assert.same({ "waiter", "holder" }, order(first))
		end)

		it("shared holds are together, and a writer keeps its place among them", function()
			local READER = [[
				local hold, err = assert(lockshm.dict(dict):shared("readers", { timeout = 200, lease = 300 }))
				ngx.shared[dict]:rpush("order", %q)
				while not ngx.shared[dict]:get(%q) do ngx.sleep(0.001) end
				assert(hold:release())
				return true
			]]
			local readers = {}
			for i = 1, 2 do readers[i] = workers[i % n + 1]:start(READER:format("reader" .. i, "go1")) end
			wait.for_condition("two shared holders", function() return #server:show("readers").holders == 2 end)
			order(workers[1])
			local writer = workers[n]:start(visitor("readers", "writer"))
			server:await_waiters("readers", 1)
			local later = workers[1]:start(READER:format("reader3", "go2"))
			server:await_waiters("readers", 2)
			assert.same({}, order(workers[1]))
			workers[1]:run 'ngx.shared[dict]:set("go1", 1)'
			wait.for_condition("the later reader has it", function()
				local lock = server:show("readers")
				return #lock.waiters == 0 and lock.mode == "shared"
			end)
			assert.same({ "writer", "reader3" }, order(workers[1]))
			workers[1]:run 'ngx.shared[dict]:set("go2", 1)'
			for _, connection in ipairs { readers[1], readers[2], writer, later } do assert.is_not_nil((connection:result())) end
			server:await_free("readers")
		end)

		it("a shared hold becomes exclusive only when it is alone", function()
			hold(workers[1], "other")
			local results = { workers[n]:run [[
				local locks = lockshm.dict(dict)
				local one, two = locks:shared("up", { timeout = 0 }), locks:shared("up", { timeout = 0 })
				local ok, err = one:upgrade()
				two:release()
				local before = one:token()
				local later, later_err = one:upgrade()
				local raised = tonumber(one:token()) > tonumber(before)
				local refused, why = locks:shared("up", { timeout = 0 })
				local down = one:downgrade()
				local third = locks:shared("up", { timeout = 0 })
				return ok, err, later, raised, refused, why, down, third ~= nil, one:release(), third:release()
			]] }
			assert.same({ nil, "busy", true, true, nil, "busy", true, true, true, true }, results)
			unlock(workers[1], "other")
		end)

		it("a time-out ends the wait, not before its time, and leaves nothing queued", function()
			hold(workers[1], "late")
			local elapsed, err, seconds, holder = workers[n]:run [[
				local lock = new { timeout = 0.2 }
				ngx.update_time()
				local began = ngx.now()
				local elapsed, err = lock:lock("late")
				ngx.update_time()
				return elapsed, err, ngx.now() - began, lock:holder()
			]]
			assert.is_nil(elapsed)
			assert.equal("timeout", err)
			assert.is_true(seconds >= 0.199, "timed out after " .. seconds)
			assert.equal(workers[1].pid, holder.pid)
			assert.equal("holding", holder.state)
			assert.equal("exclusive", holder.mode)
			assert.is_true(holder.age > 0)
			assert.is_true(math.abs(holder.age + holder.expires_in - 300) < 0.001, "lease " .. holder.age + holder.expires_in)
			assert.equal(0, #server:show("late").waiters)
			assert.equal(1, unlock(workers[1], "late"))
		end)

		it("a busy key refuses a try with what is in the way", function()
			workers[1]:run [[
				T.busy = assert(lockshm.dict(dict):exclusive("busy", { lease = 300, tag = "nightly" }))
			]]
			local hold_, err, pid, text = workers[n]:run [[
				local hold, err, holder = lockshm.dict(dict):exclusive("busy", { timeout = 0 })
				return hold, err, holder.pid, tostring(holder)
			]]
			assert.is_nil(hold_)
			assert.equal("busy", err)
			assert.equal(workers[1].pid, pid)
			assert.matches("^held exclusive by pid " .. pid .. " %(.+%) 'nightly' for %d", text)
			assert.is_true((workers[1]:run "return T.busy:release()"))
		end)

		it("an endless time-out waits, for a strict hold too", function()
			for _, lease in ipairs { "300", "math.huge" } do
				hold(workers[1], "endless")
				local waiting = workers[n]:start(([[
					local hold = assert(lockshm.dict(dict):exclusive("endless", { timeout = math.huge, lease = %s }))
					return hold:release()
				]]):format(lease))
				server:await_waiters("endless", 1)
				unlock(workers[1], "endless")
				assert.is_true((waiting:result()))
			end
		end)
	end)
end

describe("a worker's first waits, which begin in one turn,", function()
	teardown(nginx.stop_all)

	it("are granted in the order of their calls", function()
		local server = nginx.start {}
		local worker = server:workers()[1]
		hold(worker, "burst")
		local waiting = worker:start [[
			local threads, order = {}, {}
			for i = 1, 50 do
				threads[i] = ngx.thread.spawn(function()
					local lock = new { timeout = 200, exptime = 300 }
					assert(lock:lock("burst"))
					order[#order + 1] = i
					assert(lock:unlock())
				end)
			end
			for i = 1, #threads do assert(ngx.thread.wait(threads[i])) end
			return order
		]]
		server:await_waiters("burst", 50)
		unlock(worker, "burst")
		local expected = {}
		for i = 1, 50 do expected[i] = i end
		assert.same(expected, (waiting:result()))
	end)
end)

describe("what lock() returns after a wait", function()
	local server, worker
	setup(function()
		server = nginx.start {}
		worker = server:workers(3)[1]
	end)
	teardown(nginx.stop_all)

	local function waited(options)
		hold(worker, "elapsed")
		local waiting = worker:start(visitor("elapsed", "x", options))
		server:await_waiters("elapsed", 1)
		require("support.posix").sleep(0.05)
		unlock(worker, "elapsed")
		return (waiting:result())
	end

	it("is what a poller with that schedule would have slept", function()
		local elapsed = waited "{ timeout = 200, exptime = 300, step = 0.001, ratio = 2, max_step = 0.5 }"
		local sum, step, sums = 0, 0.001, {}
		while sum < 200 do
			sum = sum + step
			sums[("%.6f"):format(sum)] = true
			step = math.min(math.max(0.001, step * 2), 0.5)
		end
		assert.is_true(sums[("%.6f"):format(elapsed)] or false, "no sum of that schedule: " .. elapsed)
		assert.is_true(elapsed >= 0.05)
	end)

	it("with honest=true is the time waited", function()
		local elapsed = waited "{ timeout = 200, exptime = 300, step = 100, honest = true }"
		assert.is_true(elapsed >= 0.05 and elapsed < 100, "waited " .. elapsed)
	end)
end)
