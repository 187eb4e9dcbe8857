-- SPDX-License-Identifier: MIT
-- scheduler.lua - seat: exactly one worker runs the scheduler, and another one takes over when it dies or is reloaded.
local locks = assert(require("resty.lockshm").dict("locks"))
local cache = ngx.shared.cache

local scheduler = {}

local function run(seat)
	repeat
		cache:set("scheduler", ngx.worker.pid())
		cache:incr("ticks", 1, 0)
	until not seat:sleep(0.1)
end

-- For init_worker_by_lua*.  Returns at once.
function scheduler.start()
	local seat, err = locks:seat("scheduler", run)
	if not seat then
		ngx.log(ngx.ERR, err)
	end
end

function scheduler.serve()
	local text = ("worker %s, %d ticks\n"):format(cache:get("scheduler") or "none", cache:get("ticks") or 0)
	ngx.header.content_length = #text
	ngx.print(text)
end

return scheduler
