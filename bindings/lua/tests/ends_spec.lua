-- SPDX-License-Identifier: MIT
--- Recipes whose request ends inside, wrong arguments, and lock objects that are used twice at a time.
local nginx = require "support.nginx"

describe("a request that ends inside", function()
	local server, worker
	setup(function()
		server = nginx.start { workers = 2 }
		worker = server:workers()[1]
	end)
	teardown(nginx.stop_all)

	local function leaves(code)
		local leaving = worker:start(code)
		assert.equal(200, (leaving:finish()))
	end

	it("single_flight frees the key, although nothing is garbage", function()
		leaves [[
			local function fill(hold)
				T.hold = hold
				ngx.header.content_length = 0
				ngx.exit(200)
			end
			lockshm.dict(dict):single_flight("flight", function() end, fill)
		]]
		server:await_free("flight")
		assert.same({ n = 2, nil, "not held" }, { n = 2, worker:run "return T.hold:check()" })
	end)

	it("once frees the key, and the next call runs", function()
		leaves [[
			lockshm.dict(dict):once("once", 600, function(hold)
				T.hold = hold
				ngx.header.content_length = 0
				ngx.exit(200)
			end)
		]]
		server:await_free("once")
		assert.is_true((worker:run [[return (lockshm.dict(dict):once("once", 600, function() end))]]))
	end)

	it("is not mistaken for a function that takes its time", function()
		assert.equal("filled", (worker:run [[
			return lockshm.dict(dict):single_flight("slow", function() end, function(hold)
				ngx.sleep(2.5)
				return hold:check() and "filled"
			end)
		]]))
	end)

	it("works inside a C call, where no light thread can be started", function()
		assert.equal("in gsub", (worker:run [[
			return (string.gsub("x", "x", function()
				return lockshm.dict(dict):single_flight("call", function() end, function() return "in gsub" end)
			end))
		]]))
		server:await_free("call")
	end)
end)

describe("wrong arguments", function()
	local worker
	setup(function() worker = nginx.start({}):workers()[1] end)
	teardown(nginx.stop_all)

	for call, message in pairs {
		['seat("x")'] = "seat: 'fn' is a function, not nil",
		['seat(nil, print)'] = "seat: a key is a string, not nil",
		['once("x", 60)'] = "once: 'fn' is a function, not nil",
		['once("x", 60, print, { timeout = 3 })'] =
			"unknown option 'timeout'; there are global, lease, max_hold, redis_policy, retry_on_failure, robust, tag",
		['single_flight("x")'] = "single_flight: 'look' is a function, not nil",
		['single_flight("x", function() end, 5)'] = "single_flight: 'fill' is a function, not 5",
		['exclusive("x", 5)'] = "the options are a table, not 5",
	} do
		it("are refused by name: " .. call, function()
			local result, err = worker:run("return lockshm.dict(dict):" .. call)
			assert.is_nil(result)
			assert.equal(message, err)
		end)
	end

	it("leave nothing held", function()
		assert.is_true((worker:run [[return (lockshm.dict(dict):once("x", 600, function() end))]]))
	end)
end)

describe("a lock object that waits", function()
	teardown(nginx.stop_all)

	it("refuses a second lock() meanwhile", function()
		local server = nginx.start {}
		local worker = server:workers()[1]
		worker:run [[T.holding, T.twice = new {}, new {} assert(T.holding:lock("a"))]]
		local waiting = worker:start [[return T.twice:lock("a")]]
		server:await_waiters("a", 1)
		assert.same({ n = 2, nil, "locked" }, { n = 2, worker:run [[return T.twice:lock("b")]] })
		worker:run "assert(T.holding:unlock())"
		assert.is_number((waiting:result()))
		assert.equal(1, (worker:run "return T.twice:unlock()"))
		server:await_free("b")
	end)

	it("has its place in the order of the calls, also while the first of them start the pump", function()
		local server = nginx.start {}
		local worker = server:workers()[1]
		worker:run [[T.holding, T.order = new { fair = true }, {} assert(T.holding:lock("queue"))]]
		local waiting = worker:start [[
			local threads = {}
			for i = 1, 20 do
				threads[i] = ngx.thread.spawn(function()
					local lock = new { fair = true, timeout = 60, exptime = 60 }
					assert(lock:lock("queue"))
					T.order[#T.order + 1] = i
					assert(lock:unlock())
				end)
			end
			for i = 1, 20 do assert(ngx.thread.wait(threads[i])) end
			return table.concat(T.order, " ")
		]]
		server:await_waiters("queue", 20)
		worker:run "assert(T.holding:unlock())"
		assert.equal("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", (waiting:result()))
	end)
end)

describe("a lease that has run out", function()
	teardown(nginx.stop_all)

	it("is late, which is not true", function()
		assert.same({ n = 2, nil, "late" }, { n = 2, nginx.start({}):workers()[1]:run [[
			local lock = new { exptime = 0.01 }
			assert(lock:lock("late"))
			ngx.sleep(0.1)
			return lock:check()
		]] })
	end)
end)
