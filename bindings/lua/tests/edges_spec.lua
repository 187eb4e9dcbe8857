-- SPDX-License-Identifier: MIT
--- What lua-resty-lock and resty.lockshm do with edge values, by calling both.
-- Each row of ROWS is a call of both.  Their outcomes are equal, or DIFFERENT has both, and the reason.
local nginx = require "support.nginx"

--- Run in the server.  An outcome is a text: results, "raises" for an error, "waits" for a call that has not returned.
local CALL = [[
	local path, option, text, call = %q, %q, %q, %q
	local value = setfenv(loadstring("return " .. text), getfenv(1))()
	local function pack(...) return { n = select("#", ...), ... } end
	local function shown(results)
		local parts = {}
		for i = 1, results.n do
			local part = results[i]
			local is_word = type(part) ~= "string" or part:find("^[%%a ]*$") and #part < 24
			parts[i] = type(part) == "table" and "object" or is_word and tostring(part) or "sentence"
		end
		return table.concat(parts, ", ")
	end
	local function outcome(fn, ...)
		local result
		local thread = ngx.thread.spawn(function(...)
			local results = pack(pcall(fn, ...))
			result = results[1] and shown(pack(unpack(results, 2, results.n))) or "raises"
		end, ...)
		local began = ngx.now()
		repeat
			if result then return result end
			ngx.sleep(0.05)
		until ngx.now() > began + 1.5 -- a default time-out is 5 s
		ngx.thread.kill(thread)
		return "waits"
	end
	local function of(module, key)
		local object = function(options) return module:new(dict, options) end
		local function part(name)
			local new = outcome(object, { [option] = value })
			if name == "new" or new ~= "object" then
				return "new: " .. new
			end
			local lock, try = object({ [option] = value }), object({ timeout = 0 })
			if name == "held" then
				assert(try:lock(key))
				T[#T + 1] = try
				return outcome(lock.lock, lock, key)
			elseif name == "free" then
				return outcome(lock.lock, lock, key) .. "; " .. outcome(lock.unlock, lock)
			end
			local taken = outcome(lock.lock, lock, key)
			ngx.sleep(0.1)
			return taken .. "; a tenth of a second later a try: " .. outcome(try.lock, try, key)
		end
		local calls = {
			part = part,
			dictionary = function() return outcome(module.new, module, value) end,
			options = function() return outcome(object, value) end,
			key = function()
				local lock, try = object(), object({ timeout = 0 })
				local taken = outcome(lock.lock, lock, value)
				local text = outcome(try.lock, try, tostring(value))
				return taken .. "; its text: " .. text .. "; " .. outcome(lock.unlock, lock)
			end,
			second = function()
				local lock = object()
				assert(lock:lock(key))
				return outcome(lock.lock, lock, value)
			end,
			expire = function()
				local lock = object()
				assert(lock:lock(key))
				return outcome(lock.expire, lock, value)
			end,
			free_expire = function() return outcome(object().expire, object(), value) end,
			late_expire = function()
				local lock, try = object({ exptime = 0.01 }), object({ timeout = 0 })
				assert(lock:lock(key))
				ngx.sleep(0.1)
				return outcome(lock.expire, lock, value)
			end,
			unlock = function()
				local lock = object()
				assert(lock:lock(key))
				return outcome(lock.unlock, lock, value) .. "; " .. outcome(lock.unlock, lock)
			end,
			late_unlock = function()
				local lock, other = object({ exptime = 0.01 }), object({ timeout = 0 })
				assert(lock:lock(key))
				ngx.sleep(0.1)
				assert(other:lock(key))
				return outcome(lock.unlock, lock) .. "; the other's: " .. outcome(other.unlock, other)
			end,
		}
		return calls[call] and calls[call]() or part(call)
	end
	local original = T.original or assert(loadfile(path))()
	T.original, T.calls = original, (T.calls or 0) + 1
	local key = "key " .. T.calls
	return of(original, key), of(lockshm, key)
]]

local NUMBERS = {
	"nil", "false", "0", "-1", "1e9", "1e300", "math.huge", "-math.huge", "0/0", "0.01", "0.0001", "'0.01'", "'soon'", "''", "true", "{}",
	"'0.01\\0'",
}
local KEYS = {
	"nil", "false", "0", "-1", "1e300", "math.huge", "0/0", "0.5", "''", "true", "('x'):rep(65535)", "('x'):rep(65536)", "'a\\0b'", "'\\0'",
}

local ROWS = {}
local function add(call, option, values)
	for _, value in ipairs(values) do ROWS[#ROWS + 1] = { call = call, option = option, value = value } end
end
for _, option in ipairs { "timeout", "exptime", "step", "ratio", "max_step" } do
	for _, call in ipairs { "new", "free", "held" } do
		for _, value in ipairs(NUMBERS) do
			-- lua-resty-lock never leaves ngx.sleep(0) there, and nginx serves no other request.
			if not (call == "held" and option == "max_step" and value == "0") then add(call, option, { value }) end
		end
	end
end
add("later", "exptime", NUMBERS)
add("dictionary", "", { "nil", "false", "0", "''", "{}", "'no_such'", "dict .. '\\0'", "0/0" })
add("options", "", { "nil", "false", "{}", "true", "5", "'text'", "{ timeuot = 1 }" })
add("key", "", KEYS)
add("second", "", { "nil", "''", "'other'" })
add("expire", "", NUMBERS)
add("free_expire", "", { "nil", "-1", "'soon'" })
add("late_expire", "", { "nil", "1" })
add("unlock", "", { "nil" })
add("late_unlock", "", { "nil" })

local function code_of(row) return CALL:format(os.getenv("RESTY_LOCK"), row.option, row.value, row.call) end

local DIFFERENT = {}
--- Notes outcomes that differ on purpose: those of lua-resty-lock and of resty.lockshm.
local function differ(reason, original, ours, call, option, values)
	for _, value in ipairs(values) do
		DIFFERENT[call .. (option ~= "" and " with " .. option or "") .. " = " .. value] = { original, ours, reason }
	end
end

local NO_NUMBERS = { "'soon'", "''", "true", "{}", "'0.01\\0'" }
local NAMED = "an error string that names the option, in place of an error raised by math.min()"
local EARLY = "new() names the option, where lua-resty-lock raises an error in each lock()"
local LATER = "; a tenth of a second later a try: "
for _, call in ipairs { "new", "free", "held" } do
	differ(NAMED, "new: raises", "new: nil, sentence", call, "timeout", NO_NUMBERS)
end
for call, original in pairs { new = "new: object", free = "raises; nil, unlocked", held = "raises", later = "raises" .. LATER .. "0" } do
	differ(EARLY, original, "new: nil, sentence", call, "exptime", { "-1", "-math.huge", unpack(NO_NUMBERS) })
end
local NAN = "what is no time is refused, where a conversion in C makes for ever of it"
for call, original in pairs { new = "new: object", free = "0; 1", held = "waits", later = "0" .. LATER .. "nil, timeout" } do
	differ(NAN, original, "new: nil, sentence", call, "exptime", { "0/0" })
end
local TEXT = "the text of a number is a number, for each option"
differ(TEXT, "raises; nil, unlocked", "0; 1", "free", "exptime", { "'0.01'" })
differ(TEXT, "raises", "waits", "held", "exptime", { "'0.01'" })
differ(TEXT, "raises" .. LATER .. "0", "0" .. LATER .. "0", "later", "exptime", { "'0.01'" })
differ("the shortest lease is a millisecond, where less is rounded to for ever", "0" .. LATER .. "nil, timeout", "0" .. LATER .. "0",
	"later", "exptime", { "0.0001" })
local ELAPSED = "counts for elapsed only; lua-resty-lock raises an error where it has to wait"
differ(ELAPSED, "raises", "waits", "held", "step", { "-1", "1e300", "math.huge", "-math.huge", "0/0", unpack(NO_NUMBERS) })
differ(ELAPSED, "raises", "waits", "held", "ratio", NO_NUMBERS)
differ(ELAPSED, "raises", "waits", "held", "max_step", { "-1", "-math.huge", "0/0", unpack(NO_NUMBERS) })
differ("lua-resty-lock counts sleeps that are rounded to nothing", "nil, timeout", "waits", "held", "max_step", { "0.0001" })
differ("an error string in place of an error raised", "raises", "nil, sentence", "options", "", { "true", "5" })
differ("a text in place of a table is a mistake that is named", "object", "nil, sentence", "options", "", { "'text'" })
differ("an error string in place of an error raised", "raises", "nil, sentence", "expire", "", { "-1", "-math.huge", unpack(NO_NUMBERS) })
differ(NAN, "true", "nil, sentence", "expire", "", { "0/0" })
differ(TEXT, "raises", "true", "expire", "", { "'0.01'" })
differ("no other request has taken the key, so it is held again", "nil, not found", "true", "late_expire", "", { "nil", "1" })
differ("the other request's lock stays, and the loss is reported", "1; the other's: 1", "nil, unlocked, lost; the other's: 1",
	"late_unlock", "", { "nil" })

describe("lua-resty-lock and resty.lockshm:", function()
	local server, worker
	setup(function()
		server = nginx.start { workers = 1 }
		worker = server:workers(#ROWS + 1)[1]
		for _, row in ipairs(ROWS) do
			row.started = worker:start(code_of(row))
		end
	end)
	teardown(nginx.stop_all)

	for _, row in ipairs(ROWS) do
		local name = row.call .. (row.option ~= "" and " with " .. row.option or "") .. " = " .. row.value
		local reason = DIFFERENT[name]
		it(name .. (reason and " (different: " .. reason[3] .. ")" or ""), function()
			local original, ours = row.started:result()
			if not reason and original ~= ours and (original == "waits" or ours == "waits") then
				original, ours = worker:run(code_of(row)) -- a machine that stalls for seconds ends what "waits"
			end
			assert.same(reason and { reason[1], reason[2] } or { original, original }, { original, ours })
		end)
	end
end)
