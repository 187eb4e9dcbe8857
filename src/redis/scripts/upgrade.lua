-- SPDX-License-Identifier: MIT
-- upgrade.lua - ARGV: host, value, ttl, stride, mode_gen.  Only for the single reader while no writer waits: it never
-- queues.

local TTL, STRIDE, MODE_GEN = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

-- The reply to an earlier attempt was lost, or its sender was killed.
if held == VALUE then
	local base = reserve(STRIDE, VALUE, TTL, MODE_GEN)
	redis.call('PEXPIRE', LOCK, TTL)
	return reply('granted', nil, 'host', VALUE, nil, base)
end
if type ~= 'set' or redis.call('SISMEMBER', LOCK, VALUE) == 0 then
	return mismatch('lost')
end
limit_readers()
prune()
if type ~= 'set' or redis.call('SISMEMBER', LOCK, VALUE) == 0 then
	return mismatch('lost')
end
if redis.call('SCARD', LOCK) > 1 then
	return reply('busy', nil, 'readers')
end
if other_intent() then
	return reply('busy', nil, 'intent', intent.err and '' or intent, redis.call('PTTL', INTENT))
end
for _, member in ipairs(redis.call('ZRANGE', QUEUE, 0, -1)) do
	if string.sub(member, 1, 2) == 'X:' then
		return reply('busy', nil, 'turn', string.sub(member, 3))
	end
end
local base = reserve(STRIDE, VALUE, TTL, MODE_GEN)
-- SET replaces the set at once: refused here, the caller is still a reader; refused later, it repeats the upgrade.
redis.call('SET', LOCK, VALUE, 'PX', TTL)
redis.call('ZREM', READERS, VALUE)
return reply('granted', nil, 'host', VALUE, nil, base)
