-- SPDX-License-Identifier: MIT
-- acquire-x.lua - ARGV: host, token, ttl, stride of the fence, ttl of a waiter, flags: t = try, b = pass the queue, turn (not
-- 0 where a lease that changed its mode comes to a server that lost it)

local TTL, STRIDE, WAITER_TTL, FLAGS = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local ME = 'X:' .. HOST

if not_a_lock() then
	return mismatch('not-a-lock')
end
limit(WAITER_TTL)
local first = prune()
if first == ME or string.find(FLAGS, 'b') then
	first = nil
end
-- Our own token is there if the reply to an earlier attempt was lost.
if value == TOKEN or (type == 'none' and not first) then
	local base = reserve(STRIDE, TOKEN, TTL, tonumber(ARGV[7]))
	unqueue(ME)
	drop_intent()
	redis.call('SET', LOCK, TOKEN, 'PX', TTL)
	return answer('granted', nil, 'host', TOKEN, nil, base)
end
if type == 'set' then
	-- Who is in the way are the readers, whoever is first.
	first = nil
end
local kind, holder, left = obstacle(first)
if string.find(FLAGS, 't') then
	return answer('busy', ME, kind, holder, left)
end
if queue(ME, WAITER_TTL) or kind == 'turn' then
	demand(kind, holder)
end
-- Looked at at each call: any other writer who succeeds deletes it.  Never over the mark of somebody else, and not
-- each time, because readers watch it.
local lasts = redis.call('PTTL', INTENT)
if kind == 'readers' and head() == ME and not marked() and (lasts < WAITER_TTL / 2 or lasts > WAITER_TTL) then
	if fence[5] ~= HOST then
		redis.call('HSET', FENCE, 'mark', HOST)
		redis.call('PEXPIRE', FENCE, DAY)
	end
	redis.call('SET', INTENT, HOST, 'PX', WAITER_TTL)
end
return answer('queued', ME, kind, holder, left)
