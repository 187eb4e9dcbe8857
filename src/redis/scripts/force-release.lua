-- SPDX-License-Identifier: MIT
-- force-release.lua - ARGV: host, the value just inspected (the string, or one reader).  For an operator.

local known
if value == TOKEN then
	known = fence[2] == TOKEN
	reserve(1)
	redis.call('DEL', LOCK)
	type = 'none'
elseif type == 'set' and redis.call('SISMEMBER', LOCK, TOKEN) == 1 then
	reserve(1)
	redis.call('SREM', LOCK, TOKEN)
	known = redis.call('ZREM', READERS, TOKEN) == 1
else
	return mismatch('changed')
end
-- Whoever had it, if that is a host: where there is no tracking it would notice with its next renewal.
if known then
	wake(string.sub(TOKEN, 1, 16))
end
prune()
wake_head()
return answer('ok')
