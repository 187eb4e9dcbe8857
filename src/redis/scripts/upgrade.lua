-- SPDX-License-Identifier: MIT
-- upgrade.lua - ARGV: host, token, ttl, stride, turn.  Only for the one reader there is, while no writer waits: it never waits.

local TTL, STRIDE, TURN = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

-- The reply to an earlier attempt was lost, or whoever sent it was killed.
if value == TOKEN then
	local base = reserve(STRIDE, TOKEN, TTL, TURN)
	redis.call('PEXPIRE', LOCK, TTL)
	return answer('granted', nil, 'host', TOKEN, nil, base)
end
if type ~= 'set' or redis.call('SISMEMBER', LOCK, TOKEN) == 0 then
	return mismatch('lost')
end
limit_readers()
prune()
if type ~= 'set' or redis.call('SISMEMBER', LOCK, TOKEN) == 0 then
	return mismatch('lost')
end
if redis.call('SCARD', LOCK) > 1 then
	return answer('busy', nil, 'readers')
end
if marked() then
	return answer('busy', nil, 'intent', mark.err and '' or mark, redis.call('PTTL', INTENT))
end
for _, member in ipairs(redis.call('ZRANGE', QUEUE, 0, -1)) do
	if string.sub(member, 1, 2) == 'X:' then
		return answer('busy', nil, 'turn', string.sub(member, 3))
	end
end
local base = reserve(STRIDE, TOKEN, TTL, TURN)
-- In place of the set: whoever is refused this is a reader as before, whoever is refused the rest asks again.
redis.call('SET', LOCK, TOKEN, 'PX', TTL)
redis.call('ZREM', READERS, TOKEN)
return answer('granted', nil, 'host', TOKEN, nil, base)
