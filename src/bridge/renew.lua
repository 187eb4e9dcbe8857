-- SPDX-License-Identifier: MIT
-- renew.lua - ARGV: host, token, ttl, stride of the fence (0 = no numbers are wanted).  Never creates.  Counts from now on,
-- whether that is longer or shorter.

local TTL, STRIDE = tonumber(ARGV[3]), tonumber(ARGV[4])

if value == TOKEN then
	if fence[2] ~= TOKEN or tonumber(fence[3] or 0) ~= TTL then
		record(TOKEN, TTL)
	end
	local base = STRIDE > 0 and reserve(STRIDE) or nil
	redis.call('PEXPIRE', LOCK, TTL)
	return answer('ok', nil, 'host', TOKEN, nil, base)
end
if type == 'set' and redis.call('SISMEMBER', LOCK, TOKEN) == 1 then
	local deadline = redis.call('ZSCORE', READERS, TOKEN)
	if deadline and tonumber(deadline) >= MS then
		local base = STRIDE > 0 and reserve(STRIDE) or nil
		record_readers(TTL)
		redis.call('ZADD', READERS, MS + TTL, TOKEN)
		keep(READERS, TTL)
		keep_set(TTL)
		return answer('ok', nil, 'readers', TOKEN, nil, base)
	end
end
return mismatch('lost')
