#!/bin/sh
# SPDX-License-Identifier: MIT
# The session save handler in a real php-fpm, around files and, where there is one, Redis.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/support/start.sh"
. "$here/support/start-fpm.sh"

if command -v redis-server >/dev/null && php -n -d extension=igbinary -d extension=redis -r 'exit(extension_loaded("redis") ? 0 : 1);' 2>/dev/null; then
	REDIS_SOCKET=$work/redis.sock
	export REDIS_SOCKET
	redis-server --port 0 --unixsocket "$REDIS_SOCKET" --save '' --dir "$work" >"$work/redis.log" &
	redis=$!
	trap 'kill "$redis"; rm -rf "$work"' EXIT
	tries=0
	until redis-cli -s "$REDIS_SOCKET" ping >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ "$tries" -lt 600 ] || { cat "$work/redis.log"; exit 1; }
		sleep 0.1
	done
else
	echo "without Redis: no redis-server, or no redis extension of PHP"
fi
php -n -d extension="$extension" -d extension=posix "$here/fpm/sessions.php"
