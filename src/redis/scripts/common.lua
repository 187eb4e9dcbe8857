-- SPDX-License-Identifier: MIT
-- common.lua - the beginning of every script: names, time, the current state, and functions that change it
--
-- KEYS: the lock, the intent key of a waiting writer, queue (member -> ticket), deadlines of the queue's members,
-- deadlines of readers, hash with the fence.  ARGV: host id, value, then the script's own.
--
-- The lock is a string (the writer's value), a set (the readers' values) or absent.  Members of the queue are "X:" or
-- "S:" and the host id.  All times are the server's.
--
-- These reads fail if one of the names has other data.  They come before the first write, because a script that fails
-- half way is not undone.  For the same reason the lock itself is written last, and after it come only commands that
-- were used before: a host that lacks the right to one of them does not hold the lock, see prove().

local LOCK, INTENT, QUEUE, ALIVE, READERS, FENCE = unpack(KEYS)
local HOST, VALUE = ARGV[1], ARGV[2]
local DAY, MONTH, MINUTE = 86400000, 2592000000, 60000
local GAP_MAX = 10000

local time = redis.call('TIME')
local MS = time[1] * 1000 + math.floor(time[2] / 1000)
local US = time[1] * 1000000 + time[2]

local type = redis.call('TYPE', LOCK).ok
local LEFT = redis.call('PTTL', LOCK)
local held = type == 'string' and redis.call('GET', LOCK)
local dead_waiters = redis.call('ZRANGEBYSCORE', ALIVE, '-inf', MS - 1)
local dead_readers = redis.call('ZRANGEBYSCORE', READERS, '-inf', MS - 1)
local waiting = redis.call('ZCARD', QUEUE)
local fence = redis.call('HMGET', FENCE, 'end', 'token', 'ttl', 'readers', 'mark', 'gap', 'open', 'good', 'bad', 'why')
-- The hash of a robust key has its note.
local LASTS = fence[7] and MONTH or DAY
-- Other data under the intent key is an intent, too.
local intent = redis.pcall('GET', INTENT)
if intent and intent.err and not string.find(intent.err, 'WRONGTYPE') then
	return intent
end

local function head()
	return redis.call('ZRANGE', QUEUE, 0, 0)[1]
end

-- The server's clock may have been set back.  Deadlines of dead hosts would then last until the old time comes again:
-- so no deadline is later than one set now, with the ttl that they used.
local function not_beyond(key, ttl)
	for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. MS + ttl, '+inf')) do
		redis.call('ZADD', key, MS + ttl, member)
	end
end

-- The longest ttl of the current readers of this protocol; nil = unknown.
local function readers_ttl()
	return type == 'set' and tonumber(fence[4] or '')
end

-- Foreign readers have no deadline but that of the set.  A reader of this protocol may be missing from either.
local function only_ours()
	local n = redis.call('SCARD', LOCK)
	if n > redis.call('ZCARD', READERS) then
		return false
	end
	for _, id in ipairs(redis.call('ZRANGE', READERS, 0, -1)) do
		n = n - redis.call('SISMEMBER', LOCK, id)
	end
	return n == 0
end

local function limit_readers()
	local ttl = readers_ttl()
	if ttl then
		not_beyond(READERS, ttl)
		if LEFT > ttl and only_ours() then
			redis.call('PEXPIRE', LOCK, ttl)
			LEFT = ttl
		end
	end
end

local function limit(waiter_ttl)
	if waiting > 0 then
		not_beyond(ALIVE, waiter_ttl)
	end
	limit_readers()
end

-- Removes waiters and readers whose deadline has passed.  A waiter without a deadline is left from an evicted key.
local function prune()
	for _, member in ipairs(dead_waiters) do
		redis.call('ZREM', QUEUE, member)
		redis.call('ZREM', ALIVE, member)
	end
	for _, id in ipairs(dead_readers) do
		if type == 'set' then
			redis.call('SREM', LOCK, id)
		end
		redis.call('ZREM', READERS, id)
	end
	if type == 'set' and redis.call('EXISTS', LOCK) == 0 then
		type = 'none'
	end
	local first = nil
	if waiting > 0 then
		first = head()
	end
	while first and not redis.call('ZSCORE', ALIVE, first) do
		redis.call('ZREM', QUEUE, first)
		first = head()
	end
	return first
end

-- A hint to look again: a server that does not permit it, or loses it, costs only time.
local function notify(host)
	if host ~= HOST then
		redis.pcall('PUBLISH', 'lockshm:' .. host, LOCK)
	end
end

local function notify_head()
	local first = head()
	if first then
		notify(string.sub(first, 3))
	end
end

-- Never lowers the ttl; for this protocol's own keys, which never stay for ever.
local function keep(key, ttl)
	if redis.call('PTTL', key) < ttl then
		redis.call('PEXPIRE', key, ttl)
	end
end

-- The same for keys touched often: not each time, because other hosts track some of them.
local function keep_about(key, ttl)
	if redis.call('PTTL', key) < ttl / 2 then
		redis.call('PEXPIRE', key, ttl)
	end
end

-- The same for the lock as a set: foreign readers may have put it there without an end.
local function keep_set(ttl)
	if type ~= 'set' or (LEFT >= 0 and LEFT < ttl) then
		redis.call('PEXPIRE', LOCK, ttl)
	end
end

-- Uses, without effect, the commands that renewal and release need in addition to this file and to the acquire in this
-- mode.  Called after the first write, which a read-only server refuses, and before the lock is written.  A string
-- there is this lease's own value, and its acquire has called this already.
local function prove()
	redis.call('EXISTS', LOCK)
	redis.call('ZRANGE', QUEUE, 0, 0)
	redis.call('ZSCORE', QUEUE, HOST)
	redis.call('ZREM', QUEUE, HOST)
	if type ~= 'string' then
		redis.call('SISMEMBER', LOCK, HOST)
		redis.call('SREM', LOCK, HOST)
	end
	-- A key that is absent.
	if type == 'none' or not intent then
		redis.call('DEL', type == 'none' and LOCK or INTENT)
	end
end

-- Tokens do not fall below the clock, which survives the loss of the hash: 16 for each microsecond since 2025, as for keys
-- of one host, which is more than a host can use.
local function tokens_at(us)
	return math.max(us - 1735689600000000, 1) * 16
end

-- Takes @stride tokens: above all earlier ones, and not below the clock.  @asked is another clock, in us.  With @value and
-- @ttl also records the writer, as record() does.
local function reserve(stride, asked, value, ttl)
	local base = math.max(tonumber(fence[1] or 0) or 0, tokens_at(US), tokens_at(asked))
	if value then
		redis.call('HSET', FENCE, 'end', base + stride, 'token', value, 'ttl', ttl)
	else
		redis.call('HSET', FENCE, 'end', base + stride)
	end
	redis.call('PEXPIRE', FENCE, LASTS)
	return base
end

-- Records the value of a string and its ttl: the lock never lasts longer than that.
local function record(value, ttl)
	redis.call('HSET', FENCE, 'token', value, 'ttl', ttl)
	redis.call('PEXPIRE', FENCE, LASTS)
end

-- The least ttl that the readers can have asked for, if the record is lost.
local function readers_have()
	local last = redis.call('ZRANGE', READERS, -1, -1, 'WITHSCORES')
	return math.max(LEFT, (tonumber(last[2] or 0) or 0) - MS)
end

-- While there are readers, the longest ttl of them counts.
local function record_readers(ttl)
	local longest = math.max(ttl, type == 'set' and (readers_ttl() or readers_have()) or 0)
	if tonumber(fence[4] or 0) ~= longest then
		redis.call('HSET', FENCE, 'readers', longest)
		redis.call('PEXPIRE', FENCE, LASTS)
	end
end

-- Is this value among the readers, and its deadline not past?
local function reads()
	local deadline = type == 'set' and redis.call('SISMEMBER', LOCK, VALUE) == 1 and redis.call('ZSCORE', READERS, VALUE)
	return deadline and tonumber(deadline) >= MS
end

-- The ttl counts from now.
local function keep_reading(ttl)
	record_readers(ttl)
	redis.call('ZADD', READERS, MS + ttl, VALUE)
	keep(READERS, ttl)
	keep_set(ttl)
end

-- The note of a robust key: was the last lease of a writer given back, and what it guards whole?
--   open   the highest token of that lease, and its value; 0 instead of the value once it was given back
--   bad    the number in `open` as this lease found it
--   good   the highest token of a lease that was given back whole, or of one that was acknowledged
--   why    the number of a lease that ended badly, and how: d = a holder died, t = one lost the lock, l = it was not given
--          back; host; pid.  Of no meaning up to good
-- The next lease is told while bad is above good.  With a quorum the highest of each of a majority count: so all are
-- tokens, which rise from lease to lease on each majority, and one lease has one number at all servers.  A server
-- that takes other tokens than the host asked for opens no note; if those are the agreed ones, fence.lua does.
local OPEN, OWNER = string.match(fence[7] or '', '^(%d+) (%x+)$')
OPEN = tonumber(OPEN or '') or 0
local GOOD, BAD, WHY = tonumber(fence[8] or '') or 0, tonumber(fence[9] or '') or 0, fence[10] or ''
local noted

local function decimal(n)
	return string.format('%.0f', n)
end

local function why_of(bad)
	if bad <= GOOD then
		return ''
	end
	if (tonumber(string.match(WHY, '^%d+') or '') or 0) > GOOD then
		return WHY
	end
	return decimal(bad) .. 'l' .. string.sub(OWNER or '', 1, 16)
end

-- Later acquires get tokens from this number on.
local function tokens_from(number)
	if (tonumber(fence[1] or 0) or 0) < number then
		redis.call('HSET', FENCE, 'end', decimal(number))
		redis.call('PEXPIRE', FENCE, LASTS)
	end
end

-- This writer's lease is open from now on, with tokens up to @last.  Again for the same value only the number changes.
-- Later ones have higher tokens, also where a failover lost that these were given.
local function note(last)
	tokens_from(last + 1)
	local bad, why = BAD, WHY
	if OWNER ~= VALUE then
		bad = OPEN
		why = why_of(bad)
	end
	if OPEN < last then
		redis.call('HSET', FENCE, 'open', decimal(last) .. ' ' .. VALUE, 'bad', decimal(bad), 'why', why)
	end
	redis.call('PEXPIRE', FENCE, MONTH)
	noted = { bad, GOOD, why }
end

-- The same for a reader, which opens none.
local function told()
	noted = { OPEN, GOOD, why_of(OPEN) }
end

-- Leaves the queue; true if the member was in it.
local function unqueue(member)
	if waiting == 0 then
		return false
	end
	redis.call('ZREM', ALIVE, member)
	return redis.call('ZREM', QUEUE, member) == 1
end

local function drop_intent()
	if intent == HOST then
		redis.call('DEL', INTENT)
		intent = false
	end
end

local function other_intent()
	return intent and intent ~= HOST
end

-- The holder of a string, and how long still.  The server's clock may have been set back: a lock of this protocol that
-- would outlast its ttl is cut to it; foreign locks are not touched.
local function string_holder()
	local left = LEFT
	local ttl = fence[2] == held and tonumber(fence[3] or '')
	if ttl and (left < 0 or left > ttl) then
		redis.call('PEXPIRE', LOCK, ttl)
		left = ttl
	end
	return fence[2] == held and 'host' or 'foreign', held, left
end

-- How long a free lock still is for other programs.  An end further away than any gap was stored before the server's
-- clock was set back.
local function gap_left()
	local left = type == 'none' and (tonumber(fence[6] or '') or 0) - MS
	return left and left > 0 and left <= GAP_MAX and left
end

-- What blocks the caller: kind, holder, ms until that may change.  @first is the waiter ahead, if that is the reason.
local function blocked_by(first)
	if type == 'string' then
		return string_holder()
	end
	if gap_left() then
		return 'gap', '', gap_left()
	end
	if first then
		return 'turn', string.sub(first, 3), math.max(0, (tonumber(redis.call('ZSCORE', ALIVE, first)) or MS) - MS)
	end
	return 'readers', '', LEFT
end

-- Takes a ticket at the first call, and extends the waiter's deadline at each.
local function queue(member, waiter_ttl)
	local new = not redis.call('ZSCORE', QUEUE, member)
	if new then
		local last = redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')
		redis.call('ZADD', QUEUE, math.max((tonumber(last[2] or 0) or 0) + 1, US), member)
	end
	redis.call('ZADD', ALIVE, MS + waiter_ttl, member)
	keep_about(QUEUE, math.max(MINUTE, 2 * waiter_ttl))
	keep_about(ALIVE, math.max(MINUTE, 2 * waiter_ttl))
	return new
end

-- Notifies the hosts that block the caller.
local function notify_blocker(kind, holder)
	if kind == 'host' or kind == 'turn' then
		notify(string.sub(holder, 1, 16))
	elseif kind == 'readers' then
		for _, id in ipairs(redis.call('ZRANGE', READERS, 0, 99)) do
			notify(string.sub(id, 1, 16))
		end
	end
end

-- The reply of every script but inspect and renew-many, longer where a note was asked for.  It ends with reads of the
-- lock, of the queue and, for the writer, of the fence, which arms the tracking of these keys for this connection.
local function reply(status, member, kind, holder, left, base)
	local rank = member and redis.call('ZRANK', QUEUE, member)
	local now = redis.call('PTTL', LOCK)
	if kind == 'host' and holder == VALUE then
		redis.call('PTTL', FENCE)
	end
	local list = { status, MS, redis.call('ZCARD', QUEUE), rank and rank + 1 or 0, left or now, kind or 'none',
		holder or '', base or 0, other_intent() and 1 or 0 }
	if noted then
		list[10], list[11], list[12] = noted[1], noted[2], noted[3]
	end
	return list
end

-- The state found instead of this value.  Of an absent lock, instead of tokens: 0 = without a fence, as after a loss of
-- all data, 1 = the fence has this value, so no other writer came, 2 = another one.
local function mismatch(status)
	if type == 'none' then
		local left = fence[1] and (fence[2] == VALUE and 1 or 2) or 0
		return reply(status == 'lost' and 'absent' or status, nil, 'none', nil, nil, left)
	elseif type == 'string' then
		return reply(status, nil, fence[2] == held and 'host' or 'foreign', held)
	elseif type == 'set' then
		return reply(status, nil, 'readers')
	end
	return reply('not-a-lock', nil, 'other', type)
end

local function not_a_lock()
	return type ~= 'none' and type ~= 'string' and type ~= 'set'
end
