-- SPDX-License-Identifier: MIT
--- Single flight, once and seat in the example server, with workers killed.
local nginx = require "support.nginx"
local posix = require "support.posix"
local wait = require "support.wait"

local server, workers
local function start_server(n)
	server = nginx.start { example = true, workers = n or 2 }
	workers = server:workers(12)
end
local function cached(key) return server:run(("return ngx.shared.cache:get(%q)"):format(key)) end
local function await_holder(key)
	return wait.for_condition(key .. " is held", function()
		return server:segment() and server:show(key).holders[1]
	end).pid
end
local function get(connection, path)
	local status, body = connection:request(path):finish()
	assert.equal(200, status)
	return body
end

describe("single_flight: of the requests for one page", function()
	before_each(function() start_server(2) end)
	after_each(nginx.stop_all)

	it("one renders, the others wait and find it", function()
		local requests, text = {}
		for i = 1, 11 do requests[i] = workers[i % 2 + 1]:get("/page?name=a&seconds=0.3") end
		for _, connection in ipairs(requests) do
			local status, its_text = connection:finish()
			text = text or its_text
			assert.same({ 200, text }, { status, its_text })
		end
		assert.matches("rendered by worker", text)
		assert.equal(1, cached "renders of a")
		server:await_free("a")
	end)

	it("the one that renders is killed half way: exactly the next renders, the others find it", function()
		local first = workers[1]:get("/page?name=b&seconds=600")
		assert.equal(workers[1].pid, await_holder("b"))
		local others = {}
		for i = 1, 10 do
			others[i] = workers[2]:get("/page?name=b&seconds=0.1")
			server:await_waiters("b", i)
		end
		workers[1]:kill()
		assert.equal("closed", (first:finish()))
		local texts = {}
		for i, connection in ipairs(others) do
			local status
			status, texts[i] = connection:finish()
			assert.equal(200, status)
			assert.equal(texts[1], texts[i])
		end
		assert.matches("rendered by worker " .. workers[2].pid, texts[1])
		assert.equal(2, cached "renders of b")
		server:await_free("b")
	end)

	it("an error while rendering is its request's, and the next renders", function()
		local worker = workers[1]
		local results = { worker:run [[
			local locks = lockshm.dict("locks")
			local function nothing() end
			local ok, err = pcall(locks.single_flight, locks, "c", nothing, function() error("cannot render") end)
			local none, reason = locks:single_flight("c", nothing, function() return nil, "no data" end)
			return ok, tostring(err), none, reason, (locks:single_flight("c", nothing, function() return "text" end))
		]] }
		assert.is_false(results[1])
		assert.matches("cannot render", results[2])
		assert.same({ nil, "no data", "text" }, { results[3], results[4], results[5] })
		server:await_free("c")
	end)

	it("a time-out is an error that names the holder, or what stale() gives", function()
		assert.equal("held", (workers[1]:run [[
			T.hold = assert(lockshm.dict("locks"):exclusive("d", { lease = 300 }))
			return "held"
		]]))
		local value, err, pid, fallback = workers[2]:run [[
			local locks = lockshm.dict("locks")
			local function nothing() end
			local value, err, holder = locks:single_flight("d", nothing, nothing, { timeout = 0.05 })
			return value, err, holder.pid, locks:single_flight("d", nothing, nothing, {
				timeout = 0.05, stale = function(why) return "old text after " .. why end,
			})
		]]
		assert.same({ nil, "timeout", workers[1].pid, "old text after timeout" }, { value, err, pid, fallback })
	end)
end)

describe("once: of calls in one period", function()
	before_each(function() start_server(2) end)
	after_each(nginx.stop_all)

	it("one runs, on whichever worker, and the others are skipped and logged", function()
		local started, made, skipped = {}, 0, 0
		for i = 1, 10 do started[i] = workers[i % 2 + 1]:get("/report?period=600&seconds=0.1") end
		for _, connection in ipairs(started) do
			local _, text = connection:finish()
			if text == "made report 1\n" then
				made = made + 1
			elseif text:find("^skipped: ") then
				skipped = skipped + 1
			end
		end
		assert.same({ 1, 9 }, { made, skipped })
		assert.matches("^skipped: ", get(workers[1]:connection(), "/report?period=600"))
		assert.equal(1, cached "reports")
		assert.matches("%[info%][^\n]*'report' skipped: [^\n]*by pid %d+", server:log())
	end)

	it("the next period's call runs again", function()
		assert.equal("made report 1\n", get(workers[1]:connection(), "/report?period=0.2"))
		wait.for_condition("the period is over", function()
			return get(workers[2]:connection(), "/report?period=600") == "made report 2\n"
		end)
	end)

	it("the one that runs is killed half way: the next call runs", function()
		local first = workers[1]:get("/report?period=600&seconds=600")
		assert.equal(workers[1].pid, await_holder("report"))
		assert.matches("^skipped: ", get(workers[2]:connection(), "/report?period=600"))
		workers[1]:kill()
		assert.equal("closed", (first:finish()))
		wait.for_condition("a call runs", function()
			return get(workers[2]:connection(), "/report?period=600") == "made report 2\n"
		end)
		assert.matches("^skipped: ", get(workers[2]:connection(), "/report?period=600"))
	end)

	it("a failed run uses up its period, unless it is to be retried", function()
		assert.equal("failed: no data\n", get(workers[1]:connection(), "/report?period=600&fail=1"))
		assert.matches("^skipped: ", get(workers[2]:connection(), "/report?period=600"))
		local results = { workers[1]:run [[
			local locks, options = lockshm.dict("locks"), { retry_on_failure = true }
			local ok = pcall(locks.once, locks, "retry", 600, function() error("failed") end, options)
			local ran, value, why = locks:once("retry", 600, function() return nil, "failed" end, options)
			local again, good = locks:once("retry", 600, function() return "good" end, options)
			return ok, ran, value, why, again, good, (locks:once("retry", 600, function() end, options))
		]] }
		assert.same({ false, true, nil, "failed", true, "good", false }, results)
	end)
end)

describe("seat: of the workers of a server", function()
	before_each(function() start_server(3) end)
	after_each(nginx.stop_all)

	local function seated()
		return tonumber(get(server:connect(), "/scheduler"):match("^worker (%d+)"))
	end

	it("one runs the scheduler; when it is killed another takes over, again and again", function()
		local before
		for _ = 1, 3 do
			local pid = wait.for_condition("another worker has the seat", function()
				local pid = seated()
				return pid and pid ~= before and pid
			end)
			local lock = server:show("scheduler")
			assert.equal(1, #lock.holders)
			assert.equal(pid, lock.holders[1].pid)
			server:await_waiters("scheduler", 2)
			posix.kill(pid, posix.SIGKILL)
			before = pid
		end
	end)

	it("when it is stopped another takes over at its lease's end, and it does not go on", function()
		workers[1]:run [[
			local started = lockshm.dict("locks"):seat("short", function(seat)
				ngx.shared.cache:set("short", ngx.worker.pid())
				repeat T.turns = (T.turns or 0) + 1 until not seat:sleep(0.01)
				T.ended = true
			end, { lease = 1 })
			return started ~= nil
		]]
		local pid = await_holder("short")
		assert.equal(workers[1].pid, pid)
		workers[2]:run [[
			return nil ~= lockshm.dict("locks"):seat("short", function(seat)
				ngx.shared.cache:set("short", ngx.worker.pid())
				repeat until not seat:sleep(0.01)
			end, { lease = 1 })
		]]
		server:await_waiters("short", 1)
		workers[1]:stop()
		wait.for_condition("the other has it", function()
			return workers[2]:run 'return ngx.shared.cache:get("short")' == workers[2].pid
		end)
		workers[1]:continue()
		wait.for_condition("the stopped one's function has ended", function() return workers[1]:run "return T.ended" end)
		server:await_waiters("short", 1)
	end)

	it("an error in its function is logged, and the seat is taken again", function()
		workers[1]:run [[
			lockshm.dict("locks"):seat("error", function()
				T.tries = (T.tries or 0) + 1
				if T.tries < 2 then error("no schedule") end
			end)
		]]
		wait.for_condition("a second try", function() return workers[1]:run "return T.tries" == 2 end)
		assert.matches("%[error%][^\n]*seat 'error'[^\n]*no schedule", server:log())
		server:await_free("error")
	end)

	it("stop() ends it, and this worker does not compete again", function()
		workers[1]:run [[
			T.seat = lockshm.dict("locks"):seat("stop", function(seat) repeat until not seat:sleep(0.01) end)
		]]
		await_holder("stop")
		assert.is_true((workers[1]:run "return T.seat:held()"))
		workers[1]:run "T.seat:stop()"
		server:await_free("stop")
		assert.is_false((workers[1]:run "return T.seat:held()"))
	end)
end)
