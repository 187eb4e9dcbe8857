-- SPDX-License-Identifier: MIT
-- downgrade.lua - ARGV: host, token, ttl.  The writer becomes a reader under the same token.

local TTL = tonumber(ARGV[3])

if value ~= TOKEN then
	return mismatch('lost')
end
prune()
redis.call('DEL', LOCK)
record_readers(TTL)
redis.call('ZADD', READERS, MS + TTL, TOKEN)
keep(READERS, TTL)
redis.call('SADD', LOCK, TOKEN)
redis.call('PEXPIRE', LOCK, TTL)
wake_head()
return answer('ok', nil, 'readers', TOKEN)
