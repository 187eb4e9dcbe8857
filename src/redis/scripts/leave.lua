-- SPDX-License-Identifier: MIT
-- leave.lua - ARGV: host, value (unused), modes in which the host waits no longer: x, s, or both

local was_first = head()
local left = false
if string.find(ARGV[3], 'x') then
	left = unqueue('X:' .. HOST)
	drop_intent()
end
if string.find(ARGV[3], 's') then
	left = unqueue('S:' .. HOST) or left
end
local first = prune()
-- The first waiter may be asleep; all readers queued after a writer that left may be granted.
if left and first then
	notify_head()
end
return reply('ok', nil, was_first ~= first and 'turn' or 'none')
