-- SPDX-License-Identifier: MIT
--- Masters and their workers: reload, binary upgrade, two instances, users, shutdown.
local nginx = require "support.nginx"
local posix = require "support.posix"
local segment = require "support.segment"
local wait = require "support.wait"

local WAITER = [[
	local lock = new { timeout = 200, exptime = 300 }
	local elapsed, err = lock:lock("k")
	if not elapsed then return nil, err end
	return lock:unlock()
]]
local TRY = [[
	local lock = new { timeout = 0 }
	local elapsed, err = lock:lock("k")
	return elapsed, err, lock:holder() and lock:holder().pid
]]
--- Holds until the file exists: the request keeps a worker alive that is to exit.
local HOLD_UNTIL = [[
	local lock = new { timeout = 0, exptime = 300 }
	assert(lock:lock("k"))
	repeat
		local file = io.open(%q)
		ngx.sleep(0.005)
	until file
	return lock:unlock()
]]
local HOLD = 'T.locks.k = new { timeout = 0, exptime = 300 } return T.locks.k:lock("k")'

local function await_holder(server)
	wait.for_condition("the key is held", function() return server:segment() and #server:show("k").holders == 1 end)
end

local function await_end(what, pid)
	wait.for_condition(what .. " ended", function()
		posix.collect_all()
		local state = posix.process(pid)
		return state == nil or state == "Z"
	end)
end

local function touch(path) assert(io.open(path, "w")):close() end

describe("old and new workers share their locks", function()
	after_each(nginx.stop_all)

	it("after a reload", function()
		local server = nginx.start { workers = 2 }
		local old = server:workers()[1]
		local go = server.dir .. "/go"
		local holding = old:start(HOLD_UNTIL:format(go))
		await_holder(server)
		server:reload()
		local new = server:workers()[1]
		assert.not_equal(old.pid, new.pid)
		assert.same({ nil, "timeout", old.pid }, { new:run(TRY) })
		local waiting = new:start(WAITER)
		server:await_waiters("k", 1)
		touch(go)
		assert.equal(1, (holding:result()))
		assert.equal(1, (waiting:result()))
		assert.equal(1, #segment.find(server.dict))
		await_end("the old worker", old.pid)
	end)

	it("after a reload: a hold of an old worker that exits is free", function()
		local server = nginx.start {}
		local old = server:workers()[1]
		assert.equal(0, (old:run(HOLD)))
		server:reload()
		assert.equal(1, (server:run(WAITER)))
		await_end("the old worker", old.pid)
	end)

	it("after a binary upgrade, also without any use in the init phase", function()
		local server = nginx.start { daemon = true }
		local old = server:workers()[1]
		assert.equal(0, (old:run(HOLD)))
		local second = server:upgrade()
		local new = server:workers(4, second)[1]
		assert.same({ nil, "timeout", old.pid }, { new:run(TRY) })
		local waiting = new:start(WAITER)
		server:await_waiters("k", 1)
		assert.equal(1, (old:run "return T.locks.k:unlock()"))
		assert.equal(1, (waiting:result()))
		assert.equal(1, #segment.find(server.dict))
	end)

	it("after a binary upgrade, with the segment made in the init phase", function()
		local server = nginx.start { daemon = true, init = [[assert(require("resty.lockshm").dict("@dict"))]] }
		local old = server:workers()[1]
		assert.equal(0, (old:run(HOLD)))
		local second = server:upgrade()
		local new = server:workers(4, second)[1]
		assert.same({ nil, "timeout", old.pid }, { new:run(TRY) })
		assert.equal(1, #segment.find(server.dict))
		posix.kill(server.pid, posix.SIGQUIT)
		await_end("the old master", server.pid)
		assert.equal(1, (new:run(WAITER)))
		server.pid, server.second = second, nil
	end)
end)

describe("two instances on one host with dictionaries of one name", function()
	after_each(nginx.stop_all)

	it("do not share locks", function()
		local one = nginx.start {}
		local two = nginx.start { dict = one.dict }
		assert.equal(0, (one:run(HOLD)))
		assert.equal(0, (two:run(HOLD)))
		assert.equal(2, #segment.find(one.dict))
	end)

	it("share them when both are configured to be one instance", function()
		local init = 'require("resty.lockshm").configure { instance = "both" }'
		local one = nginx.start { init = init }
		local two = nginx.start { init = init, dict = one.dict }
		local holder = one:workers()[1]
		assert.equal(0, (holder:run(HOLD)))
		assert.same({ nil, "timeout", holder.pid }, { two:run(TRY) })
		assert.equal(1, #segment.find(one.dict))
	end)
end)

describe("a segment name of the configuration", function()
	after_each(nginx.stop_all)

	it("is used for that dictionary", function()
		local server = nginx.start { init = [[
			require("resty.lockshm").configure { segment = { ["@dict"] = "shop-@dict" }, options = { keys = 100 } }
		]] }
		assert.equal(0, (server:run(HOLD)))
		assert.equal("shop-" .. server.dict, server:segment())
		assert.equal(server:segment(), server:run "return lockshm.segment_name(dict)")
		assert.is_true(segment.stat(server:segment()).keys < 16384)
	end)
end)

describe("a master", function()
	after_each(nginx.stop_all)

	it("that goes to the background keeps no lock of the init phase, and its workers have theirs", function()
		local server = nginx.start { daemon = true, workers = 2, init = [[
			local worker = require "support.worker"
			worker.locks.boot = worker.new { exptime = 300 }
			assert(worker.locks.boot:lock("k"))
		]] }
		local one, two = unpack(server:workers())
		assert.equal(0, (one:run(HOLD)))
		assert.same({ nil, "timeout", one.pid }, { two:run(TRY) })
		local waiting = two:start(WAITER)
		server:await_waiters("k", 1)
		assert.equal(1, (one:run "return T.locks.k:unlock()"))
		assert.equal(1, (waiting:result()))
	end)

	--- Kills the master; its workers go on serving, and are killed in their turn.
	local function without_master(server, workers, fn)
		posix.kill(server.pid, posix.SIGKILL)
		await_end("the master", server.pid)
		local ok, err = pcall(fn, unpack(workers))
		for _, worker in ipairs(workers) do
			worker:kill()
			await_end("a worker", worker.pid)
		end
		assert(ok, err)
	end

	it("that was killed leaves workers that share locks, also where the first use comes later", function()
		local server = nginx.start { workers = 2, init = 'require "resty.lockshm"' }
		local workers = server:workers()
		assert.equal(0, (workers[1]:run(HOLD)))
		without_master(server, workers, function(one, two)
			assert.same({ nil, "timeout", one.pid }, { two:run(TRY) })
			assert.equal(1, #segment.find(server.dict))
		end)
	end)

	it("that was killed before a worker loads the module: it refuses locks that its siblings may not see", function()
		local server = nginx.start { workers = 2 }
		local workers = server:workers()
		assert.equal(0, (workers[1]:run(HOLD)))
		without_master(server, workers, function(one, two)
			local locks, err = two:run "return lockshm.dict(dict)"
			assert.is_nil(locks)
			assert.matches("master process, which has ended", err)
			assert.equal(1, (one:run "return T.locks.k:unlock()"))
		end)
	end)

	it("has no more descriptors, threads and records after ten reloads", function()
		local server = nginx.start { init = [[
			local lock = require("resty.lockshm"):new("@dict")
			assert(lock:lock("boot"))
			assert(lock:unlock())
		]] }
		local function count(what)
			local pipe = io.popen(("ls /proc/%d/%s | wc -l"):format(server.pid, what))
			local n = tonumber(pipe:read("*a"))
			pipe:close()
			return n
		end
		server:reload()
		local fds, threads, used = count "fd", count "task", segment.stat(server:segment())
		local last
		for _ = 1, 10 do
			last = server:reload()
			assert.equal(1, (server:run(WAITER)))
		end
		for _, pid in ipairs(last) do await_end("an old worker", pid) end
		local after = segment.stat(server:segment())
		-- The master closes its end of a worker's channel when it has collected the worker.
		wait.for_condition("no more descriptors", function() return count "fd" <= fds end)
		wait.for_condition("no more threads", function() return count "task" <= threads end)
		assert.is_true(after.requests_used <= used.requests_used, "records grew")
		assert.is_true(after.owners_used - after.owners_dead <= used.owners_used + 1, "owners grew")
	end)
end)

local as_root = posix.is_root() and it or function(name) pending(name .. " (needs root)") end

describe("users", function()
	after_each(nginx.stop_all)

	local MADE_IN_INIT = [[assert(require("resty.lockshm"):new("@dict"):lock("boot"))]]

	local function holds_after_init(server, owner)
		local worker = server:workers()[1]
		assert.equal(0, (worker:run(HOLD)))
		assert.equal(1, (worker:run "return T.locks.k:unlock()"))
		local its_owner, mode = posix.owner("/dev/shm/" .. server:segment())
		assert.same({ owner, "600" }, { its_owner, mode })
		return worker
	end

	as_root("root makes the segment in the init phase, the workers of the user directive use it", function()
		holds_after_init(nginx.start { init = MADE_IN_INIT }, nginx.USER)
	end)

	as_root("so do workers of a user with a group", function()
		holds_after_init(nginx.start { init = MADE_IN_INIT, user = ("user nobody %s;"):format(posix.group("nobody")) }, "nobody")
	end)

	as_root("so do those of nginx's own default user", function()
		holds_after_init(nginx.start { init = MADE_IN_INIT, user = "# user root;" }, nginx.DEFAULT_USER)
	end)

	as_root("a worker started after a reload and after a kill opens it", function()
		local server = nginx.start { init = MADE_IN_INIT }
		local killed = holds_after_init(server, nginx.USER)
		killed:kill()
		wait.for_condition("another worker", function() return killed:ended() and #server:pids() == 1 end)
		holds_after_init(server, nginx.USER)
		server:reload()
		holds_after_init(server, nginx.USER)
		assert.equal(1, #segment.find(server.dict))
	end)

	it("the segment is made by the first worker that needs it", function()
		local server = nginx.start { workers = 2 }
		local one, two = unpack(server:workers())
		assert.equal(0, (one:run(HOLD)))
		assert.same({ nil, "timeout", one.pid }, { two:run(TRY) })
	end)

	as_root("an unprivileged master and its workers", function()
		holds_after_init(nginx.start { as = "nobody", init = MADE_IN_INIT }, "nobody")
	end)

	as_root("without a code cache each request opens it anew", function()
		local server = nginx.start { code_cache = false, init = [[assert(require("resty.lockshm").dict("@dict"))]] }
		assert.equal(nginx.USER, (posix.owner("/dev/shm/" .. server:segment())))
		for _ = 1, 3 do
			assert.equal(1, (server:run [[
				local lock = new {}
				assert(lock:lock("k"))
				return lock:unlock()
			]]))
		end
		local waiting = server:connect()
		local holding = server:connect()
		local go = server.dir .. "/go"
		holding:start(HOLD_UNTIL:format(go))
		await_holder(server)
		waiting:start(WAITER)
		server:await_waiters("k", 1)
		touch(go)
		assert.equal(1, (holding:result()))
		assert.equal(1, (waiting:result()))
		assert.equal(1, #segment.find(server.dict))
	end)
end)

describe("a graceful exit", function()
	after_each(nginx.stop_all)

	it("is not held up by a pump without waits", function()
		local server = nginx.start {}
		local worker = server:workers()[1]
		assert.same({ 0, nil, "timeout" }, { worker:run [[
			T.locks.k = new { exptime = 300 }
			local elapsed = T.locks.k:lock("k")
			return elapsed, new({ timeout = 0.01 }):lock("k")
		]] })
		posix.kill(server.pid, posix.SIGQUIT)
		await_end("nginx", server.pid)
	end)

	it("ends the waits of seats, and lets another worker have the seat", function()
		local server = nginx.start { workers = 2, init_worker = [[
			assert(require("resty.lockshm").dict("@dict")):seat("seat", function(seat)
				while seat:sleep(600) do end
			end)
		]] }
		wait.for_condition("a worker has the seat, the other waits", function()
			local lock = server:segment() and server:show("seat")
			return lock and #lock.holders == 1 and #lock.waiters == 1
		end)
		local before = server:show("seat").holders[1].pid
		server:reload()
		wait.for_condition("a new worker has the seat, the other waits", function()
			local lock = server:show("seat")
			return #lock.holders == 1 and lock.holders[1].pid ~= before and #lock.waiters == 1
		end)
		posix.kill(server.pid, posix.SIGQUIT)
		await_end("nginx", server.pid)
		server:await_free("seat")
	end)

	it("ends a seat's wait for a holder that goes on, outside of nginx", function()
		local server = nginx.start {}
		local worker = server:workers()[1]
		worker:run "return lockshm.dict(dict) ~= nil"
		local outside = posix.start({ segment.program, "run", server:segment(), "seat", "--any-owner", "--", "sleep", "1000" }, {})
		wait.for_condition("the key is held", function() return #server:show("seat").holders == 1 end)
		worker:run 'lockshm.dict(dict):seat("seat", function() end)'
		server:await_waiters("seat", 1)
		posix.kill(server.pid, posix.SIGQUIT)
		await_end("nginx", server.pid)
		assert.equal(0, #server:show("seat").waiters)
		posix.kill(outside, posix.SIGTERM)
		await_end("lockctl", outside)
	end)

	it("lets a request begin a wait, also the worker's first", function()
		local server = nginx.start { workers = 1 }
		local old = server:workers()[1]
		local go = server.dir .. "/go"
		local waiting = old:start(([[
			repeat
				local file = io.open(%q)
				ngx.sleep(0.005)
			until file and ngx.worker.exiting()
		]]):format(go) .. WAITER)
		server:reload()
		local new = server:workers()[1]
		assert.equal(0, (new:run(HOLD)))
		touch(go)
		server:await_waiters("k", 1)
		assert.equal(1, (new:run "return T.locks.k:unlock()"))
		assert.equal(1, (waiting:result()))
		await_end("the old worker", old.pid)
	end)

	it("lets a request that waits finish", function()
		local server = nginx.start { workers = 2 }
		local one, two = unpack(server:workers())
		local go = server.dir .. "/go"
		local holding = one:start(HOLD_UNTIL:format(go))
		await_holder(server)
		local waiting = two:start(WAITER)
		server:await_waiters("k", 1)
		posix.kill(server.pid, posix.SIGQUIT)
		wait.for_condition("the workers are to exit", function() return #server:pids() == 0 end)
		touch(go)
		assert.equal(1, (holding:result()))
		assert.equal(1, (waiting:result()))
		await_end("nginx", server.pid)
	end)
end)
