-- SPDX-License-Identifier: MIT
-- renew.lua - ARGV: host, token, ttl, stride of the fence (0 = no numbers are wanted).  Never creates.  Counts from now on,
-- whether that is longer or shorter.

-- A writer's, with its fence, and nobody waits: what the rest would do, by a third of the commands.  It ends with a
-- read of lock and queue, too.  Who waits since just now is seen, and the rest is done.  Not with another ttl than that
-- which is on record; and by commands that taking it needed, so that nobody lacks the right to one.
local known = ARGV[4] == '0' and redis.pcall('GET', KEYS[1]) == ARGV[2] and redis.call('HMGET', KEYS[6], 'token', 'ttl')
if known and known[1] == ARGV[2] and known[2] == ARGV[3] then
	local time = redis.call('TIME')
	redis.call('PEXPIRE', KEYS[1], ARGV[3])
	if redis.call('EXISTS', unpack(KEYS, 1, 3)) == 1 then
		return { 'ok', time[1] * 1000 + math.floor(time[2] / 1000), 0, 0, tonumber(ARGV[3]), 'host', ARGV[2], 0, 0 }
	end
end
-- common

local TTL, STRIDE = tonumber(ARGV[3]), tonumber(ARGV[4])

if held == VALUE then
	if fence[2] ~= VALUE or tonumber(fence[3] or 0) ~= TTL then
		record(VALUE, TTL)
	end
	local base = STRIDE > 0 and reserve(STRIDE) or nil
	redis.call('PEXPIRE', LOCK, TTL)
	return reply('ok', nil, 'host', VALUE, nil, base)
end
if reads() then
	local base = STRIDE > 0 and reserve(STRIDE) or nil
	keep_reading(TTL)
	return reply('ok', nil, 'readers', VALUE, nil, base)
end
return mismatch('lost')
