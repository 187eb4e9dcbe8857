#!/bin/sh
# SPDX-License-Identifier: MIT
# migrating.sh - every code block of MIGRATING.md runs in nginx and does what the page says
#
# The first line of a Lua block names its place.  MLCACHE_DIR names a copy of lua-resty-mlcache; without it the block
# that needs it is skipped.
set -u
. "$(dirname "$0")/common.sh"

need_nginx
need_command curl

page=$lua_dir/MIGRATING.md
instance=migrating-$$
segments=resty-lock.locks.$instance
mkdir "$work/blocks" "$work/nginx"

# Code blocks as files: number, place or "nginx".
split_page() {
	awk -v dir="$work/blocks" '
		/^```/ && on { on = 0; close(file); next }
		/^```/ { on = 1; first = 1; language = substr($0, 4); n++; next }
		on && first {
			place = language
			if (language == "lua")
				place = match($0, /^-- [a-z_]+_by_lua_block/) ? substr($0, 4, RLENGTH - 3) : "nowhere"
			if ($0 ~ /needs lua-resty-mlcache/)
				place = place ".mlcache"
			file = sprintf("%s/%02d.%s", dir, n, place)
			first = 0
		}
		on { print > file }
	' "$page"
}

# blocks_of PLACE - each in a scope of its own
blocks_of() {
	for file in "$work/blocks"/*."$1"; do
		echo "do"
		cat "$file"
		echo "end"
	done
}

locations() {
	n=0
	for file in "$work/blocks"/*.content_by_lua_block*; do
		n=$((n + 1))
		case $file in *.mlcache) [ -n "${MLCACHE_DIR:-}" ] || continue ;; esac
		echo "location = /$n { content_by_lua_block {"
		cat "$file"
		echo "} }"
	done
}

configuration() {
	for module in ndk_http ngx_http_lua; do
		echo "load_module $modules/${module}_module.so;"
	done
	cat <<-END
		worker_processes 2;
		pid $work/nginx/nginx.pid;
		error_log $work/nginx/error.log info;
		events { worker_connections 256; }
		http {
		access_log off;
		$(temp_paths)
		lua_package_path "$lua_dir/lib/?.lua;${MLCACHE_DIR:+$MLCACHE_DIR/lib/?.lua;};";
		lua_shared_dict calls 64k;
		$(cat "$work/blocks"/*.nginx)
		init_by_lua_block {
		    function query(id)  -- the backend of the examples
		        ngx.shared.calls:incr(id, 1, 0)
		        ngx.sleep(0.1)
		        return "user " .. id
		    end
		    require("resty.lockshm").configure { library = "$LOCKSHM_LIBRARY", instance = "$instance" }
		    $(blocks_of init_by_lua_block)
		}
		init_worker_by_lua_block {
		    $(blocks_of init_worker_by_lua_block)
		}
		server {
		listen unix:$work/nginx/socket;
		location = /calls {
		    content_by_lua_block { ngx.say(ngx.shared.calls:get(ngx.var.arg_id) or 0) }
		}
		location = /busy {
		    content_by_lua_block {
		        local lock = require("resty.lock"):new("locks", { tag = "busy" })
		        assert(lock:lock("user:7"))
		        ngx.say(ngx.location.capture("/1").status)
		        assert(lock:unlock())
		    }
		}
		location = /janitor {
		    content_by_lua_block {
		        local _, _, holder = require("resty.lockshm").dict("locks"):exclusive("janitor", { timeout = 0 })
		        ngx.say(holder and holder.pid or "free")
		    }
		}
		$(locations)
		}
		}
	END
}

get() {
	curl -s --max-time 60 --unix-socket "$work/nginx/socket" "http://localhost$1"
}

# await_janitor [NOT-PID] - the process that has the seat, another one than NOT-PID
await_janitor() {
	tries=0
	while [ $tries -lt 600 ]; do
		pid=$(get /janitor)
		case $pid in
		'' | free | "${1:-}") ;;
		*) echo "$pid"; return ;;
		esac
		sleep 0.1
		tries=$((tries + 1))
	done
	echo "none in 60 s"
}

check_single_flight() {
	n=0
	while [ $n -lt 20 ]; do
		get /"$1" > "$work/flight-$n" &
		flights="${flights:-} $!"
		n=$((n + 1))
	done
	# shellcheck disable=SC2086
	wait $flights
	equal "20 requests for one value" "$(sort -u "$work"/flight-*)" "user 9"
	equal "their calls of the backend" "$(get '/calls?id=9')" 1
}

check_seat() {
	first=$(await_janitor)
	kill -KILL "$first"
	second=$(await_janitor "$first")
	case $second in
	*[!0-9]*) fail "the seat after its worker was killed: $second" ;;
	*) pass ;;
	esac
}

split_page
equal "the blocks of the page" "$(ls "$work/blocks" | sed 's/^..\.//' | sort | uniq -c | sed 's/^ *//')" "3 content_by_lua_block
1 content_by_lua_block.mlcache
1 init_by_lua_block
1 init_worker_by_lua_block
1 nginx"
configuration > "$work/nginx/nginx.conf"
"$nginx" -p "$work/nginx/" -e "$work/nginx/error.log" -c "$work/nginx/nginx.conf" || fail "nginx does not start"

equal "code of lua-resty-lock" "$(get /1)" "user 7"
equal "the same where the key is held" "$(get /busy)" 503
equal "its line in the log" "$(grep -c "user:7: timeout: held exclusive by pid [0-9]* (nginx) 'busy' for" "$work/nginx/error.log")" 1
if [ -n "${MLCACHE_DIR:-}" ]; then
	equal "mlcache" "$(get /2)" "user 8"
	equal "mlcache, found" "$(get /2; get '/calls?id=8')" "user 8
1"
else
	skipped=$((skipped + 1))
	echo "skipped: MLCACHE_DIR is not set"
fi
check_single_flight 3
equal "once" "$(get /4)" "purged"
equal "once, again" "$(get /4 | sed 's/ for another .*//')" "skipped: cooling down"
equal "its line in the log" "$(grep -c "\[info\].*'purge' skipped: cooling down" "$work/nginx/error.log")" 1
check_seat

size=$(stat -c %s "/dev/shm/resty-lock.locks.$instance")
equal "the size of a segment with these capacities" "$(sed -n 's/.*; \([0-9.]* MB\) with the figures above.*/\1/p' "$page")" \
	"$(awk -v size="$size" 'BEGIN { printf "%.1f MB", size / 1e6 }')"
equal "errors in nginx' log" "$(grep -E '\[(error|crit|alert|emerg)\]' "$work/nginx/error.log" |
	grep -v -e 'user:7: timeout' -e 'exited on signal 9')" ""
finish
