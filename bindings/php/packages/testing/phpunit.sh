# SPDX-License-Identifier: MIT
# For the scripts of ../../tests that run phpunit: the extension, the runs, the sum of their results.
#
# Environment: srcdir, builddir, LOCKCTL; PHP (php), PHPUNIT (phpunit).

packages=$(cd "$(dirname "$0")/../packages" && pwd)
work=$(mktemp -d)
passed=0 failed=0 skipped=0
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

PHP=${PHP:-php}
PHPUNIT=$(command -v "${PHPUNIT:-phpunit}" || true)
if [ -n "${builddir:-}" ] && [ -d "$builddir/.libs" ]; then
	LD_LIBRARY_PATH=$(cd "$builddir" && pwd)/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH
fi

# cannot_run REASON: ends the script
cannot_run()
{
	echo "skipped: $1"
	exit 77
}

# need_php [FILE]: php, phpunit, what the tests need of them, lockctl, and FILE in PHP's include path
need_php()
{
	[ "${have_php-yes}" = yes ] || cannot_run "configured without PHP"
	command -v "$PHP" >"$work/found" || cannot_run "there is no php"
	command -v "${PHPIZE:-phpize}" >"$work/found" || cannot_run "there is no phpize (Debian: php-dev)"
	[ -n "$PHPUNIT" ] || cannot_run "there is no phpunit"
	"$PHP" -r 'exit(array_filter(["pcntl", "posix", "dom", "simplexml"], fn ($name) => !extension_loaded($name)) ? 1 : 0);' ||
		cannot_run "php has no pcntl, posix, dom or simplexml"
	LOCKCTL=${LOCKCTL:-$(command -v lockctl || true)}
	[ -n "$LOCKCTL" ] || cannot_run "there is no lockctl"
	export LOCKCTL
	LOCKSHM_EXTENSION=$(sh "$packages/../tests/build.sh") || { echo "the extension cannot be built"; exit 1; }
	export LOCKSHM_EXTENSION
}

# with_hosts: two hosts for the tests, see ../../../hosts.sh, if there is a redis-server and a bridge
with_hosts()
{
	. "$packages/../../hosts.sh"
	if find_hosts; then
		trap 'end_hosts; rm -rf "$work"' EXIT
		start_hosts
	else
		HOSTS_MISSING=$hosts_missing
		export HOSTS_MISSING
	fi
}

# has FILE: is it in PHP's include path?
has()
{
	"$PHP" -r 'exit(stream_resolve_include_path($argv[1]) ? 0 : 1);' "$1"
}

# run TITLE ARGUMENT...: one run of phpunit
run()
{
	echo "== $1"
	shift
	status=0
	rm -f "$work/junit.xml"
	"$PHP" -d extension="$LOCKSHM_EXTENSION" -d memory_limit=512M "$PHPUNIT" --do-not-cache-result --log-junit "$work/junit.xml" "$@" || status=$?
	count "$status"
}

# count STATUS: adds the results in junit.xml; a run that failed without a failed test is one failure
count()
{
	set -- "$1" $("$PHP" -r '
		$suite = is_file($argv[1]) ? @simplexml_load_file($argv[1]) : false;
		$n = ["tests" => 0, "bad" => 0, "skipped" => 0];
		foreach ($suite ? $suite->testsuite : [] as $s) {
			$n["tests"] += (int) $s["tests"];
			$n["bad"] += (int) $s["errors"] + (int) $s["failures"] + (int) $s["warnings"];
			$n["skipped"] += (int) $s["skipped"];
		}
		echo $n["tests"] - $n["bad"] - $n["skipped"], " ", $n["bad"], " ", $n["skipped"];' "$work/junit.xml")
	passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
	if [ "$1" -ne 0 ] && [ "$3" -eq 0 ]; then
		failed=$((failed + 1))
	fi
}

# omitted REASON: a run that is not possible here
omitted()
{
	echo "== omitted: $1"
	skipped=$((skipped + 1))
}

# finish: the sum, and the status of the script
finish()
{
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
}
