-- SPDX-License-Identifier: MIT
-- force-release.lua - ARGV: host, the value just inspected (the string, or one reader).  For an operator.

if value == TOKEN then
	reserve(1)
	redis.call('DEL', LOCK)
	type = 'none'
elseif type == 'set' and redis.call('SISMEMBER', LOCK, TOKEN) == 1 then
	reserve(1)
	redis.call('SREM', LOCK, TOKEN)
	redis.call('ZREM', READERS, TOKEN)
else
	return mismatch('changed')
end
prune()
wake_head()
return answer('ok')
