-- SPDX-License-Identifier: MIT
-- fence.lua - ARGV: host, value, number.  Later acquires at this server get tokens from this number on; for a quorum,
-- whose majorities may share only one server.

local number = tonumber(ARGV[3])

if (tonumber(fence[1] or 0) or 0) < number then
	redis.call('HSET', FENCE, 'end', number)
	redis.call('PEXPIRE', FENCE, DAY)
end
return reply('ok')
