-- SPDX-License-Identifier: MIT
-- alone
-- renew-many.lua - KEYS: the locks, then their marks, queues and fences.  ARGV: ttl, with which they were taken, and the token of
-- each.  Answers 1 for each that is renewed: a writer's, with its fence, and nobody waits.  For any other 0, and for all if one
-- of those that could be renewed has no fence or somebody who waits: renew.lua finds out.  A lock that was renewed before
-- that is renewed again, which does no harm; nothing is created.
--
-- By few reads of many names each: a server that remembers what is read here (before 7.2) remembers all of KEYS at every one.

local n = #ARGV - 1
local values = redis.pcall('MGET', unpack(KEYS, 1, n))
local done, none, looked, fences = {}, {}, {}, {}
for i = 1, n do
	done[i], none[i] = 0, 0
	-- Each by itself: what one of them meets is no reason not to renew the next.
	if values[i] == ARGV[i + 1] and redis.pcall('PEXPIRE', KEYS[i], ARGV[1]) == 1 then
		done[i] = 1
		fences[#fences + 1] = KEYS[3 * n + i]
		for k = i, 2 * n + i, n do
			looked[#looked + 1] = KEYS[k]
		end
	end
end
-- Behind the last write a read of lock, mark and queue: the server says when they change.  Of these only the locks are there.
if #fences == 0 or redis.call('EXISTS', unpack(fences)) < #fences or redis.call('EXISTS', unpack(looked)) > #fences then
	return none
end
return done
