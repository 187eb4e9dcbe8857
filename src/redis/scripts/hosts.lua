-- SPDX-License-Identifier: MIT
-- alone
-- hosts.lua - KEYS: the list of hosts: "ID TEXT" of each, by the time at which it was stored.  ARGV: host, text ('' = only
-- read), how long an entry lasts.  Replies { ms, list with times }, at most 1000.  No lock depends on it.
--
-- Only commands that locks need, too.  The first one is a read, so that foreign data under the name stays as it is.

local K, HOST, TEXT, LASTS, MAX = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), 1000
local time = redis.call('TIME')
local MS = time[1] * 1000 + math.floor(time[2] / 1000)

local function drop(list)
	for _, member in ipairs(list) do
		redis.call('ZREM', K, member)
	end
end

if TEXT ~= '' then
	drop(redis.call('ZRANGEBYSCORE', K, '-inf', MS - LASTS))
	-- Stored before the server's clock was set back.
	drop(redis.call('ZRANGEBYSCORE', K, MS + 60000, '+inf'))
	for _, member in ipairs(redis.call('ZRANGE', K, 0, -1)) do
		if string.sub(member, 1, #HOST + 1) == HOST .. ' ' then
			redis.call('ZREM', K, member)
		end
	end
	drop(redis.call('ZRANGE', K, 0, -MAX))
	redis.call('ZADD', K, MS, HOST .. ' ' .. TEXT)
	redis.call('PEXPIRE', K, LASTS)
end
return { MS, redis.call('ZRANGE', K, 0, MAX - 1, 'WITHSCORES') }
