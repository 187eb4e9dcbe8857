-- SPDX-License-Identifier: MIT
--- The text of an nginx.conf: the tests' own, or that of the example server with the tests' head.  @name is a value.
local HEAD = [[
load_module @modules/ndk_http_module.so;
load_module @modules/ngx_http_lua_module.so;
@user
@main
daemon @daemon;
worker_processes @workers;
worker_rlimit_nofile 16384;
pid @dir/pid;
error_log @dir/error.log @level;
env LD_LIBRARY_PATH;
env LOCKSHM_LIBRARY;
]]

local LIMITS = [[
    access_log off;
    client_body_temp_path @dir/body;
    proxy_temp_path @dir/proxy;
    fastcgi_temp_path @dir/fastcgi;
    uwsgi_temp_path @dir/uwsgi;
    scgi_temp_path @dir/scgi;
    client_body_buffer_size 64k;
    keepalive_requests 10000000;
    keepalive_timeout 600s;
    lingering_close off;
    lua_check_client_abort on;
    lua_code_cache @cache;
    lua_max_running_timers @running_timers;
    lua_max_pending_timers @pending_timers;
]]

local LISTEN = [[
        listen unix:@dir/socket;
        location = /run { content_by_lua_block { require("support.worker").run() } }
]]

local OWN = HEAD .. [[
events { worker_connections 8192; }
http {
]] .. LIMITS .. [[
    lua_package_path "@lua/lib/?.lua;@lua/tests/?.lua;;";
    lua_shared_dict @dict 128k;
    init_by_lua_block {
        require("support.worker").dict = "@dict"
        @init
    }
    init_worker_by_lua_block { @init_worker }
    @http
    server {
]] .. LISTEN .. [[
        @server
    }
}
]]

local configuration = {}

local function fill(text, values)
	local function value(name) return values[name] end
	return (text:gsub("@(%l[%l_]*)", value):gsub("@(%l[%l_]*)", value)) -- twice: a value may contain names
end

--- The tests' own.
function configuration.own(values)
	return fill(OWN, values)
end

--- That of the example server; @text is its file.
function configuration.example(text, values)
	local function change(old, new)
		local n
		text, n = text:gsub(old, function() return new end)
		assert(n > 0, "not in the example: " .. old)
	end
	change("\npid [^\n]*", "")
	change("\nerror_log [^\n]*", "")
	change("worker_processes[^\n]*\n", HEAD)
	change(" *access_log off;\n", LIMITS)
	change("%$prefix%.%./", "@lua/")
	change('"%$prefix', '"@lua/tests/?.lua;@lua/examples/')
	change("init_by_lua_block {", [[init_by_lua_block {
        require("resty.lockshm").configure { instance = "@instance" }
        require("support.worker").dict = "@dict"
       ]])
	change(" *listen [%d.:]+;\n", LISTEN)
	return fill(text, values)
end

return configuration
