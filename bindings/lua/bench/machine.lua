-- SPDX-License-Identifier: MIT
--- What the benchmark prints for report.awk: samples, and what they were taken on.

local M = {}

--- A sample.
function M.emit(scenario, kind, value)
    io.stdout:write(scenario, "\t", kind, "\t", ("%.9g"):format(value), "\n")
end

local function read(path)
    local file = assert(io.open(path))
    local text = file:read("*a")
    file:close()
    return text
end

local function version(number)
    return ("%d.%d.%d"):format(number / 1e6, number / 1e3 % 1e3, number % 1e3)
end

--- The machine and the versions.
function M.describe()
    local _, processors = read("/proc/stat"):gsub("\ncpu%d", "")
    local parts = {
        read("/proc/cpuinfo"):match("model name%s*:%s*([^\n]+)") or "unknown processor",
        processors .. " processors",
        "Linux " .. read("/proc/sys/kernel/osrelease"):match("%S+"),
        "nginx " .. version(ngx.config.nginx_version),
        "lua module " .. version(ngx.config.ngx_lua_version),
        jit.version,
        "lockshm " .. require("resty.lockshm")._VERSION,
        os.getenv("RESTY_LOCK_DIR") and "resty.lock " .. require("resty.lock")._VERSION or nil,
    }
    io.stdout:write("machine\t", table.concat(parts, ", "), "\n")
end

--- Runs a benchmark, and says at its end how it ended.
function M.run(benchmark, rounds)
    local ok, err = xpcall(benchmark, debug.traceback, rounds)
    io.stdout:write(ok and "end\n" or "failed\t" .. tostring(err) .. "\n")
    io.stdout:flush()
end

return M
