-- SPDX-License-Identifier: MIT
--- Agent of ../../conformance: the words of its README by the modules' public calls, in LuaJIT.

local ffi = require "ffi"
local lockshm = require "resty.lockshm"

ffi.cdef [[ int fork(void); void _exit(int status); ]]

local input, output = io.stdin, io.stdout
local locks, text = nil, ""
local holds = {}

local booleans = { shared = true, robust = true, global = true, retry_on_failure = true }
local numbers = { timeout = true, lease = true, max_hold = true, cooldown = true, redis_ttl = true, keys = true,
    requests = true, owners = true }
local words_of = { ["not held"] = "not-held", ["owner died"] = "died", ["took over expired"] = "expired",
    ["local only"] = "local-only", cancelled = "cancelled", timeout = "timeout", busy = "busy", lost = "lost",
    bridge = "bridge", late = "late" }
local done = { died = true, expired = true, late = true, ["local-only"] = true }
-- Sentences of the library that have no word.
local sentences = { { "^no such segment", "no-segment" }, { "removed", "no-segment" }, { "table full", "full" },
    { "deadlock", "deadlock" } }

local function say(line)
    output:write(tostring(line), "\n")
    output:flush()
end

local function refused(err, holder)
    text = (tostring(err) .. (holder and ": " .. tostring(holder) or "")):gsub("\n", " ")
    if words_of[err] then
        return words_of[err]
    end
    for _, entry in ipairs(sentences) do
        if tostring(err):find(entry[1]) then
            return entry[2]
        end
    end
    return "invalid"
end

--- The answer for what a call on a hold returned.
local function result(ok, err)
    if ok then
        return words_of[err] or "ok"
    end
    return refused(err)
end

local serve
local failed = {} -- of a function that is to fail

--- What a recipe calls: goes on with the lines until "done VALUE" or "fail".
local function inside()
    say("inside")
    return serve()
end

local function seconds(word)
    return word == "none" and math.huge or tonumber(word)
end

local act = {}

function act.open(words, options)
    local opened, err = lockshm.open(words[1], options)
    locks = opened or locks
    return opened and "ok" or refused(err)
end

function act.destroy(words)
    return result(lockshm.destroy(words[1]))
end

function act.take(words, options)
    local take = options.shared and locks.shared or locks.exclusive
    options.shared = nil
    local hold, err, holder = take(locks, words[2], options)
    if not hold then
        return refused(err, holder)
    end
    holds[words[1]] = hold
    return words_of[hold.status] or "ok"
end

function act.release(words, options)
    return result(holds[words[1]]:release(options.cooldown))
end

function act.check(words)
    return result(holds[words[1]]:check())
end

function act.renew(words)
    return result(holds[words[1]]:renew(seconds(words[2])))
end

function act.extend(words)
    return result(holds[words[1]]:extend(seconds(words[2])))
end

function act.upgrade(words)
    return result(holds[words[1]]:upgrade())
end

function act.downgrade(words)
    return result(holds[words[1]]:downgrade())
end

function act.ack(words)
    return result(holds[words[1]]:acknowledge())
end

function act.token(words)
    return holds[words[1]]:token()
end

function act.damage(words)
    local mark, err = holds[words[1]]:damage()
    return mark and words_of[mark.status] .. " " .. mark.pid or err and refused(err) or "none"
end

function act.defaults(words)
    local list = {}
    if words[1] == "refusal" then
        for _, word in pairs(words_of) do
            if not done[word] then
                list[#list + 1] = word .. "=-"
            end
        end
        return table.concat(list, " ")
    end
    local defaults = words[1] == "take" and require("resty.lockshm.spec").defaults
        or require("resty.lockshm.recipes").defaults[words[1]]
    for name, value in pairs(defaults) do
        if name ~= "fixed" and not (defaults.fixed and defaults.fixed[name]) then
            list[#list + 1] = name .. "=" .. (value == true and "yes" or value == false and "none" or tostring(value))
        end
    end
    return table.concat(list, " ")
end

function act.message()
    return text
end

function act.sleep(words)
    os.execute("sleep " .. words[1])
    return "ok"
end

function act.fork(words)
    local pid = ffi.C.fork()
    if pid ~= 0 then
        return pid
    end
    input, output = io.open(words[1]), io.open(words[2], "w")
    return "agent lua"
end

function act.flight(words, options)
    local value, err, holder = locks:single_flight(words[1], function()
        local file = io.open(words[2])
        return file and file:read("*a")
    end, function()
        local filled = inside()
        local file = io.open(words[2], "w")
        file:write(filled)
        file:close()
        return filled
    end, options)
    return value or refused(err, holder)
end

function act.once(words, options)
    local ran, why = locks:once(words[1], tonumber(words[2]), inside, options)
    return ran and "ran" or ran == nil and refused(why) or "skipped"
end

function act.seat(words, options)
    local seat, err = locks:seat(words[1], inside, options)
    return seat and "ended" or refused(err)
end

local function split(line)
    local words, at = {}, 1
    while true do
        local from, to, word = line:find("^%s*'([^']*)'", at)
        if not from then
            from, to, word = line:find("^%s*(%S+)", at)
        end
        if not from then
            return words
        end
        words[#words + 1] = word
        at = to + 1
    end
end

local function answer(line)
    local words, options = {}, {}
    for _, word in ipairs(split(line)) do
        local name, value = word:match("^([%w_]+)=(.*)$")
        if name then
            options[name] = numbers[name] and seconds(value) or value
        elseif word == "norenew" then
            options.renew = false
        elseif booleans[word] then
            options[word] = true
        else
            words[#words + 1] = word
        end
    end
    local verb = table.remove(words, 1)
    if not act[verb] then
        return "unknown"
    end
    return act[verb](words, options)
end

function serve()
    for line in function() return input:read("*l") end do
        if line:find("^done") then
            return line:match("^done%s*(.*)$")
        elseif line:find("^fail") then
            error(failed)
        end
        local ok, said = pcall(answer, line)
        if not ok then
            text = tostring(said):gsub("\n", " ")
            said = said == failed and "failed" or "error"
        end
        say(said)
    end
    ffi.C._exit(0)
end

say("agent lua " .. lockshm._VERSION .. " fork recipes reopen texts")
serve()
