-- SPDX-License-Identifier: MIT
--- Waiting for a condition: the bound is a watchdog, no judgement of speed.
local posix = require "support.posix"

local wait = { WATCHDOG = tonumber(os.getenv("WATCHDOG")) or 90 }

--- Repeats @condition until it is true.
-- @param what for the error
-- @return what the condition returned
function wait.for_condition(what, condition, seconds)
	local limit = posix.now() + (seconds or wait.WATCHDOG)
	while true do
		local value = condition()
		if value then return value end
		if posix.now() > limit then
			error("not so after " .. (seconds or wait.WATCHDOG) .. " s: " .. what, 2)
		end
		posix.sleep(0.005)
	end
end

return wait
