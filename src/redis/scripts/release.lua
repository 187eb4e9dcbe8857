-- SPDX-License-Identifier: MIT
-- release.lua - ARGV: host, value, ms for which the lock is then left to programs outside this protocol (0 = none)

-- The short path, for a writer's lock without waiters: a quarter of the commands.
if ARGV[3] == '0' and redis.pcall('GET', KEYS[1]) == ARGV[2] and redis.call('EXISTS', unpack(KEYS, 2, 5)) == 0 then
	local time = redis.call('TIME')
	redis.call('DEL', KEYS[1])
	return { 'ok', time[1] * 1000 + math.floor(time[2] / 1000), 0, 0, -2, 'none', '', 0, 0 }
end
-- common

local GAP = tonumber(ARGV[3])

local function leave_gap()
	if GAP > 0 then
		redis.call('HSET', FENCE, 'gap', MS + GAP)
		redis.call('PEXPIRE', FENCE, DAY)
	end
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

local status = release()
if not status then
	-- A reader that was removed from the set by another program.
	redis.call('ZREM', READERS, VALUE)
	return mismatch('lost')
end
prune()
notify_head()
return reply(status)
