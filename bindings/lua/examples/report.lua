-- SPDX-License-Identifier: MIT
-- report.lua - once: at most once in a period, whichever worker's request or timer calls it.
-- If the worker is killed half way, the next call runs.
local locks = assert(require("resty.lockshm").dict("locks"))
local cache = ngx.shared.cache

local report = {}

-- Stands for the work.
local function make()
	cache:incr("reports", 1, 0)
	ngx.sleep(tonumber(ngx.var.arg_seconds) or 0)
	if ngx.var.arg_fail then
		return nil, "no data"
	end
	return cache:get("reports")
end

function report.serve()
	local ran, number, err = locks:once("report", tonumber(ngx.var.arg_period) or 10, make, { tag = "report" })
	local text
	if ran and number then
		text = "made report " .. number .. "\n"
	elseif ran then
		text = "failed: " .. err .. "\n"
	elseif ran == false then
		text = "skipped: " .. tostring(number) .. "\n" -- the holder, or the rest of the period
	else
		ngx.log(ngx.ERR, "report: ", number)
		return ngx.exit(ngx.HTTP_INTERNAL_SERVER_ERROR)
	end
	ngx.header.content_length = #text
	ngx.print(text)
end

return report
