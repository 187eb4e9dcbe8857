-- SPDX-License-Identifier: MIT
-- renew.lua - ARGV: host, value, ttl, stride of the fence (0 = no tokens), number for the note of a robust key
-- (or none).  Never creates.  The ttl counts from now, longer or shorter than before.

-- The short path, for a writer's lock with its fence and without waiters: a third of the commands.  It ends with a read
-- of lock, intent key and queue; a waiter that came just now is found, and the long path follows.  Not with another ttl
-- than that on record; and only with commands that the acquire needed, so that no right can be missing.
local known = ARGV[4] == '0' and not ARGV[5] and redis.pcall('GET', KEYS[1]) == ARGV[2] and
	redis.call('HMGET', KEYS[6], 'token', 'ttl')
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
	local base = STRIDE > 0 and reserve(STRIDE, 0) or nil
	if ARGV[5] then
		note(tonumber(ARGV[5]))
	end
	redis.call('PEXPIRE', LOCK, TTL)
	return reply('ok', nil, 'host', VALUE, nil, base)
end
if reads() then
	local base = STRIDE > 0 and reserve(STRIDE, 0) or nil
	if ARGV[5] then
		told()
	end
	keep_reading(TTL)
	return reply('ok', nil, 'readers', VALUE, nil, base)
end
return mismatch('lost')
