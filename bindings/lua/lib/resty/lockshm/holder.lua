-- SPDX-License-Identifier: MIT
--- What was in the way of a request, and what a dead holder left: C structs as Lua tables.

local ffi = require "ffi"
local native = require "resty.lockshm.native"

local C = native.load()

local M = {}

local modes = { [2] = "shared", [3] = "exclusive" }
local states = { [2] = "waiting", [3] = "holding", [4] = "cooling", [5] = "bargeable" }

local alone = native.sized("struct lockshm_report")
local sentence = ffi.new("char[?]", native.number.EXPLAIN_MAX)

--- What was in the way, in the words of the library.
local function explain(blocker)
    alone.blocker = blocker
    C.lockshm_explain(alone, 0, sentence, native.number.EXPLAIN_MAX)
    return ffi.string(sentence)
end

local class = { __tostring = function(reason) return reason.message end }

local function text_or_nil(bytes)
    local text = ffi.string(bytes)
    return text ~= "" and text or nil
end

--- A table for a struct lockshm_blocker: state, mode, pid, tid, token, age, expires_in, name, tag, message.
-- tostring() of it is the message, a sentence.  Its fields pid, tid, name and tag are nil where they are not known.
-- @return nil if it is not known what was in the way
function M.of_blocker(blocker)
    if blocker.state == 0 then
        return nil
    end
    return setmetatable({
        state = states[blocker.state],
        mode = modes[blocker.mode],
        pid = blocker.pid ~= 0 and blocker.pid or nil,
        tid = blocker.tid ~= 0 and blocker.tid or nil,
        token = native.token(blocker.token),
        age = native.to_seconds(blocker.age_ns),
        expires_in = native.to_seconds(blocker.expires_in_ns),
        name = text_or_nil(blocker.name),
        tag = text_or_nil(blocker.tag),
        message = explain(blocker),
    }, class)
end

local row = native.sized("struct lockshm_row")
local list_out = ffi.new("lockshm_list_t *[1]")

local function is_live(found)
    local state = found.request.state
    return state ~= 0 and (found.alive ~= 0 or (state ~= C.LOCKSHM_HOLDING and state ~= C.LOCKSHM_WAITING))
end

--- The requests for a key as tables of M.of_blocker(): holders, oldest first, then waiters in their order.
function M.list(handle, key)
    local status = C.lockshm_list_open(list_out, handle, C.LOCKSHM_LIST_KEY, key, #key)
    local listing, found = list_out[0], {}
    while status == 0 do
        status = C.lockshm_list_next(listing, row)
        if status ~= 1 then
            break
        elseif is_live(row) then
            found[#found + 1] = M.of_blocker(row.request)
        end
        status = 0
    end
    C.lockshm_list_close(listing)
    if status < 0 then
        return nil, native.status(status)
    end
    return found
end

--- What was in the way by a struct lockshm_report: the holder on this host, as above, or a table with only a message,
-- which is tostring() of it: another host that holds the key, or why there is no exclusion across hosts.
-- @return nil if it is not known what was in the way
function M.of_report(report)
    local code, text = report.error.code, ffi.string(report.error.message)
    local found = M.of_blocker(report.blocker)
    if found or text == "" or not native.has_word(code) or text == ffi.string(native.C.lockshm_strerror(code)) then
        return found
    end
    return setmetatable({ message = text }, class)
end

--- A table for a struct lockshm_damage: status, pid, tid, token, age, tag.
-- @return nil if the key has no damage mark
function M.of_damage(damage)
    if damage.status == 0 then
        return nil
    end
    return {
        status = native.status(damage.status),
        pid = damage.pid ~= 0 and damage.pid or nil,
        tid = damage.tid ~= 0 and damage.tid or nil,
        token = native.token(damage.token),
        age = native.to_seconds(damage.age_ns),
        tag = text_or_nil(damage.tag),
    }
end

return M
