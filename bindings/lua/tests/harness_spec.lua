-- SPDX-License-Identifier: MIT
local nginx = require "support.nginx"
local posix = require "support.posix"
local wait = require "support.wait"

describe("the harness", function()
	after_each(nginx.stop_all)

	it("runs Lua in each worker", function()
		local server = nginx.start { workers = 2 }
		local workers = server:workers()
		assert.equal(2, #workers)
		for _, worker in ipairs(workers) do
			assert.equal(worker.pid, worker:run("return ngx.worker.pid()"))
		end
		assert.same({ 1, "a\nb", { x = true } }, { workers[1]:run("return 1, 'a\\nb', { x = true }") })
		local ok, err = pcall(workers[1].run, workers[1], "error('wrong')")
		assert.is_false(ok)
		assert.matches("wrong", err)
	end)

	it("reloads", function()
		local server = nginx.start { workers = 2 }
		local old = server:reload()
		wait.for_condition("old workers ended", function() posix.collect_all() return not posix.process(old[1]) end)
		assert.equal(2, #server:pids())
	end)

	it("upgrades the binary", function()
		local server = nginx.start { workers = 1, daemon = true }
		local second = server:upgrade()
		assert.equal(1, #server:pids(second))
		assert.equal(1, #server:pids())
	end)

	it("runs as another user", function()
		local server = nginx.start { as = "nobody" }
		assert.equal(1, #server:pids())
		assert.equal(1, server:run("return 1"))
	end)
end)
