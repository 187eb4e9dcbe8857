-- SPDX-License-Identifier: MIT
-- fence.lua - ARGV: host, value, number, and 1 = open the note of a robust key with the number before.  Later acquires
-- at this server get tokens from this number on; for a quorum, whose majorities may share only one server.

local number = tonumber(ARGV[3])

tokens_from(number)
if ARGV[4] == '1' then
	note(number - 1)
end
return reply('ok')
