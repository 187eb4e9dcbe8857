-- SPDX-License-Identifier: MIT
--- Inside the server: runs the Lua text of a request and replies with what it returned.
-- The text sees the globals, and: T (this module; what is stored in it stays for later requests of the worker), dict (name
-- of the dictionary), lockshm (resty.lockshm), new(options) (a lock of the dictionary).
local worker = { locks = {} }

local function literal(value, depth)
	local kind = type(value)
	if kind == "string" then return ("%q"):format(value):gsub("\\\n", "\\n"):gsub("\r", "\\r") end
	if kind == "number" then
		if value ~= value then return "0/0" end
		if value == math.huge then return "math.huge" end
		if value == -math.huge then return "-math.huge" end
		return ("%.17g"):format(value)
	end
	if kind == "boolean" or kind == "nil" then return tostring(value) end
	if kind == "table" and (depth or 0) < 5 then
		local parts = {}
		for key, item in pairs(value) do
			parts[#parts + 1] = "[" .. literal(key) .. "]=" .. literal(item, (depth or 0) + 1)
		end
		return "{" .. table.concat(parts, ",") .. "}"
	end
	return literal(kind .. ": " .. tostring(value))
end

--- Lua text that returns the values.
function worker.serialise(n, ...)
	local parts = {}
	for i = 1, n do parts[i] = (literal((select(i, ...)))) end
	return "return " .. table.concat(parts, ",")
end

--- A lock object of the test's dictionary.
function worker.new(options)
	local lock, err = require("resty.lockshm"):new(worker.dict, options)
	if not lock then error(err, 2) end
	return lock
end

local environment = setmetatable({ T = worker, new = worker.new }, {
	__index = function(_, name)
		if name == "dict" then return worker.dict end
		if name == "lockshm" then return require "resty.lockshm" end
		return _G[name]
	end,
})

local function reply(ok, ...)
	local text = ok and worker.serialise(select("#", ...), ...) or tostring((...))
	ngx.status = ok and 200 or 500
	ngx.header.content_length = #text
	ngx.print(text)
end

--- Content handler.
function worker.run()
	ngx.req.read_body()
	local fn, err = loadstring(ngx.req.get_body_data(), "=request")
	if not fn then return reply(false, err) end
	return reply(xpcall(setfenv(fn, environment), debug.traceback))
end

return worker
