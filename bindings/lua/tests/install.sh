#!/bin/sh
# SPDX-License-Identifier: MIT
# install.sh - the rock installs from its own archive into an empty tree, without network, and the README runs there
set -u
. "$(dirname "$0")/common.sh"

need_command luarocks
need_command "$LUAJIT"

rockspec=$(basename "$lua_dir"/*.rockspec)
rock=${rockspec%.rockspec}
archive=${rock%-*}

# The first code block of the README: block LANGUAGE
block() {
	awk -v start="\`\`\`$1" '$0 == start { on = 1; next } on && /^```/ { exit } on' "$lua_dir/README.md"
}

build_rock() {
	mkdir -p "$work/pack/$archive"
	cp -r "$lua_dir/lib" "$lua_dir/README.md" "$lua_dir/$rockspec" "$work/pack/$archive"
	# luarocks packs from absolute places only.
	sed "s#url = \"#&file://$work/pack/#" "$lua_dir/$rockspec" > "$work/pack/$rockspec"
	cd "$work/pack" && tar czf "$archive.tar.gz" "$archive" &&
		luarocks --lua-version 5.1 pack "$rockspec" &&
		luarocks --lua-version 5.1 --tree "$work/tree" install --deps-mode none "$rock.src.rock"
}

run_lua() {
	block lua | sed "s/\"shop\"/\"readme-lua-$$\"/" > "$work/readme.lua"
	cd "$work" && LUA_PATH="$work/tree/share/lua/5.1/?.lua" "$LUAJIT" "$work/readme.lua"
}

start_nginx() {
	mkdir -p "$work/nginx"
	chmod 755 "$work"
	{
		for module in ndk_http ngx_http_lua; do
			echo "load_module $modules/${module}_module.so;"
		done
		echo "worker_processes 2; pid $work/nginx/nginx.pid; error_log $work/nginx/error.log notice;"
		echo "env LOCKSHM_LIBRARY; events { worker_connections 64; } http { access_log off;"
		echo "lua_package_path '$work/tree/share/lua/5.1/?.lua;;';"
		temp_paths
		block nginx | sed "s#listen 8080#listen unix:$work/nginx/socket#; s#^init_by_lua_block {#&\n\
require('resty.lockshm').configure { library = '$LOCKSHM_LIBRARY', instance = 'readme-$$' }#"
		echo "}"
	} > "$work/nginx/nginx.conf"
	segments="$segments resty-lock.locks.readme-$$"
	"$nginx" -p "$work/nginx/" -c "$work/nginx/nginx.conf"
}

get() {
	curl -s --max-time 60 --unix-socket "$work/nginx/socket" "http://localhost$1"
}

(build_rock) > "$work/build.log" 2>&1 && pass || { fail "the rock does not build or install"; cat "$work/build.log"; }
(
	cd "$lua_dir/lib" && find . -name '*.lua' | sort
) > "$work/there"
(
	cd "$work/tree/share/lua/5.1" 2>&1 && find . -name '*.lua' | sort
) > "$work/installed"
equal "the installed modules" "$(cat "$work/installed")" "$(cat "$work/there")"

segments="readme-lua-$$"
output=$(run_lua 2>&1)
equal "the README without nginx" "$(echo "$output" | sed 's/^token [0-9].*/token N/; s/ by pid .*//')" "token N
held exclusive
true	done"

if command -v "$nginx" > /dev/null && command -v curl > /dev/null && [ -e "$(modules_dir)/ngx_http_lua_module.so" ]; then
	need_nginx
	start_nginx || fail "nginx does not start with the README's configuration"
	equal "single flight" "$(get /page)" "rendered"
	equal "single flight, found" "$(get /page)" "rendered"
	equal "a lock" "$(get /old | sed 's/^token [0-9].*/token N/')" "token N"
	equal "errors in nginx' log" "$(grep -E '\[(error|crit|alert|emerg)\]' "$work/nginx/error.log")" ""
else
	skipped=$((skipped + 1))
	echo "skipped: nginx with its lua module, or curl, is not installed"
fi

finish
