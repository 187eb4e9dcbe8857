#!/bin/sh
# SPDX-License-Identifier: MIT
# Print the figures of the PHP binding beside FlockStore, SemaphoreStore and RedisStore, and of sessions beside the save
# handlers files and redis.
#
#   run.sh [locks|sessions]      both by default
#
# Environment: SECONDS_EACH (1) for each figure of a free pair; REQUESTS (50) in parallel, WORK_US (5000) in each, ROUNDS
# (5) of sessions; srcdir, builddir, PHP, PHP_FPM, SYMFONY_LOCK_DIR.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
segment=bench-php-$$
PHP=${PHP:-php}
PHP_FPM=${PHP_FPM:-$(command -v php-fpm8.2 || command -v php-fpm || true)}
if [ -n "${builddir:-}" ] && [ -d "$builddir/.libs" ]; then
	LD_LIBRARY_PATH=$(cd "$builddir" && pwd)/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH
fi
extension=$(sh "$here/../tests/build.sh")
redis= fpm=

finish()
{
	[ -z "$fpm" ] || kill "$fpm" || true
	[ -z "$redis" ] || kill "$redis" || true
	wait
	rm -rf "$work"
	rm -f "/dev/shm/$segment"
}
trap finish EXIT
trap 'exit 1' INT TERM

# await CONDITION...: until it is true, a minute at most
await()
{
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ "$tries" -lt 6000 ] || { echo "not within a minute: $*"; exit 1; }
		sleep 0.01
	done
}

start_redis()
{
	redis-server --port 0 --unixsocket "$work/redis" --save '' --appendonly no --daemonize no >"$work/redis.log" 2>&1 &
	redis=$!
	await test -S "$work/redis"
}

# start_fpm SETTING...: as many workers as requests, with these settings of php.ini
start_fpm()
{
	{
		echo "[global]"
		echo "error_log = $work/fpm.log"
		echo "daemonize = no"
		echo "[bench]"
		[ "$(id -u)" -ne 0 ] || echo "user = root"
		echo "listen = $work/fpm"
		echo "listen.backlog = 511"
		echo "pm = static"
		echo "pm.max_children = ${REQUESTS:-50}"
		for setting in "$@"; do
			echo "php_admin_value[${setting%%=*}] = \"${setting#*=}\""
		done
	} >"$work/fpm.conf"
	root=
	[ "$(id -u)" -ne 0 ] || root=-R
	"$PHP_FPM" $root -F -y "$work/fpm.conf" -d extension="$extension" 2>"$work/fpm.err" &
	fpm=$!
	await test -S "$work/fpm"
}

stop_fpm()
{
	kill "$fpm"
	wait "$fpm" || true
	fpm=
	rm -f "$work/fpm"
}

# sessions TITLE SETTING...: one line of the table
sessions()
{
	title=$1
	shift
	start_fpm "lockshm.segment=$segment" "$@"
	"$PHP" "$here/sessions.php" "$title" "$work/fpm" "${REQUESTS:-50}" "${WORK_US:-5000}" "${ROUNDS:-5}"
	stop_fpm
}

locks_table()
{
	"$PHP" -d extension="$extension" "$here/locks.php" "$segment" "$work/redis" "${SECONDS_EACH:-1}"
}

sessions_table()
{
	echo "${REQUESTS:-50} parallel requests of one user, ${WORK_US:-5000} us of work in each, as many workers, ${ROUNDS:-5} rounds"
	printf '%-30s %13s %13s %13s %8s %8s %8s\n' "" "all done p50" "request p50" "request p99" lost refused failed
	mkdir "$work/sessions"
	sessions "lockshm over files" session.save_handler=lockshm lockshm.session_handler=files "session.save_path=$work/sessions"
	sessions "lockshm over redis" session.save_handler=lockshm lockshm.session_handler=redis "session.save_path=unix://$work/redis"
	sessions "files" session.save_handler=files "session.save_path=$work/sessions"
	sessions "redis, locking off (default)" session.save_handler=redis "session.save_path=unix://$work/redis"
	sessions "redis, locking on" session.save_handler=redis "session.save_path=unix://$work/redis" \
		redis.session.locking_enabled=1
	sessions "redis, 20 ms x 1000 retries" session.save_handler=redis "session.save_path=unix://$work/redis" \
		redis.session.locking_enabled=1 redis.session.lock_wait_time=20000 redis.session.lock_retries=1000
}

start_redis
"$PHP" -r 'echo "PHP ", PHP_VERSION, ", phpredis ", phpversion("redis"), "\n";'
case ${1:-all} in
locks) locks_table ;;
sessions) sessions_table ;;
all) locks_table && echo && sessions_table ;;
*) echo "usage: run.sh [locks|sessions]" >&2 && exit 2 ;;
esac
