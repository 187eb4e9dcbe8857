-- SPDX-License-Identifier: MIT
-- force-release.lua - ARGV: host, the value just inspected (the string, or one reader).  For an operator.

local known
if held == VALUE then
	known = fence[2] == VALUE
	reserve(1, 0)
	redis.call('DEL', LOCK)
	type = 'none'
elseif type == 'set' and redis.call('SISMEMBER', LOCK, VALUE) == 1 then
	reserve(1, 0)
	redis.call('SREM', LOCK, VALUE)
	known = redis.call('ZREM', READERS, VALUE) == 1
else
	return mismatch('changed')
end
-- Notifies the former holder, if it is a host: without tracking only its next renewal would find out.
if known then
	notify(string.sub(VALUE, 1, 16))
end
prune()
notify_head()
return reply('ok')
