#!/bin/sh
# SPDX-License-Identifier: MIT
#
# first-use.sh lock|wait|resty-lock - starts nginx, and prints what the first lock of its worker costs, in microseconds
#
# lock: of a free key, by lock(); wait: of a held key, until the request is in the queue; resty-lock: as lock, of lua-resty-lock
# (RESTY_LOCK_DIR names a copy).  Modules and the segment are the master's, of the init phase.
# Environment: builddir (else the installed library), NGINX_PROGRAM.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
nginx=${NGINX_PROGRAM:-nginx}
PATH=$PATH:/usr/sbin
unset NGINX
what=${1:?lock, wait or resty-lock}
modules=${NGINX_MODULES:-/usr/lib/nginx/modules}
instance=first-use-$$
work=$(mktemp -d)
chmod 755 "$work"
library=
[ -z "${builddir:-}" ] || library="library = '$(cd "$builddir" && pwd)/.libs/liblockshm.so.0',"

clean_up()
{
	[ ! -s "$work/pid" ] || kill -QUIT "$(cat "$work/pid")"
	tries=0
	while [ -s "$work/pid" ] && [ $tries -lt 500 ]; do
		sleep 0.02
		tries=$((tries + 1))
	done
	rm -rf "$work" "/dev/shm/resty-lock.locks.$instance"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

cat >"$work/nginx.conf" <<END
load_module $modules/ndk_http_module.so;
load_module $modules/ngx_http_lua_module.so;
worker_processes 1;
pid $work/pid;
error_log $work/log;
events { worker_connections 64; }
http {
	access_log off;
	lua_package_path "$here/lib/?.lua;${RESTY_LOCK_DIR:+$RESTY_LOCK_DIR/lib/?.lua;};";
	lua_shared_dict locks 128k;
	init_by_lua_block {
		local lockshm = require "resty.lockshm"
		lockshm.configure { $library instance = "$instance" }
		assert(lockshm.dict("locks"))
		module = require("$what" == "resty-lock" and "resty.lock" or "resty.lockshm")
	}
	server {
		listen unix:$work/socket;
		location = / {
			content_by_lua_block {
				local now = require("resty.lockshm.native").now
				local lock, began = assert(module:new("locks")), now()
				assert(lock:lock("key"))
				local ended = now()
				if "$what" == "wait" then
					local pump = require "resty.lockshm.pump"
					local wait = pump.wait
					pump.wait = function(...)
						ended = now()
						return wait(...)
					end
					local other = module:new("locks", { timeout = 0.1 })
					began = now()
					other:lock("key")
				end
				lock:unlock()
				ngx.say((ended - began) * 1e6)
			}
		}
	}
}
END
"$nginx" -p "$work/" -c "$work/nginx.conf" -e "$work/log"
curl -sf --max-time 60 --unix-socket "$work/socket" http://localhost/ || { cat "$work/log" >&2; exit 1; }
