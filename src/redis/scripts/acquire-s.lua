-- SPDX-License-Identifier: MIT
-- acquire-s.lua - ARGV as for acquire-x

local TTL, STRIDE, WAITER_TTL, FLAGS = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local MEMBER = 'S:' .. HOST

-- The first writer with an older ticket.
local function writer_ahead()
	for _, member in ipairs(redis.call('ZRANGE', QUEUE, 0, -1)) do
		if member == MEMBER then
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
local barges = string.find(FLAGS, 'b')
local ahead = not barges and writer_ahead()
local closed = not barges and (ahead or gap_left())
local again = type == 'set' and redis.call('SISMEMBER', LOCK, VALUE) == 1
if again or (type ~= 'string' and not other_intent() and not closed) then
	local base = reserve(STRIDE, tonumber(ARGV[7]))
	if ARGV[8] then
		told()
	end
	if string.find(FLAGS, 'l') then
		prove()
	end
	record_readers(TTL)
	unqueue(MEMBER)
	redis.call('ZADD', READERS, MS + TTL, VALUE)
	keep(READERS, TTL)
	redis.call('SADD', LOCK, VALUE)
	keep_set(TTL)
	-- The next waiter may be a reader as well.
	local first = waiting > 0 and head()
	if first and string.sub(first, 1, 2) == 'S:' then
		notify_head()
	end
	return reply('granted', nil, 'readers', VALUE, nil, base)
end
local kind, holder, left
if type ~= 'string' and other_intent() then
	kind, holder, left = 'intent', intent.err and '' or intent, redis.call('PTTL', INTENT)
	-- An intent of this protocol is written again and again while its host lives; see not_beyond().
	if intent == fence[5] and left > WAITER_TTL then
		redis.call('PEXPIRE', INTENT, WAITER_TTL)
		left = WAITER_TTL
	end
else
	kind, holder, left = blocked_by(ahead)
end
if string.find(FLAGS, 't') then
	return reply('busy', MEMBER, kind, holder, left)
end
if queue(MEMBER, WAITER_TTL) or kind == 'turn' then
	notify_blocker(kind, holder)
end
return reply('queued', MEMBER, kind, holder, left)
