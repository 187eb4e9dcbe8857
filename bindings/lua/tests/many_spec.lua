-- SPDX-License-Identifier: MIT
--- Many waits and many locks: all are served, nothing grows.  LONG=1: 10^6 locks in place of 10^5.
local nginx = require "support.nginx"
local posix = require "support.posix"
local segment = require "support.segment"

local LOCKS = os.getenv("LONG") and 1000000 or 100000

--- Starts @n waits for "crowd", each counting itself under the lock.
local CROWD = [[
	local data, threads, failed = ngx.shared[dict], {}, nil
	local function visit()
		local lock = new { timeout = 500, exptime = 600 }
		local elapsed, err = lock:lock("crowd")
		if not elapsed then failed = err return end
		data:set("inside", (data:get("inside") or 0) + 1)
		data:set("most", math.max(data:get("most") or 0, data:get("inside")))
		data:set("served", (data:get("served") or 0) + 1)
		data:set("inside", data:get("inside") - 1)
		local ok, why = lock:unlock()
		if not ok then failed = why end
	end
	for i = 1, %d do threads[i] = ngx.thread.spawn(visit) end
	data:incr("spawned", 1, 0)
	for i = 1, #threads do
		local ok, err = ngx.thread.wait(threads[i])
		if not ok then failed = err end
	end
	return failed
]]

local function crowd(server, workers, each)
	workers[1]:run 'T.first = new { timeout = 0, exptime = 600 } assert(T.first:lock("crowd"))'
	local started = {}
	for i, worker in ipairs(workers) do started[i] = worker:start(CROWD:format(each)) end
	server:await_waiters("crowd", each * #workers)
	workers[1]:run 'assert(T.first:unlock())'
	for _, connection in ipairs(started) do assert.is_nil((connection:result())) end
	local data = workers[1]:run 'local d = ngx.shared[dict] return { d:get("served"), d:get("most"), d:get("inside") }'
	assert.same({ each * #workers, 1, 0 }, data)
	server:await_free("crowd")
end

describe("10,000 waits for one key", function()
	after_each(nginx.stop_all)

	it("in one worker are all served, one at a time", function()
		local server = nginx.start { level = "warn" }
		crowd(server, server:workers(), 10000)
	end)

	it("over four workers are all served, one at a time", function()
		local server = nginx.start { workers = 4, level = "warn" }
		crowd(server, server:workers(), 2500)
		assert.is_true(segment.verify(server:segment()))
	end)
end)

--- Locks of all kinds, @n in all: objects made anew and dropped, objects used again, holds, tries that fail, waits.
local LOCKING = [[
	local locks = lockshm.dict(dict)
	local kept = new {}
	for i = 1, %d / 5 do
		local key = "key" .. i %% 1000
		local lock = new {}
		assert(lock:lock(key))
		assert(not new({ timeout = 0 }):lock(key))
		assert(lock:unlock())
		assert(kept:lock(key))
		assert(kept:unlock())
		local hold = assert(locks:shared(key, { timeout = 0 }))
		assert(hold:release())
		if i %% 100 == 0 then
			local dropped = new {}
			assert(dropped:lock("dropped" .. i))
			assert(kept:lock("waited"))
			local waiter = ngx.thread.spawn(function()
				local other = new { timeout = 500, exptime = 600 }
				assert(other:lock("waited"))
				assert(other:unlock())
			end)
			assert(kept:unlock())
			assert(ngx.thread.wait(waiter))
			ngx.sleep(0)
		end
	end
]]

local MEASURE = [[
	jit.flush() -- the compiled code of each request's text is not what is measured
	collectgarbage() collectgarbage()
	local descriptors, resident = 0, nil
	for _ in io.popen("ls /proc/" .. ngx.worker.pid() .. "/fd"):lines() do descriptors = descriptors + 1 end
	for line in io.lines("/proc/self/status") do resident = resident or tonumber(line:match("^VmRSS:%s*(%d+)")) end
	return { lua = collectgarbage("count"), descriptors = descriptors, resident = resident }
]]

describe(LOCKS .. " locks", function()
	teardown(nginx.stop_all)

	it("leave memory, descriptors and records as they were", function()
		local server = nginx.start { level = "warn" }
		local worker = server:workers()[1]
		worker:run(LOCKING:format(LOCKS)) -- so that tables have their size
		local used = segment.stat(server:segment()).requests_used
		local before, after = worker:run(MEASURE), nil
		worker:run(LOCKING:format(LOCKS))
		for _ = 1, 10 do -- the last second's waits are still there
			after = worker:run(MEASURE)
			if after.lua - before.lua < 128 and after.descriptors <= before.descriptors then break end
			posix.sleep(0.5)
		end
		print(("# after %d locks: Lua %+.0f KiB, resident %+d KiB, descriptors %+d"):format(LOCKS, after.lua - before.lua,
			after.resident - before.resident, after.descriptors - before.descriptors))
		assert.is_true(after.lua - before.lua < 128, "Lua memory grew")
		assert.is_true(after.resident - before.resident < 4096, "memory grew")
		assert.is_true(after.descriptors <= before.descriptors, "descriptors grew")
		worker:run "collectgarbage() collectgarbage()"
		assert.is_true(segment.stat(server:segment()).requests_used <= used, "records grew")
		assert.equal(0, segment.stat(server:segment()).keys_busy)
		assert.is_true(segment.verify(server:segment()))
	end)
end)

describe("a 1 ms ticker", function()
	teardown(nginx.stop_all)

	it("goes on while 2,000 requests wait and are granted", function()
		local server = nginx.start { level = "warn", workers = 2 }
		local first, second = unpack(server:workers())
		second:run 'T.first = new { timeout = 0, exptime = 600 } assert(T.first:lock("crowd"))'
		local ticker = first:start [[
			local worst, last, ticks, data, part = {}, nil, 0, ngx.shared[dict], nil
			while part ~= "end" do
				ngx.update_time()
				local now = ngx.now()
				if part then worst[part] = math.max(worst[part] or 0, now - last) end
				part = data:get("part") or "joining"
				last, ticks = now, ticks + 1
				ngx.sleep(0.001)
			end
			return worst, ticks
		]]
		local waiting = first:start(CROWD:format(2000))
		server:await_waiters("crowd", 2000)
		second:run [[
			ngx.shared[dict]:set("part", "served")
			ngx.sleep(0.05)
			assert(T.first:unlock())
		]]
		assert.is_nil((waiting:result()))
		second:run 'ngx.shared[dict]:set("part", "end")'
		local worst, ticks = ticker:result()
		print(("# longest delay of a 1 ms ticker: %.0f ms while 2,000 waits began in one turn, %.0f ms while they were served")
			:format(worst.joining * 1000, worst.served * 1000))
		assert.is_true(ticks > 1)
	end)
end)
