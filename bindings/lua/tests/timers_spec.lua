-- SPDX-License-Identifier: MIT
--- Servers with few timers: nginx drops timers that it accepted, or accepts none; or without a socket for wakes.
local nginx = require "support.nginx"
local posix = require "support.posix"
local wait = require "support.wait"

--- Takes all timers that may run at once, until T.go.
local FILL = [[
	T.go, T.fill = false, function()
		while not T.go and not ngx.worker.exiting() do ngx.sleep(0.005) end
	end
	while ngx.timer.running_count() < 4 do
		ngx.timer.at(0, T.fill)
		ngx.sleep(0.01)
	end
]]
local FREE = [[
	T.go = true
	while ngx.timer.running_count() >= 4 do ngx.sleep(0.005) end
]]
--- Takes all timers that may be pending.
local FILL_PENDING = [[
	while ngx.timer.at(3600, function() end) do end
]]

local HOLD = 'T.locks.k = new { timeout = 0, exptime = 300 } assert(T.locks.k:lock("k"))'
local UNLOCK = 'return T.locks.k:unlock()'
local WAITER = [[
	local lock = new { timeout = 200, exptime = 300 }
	local elapsed, err = lock:lock("k")
	if not elapsed then return nil, err end
	return lock:unlock()
]]
local ENDS_INSIDE = [[
	lockshm.dict(dict):single_flight("flight", function() end, function(hold)
		T.hold = hold
		ngx.header.content_length = 0
		ngx.exit(200)
	end, { lease = %s })
]]

local function await_holder(server, key)
	wait.for_condition(key .. " is held", function() return server:segment() and #server:show(key).holders == 1 end)
end

local function await_end(pid)
	wait.for_condition("nginx ended", function()
		posix.collect_all()
		local state = posix.process(pid)
		return state == nil or state == "Z"
	end)
end

--- What holds with each kind of shortage.
local function waits_go_on(start)
	local server, worker, other

	before_each(function()
		server, worker, other = start()
	end)
	after_each(nginx.stop_all)

	it("a wait ends by its time-out", function()
		other:run(HOLD)
		for _, timeout in ipairs { 0.5, 0.05, 0.002 } do
			assert.same({ n = 2, nil, "timeout" }, { n = 2, worker:run(("return new({ timeout = %g }):lock('k')"):format(timeout)) })
		end
		assert.equal(0, #server:show("k").waiters)
	end)

	it("a wait is granted, in the order of the calls", function()
		other:run(HOLD)
		worker:run "T.order = {}"
		local started = {}
		for i = 1, 3 do
			started[i] = worker:start(([[
				local lock = new { timeout = 200, exptime = 300, fair = true }
				assert(lock:lock("k"))
				T.order[#T.order + 1] = %d
				return lock:unlock()
			]]):format(i))
			server:await_waiters("k", i)
		end
		assert.equal(1, (other:run(UNLOCK)))
		for i = 1, 3 do assert.equal(1, (started[i]:result())) end
		assert.same({ 1, 2, 3 }, (worker:run "return T.order"))
	end)

	it("an object that waits refuses a second lock()", function()
		other:run(HOLD)
		worker:run "T.twice = new { timeout = 200, exptime = 300 }"
		local waiting = worker:start 'return T.twice:lock("k")'
		server:await_waiters("k", 1)
		assert.same({ n = 2, nil, "locked" }, { n = 2, worker:run 'return T.twice:lock("other")' })
		assert.equal(1, (other:run(UNLOCK)))
		assert.is_number((waiting:result()))
		assert.equal(1, (worker:run "return T.twice:unlock()"))
	end)

	it("a key that two workers pass on is exclusive", function()
		local code = [[
			local lock = new { timeout = 200, exptime = 300 }
			local shared = ngx.shared[dict]
			local together = 0
			for _ = 1, 30 do
				assert(lock:lock("hot"))
				if shared:incr("inside", 1, 0) > 1 then together = together + 1 end
				ngx.sleep(0.001)
				shared:incr("inside", -1)
				assert(lock:unlock())
			end
			return together
		]]
		local started = {}
		for i = 1, 3 do started[#started + 1], started[#started + 2] = worker:start(code), other:start(code) end
		for _, one in ipairs(started) do assert.equal(0, (one:result())) end
		server:await_free("hot")
	end)

	it("the client of a waiter goes away: the key is not left locked", function()
		other:run(HOLD)
		local gone = worker:start(WAITER)
		server:await_waiters("k", 1)
		gone:close()
		assert.equal(1, (other:run(UNLOCK)))
		assert.equal(1, (other:run(WAITER)))
	end)

	it("a request that ends inside single_flight leaves the key no longer than its lease", function()
		assert.equal(200, (worker:start(ENDS_INSIDE:format("0.5")):finish()))
		assert.equal("filled", (other:run [[
			return lockshm.dict(dict):single_flight("flight", function() end, function() return "filled" end, { timeout = 200 })
		]]))
	end)

	it("the lease of a recipe that takes its time is renewed", function()
		assert.equal("renewed", (worker:run [[
			return lockshm.dict(dict):single_flight("slow", function() end, function(hold)
				local before, left
				repeat
					before = hold:check()
					ngx.sleep(0.05)
					left = hold:check()
				until left > before
				return "renewed"
			end)
		]]))
	end)

	it("a worker that is to exit ends its endless waits, and lets the others finish", function()
		other:run(HOLD)
		local endless = worker:start 'return lockshm.dict(dict):exclusive("k", { timeout = math.huge })'
		server:await_waiters("k", 1)
		local waiting = worker:start(WAITER)
		server:await_waiters("k", 2)
		local holding = other:start [[
			while not ngx.worker.exiting() do ngx.sleep(0.005) end
			ngx.sleep(0.3)
			return T.locks.k:unlock()
		]]
		posix.kill(server.pid, posix.SIGQUIT)
		assert.same({ n = 2, nil, "cancelled" }, { n = 2, (function() local a, b = endless:result() return a, b end)() })
		assert.equal(1, (holding:result()))
		assert.equal(1, (waiting:result()))
		await_end(server.pid)
	end)
end

describe("while all timers that may run do run,", function()
	local function start(options)
		options = options or {}
		options.workers, options.running_timers = 2, 4
		local server = nginx.start(options)
		local worker, other = unpack(server:workers(8))
		worker:run(FILL)
		return server, worker, other
	end

	waits_go_on(start)

	it("and later do not, waits need no timer of their own again", function()
		local server, worker, other = start()
		other:run(HOLD)
		assert.same({ n = 2, nil, "timeout" }, { n = 2, worker:run 'return new({ timeout = 0.3 }):lock("k")' })
		worker:run(FREE)
		for _ = 1, 3 do
			local waiting = worker:start(WAITER)
			server:await_waiters("k", 1)
			wait.for_condition("the pump runs", function() return worker:run 'return require("resty.lockshm.pump").runs()' end)
			assert.equal(1, (other:run(UNLOCK)))
			assert.equal(1, (waiting:result()))
			other:run(HOLD)
		end
	end)

	it("and later do not, the key of a request that ended inside single_flight is released", function()
		local server, worker = start()
		assert.equal(200, (worker:start(ENDS_INSIDE:format("300")):finish()))
		await_holder(server, "flight")
		worker:run(FREE)
		server:await_free("flight")
		assert.matches("'flight' was released: the request that held it has ended", server:log())
	end)

	it("and later do not, a seat begins", function()
		local server, worker = start()
		assert.is_true((worker:run [[
			T.seat = lockshm.dict(dict):seat("seat", function(seat)
				T.seated = true
				while seat:sleep(600) do end
			end)
			return T.seat ~= nil
		]]))
		posix.sleep(0.5) -- several timers are dropped
		assert.is_nil((worker:run "return T.seated"))
		worker:run(FREE)
		await_holder(server, "seat")
		assert.is_true((worker:run "return T.seated and T.seat:held()"))
	end)

	it("seats that took them all hand over, and keep their leases", function()
		local server = nginx.start { workers = 2, running_timers = 2, init_worker = [[
			for i = 1, 2 do
				assert(require("resty.lockshm").dict("@dict")):seat("seat" .. i, function(seat)
					local before = seat.hold:check()
					while seat:sleep(0.05) do
						local left = seat.hold:check()
						if left > before then ngx.shared["@dict"]:set("renewed" .. i, true) end
						before = left
					end
				end)
			end
		]] }
		for i = 1, 2 do
			await_holder(server, "seat" .. i)
			server:await_waiters("seat" .. i, 1)
		end
		wait.for_condition("their leases are renewed", function()
			return server:run 'return ngx.shared[dict]:get("renewed1") and ngx.shared[dict]:get("renewed2")'
		end)
		local before = server:show("seat1").holders[1]
		posix.kill(before.pid, posix.SIGKILL)
		wait.for_condition("another worker has the seat", function()
			local holder = server:show("seat1").holders[1]
			return holder and holder.pid ~= before.pid
		end)
	end)

	it("a worker's first wait while it is to exit ends, too", function()
		local server, worker, other = start()
		other:run(HOLD)
		local waiting = worker:start("while not ngx.worker.exiting() do ngx.sleep(0.005) end " .. WAITER)
		local holding = other:start("while not ngx.worker.exiting() do ngx.sleep(0.005) end ngx.sleep(0.3) " .. UNLOCK)
		posix.kill(server.pid, posix.SIGQUIT)
		assert.equal(1, (holding:result()))
		assert.equal(1, (waiting:result()))
		await_end(server.pid)
	end)
end)

describe("while no timer more may be pending,", function()
	local function start()
		local server = nginx.start { workers = 2, pending_timers = 2 }
		local worker, other = unpack(server:workers(8))
		worker:run(FILL_PENDING)
		return server, worker, other
	end

	waits_go_on(start)

	it("a seat is refused, with the reason", function()
		local _, worker = start()
		assert.same({ n = 2, nil, "seat: no timer for it: too many pending timers" }, { n = 2,
			worker:run 'return lockshm.dict(dict):seat("seat", function() end)' })
	end)
end)

describe("while no socket for wakes can be made,", function()
	waits_go_on(function()
		local server = nginx.start { workers = 2, init = [[
			require("resty.lockshm.socketpair").open = function() return nil, "no descriptor is left" end
		]] }
		return server, unpack(server:workers(8))
	end)
end)

describe("a seat", function()
	after_each(nginx.stop_all)

	it("is refused where no timer can begin any more, or not yet", function()
		local server = nginx.start { init = [[
			local lockshm = require "resty.lockshm"
			local worker = require "support.worker"
			worker.seat = { lockshm.dict("@dict"):seat("seat", function() end) }
		]] }
		assert.same({ [2] = "seat: no timer for it: nginx has none in the init phase" }, (server:run "return T.seat"))
		local worker = server:workers()[1]
		local late = worker:start [[
			while not ngx.worker.exiting() do ngx.sleep(0.005) end
			return lockshm.dict(dict):seat("seat", function() end)
		]]
		posix.kill(server.pid, posix.SIGQUIT)
		assert.same({ n = 2, nil, "seat: no timer for it: the worker is to exit" }, { n = 2, late:result() })
		await_end(server.pid)
	end)
end)
