-- SPDX-License-Identifier: MIT
--- An HTTP client over unix sockets: one request at a time on a connection, any number of connections.
-- The body of a request is Lua text that the server runs; its reply is what that returned, as a Lua expression.
local posix = require "support.posix"
local wait = require "support.wait"

local Connection = {}
Connection.__index = Connection

--- Opens a connection.
-- @return connection, or nil and the reason
local function open(path)
	local fd, reason = posix.connect(path)
	if not fd then return nil, reason end
	return setmetatable({ fd = fd, pending = false, text = "" }, Connection)
end

local function parse(text)
	local head_end = select(2, text:find("\r\n\r\n", 1, true))
	if not head_end then return nil end
	local status = tonumber(text:match("^HTTP/1%.%d (%d+)"))
	local length = tonumber(text:lower():match("\r\ncontent%-length: *(%d+)"))
	if not length or #text < head_end + length then return nil end
	return status, text:sub(head_end + 1, head_end + length)
end

--- Sends a request and returns at once.
-- @param path location
-- @param body sent with POST; nil = GET
function Connection:request(path, body)
	assert(not self.pending, "a request is pending on this connection")
	local text
	if body then
		text = ("POST %s HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n%s"):format(path, #body, body)
	else
		text = ("GET %s HTTP/1.1\r\nHost: t\r\n\r\n"):format(path)
	end
	self.text, self.pending, self.closed = "", true, not posix.send(self.fd, text)
	return self
end

--- The reply if it is complete: status, body.  "closed" if the server closed before; nil while there is none.
function Connection:reply()
	while not self.closed do
		local more = posix.receive(self.fd)
		if not more then break end
		if more == "" then
			self.closed = true
		else
			self.text = self.text .. more
		end
	end
	local status, body = parse(self.text)
	if status then
		self.pending = false
		return status, body
	end
	if self.closed then
		self.pending = false
		return "closed"
	end
end

--- Waits for the reply.
-- @return status, body, or "closed"
function Connection:finish()
	local limit = posix.now() + wait.WATCHDOG
	while true do
		local status, body = self:reply()
		if status then return status, body end
		if posix.now() > limit then error("no reply in " .. wait.WATCHDOG .. " s", 2) end
		posix.poll({ self.fd }, 0.5)
	end
end

--- Closes the connection, also while a request is pending: the client that goes away.
function Connection:close()
	if self.fd then posix.close(self.fd) end
	self.fd = nil
end

--- Starts Lua text in the server; see Connection:result().
function Connection:start(code)
	return self:request("/run", code)
end

--- What the started Lua text returned.  Raises an error with the server's text if it failed.
function Connection:result()
	local status, body = self:finish()
	if status ~= 200 then
		error("server: " .. tostring(status) .. ": " .. tostring(body), 2)
	end
	return assert(loadstring(body))()
end

--- Runs Lua text in the server and returns what it returned.
function Connection:run(code)
	return self:start(code):result()
end

return { open = open }
