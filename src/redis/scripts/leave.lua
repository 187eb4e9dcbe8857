-- SPDX-License-Identifier: MIT
-- leave.lua - ARGV: host, token (unused), modes in which the host waits no longer: x, s, or both

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
-- Whoever is first now may be asleep; readers behind a writer who left may all go.
if left and first then
	notify_head()
end
return reply('ok', nil, was_first ~= first and 'turn' or 'none')
