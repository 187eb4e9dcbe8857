-- SPDX-License-Identifier: MIT
--- Commands from worker 0 to the other workers, by a dictionary that no lock uses.
-- A command is the name of a function of bench.parts and its arguments; its result is one number.

local system = require "bench.system"

local M = {}

local control = ngx.shared.control
local separator = "\t"

local function words_of(text)
    local words = {}
    for word in text:gmatch("[^\t]+") do
        words[#words + 1] = tonumber(word) or word
    end
    return words
end

--- Makes this worker known to worker 0.
function M.announce()
    control:set("pid:" .. ngx.worker.id(), ngx.worker.pid())
end

--- Makes this worker run commands until it ends.
function M.serve(parts)
    local id = ngx.worker.id()
    while not ngx.worker.exiting() do
        local command = control:lpop("command:" .. id)
        if command then
            local words = words_of(command)
            local ok, result = pcall(parts[words[1]], unpack(words, 2))
            control:rpush("result:" .. id, ok and result or "failed: " .. tostring(result))
        else
            ngx.sleep(0.001)
        end
    end
end

--- Starts a command in another worker.
function M.start(id, ...)
    control:rpush("command:" .. id, table.concat({ ... }, separator))
end

--- Waits for its result.
function M.result(id)
    local result = system.await("a command of worker " .. id, function()
        return control:lpop("result:" .. id)
    end)
    if type(result) == "string" then
        error("worker " .. id .. " " .. result)
    end
    return result
end

--- The process of a worker.
function M.pid(id)
    return system.await("worker " .. id, function()
        return control:get("pid:" .. id)
    end)
end

--- Waits until all of them run.
function M.await_all()
    for id = 0, ngx.worker.count() - 1 do
        M.pid(id)
    end
end

--- Kills a worker; the master starts another one.
-- @return when
function M.kill(id)
    local pid = M.pid(id)
    control:delete("pid:" .. id)
    local now = system.now()
    system.kill(pid)
    return now
end

--- A number that one worker leaves for another.
function M.put(name, value)
    control:set(name, value)
end

--- Waits for it, and removes it.
function M.take(name, spin)
    local value = system.await(name, function()
        return control:get(name)
    end, spin)
    control:delete(name)
    return value
end

return M
