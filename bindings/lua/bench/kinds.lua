-- SPDX-License-Identifier: MIT
--- The locks that are compared: each makes lock objects with lock() and unlock().

local M = { order = {} }

local DICT = os.getenv("LOCKSHM_BENCH_DICT")

-- Compiled for each kind, as in free-pair.lua.
local MAKE = [[
    local module, dict, fair = ...
    local default = { fair = fair }
    return function(options)
        if options then
            options.fair = fair
        end
        return assert(module:new(dict, options or default))
    end
]]

local function add(name, module, fair)
    M[name] = loadstring(MAKE, "=" .. name)(module, DICT, fair)
    M.order[#M.order + 1] = name
end

if os.getenv("RESTY_LOCK_DIR") then
    add("resty", require "resty.lock")
end
add("ours", require "resty.lockshm")
add("fair", require "resty.lockshm", true)

--- Each kind in turn; every round begins with another one.
function M.each(round, fn)
    for i = 0, #M.order - 1 do
        fn(M.order[(i + round) % #M.order + 1])
    end
end

return M
