-- SPDX-License-Identifier: MIT
-- page.lua - single flight: of all requests for a page that is not cached one renders it, the others wait and find it.
-- If the worker that renders is killed half way, exactly the next request goes on.
local locks = assert(require("resty.lockshm").dict("locks"))
local cache = ngx.shared.cache

local page = {}

-- Stands for a slow query.
local function render(name)
	cache:incr("renders of " .. name, 1, 0)
	ngx.sleep(tonumber(ngx.var.arg_seconds) or 0.2)
	return ("page '%s', rendered by worker %d\n"):format(name, ngx.worker.pid())
end

function page.serve()
	local name = ngx.var.arg_name or "index"

	local function look()
		return cache:get(name)
	end

	local function fill()
		local text = render(name)
		cache:set(name, text, 600)
		return text
	end

	local text, err, holder = locks:single_flight(name, look, fill, { timeout = 60 })
	if not text then
		ngx.log(ngx.ERR, "page '", name, "': ", err, ", ", tostring(holder))
		return ngx.exit(ngx.HTTP_SERVICE_UNAVAILABLE)
	end
	ngx.header.content_length = #text
	ngx.print(text)
end

return page
