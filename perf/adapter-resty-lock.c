/* SPDX-License-Identifier: MIT */
/*
 * adapter-resty-lock.c - lua-resty-lock, inside nginx with its lua module
 *
 * It runs only in the workers of nginx, so the body of the solo scenarios runs there, in Lua, and the time comes back
 * over a socket: no request is part of it.  Other scenarios leave it out.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char config[] =
	"daemon off; worker_processes 1; pid %1$s/nginx.pid; error_log %1$s/nginx.log;\n"
	"include /etc/nginx/modules-enabled/*ndk*.conf; include /etc/nginx/modules-enabled/*lua*.conf;\n"
	"events { worker_connections 64; }\n"
	"http {\n"
	" access_log off; client_body_temp_path %1$s/body; proxy_temp_path %1$s/proxy; fastcgi_temp_path %1$s/fastcgi;\n"
	" uwsgi_temp_path %1$s/uwsgi; scgi_temp_path %1$s/scgi; lua_shared_dict locks 64m;\n"
	" lua_package_path '%2$s/?.lua;;';\n"
	" init_by_lua_block {\n"
	"  require('ffi').cdef 'struct bench_time { long s, ns; }; int clock_gettime(int, struct bench_time *);'\n"
	" }\n"
	" server { listen unix:%1$s/nginx.sock;\n"
	"  location /there { content_by_lua_block {\n"
	"   ngx.print(pcall(require, 'resty.lock') and 'yes' or 'no')\n"
	"  } }\n"
	"  location /solo { content_by_lua_block {\n"
	"   local ffi = require 'ffi'\n"
	"   local t = ffi.new 'struct bench_time'\n"
	"   local function now() ffi.C.clock_gettime(1, t); return tonumber(t.s) * 1e9 + tonumber(t.ns) end\n"
	"   local keys, ms = tonumber(ngx.var.arg_keys), tonumber(ngx.var.arg_ms)\n"
	"   local lock = require('resty.lock'):new('locks', { exptime = 30, timeout = 5 })\n"
	"   local random, slice, begin = math.random, {}, now()\n"
	"   repeat\n"
	"    local from = now()\n"
	"    for i = 1, 500 do\n"
	"     assert(lock:lock(keys == 1 and 'key:0000hotsixte' or 'key:0000' .. random(keys)))\n"
	"     assert(lock:unlock())\n"
	"    end\n"
	"    slice[#slice + 1] = (now() - from) / 500\n"
	"   until now() - begin > ms * 1e6 and #slice > 4\n"
	"   table.sort(slice); ngx.print(slice[math.ceil(#slice / 2)])\n"
	"  } }\n"
	" }\n"
	"}\n";

static char socket_path[100];
static uint32_t keys;
static bool started;

/* The body of the reply to GET path; empty if there is none. */
static void get(const char *path, char *out, size_t size)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[4096];
	size_t n = 0;
	ssize_t got;
	char *body;

	out[0] = 0;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		bench_fail(socket_path);
	snprintf(text, sizeof(text), "GET %s HTTP/1.0\r\n\r\n", path);
	if (write(fd, text, strlen(text)) < 0)
		bench_fail(socket_path);
	while (n < sizeof(text) - 1 && (got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	close(fd);
	text[n] = 0;
	body = strstr(text, "\r\n\r\n");
	if (body && strstr(text, " 200 "))
		snprintf(out, size, "%s", body + 4);
}

static int write_config(const char *path, const char *directory)
{
	const char *lua = getenv("LOCKSHM_BENCH_LUA"); /* directory of resty/lock.lua, if not nginx's own */
	FILE *f = fopen(path, "we");

	if (!f)
		return -1;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	fprintf(f, config, directory, lua ? lua : directory);
#pragma GCC diagnostic pop
	return fclose(f);
}

static int start_server(void)
{
	const char *program = server_find("nginx", NULL);
	char directory[80], path[96], answer[64];
	const char *argv[] = { NULL, "-c", path, NULL };

	if (!program || !server_dir())
		return -1;
	argv[0] = strdup(program);
	snprintf(directory, sizeof(directory), "%s", server_dir());
	snprintf(path, sizeof(path), "%s/nginx.conf", directory);
	snprintf(socket_path, sizeof(socket_path), "%s/nginx.sock", directory);
	if (!argv[0] || write_config(path, directory))
		return -1;
	if (server_start(argv, socket_path)) {
		bench_why("nginx has no lua module");
		return -1;
	}
	get("/there", answer, sizeof(answer));
	if (!strcmp(answer, "yes"))
		return 0;
	bench_why("nginx finds no resty.lock; LOCKSHM_BENCH_LUA may name the directory with resty/lock.lua");
	return -1;
}

static int resty_create(const struct bench_need *need)
{
	static bool failed;

	keys = need->keys;
	if (failed || (!started && start_server())) {
		failed = true;
		return -1;
	}
	started = true;
	return 0;
}

static double resty_ns(enum bench_mode mode, int ms)
{
	char path[64], answer[64];

	(void)mode;
	snprintf(path, sizeof(path), "/solo?keys=%u&ms=%d", keys, ms);
	get(path, answer, sizeof(answer));
	if (atof(answer) <= 0) {
		errno = 0;
		bench_fail("nginx: the body in Lua failed");
	}
	return atof(answer);
}

static void resty_nothing(void)
{
}

const struct lock_adapter adapter_resty_lock = {
	.name = "resty-lock",
	.can = LOCK_MANY | LOCK_SERVER | LOCK_REMOTE,
	.create = resty_create,
	.destroy = resty_nothing,
	.remote_ns = resty_ns,
};
