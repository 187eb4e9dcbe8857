-- SPDX-License-Identifier: MIT
-- release.lua - ARGV: host, value, ms for which the lock is then left to programs outside this protocol (0 = none), and
-- of a robust key how its note is closed, the last token of the lease, and one thing more:
--   a   acknowledged up to that token, by a reader or an operator
--   c   whole, or acknowledged; nothing if another writer has had the lock since this one lost it
--   d   a holder ended badly: kind and pid.  Also where the note is missing, as after a loss of data, if no later lease
--       has opened it
--   k   damaged as it was told, up to a token; whole, if that was acknowledged in Redis meanwhile
--   u   the lease was not used
-- After each of them the note has no owner: what a stopped leader sends later does not change it.

-- The short path, for a writer's lock without waiters: a quarter of the commands.  Its reply is 1.
if ARGV[3] == '0' and not ARGV[4] and redis.pcall('GET', KEYS[1]) == ARGV[2] and
	redis.call('EXISTS', unpack(KEYS, 2, 5)) == 0 then
	redis.call('DEL', KEYS[1])
	return 1
end
-- common

local GAP = tonumber(ARGV[3])

local function leave_gap()
	if GAP > 0 then
		redis.call('HSET', FENCE, 'gap', MS + GAP)
		keep(FENCE, LASTS)
	end
end

-- 1 = Redis has the damage.
local function close_note(mode, last, how)
	local mine, moved = OWNER == VALUE, 0
	if mine then
		last = math.max(last, OPEN)
		tokens_from(last + 1)
	end
	if mode == 'k' and GOOD >= tonumber(how) then
		mode = 'c'
	end
	local alone = held == VALUE or fence[2] == VALUE
	if last > GOOD and (mode == 'a' or (mode == 'c' and alone)) then
		redis.call('HSET', FENCE, 'good', decimal(last))
	elseif mode == 'd' and last >= OPEN and last > GOOD then
		redis.call('HSET', FENCE, 'open', decimal(last) .. ' 0')
		redis.call('HSET', FENCE, 'why', decimal(last) .. string.sub(how, 1, 1) .. HOST .. string.sub(how, 2))
		moved = 1
	end
	if mine and moved == 0 then
		redis.call('HSET', FENCE, 'open', decimal(mode == 'u' and BAD or OPEN) .. ' 0')
	end
	redis.call('PEXPIRE', FENCE, MONTH)
	noted = { moved, 0, '' }
end

local function release()
	if held == VALUE then
		leave_gap()
		redis.call('DEL', LOCK)
		type = 'none'
		return 'ok'
	end
	if type == 'set' and redis.call('SREM', LOCK, VALUE) == 1 then
		local deadline = redis.call('ZSCORE', READERS, VALUE)
		leave_gap()
		redis.call('ZREM', READERS, VALUE)
		return deadline and tonumber(deadline) < MS and 'late' or 'ok'
	end
end

if ARGV[4] and not not_a_lock() then
	close_note(ARGV[4], tonumber(ARGV[5]), ARGV[6])
end
local status = release()
if not status then
	-- A reader that was removed from the set by another program.
	redis.call('ZREM', READERS, VALUE)
	return mismatch('lost')
end
prune()
notify_head()
return reply(status)
