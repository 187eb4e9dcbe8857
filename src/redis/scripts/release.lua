-- SPDX-License-Identifier: MIT
-- release.lua - ARGV: host, value, ms for which the lock stays closed after a writer (0 = not at all)

-- The short path, for a writer's lock without waiters: a quarter of the commands.
if ARGV[3] == '0' and redis.pcall('GET', KEYS[1]) == ARGV[2] and redis.call('EXISTS', unpack(KEYS, 2, 5)) == 0 then
	local time = redis.call('TIME')
	redis.call('DEL', KEYS[1])
	return { 'ok', time[1] * 1000 + math.floor(time[2] / 1000), 0, 0, -2, 'none', '', 0, 0 }
end
-- common

local AFTER = tonumber(ARGV[3])

local function release()
	if held == VALUE then
		if AFTER > 0 then
			record(DELAY .. VALUE, AFTER)
			redis.call('SET', LOCK, DELAY .. VALUE, 'PX', AFTER)
		else
			redis.call('DEL', LOCK)
			type = 'none'
		end
		return 'ok'
	end
	-- The reply to an earlier release was lost.
	if held == DELAY .. VALUE then
		return 'ok'
	end
	if type == 'set' and redis.call('SREM', LOCK, VALUE) == 1 then
		local deadline = redis.call('ZSCORE', READERS, VALUE)
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
