-- SPDX-License-Identifier: MIT
-- acquire-s.lua - ARGV as for acquire-x

local TTL, STRIDE, WAITER_TTL, FLAGS = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local ME = 'S:' .. HOST

-- The first writer whose ticket is older than ours.
local function writer_ahead()
	for _, member in ipairs(redis.call('ZRANGE', QUEUE, 0, -1)) do
		if member == ME then
			return nil
		elseif string.sub(member, 1, 2) == 'X:' then
			return member
		end
	end
end

if not_a_lock() then
	return mismatch('not-a-lock')
end
limit(WAITER_TTL)
prune()
local ahead = not string.find(FLAGS, 'b') and writer_ahead()
local again = type == 'set' and redis.call('SISMEMBER', LOCK, TOKEN) == 1
if again or (type ~= 'string' and not marked() and not ahead) then
	local base = reserve(STRIDE)
	if string.find(FLAGS, 'l') then
		prove()
	end
	record_readers(TTL)
	unqueue(ME)
	redis.call('ZADD', READERS, MS + TTL, TOKEN)
	keep(READERS, TTL)
	redis.call('SADD', LOCK, TOKEN)
	keep_set(TTL)
	-- The next in the queue may be a reader as well.
	local first = waiting > 0 and head()
	if first and string.sub(first, 1, 2) == 'S:' then
		wake_head()
	end
	return answer('granted', nil, 'readers', TOKEN, nil, base)
end
local kind, holder, left
if type ~= 'string' and marked() then
	kind, holder, left = 'intent', mark.err and '' or mark, redis.call('PTTL', INTENT)
	-- One of ours is written again and again as long as its host lives; see not_beyond().
	if mark == fence[5] and left > WAITER_TTL then
		redis.call('PEXPIRE', INTENT, WAITER_TTL)
		left = WAITER_TTL
	end
else
	kind, holder, left = obstacle(ahead)
end
if string.find(FLAGS, 't') then
	return answer('busy', ME, kind, holder, left)
end
if queue(ME, WAITER_TTL) or kind == 'turn' then
	demand(kind, holder)
end
return answer('queued', ME, kind, holder, left)
