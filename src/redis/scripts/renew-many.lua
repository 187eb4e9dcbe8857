-- SPDX-License-Identifier: MIT
-- alone
-- renew-many.lua - KEYS: the locks, then their marks, queues and, where the server does not say when they change, fences.
-- ARGV: ttl, with which they were taken, and the token of each.  Answers 1 for each that is renewed: a writer's, and nobody
-- waits.  For any other 0, and for all nothing if one of those that could be renewed has somebody who waits, or no fence:
-- renew.lua finds out.  A lock that was renewed before that is renewed again, which does no harm; nothing is created.
--
-- By few reads of few names: a server that remembers what is read here (before 7.2) remembers all of KEYS at every one.

local keys, args, call = KEYS, ARGV, redis.pcall
local n, ttl = #args - 1, args[1]
local values = call('MGET', unpack(keys, 1, n))
local done, n_done = {}, 0
for i = 1, n do
	-- Each by itself: what one of them meets is no reason not to renew the next.
	if values[i] == args[i + 1] and call('PEXPIRE', keys[i], ttl) == 1 then
		done[i] = 1
		n_done = n_done + 1
	else
		done[i] = 0
	end
end

-- The names from @first to @last of each that was renewed.
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
-- Behind the last write a read of lock, mark and queue: the server says when they change.  Only the locks are there.
return redis.call('EXISTS', names(0, 2)) > n_done and {} or done
