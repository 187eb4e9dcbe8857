-- SPDX-License-Identifier: MIT
-- downgrade.lua - ARGV: host, token, ttl, turn that begins.  The writer becomes a reader under the same token; asked again it is
-- still that.  Busy: it was a writer's again since, or nobody knows that it was not.

local TTL, TURN = tonumber(ARGV[3]), tonumber(ARGV[4])

if reads() then
	keep_reading(TTL)
	return answer('ok', nil, 'readers', TOKEN)
end
if value ~= TOKEN then
	return mismatch('lost')
end
if (writes_since() or TURN) >= TURN then
	return answer('busy', nil, 'host', TOKEN)
end
-- Between the writer and the reader there is nothing: whoever lacks the right to the one, or the memory for it, must not give
-- up the other.  Of a string it fails for what it is.
local may = redis.pcall('SADD', LOCK, TOKEN)
if not string.find(may.err, 'WRONGTYPE') then
	return may
end
prune()
record_readers(TTL)
redis.call('ZADD', READERS, MS + TTL, TOKEN)
keep(READERS, TTL)
redis.call('DEL', LOCK)
redis.call('SADD', LOCK, TOKEN)
redis.call('PEXPIRE', LOCK, TTL)
wake_head()
return answer('ok', nil, 'readers', TOKEN)
