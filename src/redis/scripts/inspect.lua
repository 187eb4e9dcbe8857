-- SPDX-License-Identifier: MIT
-- inspect.lua - the whole state of a lock, unchanged: { ms, type, value or readers, pttl, value of the intent key, its
-- pttl, queue, deadlines of the queue, deadlines of the readers, { end, token, ttl } of the fence, and of a robust
-- key { last token of a lease that may have ended badly, last token of a good one, why } }.  Lists have at
-- most 1000 members; queue and deadlines are member, score, member, score.

-- While the last lease goes on, of the one before it.
local going = held and held == OWNER
local last = going and BAD or OPEN
local list = ''
if type == 'string' then
	list = held
elseif type == 'set' then
	list = redis.call('SRANDMEMBER', LOCK, 1000)
end
return { MS, type, list, redis.call('PTTL', LOCK),
	intent and (intent.err and '?' or intent) or '', redis.call('PTTL', INTENT),
	redis.call('ZRANGE', QUEUE, 0, 999, 'WITHSCORES'), redis.call('ZRANGE', ALIVE, 0, 999, 'WITHSCORES'),
	redis.call('ZRANGE', READERS, 0, 999, 'WITHSCORES'), { fence[1] or '', fence[2] or '', fence[3] or '' },
	{ decimal(last), decimal(GOOD), why_of(last), going and 1 or 0 } }
