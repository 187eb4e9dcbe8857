# SPDX-License-Identifier: MIT
# common.sh - what the tests share; to be sourced
# Environment: srcdir, builddir (else pkg-config lockshm), NGINX_PROGRAM, LUAJIT.

LC_ALL=C
export LC_ALL

here=$(cd "$(dirname "$0")" && pwd)
lua_dir=$(cd "$here/.." && pwd)
# Not NGINX, which nginx itself takes for inherited sockets.
nginx=${NGINX_PROGRAM:-nginx}
: "${LUAJIT:=luajit}"
unset NGINX
passed=0 failed=0 skipped=0

finish() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ] || exit 1
	exit 0
}

skip() {
	echo "skipped: $*"
	echo "0 passed, 0 failed, 1 skipped"
	exit 77
}

fail() {
	echo "FAILED: $*"
	failed=$((failed + 1))
}

pass() {
	passed=$((passed + 1))
}

# equal NAME ACTUAL EXPECTED
equal() {
	if [ "$2" = "$3" ]; then
		pass
	else
		fail "$1: got '$2' instead of '$3'"
	fi
}

[ "${have_lua-yes}" = yes ] || skip "configured without Lua"
# The library of the build, or the installed one.
if [ -n "${builddir:-}" ]; then
	builddir=$(cd "$builddir" && pwd)
	LOCKSHM_LIBRARY=$builddir/.libs/liblockshm.so.0
	scratch=$builddir/bindings/lua
else
	LOCKSHM_LIBRARY=$(pkg-config --variable=libdir lockshm 2>&1)/liblockshm.so.0
	scratch=${TMPDIR:-/tmp}
fi
[ -e "$LOCKSHM_LIBRARY" ] || skip "no liblockshm: $LOCKSHM_LIBRARY"
export LOCKSHM_LIBRARY
mkdir -p "$scratch"
work=$(mktemp -d "$scratch/lua-test-XXXXXX")
chmod 755 "$work"
segments=
LUA_INIT=

# Ends what the test started: each nginx by its pid file; and removes segments.
cleanup() {
	for file in $(find "$work" -name nginx.pid 2>/dev/null); do
		pid=$(cat "$file")
		kill -TERM "$pid" 2>/dev/null && wait_gone "$pid"
	done
	for name in $segments; do
		rm -f "/dev/shm/$name"
	done
	rm -f /dev/shm/resty-lock.*.suite-$$-*
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

wait_gone() {
	tries=0
	while kill -0 "$1" 2>/dev/null && [ $tries -lt 600 ]; do
		sleep 0.1
		tries=$((tries + 1))
	done
}

# temp_paths - nginx' own defaults are root's
temp_paths() {
	for kind in client_body proxy fastcgi uwsgi scgi; do
		echo "${kind}_temp_path $work/nginx/$kind;"
	done
}

need_command() {
	command -v ${1%% *} > /dev/null || skip "${1%% *} is not installed"
}

modules_dir() {
	"$nginx" -V 2>&1 | sed -n 's/.*--modules-path=\([^ ]*\).*/\1/p'
}

need_nginx() {
	need_command "$nginx"
	modules=$(modules_dir)
	[ -e "$modules/ngx_http_lua_module.so" ] || skip "nginx has no lua module"
}

# need_dir VARIABLE FILE - a copy of third-party code
need_dir() {
	eval "dir=\${$1:-}"
	[ -n "$dir" ] || skip "$1 is not set"
	[ -e "$dir/$2" ] || skip "$1 has no $2"
}

# make_suite_dir SOURCE NAME - a directory with the suite's tests and modules; NAME lockshm: over ours
make_suite_dir() {
	mkdir -p "$work/$2/lib/resty"
	cp -r "$1/t" "$work/$2/t"
	cp -r "$1/lib/resty/." "$work/$2/lib/resty/"
	if [ "$2" = lockshm ]; then
		cp -r "$lua_dir/lib/resty/." "$work/$2/lib/resty/"
		cat > "$work/$2/lib/resty/lock.lua" <<-END
			local lockshm = require "resty.lockshm"
			-- Each nginx has segments of its own, with names that this test can find.
			lockshm.configure { library = "$LOCKSHM_LIBRARY",
				instance = "suite-$$-" .. ngx.md5(ngx.config.prefix()):sub(1, 8) }
			return lockshm
		END
	elif [ -n "${RESTY_LOCK_DIR:-}" ]; then
		cp "$RESTY_LOCK_DIR/lib/resty/lock.lua" "$work/$2/lib/resty/lock.lua"
	fi
}

# run_suite NAME TEST... - runs tests of that directory by prove, each file with an nginx of its own; output in NAME.tap
run_suite() {
	name=$1
	shift
	(
		cd "$work/$name" || exit 1
		PATH=$PATH:/usr/sbin
		export PATH
		TEST_NGINX_BINARY=$(command -v "$nginx") TEST_NGINX_RANDOMIZE=1 TEST_NGINX_LOAD_MODULES="\
$modules/ndk_http_module.so $modules/ngx_http_echo_module.so $modules/ngx_http_lua_module.so" \
			prove -j "${JOBS:-6}" --timer --merge -v -I"$TEST_NGINX_DIR/lib" -I"$TEST_NGINX_DIR/inc" -I. "$@"
	) > "$work/$name.tap" 2>&1
}

# checks NAME STATE - names of the checks in that state, without what differs from run to run
checks() {
	grep "^$2 [0-9]" "$work/$1.tap" | sort -u | sed -e "s/^$2 [0-9]* - //" -e 's/ is expected.*/ is expected/' \
		-e 's/ (req .*//' -e 's/ but matches line.*//' | sort -u
}

# count_checks NAME STATE
count_checks() {
	grep -c "^$2 [0-9]" "$work/$1.tap"
}

# These suites have windows of some milliseconds for what a wait returns, which a busy machine misses, over lua-resty-lock
# as well.  So a check counts as failed if it fails in each of several runs.
RUNS=5

# keep_failed FILE RUN FAILED - of the checks in FILE those that failed in this run, too
keep_failed() {
	if [ "$2" -eq 1 ]; then
		cp "$3" "$1"
	else
		comm -12 "$1" "$3" > "$1.both"
		mv "$1.both" "$1"
	fi
	[ ! -s "$3" ] || echo "run $2: $(wc -l < "$3") checks failed, $(wc -l < "$1") in each run"
}
