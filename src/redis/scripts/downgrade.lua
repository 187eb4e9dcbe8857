-- SPDX-License-Identifier: MIT
-- downgrade.lua - ARGV: host, token, ttl, turn that begins.  The writer becomes a reader under the same token; asked again it is
-- still that.  Busy: it was a writer's again since, or nobody knows that it was not.

local TTL, MODE_GEN = tonumber(ARGV[3]), tonumber(ARGV[4])

if reads() then
	keep_reading(TTL)
	return reply('ok', nil, 'readers', VALUE)
end
if held ~= VALUE then
	return mismatch('lost')
end
if (writes_since() or MODE_GEN) >= MODE_GEN then
	return reply('busy', nil, 'host', VALUE)
end
-- Between the writer and the reader there is nothing: whoever lacks the right to the one, or the memory for it, must not give
-- up the other.  Of a string it fails for what it is.
local probe = redis.pcall('SADD', LOCK, VALUE)
if not string.find(probe.err, 'WRONGTYPE') then
	return probe
end
prune()
record_readers(TTL)
redis.call('ZADD', READERS, MS + TTL, VALUE)
keep(READERS, TTL)
redis.call('DEL', LOCK)
redis.call('SADD', LOCK, VALUE)
redis.call('PEXPIRE', LOCK, TTL)
notify_head()
return reply('ok', nil, 'readers', VALUE)
