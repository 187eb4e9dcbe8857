-- SPDX-License-Identifier: MIT
--- Every phase of nginx: a free key, a try and unlock work in each; a wait only where a coroutine can yield.
local nginx = require "support.nginx"

local VISIT = ' require("support.phases").visit() '
local SERVER = [[
	location = /phases {
		set_by_lua_block $nothing {@visit}
		rewrite_by_lua_block {@visit}
		access_by_lua_block {@visit}
		content_by_lua_block {@visit ngx.header.content_length = 1 ngx.print("x") }
		header_filter_by_lua_block {@visit}
		body_filter_by_lua_block {@visit}
		log_by_lua_block {@visit}
	}
	location = /balancer { proxy_pass http://nowhere; }
	location = /timer {
		content_by_lua_block {
			local phases = require "support.phases"
			ngx.timer.at(0, phases.visit)
			while not phases.results.timer do ngx.sleep(0.001) end
			ngx.header.content_length = 1
			ngx.print("x")
		}
	}
	location = /log_releases {
		access_by_lua_block {
			local worker = require "support.worker"
			ngx.ctx.lock = worker.new { timeout = 60, exptime = 300 }
			assert(ngx.ctx.lock:lock("log"))
		}
		content_by_lua_block {
			while not ngx.shared[require("support.worker").dict]:get("go") do ngx.sleep(0.001) end
			ngx.header.content_length = 1
			ngx.print("x")
		}
		log_by_lua_block { ngx.ctx.released = ngx.ctx.lock:unlock() }
	}
]]
local UPSTREAM = [[
	upstream nowhere {
		server 0.0.0.1;
		balancer_by_lua_block {@visit return ngx.exit(ngx.ERROR) }
	}
]]

local YIELDS = { rewrite = true, access = true, content = true, timer = true }
local PHASES = {
	"init", "init_worker", "set", "rewrite", "access", "content", "header_filter", "body_filter", "log", "balancer", "timer",
}

describe("phases", function()
	local server, results

	setup(function()
		server = nginx.start {
			init = VISIT, init_worker = VISIT,
			http = UPSTREAM:gsub("@visit", VISIT), server = SERVER:gsub("@visit", VISIT),
		}
		local connection = server:connect()
		assert.equal(200, (connection:request("/phases"):finish()))
		assert.equal(200, (connection:request("/timer"):finish()))
		local upstream = server:connect():request("/balancer") -- an error page, perhaps without keep-alive
		assert.equal(500, (upstream:finish()))
		results = connection:run('return require("support.phases").results')
	end)
	teardown(nginx.stop_all)

	for _, phase in ipairs(PHASES) do
		it("a free key, a try and unlock work in " .. phase, function()
			local result = assert(results[phase], "the phase did not run")
			assert.is_nil(result.err)
			assert.same({ n = 1, 0 }, result.free)
			assert.same({ n = 2, nil, "timeout" }, result.try)
			assert.same({ n = 1, 1 }, result.unlock)
			assert.same({ n = 1, 0 }, result.again)
			assert.same({ n = 1, 1 }, result.again_unlock)
		end)

		it("a wait in " .. phase .. (YIELDS[phase] and " ends by its time-out" or " is refused, with the phase's name"), function()
			local wait = assert(results[phase], "the phase did not run").wait
			assert.is_nil(wait[1])
			if YIELDS[phase] then
				assert.equal("timeout", wait[2])
			else
				assert.matches("^cannot wait in the " .. phase .. " phase: .+", wait[2])
			end
		end)
	end

	it("no phase leaves a request behind", function()
		for _, phase in ipairs(PHASES) do server:await_free("phase-" .. phase) end
	end)

	it("a key released in the log phase goes to the request that waits", function()
		local holder, waiter = server:connect(), server:connect()
		holder:request("/log_releases")
		server:await_waiters("log", 0)
		require("support.wait").for_condition("the key is held", function() return #server:show("log").holders == 1 end)
		waiter:start [[
			local lock = new { timeout = 60, exptime = 300 }
			local elapsed, err = lock:lock("log")
			return elapsed and lock:unlock(), err
		]]
		server:await_waiters("log", 1)
		server:run('ngx.shared[dict]:set("go", true)')
		assert.equal(200, (holder:finish()))
		assert.same({ 1 }, { waiter:result() })
		server:await_free("log")
	end)
end)

describe("the exit_worker phase", function()
	teardown(nginx.stop_all)

	it("takes free keys, and a wait is refused", function()
		local server = nginx.start { http = [[
			exit_worker_by_lua_block {
				local phases = require "support.phases"
				phases.visit()
				local result = phases.results.exit_worker
				ngx.log(ngx.NOTICE, "result: ", tostring(result.free[1]), " ", tostring(result.unlock[1]), " ", tostring(result.wait[2]))
			}
		]] }
		server:run "return 1"
		require("support.posix").kill(server.pid, require("support.posix").SIGQUIT)
		local log = require("support.wait").for_condition("the phase ran", function()
			return server:log():match("result: [^\n]*")
		end)
		assert.matches("^result: 0 1 cannot wait in the exit_worker phase: ", log)
	end)
end)

describe("a hold of the init phase", function()
	local server
	teardown(nginx.stop_all)

	it("is the master's: workers find the key held, and their copy is not held", function()
		server = nginx.start { init = [[
			local worker = require "support.worker"
			worker.locks.init = worker.new { exptime = 300 }
			assert(worker.locks.init:lock("boot"))
		]] }
		local err, pid = server:run [[
			local lock = new { timeout = 0 }
			local elapsed, err = lock:lock("boot")
			return err, lock:holder() and lock:holder().pid
		]]
		assert.equal("timeout", err)
		assert.equal(server.pid, pid)
		local remaining, why = server:run 'return T.locks.init:check()'
		assert.is_nil(remaining)
		assert.is_not_nil(why)
		assert.same({ n = 3, nil, "unlocked", "not held" }, { n = 3, server:run 'return T.locks.init:unlock()' })
		local log = server:log()
		assert.matches("%[warn%][^\n]*'boot' was locked by the process that this one was forked from", log)
		assert.is_nil(log:find("lost", 1, true))
		server:run 'T.locks.init = nil collectgarbage() collectgarbage()'
		assert.equal(1, #server:show("boot").holders)
	end)
end)
