-- SPDX-License-Identifier: MIT
--- Holders and waiters that die, stop or vanish: nothing stays locked, and the next request goes on.
local nginx = require "support.nginx"
local posix = require "support.posix"
local wait = require "support.wait"

--- Waits for the key for longer than the watchdog, with a lease beyond it: what is granted is not granted by a lease's end.
local WAITER = [[
	local lock = new { timeout = 200, exptime = 300, robust = %s }
	local elapsed, err, status = lock:lock(%q)
	if not elapsed then return nil, err end
	local previous = lock:damage()
	if previous and previous.status then lock:acknowledge() end
	return lock:unlock(), status, previous and previous.pid
]]
local function waiter(key, robust) return WAITER:format(tostring(robust or false), key) end

local function hold(worker, key, options)
	local text = ("T.locks[%q] = new(%s) return T.locks[%q]:lock(%q)"):format(key, options or "{ timeout = 0, exptime = 300 }",
		key, key)
	assert.equal(0, (worker:run(text)))
end
local function unlock(worker, key) return worker:run(("return T.locks[%q]:unlock()"):format(key)) end

describe("of two workers", function()
	local server, first, second
	before_each(function()
		server = nginx.start { workers = 2 }
		first, second = unpack(server:workers(6))
	end)
	after_each(nginx.stop_all)

	it("the holder is killed: the next request is granted, then the one behind it", function()
		hold(first, "killed")
		local started = {}
		for i = 1, 3 do
			started[i] = second:start(waiter("killed"))
			server:await_waiters("killed", i)
		end
		first:kill()
		for i = 1, 3 do assert.equal(1, (started[i]:result())) end
		server:await_free("killed")
	end)

	it("the holder is killed: a robust request gets its status and pid", function()
		hold(first, "robust", "{ timeout = 0, exptime = 300, robust = true }")
		local waiting = second:start(waiter("robust", true))
		server:await_waiters("robust", 1)
		first:kill()
		local released, status, pid = waiting:result()
		assert.same({ 1, "owner died", first.pid }, { released, status, pid })
		local _, again = second:run(waiter("robust", true))
		assert.is_nil(again)
	end)

	it("a wait of some seconds writes nothing into the error log", function()
		hold(first, "quiet")
		local waiting = second:start(waiter("quiet"))
		server:await_waiters("quiet", 1)
		posix.sleep(2.5)
		unlock(first, "quiet")
		assert.equal(1, (waiting:result()))
		posix.sleep(1.5)
		local lines = {}
		for line in server:log():gmatch("[^\n]+") do
			if not line:find("%[notice%]") and not line:find("%[info%]") then lines[#lines + 1] = line end
		end
		assert.same({}, lines)
	end)

	it("a waiter is killed: the one behind it is granted", function()
		hold(second, "queue")
		first:start(waiter("queue"))
		server:await_waiters("queue", 1)
		local behind = second:start(waiter("queue"))
		server:await_waiters("queue", 2)
		first:kill()
		wait.for_condition("worker ended", function() return first:ended() end)
		unlock(second, "queue")
		assert.equal(1, (behind:result()))
	end)

	it("the holder is stopped: its lease ends, the next goes on, the stopped one gets lost", function()
		hold(first, "stopped", "{ timeout = 0, exptime = 1 }")
		local waiting = second:start(waiter("stopped"))
		server:await_waiters("stopped", 1)
		first:stop()
		assert.equal(1, (waiting:result()))
		first:continue()
		assert.same({ nil, "lost" }, { first:run 'return T.locks.stopped:check()' })
		assert.same({ nil, "unlocked", "lost" }, { unlock(first, "stopped") })
		assert.same({ nil, "unlocked" }, { unlock(first, "stopped") })
		assert.matches("%[warn%][^\n]*lost", server:log())
	end)

	it("a holder that overran its lease with none waiting still unlocks", function()
		hold(first, "late", "{ timeout = 0, exptime = 0.05 }")
		posix.sleep(0.1)
		assert.equal(1, (unlock(first, "late")))
	end)

	it("a stopped waiter delays those behind it by its grant, and is granted when it goes on", function()
		hold(second, "sleeper")
		local sleeping = first:start(waiter("sleeper"))
		server:await_waiters("sleeper", 1)
		local behind = second:start(waiter("sleeper"))
		server:await_waiters("sleeper", 2)
		first:stop()
		unlock(second, "sleeper")
		assert.equal(1, (behind:result()))
		first:continue()
		assert.equal(1, (sleeping:result()))
		server:await_free("sleeper")
	end)

	it("the client of a waiter goes away: the key is not left locked", function()
		hold(first, "client")
		local gone = second:start(waiter("client"))
		server:await_waiters("client", 1)
		gone:close()
		wait.for_condition("the abort is noticed", function() return server:log():find("prematurely closed", 1, true) end)
		local behind = second:start(waiter("client"))
		wait.for_condition("queued", function() return #server:show("client").waiters >= 1 end)
		unlock(first, "client")
		assert.equal(1, (behind:result()))
		server:await_free("client")
	end)

	it("a killed waiting thread leaves the key free", function()
		hold(first, "thread")
		local killing = second:start [[
			local thread = ngx.thread.spawn(function()
				local lock = new { timeout = 200, exptime = 300 }
				T.granted = lock:lock("thread")
			end)
			while not ngx.shared[dict]:get("kill") do ngx.sleep(0.001) end
			return ngx.thread.kill(thread)
		]]
		server:await_waiters("thread", 1)
		first:run 'ngx.shared[dict]:set("kill", true)'
		assert.equal(1, (killing:result()))
		server:await_waiters("thread", 0) -- though the holder holds: its place in the queue is given up
		unlock(first, "thread")
		assert.equal(1, (first:run(waiter("thread"))))
		server:await_free("thread")
		assert.is_nil((second:run "return T.granted"))
	end)
end)

describe("in one worker", function()
	local server, worker
	before_each(function()
		server = nginx.start {}
		worker = server:workers(6)[1]
	end)
	after_each(nginx.stop_all)

	it("a thread killed after its grant was posted leaves the key free", function()
		local killed, granted = worker:run [[
			local holder, granted = new { timeout = 0, exptime = 300 }, 0
			local killed = 0
			for i = 1, 3 do
				assert(holder:lock("race"))
				local waiter = ngx.thread.spawn(function()
					local lock = new { timeout = 200, exptime = 300 }
					if lock:lock("race") then granted = granted + 1 lock:unlock() end
				end)
				ngx.sleep(0.001)
				assert(holder:unlock())
				if ngx.thread.kill(waiter) then killed = killed + 1 end
				local other = new { timeout = 200, exptime = 300 }
				assert(other:lock("race"))
				assert(other:unlock())
			end
			return killed, granted
		]]
		assert.equal(3, killed)
		assert.equal(0, granted)
		server:await_free("race")
	end)

	it("ngx.exit in a request with a waiting thread leaves the key free", function()
		hold(worker, "exit")
		local leaving = worker:start [[
			ngx.thread.spawn(function() new({ timeout = 200, exptime = 300 }):lock("exit") end)
			ngx.header.content_length = 0
			ngx.exit(200)
		]]
		assert.equal(200, (leaving:finish()))
		server:await_waiters("exit", 0)
		unlock(worker, "exit")
		assert.equal(1, (worker:run(waiter("exit"))))
		server:await_free("exit")
	end)

	it("ngx.exit in a holder: the garbage collector releases", function()
		local leaving = worker:start [[
			local lock = new { timeout = 0, exptime = 300 }
			assert(lock:lock("holder"))
			ngx.header.content_length = 0
			ngx.exit(200)
		]]
		assert.equal(200, (leaving:finish()))
		local waiting = worker:start(waiter("holder"))
		worker:run "collectgarbage() collectgarbage()"
		assert.equal(1, (waiting:result()))
		server:await_free("holder")
	end)

	it("a lock object or a hold without references is released by the garbage collector", function()
		worker:run [[
			T.kept = { new { exptime = 300 }, assert(lockshm.dict(dict):exclusive("hold", { lease = 300 })) }
			assert(T.kept[1]:lock("object"))
		]]
		assert.equal(1, #server:show("object").holders)
		assert.equal(1, #server:show("hold").holders)
		worker:run "T.kept = nil collectgarbage() collectgarbage()"
		server:await_free("object")
		server:await_free("hold")
	end)

	it("an error in a holder: the garbage collector releases", function()
		local ok = pcall(worker.run, worker, [[
			local lock = new { exptime = 300 }
			assert(lock:lock("error"))
			error("failed half way")
		]])
		assert.is_false(ok)
		worker:run "collectgarbage() collectgarbage()"
		server:await_free("error")
	end)

	it("a client that goes away while its request holds and waits leaves both keys free", function()
		hold(worker, "second")
		local gone = worker:start [[
			local one, two = new { exptime = 300 }, new { timeout = 200, exptime = 300 }
			assert(one:lock("first"))
			two:lock("second")
		]]
		server:await_waiters("second", 1)
		gone:close()
		wait.for_condition("the abort is noticed", function() return server:log():find("prematurely closed", 1, true) end)
		unlock(worker, "second")
		worker:run "collectgarbage() collectgarbage()"
		server:await_free("first")
		server:await_free("second")
	end)
end)
