-- SPDX-License-Identifier: MIT
-- alone
-- renew-many.lua - KEYS: the locks, then their intent keys, queues and, if the server gives no hints of their changes,
-- fences.  ARGV: the ttl with which they were taken, and the value of each.  Replies 1 for each lease renewed: a
-- writer's, without waiters; 0 for any other.  Replies an empty list if one of those that could be renewed has a waiter
-- or an intent key, or has no fence: renew.lua then handles each.  A lock renewed here is then renewed again, which
-- does no harm; nothing is created.
--
-- Few reads of few keys: before 7.2 a server tracks all of KEYS at each read.

local keys, args, call = KEYS, ARGV, redis.pcall
local n, ttl = #args - 1, args[1]
local values = call('MGET', unpack(keys, 1, n))
local done, n_done = {}, 0
for i = 1, n do
	-- Each by itself: an error of one must not keep the others from renewal.
	if values[i] == args[i + 1] and call('PEXPIRE', keys[i], ttl) == 1 then
		done[i] = 1
		n_done = n_done + 1
	else
		done[i] = 0
	end
end

-- The names from @first to @last of each lease renewed.
local function names(first, last)
	if n_done == n then
		return unpack(keys, first * n + 1, (last + 1) * n)
	end
	local list = {}
	for k = first * n + 1, (last + 1) * n do
		if done[(k - 1) % n + 1] == 1 then
			list[#list + 1] = keys[k]
		end
	end
	return unpack(list)
end

if n_done == 0 or (#keys > 3 * n and redis.call('EXISTS', names(3, 3)) < n_done) then
	return {}
end
-- After the last write a read of locks, intent keys and queues arms their tracking.  Of these only the locks exist.
return redis.call('EXISTS', names(0, 2)) > n_done and {} or done
