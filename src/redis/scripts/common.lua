-- SPDX-License-Identifier: MIT
-- common.lua - the beginning of every script: names, the time, what is there, and how it may be changed
--
-- KEYS: the lock, the mark of a waiting writer, queue (member -> ticket), deadlines of the queue's members, deadlines of
-- readers, hash with the fence.  ARGV: host id, token, then what the script itself says.
--
-- The lock is a string (writer: its token), a set (readers: their tokens) or absent.  Members of the queue are "X:" or
-- "S:" and the host id.  All times are the server's.
--
-- What is read here fails if another kind of data has one of our names.  It is read before anything is written, because
-- a script that fails half way is not undone.  For the same reason the lock itself is written last, and what follows uses
-- only commands that were used before: whoever lacks the right to one of them does not hold the lock, see prove().

local LOCK, INTENT, QUEUE, ALIVE, READERS, FENCE = unpack(KEYS)
local HOST, VALUE = ARGV[1], ARGV[2]
local DAY, MINUTE = 86400000, 60000
local DELAY = 'lockshm:delay:'

local time = redis.call('TIME')
local MS = time[1] * 1000 + math.floor(time[2] / 1000)
local US = time[1] * 1000000 + time[2]

local type = redis.call('TYPE', LOCK).ok
local LEFT = redis.call('PTTL', LOCK)
local held = type == 'string' and redis.call('GET', LOCK)
local dead_waiters = redis.call('ZRANGEBYSCORE', ALIVE, '-inf', MS - 1)
local dead_readers = redis.call('ZRANGEBYSCORE', READERS, '-inf', MS - 1)
local waiting = redis.call('ZCARD', QUEUE)
local fence = redis.call('HMGET', FENCE, 'end', 'token', 'ttl', 'readers', 'mark', 'turn')
-- Whoever marks with another kind of data marks, too.
local intent = redis.pcall('GET', INTENT)
if intent and intent.err and not string.find(intent.err, 'WRONGTYPE') then
	return intent
end

local function head()
	return redis.call('ZRANGE', QUEUE, 0, 0)[1]
end

-- The server's clock may have been set back.  Then what the dead left would last until the old time comes again: so no deadline
-- is later than that of somebody who asks now for as long as any of them did.
local function not_beyond(key, ttl)
	for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. MS + ttl, '+inf')) do
		redis.call('ZADD', key, MS + ttl, member)
	end
end

-- The longest that any of our readers asked for; nil = not known.
local function readers_ttl()
	return type == 'set' and tonumber(fence[4] or '')
end

-- Readers of others have no deadline but that of the set.  One of ours may be missing from either.
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

-- Removes waiters and readers whose deadline is over.  A waiter without deadline comes from an evicted key.
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

-- Only a hint to look again: a server that does not permit it, or loses it, costs time and nothing else.
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

-- Never lowers; for our own keys, which never stay for ever.
local function keep(key, ttl)
	if redis.call('PTTL', key) < ttl then
		redis.call('PEXPIRE', key, ttl)
	end
end

-- The same for what is touched again and again: not each time, because others watch some of these names.
local function keep_about(key, ttl)
	if redis.call('PTTL', key) < ttl / 2 then
		redis.call('PEXPIRE', key, ttl)
	end
end

-- The same for the lock when it is a set: foreign readers may have put it there without an end.
local function keep_set(ttl)
	if type ~= 'set' or (LEFT >= 0 and LEFT < ttl) then
		redis.call('PEXPIRE', LOCK, ttl)
	end
end

-- A lease may be a writer's, a reader's, a writer's again.  Its turn is how often it has become a reader's: that in which it
-- became a writer's last is kept here, so that a downgrade of an earlier one that comes late finds out.  nil = not known.
local function writes_since()
	local mode_gen, value = string.match(fence[6] or '', '^(%d+):(.*)$')
	return value == VALUE and tonumber(mode_gen) or nil
end

-- What renewing and giving back need beside what every script begins with and what taking the lock, in this mode, does; without
-- effect here.  After the first write, which a server that takes none refuses, and before the lock itself.  Where that is a
-- string it is our own, taken by who was asked the same.
local function prove()
	redis.call('EXISTS', LOCK)
	redis.call('ZRANGE', QUEUE, 0, 0)
	redis.call('ZSCORE', QUEUE, HOST)
	redis.call('ZREM', QUEUE, HOST)
	if type ~= 'string' then
		redis.call('SISMEMBER', LOCK, HOST)
		redis.call('SREM', LOCK, HOST)
	end
	-- One that is not there.
	if type == 'none' or not intent then
		redis.call('DEL', type == 'none' and LOCK or INTENT)
	end
end

-- Takes @stride numbers: more than all before, and not below the clock, which survives the loss of the hash.  With
-- @token, @ttl and @turn also a record of the writer, as below.
local function reserve(stride, value, ttl, mode_gen)
	local base = math.max(tonumber(fence[1] or 0) or 0, MS * 1024)
	if value then
		redis.call('HSET', FENCE, 'end', base + stride, 'token', value, 'ttl', ttl, 'turn',
			math.max(mode_gen, writes_since() or 0) .. ':' .. value)
	else
		redis.call('HSET', FENCE, 'end', base + stride)
	end
	redis.call('PEXPIRE', FENCE, DAY)
	return base
end

-- Who holds it as a string, and with which TTL: the lock never lasts longer than that.
local function record(value, ttl)
	redis.call('HSET', FENCE, 'token', value, 'ttl', ttl)
	redis.call('PEXPIRE', FENCE, DAY)
end

-- What those who read asked for at least, where the record is lost.
local function readers_have()
	local last = redis.call('ZRANGE', READERS, -1, -1, 'WITHSCORES')
	return math.max(LEFT, (tonumber(last[2] or 0) or 0) - MS)
end

-- As long as somebody reads, what was recorded for others counts as well.
local function record_readers(ttl)
	local longest = math.max(ttl, type == 'set' and (readers_ttl() or readers_have()) or 0)
	if tonumber(fence[4] or 0) ~= longest then
		redis.call('HSET', FENCE, 'readers', longest)
		redis.call('PEXPIRE', FENCE, DAY)
	end
end

-- Is ours among the readers, and its time not over?
local function reads()
	local deadline = type == 'set' and redis.call('SISMEMBER', LOCK, VALUE) == 1 and redis.call('ZSCORE', READERS, VALUE)
	return deadline and tonumber(deadline) >= MS
end

-- Counts from now on.
local function keep_reading(ttl)
	record_readers(ttl)
	redis.call('ZADD', READERS, MS + ttl, VALUE)
	keep(READERS, ttl)
	keep_set(ttl)
end

-- Leaves the queue; true if it was in it.
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

-- Who holds a string, and how long still.  The server's clock may have been set back: a lock of ours that would last
-- longer than its TTL is cut down to it.  Those of others are not touched.
local function string_holder()
	local left = LEFT
	local ttl = fence[2] == held and tonumber(fence[3] or '')
	if ttl and (left < 0 or left > ttl) then
		redis.call('PEXPIRE', LOCK, ttl)
		left = ttl
	end
	if string.sub(held, 1, #DELAY) == DELAY then
		return 'delay', held, left
	end
	return fence[2] == held and 'host' or 'foreign', held, left
end

-- Why @me cannot have it: kind, holder, ms until that may change.  @first is who comes before, if that is the reason.
local function blocked_by(first)
	if type == 'string' then
		return string_holder()
	end
	if first then
		return 'turn', string.sub(first, 3), math.max(0, (tonumber(redis.call('ZSCORE', ALIVE, first)) or MS) - MS)
	end
	return 'readers', '', LEFT
end

-- Takes a ticket once and says at each call that it still waits.
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

-- Tells whoever stands in the way.
local function notify_blocker(kind, holder)
	if kind == 'host' or kind == 'turn' then
		notify(string.sub(holder, 1, 16))
	elseif kind == 'readers' then
		for _, id in ipairs(redis.call('ZRANGE', READERS, 0, 99)) do
			notify(string.sub(id, 1, 16))
		end
	end
end

-- The reply of every script but inspect.  It ends with reads of the lock, of the queue and, if we hold it as a writer, of
-- the fence, which arms the tracking of these for this connection.
local function reply(status, member, kind, holder, left, base)
	local rank = member and redis.call('ZRANK', QUEUE, member)
	local now = redis.call('PTTL', LOCK)
	if kind == 'host' and holder == VALUE then
		redis.call('PTTL', FENCE)
	end
	return { status, MS, redis.call('ZCARD', QUEUE), rank and rank + 1 or 0, left or now, kind or 'none', holder or '',
		base or 0, other_intent() and 1 or 0 }
end

-- What is there instead of ours.
local function mismatch(status)
	if type == 'none' then
		return reply(status == 'lost' and 'absent' or status, nil, 'none')
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
