#!/bin/sh
# SPDX-License-Identifier: MIT
#
# conformance.sh - the cases of conformance/, by the agent of each language that was found; those of deaths by each two
#
# Arguments are further agents, each a command: "qemu-aarch64 -L /usr/aarch64-linux-gnu elsewhere/agent".
# Environment: srcdir, builddir; CASES: files, and CASE: words of names, where only some are to run; LUAJIT, PYTHON, PHP.
set -u

here=$(cd "$(dirname "$0")" && pwd)
. "$here/hosts.sh"
python=${PYTHON:-python3}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT PIPE TERM
: >"$work/agents" >"$work/counts"
conductors=

skip()
{
	echo "skipped: $*"
	echo "0 passed, 0 failed, 1 skipped"
	exit 77
}

# agent NAME COMMAND
agent()
{
	echo "$2" >"$work/$1.command"
	echo "$1" >>"$work/agents"
}

lacks()
{
	echo "skipped: no agent in $*"
	echo "0 passed, 0 failed, 1 skipped" >>"$work/counts"
}

agent_of_lua()
{
	[ "${have_lua-yes}" = yes ] || return
	command -v "${LUAJIT:=luajit}" >/dev/null || return
	agent lua "env LOCKSHM_LIBRARY=$builddir/.libs/liblockshm.so.0 LUA_PATH=$here/lua/lib/?.lua;; $LUAJIT $here/lua/tests/agent.lua"
}

agent_of_php()
{
	[ "${have_php-yes}" = yes ] || return
	extension=$("$here/php/tests/build.sh") || return
	agent php "${PHP:-php} -n -d extension=$extension -d display_errors=stderr $here/php/tests/agent.php"
}

agent_of_python()
{
	modules=$("$here/python/build.sh") || return
	agent python "env PYTHONPATH=$modules ${PYTHON:-/usr/bin/python3} $here/python/tests/agent.py"
}

# conduct FILES NAME...
conduct()
{
	files=$1 names=
	shift
	for name; do
		names="$names${names:+ and }$name"
		set -- "$@" --agent "$(cat "$work/$name.command")"
		shift
	done
	# shellcheck disable=SC2086
	"$python" "$here/conformance/conduct.py" --case "${CASE:-}" "$@" $files >"$work/$names.log" 2>&1
}

# Cases wait most of the time: several conductors at once.
report()
{
	# shellcheck disable=SC2086
	wait $conductors
	conductors=
	for log in "$work"/*.log; do
		name=${log##*/}
		echo "== ${name%.log}: $(tail -n 1 "$log")"
		sed '$d' "$log" | case $name in *\ and\ *) grep -v '^skipped:' ;; *) cat ;; esac
		tail -n 1 "$log" >>"$work/counts"
		rm "$log"
	done
}

[ -n "${builddir:-}" ] || skip "the agent in C is of a build: builddir"
builddir=$(cd "$builddir" && pwd) srcdir=$(cd "$srcdir" && pwd)
[ -x "$builddir/bindings/conformance/agent" ] || skip "the agent was not built"
command -v "$python" >/dev/null || skip "no python3, which conducts"
LD_LIBRARY_PATH=$builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
LOCKCTL=${LOCKCTL:-$builddir/lockctl}
export builddir srcdir LD_LIBRARY_PATH LOCKCTL

if find_hosts; then
	start_hosts
	trap 'end_hosts; rm -rf "$work"' EXIT
else
	echo "no hosts: $hosts_missing"
fi
agent c "$builddir/bindings/conformance/agent"
for language in lua php python; do
	"agent_of_$language" || lacks "$language"
done
for command; do
	agent "$(basename "${command##* }")" "$command"
done
cases=${CASES:-$(ls "$here"/conformance/cases/*.txt)}
"$python" "$here/conformance/words.py" "$here/conformance/words.txt" "$work"/*.command >"$work/words.log" 2>&1
for one in $(cat "$work/agents"); do
	conduct "$cases" "$one" &
	conductors="$conductors $!"
done
report
for one in $(cat "$work/agents"); do
	for other in $(cat "$work/agents"); do
		[ "$one" != "$other" ] || continue
		conduct "${CASES:-$here/conformance/cases/deaths.txt $here/conformance/cases/recipes.txt}" "$one" "$other" &
		conductors="$conductors $!"
	done
	report
done
awk '{ passed += $1; failed += $3; skipped += $5 }
	END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed || !passed }' "$work/counts"
