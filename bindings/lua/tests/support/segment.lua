-- SPDX-License-Identifier: MIT
--- What lockctl says of segments: a witness that does not use the binding.
local json = require "dkjson"

local segment = { program = os.getenv("LOCKCTL") or "lockctl" }

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- Runs lockctl.  Returns its output, and whether it succeeded.
function segment.lockctl(...)
	local words = { segment.program }
	for _, word in ipairs({ ... }) do words[#words + 1] = quote(tostring(word)) end
	local pipe = assert(io.popen(table.concat(words, " ") .. " 2>&1; echo $?"))
	local text, status = pipe:read("*a"):match("^(.-)(%d+)\n$")
	pipe:close()
	return text, status == "0"
end

local function document(...)
	local text, ok = segment.lockctl(...)
	if not ok then error("lockctl " .. table.concat({ ... }, " ") .. ": " .. text, 3) end
	return assert(json.decode(text, 1, nil), text)
end

--- Names of the segments whose name contains @text.
function segment.find(text)
	local names = {}
	local pipe = io.popen("ls /dev/shm")
	for name in pipe:lines() do
		if name:find(text, 1, true) then names[#names + 1] = name end
	end
	pipe:close()
	return names
end

--- A key: mode, holders and waiters, each with pid, token, age_ms, tag.
function segment.show(name, key)
	return document("show", name, key, "--json")
end

--- Capacities, use and counts.
function segment.stat(name)
	return document("stat", name, "--json")
end

--- Whether every invariant of the segment holds; else what lockctl says.
function segment.verify(name)
	local text, ok = segment.lockctl("verify", name)
	return ok or text
end

--- Removes the segments whose name contains @text.
function segment.remove(text)
	for _, name in ipairs(segment.find(text)) do segment.lockctl("rm", name) end
end

return segment
