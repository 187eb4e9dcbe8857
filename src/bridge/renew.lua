-- SPDX-License-Identifier: MIT
-- renew.lua - ARGV: host, token, ttl.  Never creates.  Counts from now on, whether that is longer or shorter.

local TTL = tonumber(ARGV[3])

if value == TOKEN then
	if fence[2] ~= TOKEN or tonumber(fence[3] or 0) ~= TTL then
		record(TOKEN, TTL)
	end
	redis.call('PEXPIRE', LOCK, TTL)
	return answer('ok', nil, 'host', TOKEN)
end
if type == 'set' and redis.call('SISMEMBER', LOCK, TOKEN) == 1 then
	local deadline = redis.call('ZSCORE', READERS, TOKEN)
	if deadline and tonumber(deadline) >= MS then
		redis.call('ZADD', READERS, MS + TTL, TOKEN)
		keep(READERS, TTL)
		keep_set(TTL)
		return answer('ok', nil, 'readers', TOKEN)
	end
end
return mismatch('lost')
