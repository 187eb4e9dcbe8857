-- SPDX-License-Identifier: MIT
--- Suspends the light thread of a request for a lock, on a semaphore: by that it is seen whether the light thread lives.

local M = {}

M.C_CALL = "inside a C call, such as require() or table.sort(), nginx cannot suspend"

-- A light thread inside a C call cannot be suspended, which shows only in the attempt.  nginx then counts it among those
-- that wait for the semaphore, until its next operation that can wait or its end.
local stranded = {}

local function keep_stranded(one)
    for other in pairs(stranded) do
        if other:count() >= 0 then
            stranded[other] = nil
        end
    end
    stranded[one] = true
end

local asleep = setmetatable({}, { __mode = "k" }) -- by the memory of the hold that is awaited: the semaphore, or true

--- Suspends the light thread.
-- @param hold that is awaited
-- @return nil when posted; else the reason, such as "timeout"
function M.sleep(hold, on, seconds)
    asleep[hold] = on
    local done, ok, err = pcall(on.wait, on, seconds)
    asleep[hold] = nil
    if done then
        return not ok and err or nil
    elseif tostring(ok):find("C-call boundary", 1, true) then
        keep_stranded(on)
        return M.C_CALL
    end
    return tostring(ok)
end

--- The light thread was woken, and runs soon, unless it is killed before: then called with false.
function M.woken(hold, soon)
    asleep[hold] = soon or nil
end

--- Is there a light thread that awaits this hold, and lives?
function M.awaits(hold)
    local on = asleep[hold]
    return on == true or on ~= nil and on:count() < 0
end

return M
