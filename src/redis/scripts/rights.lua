-- SPDX-License-Identifier: MIT
-- alone
-- rights.lua - KEYS: names of an unused lock.  For an operator: the commands of the other scripts that this
-- login may not execute: { writes looked at?, needed, useful }.  Changes nothing: it runs with the flag no-writes, under
-- which a server refuses each write once it has looked at the rights.  Without that flag (before 7.0) no write is tried.

local call, K, C = redis.pcall, KEYS[1], 'lockshm:rights'
local needed, useful = {}, {}

local function why(...)
	local reply = call(...)
	return type(reply) == 'table' and reply.err
end

local function try(list, name, ...)
	local err = why(name, ...)
	if err and (string.find(err, 'permission') or string.find(err, 'NOPERM') or string.find(err, "can't run")) then
		list[#list + 1] = string.lower(name)
	end
end

for _, name in ipairs({ 'TYPE', 'EXISTS', 'PTTL', 'GET', 'SCARD', 'SRANDMEMBER', 'ZCARD' }) do
	try(needed, name, K)
end
try(needed, 'TIME')
for _, name in ipairs({ 'SISMEMBER', 'ZRANK', 'ZSCORE', 'HMGET' }) do
	try(needed, name, K, 'x')
end
try(needed, 'ZRANGE', K, 0, 0)
try(needed, 'ZRANGEBYSCORE', K, 0, 0)
try(useful, 'MGET', K)

-- Of an absent key it changes nothing: does the server refuse it?
local err = why('PEXPIRE', K, 1)
if not err then
	return { 0, needed, useful }
end
try(needed, 'PEXPIRE', K, 1)
try(needed, 'DEL', K)
try(needed, 'SET', K, 'x')
for _, name in ipairs({ 'SADD', 'SREM', 'ZREM' }) do
	try(needed, name, K, 'x')
end
try(needed, 'ZADD', K, 1, 'x')
try(needed, 'HSET', K, 'x', 'x')
try(useful, 'PUBLISH', C, '')
return { 1, needed, useful }
