#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh - resty.lockshm beside lua-resty-lock in nginx: a table in markdown
#
# Usage: run.sh [ROUNDS]          7 rounds take less than a minute and a half
#        run.sh --ticker          how late a timer of 1 ms is while requests wait
# Environment: RESTY_LOCK_DIR (a checkout of lua-resty-lock; without it its column is left out), LOCKSHM_LIBRARY
# (else that of pkg-config lockshm), NGINX_PROGRAM, CC.
# Starts nginx in a directory of its own, with 2 and then 4 workers.  As root the workers run as nobody.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
lua_dir=$(cd "$here/.." && pwd)
nginx=${NGINX_PROGRAM:-nginx} # not NGINX: nginx itself takes that for inherited sockets
: "${CC:=cc}"
unset NGINX
PATH=$PATH:/usr/sbin
mode=conductor
rounds=7
case ${1:-} in
--ticker)
	mode=ticker
	rounds=5
	;;
'') ;;
*[!0-9]*) echo "usage: run.sh [ROUNDS | --ticker]" >&2; exit 2 ;;
*) rounds=$1 ;;
esac

if [ -z "${LOCKSHM_LIBRARY:-}" ]; then
	LOCKSHM_LIBRARY=$(pkg-config --variable=libdir lockshm || :)/liblockshm.so.0
fi
[ -e "$LOCKSHM_LIBRARY" ] || { echo "run.sh: no $LOCKSHM_LIBRARY" >&2; exit 1; }
if [ -n "${RESTY_LOCK_DIR:-}" ] && [ ! -e "$RESTY_LOCK_DIR/lib/resty/lock.lua" ]; then
	echo "run.sh: RESTY_LOCK_DIR has no lib/resty/lock.lua" >&2
	exit 1
fi
modules=$("$nginx" -V 2>&1 | sed -n 's/.*--modules-path=\([^ ]*\).*/\1/p')

work=$(mktemp -d)
chmod 755 "$work"
LOCKSHM_BENCH_DICT=bench$$
export LOCKSHM_LIBRARY LOCKSHM_BENCH_DICT
master=
end_nginx()
{
	[ -n "$master" ] || return 0
	kill -TERM "$master" 2>/dev/null || :
	wait "$master" || :
	master=
}
cleanup()
{
	end_nginx
	rm -rf "$work" "/dev/shm/resty-lock.$LOCKSHM_BENCH_DICT".*
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

if command -v "$CC" >/dev/null && "$CC" -O2 -shared -fPIC -o "$work/pair.so" "$here/pair.c"; then
	LOCKSHM_BENCH_PAIR=$work/pair.so
	export LOCKSHM_BENCH_PAIR
fi
user=
[ "$(id -u)" -ne 0 ] || user="user nobody $(id -gn nobody);"

# start WORKERS
start()
{
	cat >"$work/nginx.conf" <<-END
		load_module $modules/ndk_http_module.so;
		load_module $modules/ngx_http_lua_module.so;
		$user
		daemon off;
		worker_processes $1;
		pid $work/nginx.pid;
		error_log $work/error.log warn;
		env LOCKSHM_LIBRARY;
		env LOCKSHM_BENCH_DICT;
		env LOCKSHM_BENCH_PAIR;
		env RESTY_LOCK_DIR;
		events {}
		http {
		    lua_package_path "$lua_dir/lib/?.lua;$lua_dir/?.lua;${RESTY_LOCK_DIR:+$RESTY_LOCK_DIR/lib/?.lua;};";
		    lua_shared_dict $LOCKSHM_BENCH_DICT 1m;
		    lua_shared_dict control 1m;
		    init_worker_by_lua_block {
		        ngx.timer.at(0, function()
		            local workers = require "bench.workers"
		            workers.announce()
		            if ngx.worker.id() > 0 then
		                return workers.serve(require "bench.parts")
		            end
		            require("bench.machine").run(require("bench.$mode").run, $rounds)
		        end)
		    }
		}
	END
	: >"$work/out-$1"
	"$nginx" -p "$work/" -e "$work/error.log" -c "$work/nginx.conf" >"$work/out-$1" 2>&1 &
	master=$!
	while ! grep -q '^end$' "$work/out-$1"; do
		if grep '^failed' "$work/out-$1" >&2 || ! kill -0 "$master" 2>/dev/null; then
			tail -n 20 "$work/error.log" >&2
			exit 1
		fi
		sleep 0.2
	done
	end_nginx
	grep -v 'exited on signal 9' "$work/error.log" >&2 || :
}

started=$(date +%s)
load=$(cut -d' ' -f1 /proc/loadavg)
start 2
[ $mode = ticker ] || start 4
awk -f "$here/report.awk" -v load="$load" -v rounds="$rounds" -v seconds=$(($(date +%s) - started)) \
	-v mode=$mode "$work"/out-*
