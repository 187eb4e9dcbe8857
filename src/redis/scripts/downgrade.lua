-- SPDX-License-Identifier: MIT
-- downgrade.lua - ARGV: host, value, ttl, mode_gen that begins.  The writer becomes a reader with the same value; a
-- repeated call changes nothing.  Busy: it became a writer's again since then, or the record that could exclude that is
-- lost.

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
-- Between writer and reader the lock must not be free: without the right to SADD, or memory for it, the string must
-- stay. SADD of a string fails with WRONGTYPE only.
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
