-- SPDX-License-Identifier: MIT
-- acquire-x.lua - ARGV: host, value, ttl, stride of the fence, ttl of a waiter, flags: t = try, b = barge, l = the long
-- path, with all rights needed later; a time in us below whose tokens none is taken; of a robust key the number for its
-- note, 1 = the last token

-- The short path, for a free lock without waiters: half of the commands.  All reads come before the first write, the
-- lock is written last, and a read of the tracked keys ends it.  A connection that may lack a right takes the long path,
-- which is refused before the lock is held.  The reply is { ms, first token }: nine elements are a sixth of the time.
if not ARGV[8] and not string.find(ARGV[6], 'l') and redis.call('EXISTS', unpack(KEYS, 1, 5)) == 0 then
	local fence = redis.call('HMGET', KEYS[6], 'end', 'gap', 'open')
	local time = redis.call('TIME')
	local ms = time[1] * 1000 + math.floor(time[2] / 1000)
	if (tonumber(fence[2] or '') or 0) <= ms and not fence[3] then
		-- As reserve() counts.
		local clock = math.max(time[1] * 1000000 + time[2] - 1735689600000000, ARGV[7] - 1735689600000000, 1) * 16
		local base = math.max(tonumber(fence[1] or 0) or 0, clock)
		redis.call('HSET', KEYS[6], 'end', base + ARGV[4], 'token', ARGV[2], 'ttl', ARGV[3])
		redis.call('PEXPIRE', KEYS[6], 86400000)
		redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
		redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[6])
		return { ms, base }
	end
end
-- common

local TTL, STRIDE, WAITER_TTL, FLAGS = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local MEMBER = 'X:' .. HOST

if not_a_lock() then
	return mismatch('not-a-lock')
end
limit(WAITER_TTL)
local first = prune()
local barges = string.find(FLAGS, 'b')
if first == MEMBER or barges then
	first = nil
end
-- If the reply to an earlier attempt was lost, the lock has this value already.
if held == VALUE or (type == 'none' and not first and (barges or not gap_left())) then
	local base = reserve(STRIDE, tonumber(ARGV[7]), VALUE, TTL)
	if ARGV[8] == '1' and (ARGV[7] == '0' or base == tokens_at(ARGV[7])) then
		note(base + STRIDE - 1)
	elseif ARGV[8] and ARGV[8] ~= '1' then
		note(tonumber(ARGV[8]))
	end
	if string.find(FLAGS, 'l') then
		prove()
	end
	unqueue(MEMBER)
	drop_intent()
	redis.call('SET', LOCK, VALUE, 'PX', TTL)
	return reply('granted', nil, 'host', VALUE, nil, base)
end
if type == 'set' then
	-- The readers block it, whichever host is first in the queue.
	first = nil
end
local kind, holder, left = blocked_by(first)
if string.find(FLAGS, 't') then
	return reply('busy', MEMBER, kind, holder, left)
end
if queue(MEMBER, WAITER_TTL) or kind == 'turn' then
	notify_blocker(kind, holder)
end
-- Checked at each call, because any other writer that succeeds deletes it.  Never over another writer's intent, and not
-- written each time, because readers track it.
local lasts = redis.call('PTTL', INTENT)
if kind == 'readers' and head() == MEMBER and not other_intent() and (lasts < WAITER_TTL / 2 or lasts > WAITER_TTL) then
	if fence[5] ~= HOST then
		redis.call('HSET', FENCE, 'mark', HOST)
		redis.call('PEXPIRE', FENCE, LASTS)
	end
	redis.call('SET', INTENT, HOST, 'PX', WAITER_TTL)
end
return reply('queued', MEMBER, kind, holder, left)
