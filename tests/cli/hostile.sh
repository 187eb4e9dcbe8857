#!/bin/sh
# SPDX-License-Identifier: MIT
#
# hostile.sh [COUNT [SEED]] - every command of lockctl on segments damaged by programs of the fuzzer
#
# Each exits by itself, without a signal, prints only messages to standard error, and valid JSON with --json.
# shellcheck source=tests/cli/common.sh
. "$(dirname "$0")/common.sh"

count=${1:-8}
seed=${2:-$(($(date +%s) % 1000000 * 100))}
replay=${builddir:-.}/tests/hostile/fuzz-replay
json=${builddir:-.}/tests/cli/json-valid
[ -x "$replay" ] && [ -x "$json" ] || { echo "tests/hostile/fuzz-replay and tests/cli/json-valid are not built" >&2; exit 99; }
[ -w /dev/shm ] || skip "/dev/shm is not writable"
echo "seeds $seed to $((seed + count - 1))"
mkdir "$dir/files"
"$replay" --write "$dir/files" "$seed" "$count" || fail "no files"

# survives ARGUMENT...: lockctl ends by itself
survives()
{
	timeout -s KILL 30 "$LOCKCTL" "$@" >"$dir/stdout" 2>"$dir/stderr" </dev/null
	got=$?
	[ $got -lt 124 ] || fail "seed $(basename "$file"): exit status $got: lockctl $*"
	if grep -v '^lockctl: ' "$dir/stderr" >"$dir/other"; then
		fail "seed $(basename "$file"): lockctl $* printed: $(head -1 "$dir/other")"
	fi
}

# is_json ARGUMENT...: survives, and prints JSON if it succeeds
is_json()
{
	survives "$@" --json
	[ $got -ne 0 ] || "$json" <"$dir/stdout" || fail "seed $(basename "$file"): not JSON: lockctl $* --json"
}

# lines ARGUMENT...: survives, and if it succeeds each line has a type and fields, and no control characters
lines()
{
	survives "$@"
	if LC_ALL=C tr -d '\n\t\040-\176' <"$dir/stdout" | grep -q .; then
		fail "seed $(basename "$file"): unprintable: lockctl $*"
	fi
}

# Bytes that are unusual in keys, and special in JSON and on terminals.
nasty=$(printf 'a"b\\c\tnew\033[2J\377')

look()
{
	survives verify "$seg"
	survives stat "$seg"
	[ $got -eq 0 ] || refused=$((refused + 1))
	is_json stat "$seg"
	lines stat "$seg" --openmetrics
	lines ls "$seg"
	lines ls "$seg" --porcelain
	is_json ls "$seg"
	lines show "$seg" held
	lines show "$seg" expired --porcelain
	is_json show "$seg" held
	is_json show "$seg" "$nasty"
}

use()
{
	survives release "$seg" held --token 1
	token=$("$LOCKCTL" show "$seg" shared --porcelain 2>/dev/null | awk -F '\t' '$1 == "holder" { print $8; exit }')
	[ -z "$token" ] || survives release "$seg" shared --token "$token"
	survives ack "$seg" marked
	survives ack "$seg" --all
	survives run "$seg" held -w 5ms -- true
	survives run "$seg" readers -s -w 5ms -t none -- true
	survives run "$seg" new -w 5ms --cooldown 1ms -- true
	survives run "$seg" "$nasty" -w 0 --tag "$nasty" -- true
	survives sweep "$seg"
}

# List all segments of the machine, including this one, then remove it.  create does not replace a damaged one.
make_and_remove()
{
	lines ls --porcelain
	[ $got -eq 0 ] || fail "seed $(basename "$file"): a damaged segment ends the list of all"
	is_json ls
	[ $got -eq 0 ] || fail "seed $(basename "$file"): a damaged segment ends the list of all"
	survives create "$seg"
	[ $got -eq 1 ] || fail "seed $(basename "$file"): create over a damaged segment ended with $got"
	survives create "$seg" --or-open
	# A file with the magic number of a segment can be removed, however damaged.
	begins=$(head -c 8 "/dev/shm/$seg" | tr -d '\0')
	survives rm "$seg"
	[ $got -eq 0 ] || [ "$begins" != LOCKSHM1 ] || fail "seed $(basename "$file"): rm ended with $got"
	[ $got -eq 0 ] || rm -f "/dev/shm/$seg"
	[ ! -e "/dev/shm/$seg" ] || fail "seed $(basename "$file"): rm left it"
}

refused=0
for file in "$dir"/files/*; do
	cp "$file" "/dev/shm/$seg" && chmod 600 "/dev/shm/$seg" || fail "no segment"
	look
	use
	make_and_remove
done
# Most must be openable, or the commands were not tested.
[ $refused -lt $((count - count / 4)) ] || fail "$refused of $count were refused"
