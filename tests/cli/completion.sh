#!/bin/sh
# SPDX-License-Identifier: MIT
# completion.sh - bash completion: commands, options, segments, keys, tokens; nothing is executed
. "$(dirname "$0")/common.sh"

command -v bash >/dev/null || skip "bash is not installed"
expect 0 lockctl create "$seg"

# candidates WORD...: completions of the last word, one a line.  With the bare readline words, no library.
candidates()
{
	PATH=$(dirname "$LOCKCTL"):$PATH bash --norc -c '
		. "$1"
		shift
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
		_lockctl
		printf "%s\n" "${COMPREPLY[@]}"' bash "$top_dir/completions/lockctl" lockctl "$@" \
		>"$dir/stdout" 2>"$dir/stderr" || fail "completion of $*"
	silent stderr
}
offers() { grep -Fqx -- "$1" "$dir/stdout" || fail "'$1' is not offered"; }
offers_nothing() { [ -z "$(cat "$dir/stdout")" ] || fail "something is offered"; }

candidates ""
for word in $(lockctl --help | awk '/^  [a-z]/ { print $1 }') --help --version; do
	offers "$word"
done
candidates re
equal "for re" "$(cat "$dir/stdout")" release

# Every option of the help, and no other.
for command in ack create help hold ls once release rm run seat show stat sweep verify; do
	candidates "$command" -
	lockctl "$command" --help | grep -oE '^ +-[^ ]+(, --[a-z-]+)?' | grep -oE -- '--[a-z-]+' | sort >"$dir/help"
	grep -oE -- '^--[a-z-]+' "$dir/stdout" | sort | diff "$dir/help" - >&2 || fail "options of $command"
done

candidates show "${seg%?}"
offers "$seg"
start "$LOCKCTL" run "$seg" one -- sleep 100
eventually held one
start "$LOCKCTL" run "$seg" 'a b' -- sleep 100
eventually held a%20b
start "$LOCKCTL" run "$seg" "\$(touch $dir/executed)" -- sleep 100
eventually held "\$(touch%20$dir/executed)"
start "$LOCKCTL" run "$seg" "\`id>$dir/executed\`" -- sleep 100
eventually held "\`id>$dir/executed\`"
candidates show "$seg" o
equal "keys with o" "$(cat "$dir/stdout")" one
candidates show "$seg" ""
candidates show --escaped "$seg" ""
offers a%20b
[ ! -e "$dir/executed" ] || fail "completion executed a key"
candidates release "$seg" one --token ""
offers "$(field 8 holder one)"
candidates run "$seg" one ""
offers --
candidates run "$seg" one -w ""
offers inf
for command in run seat once; do
	candidates $command "$seg" one -- lockct
	offers lockctl
	candidates $command "$seg" one lockct
	offers lockctl
	candidates $command "$seg" one --any-owner lockct
	offers lockctl
	candidates $command "$seg" one -w lockct
done
candidates run "$seg" one lockctl --js
offers_nothing
candidates once "$seg" one --every ""
offers 5m
candidates ls "$seg" --sort ""
offers waiters
candidates ls "$seg" --pid ""
offers "$(field 5 holder one)"
candidates help se
offers seat
candidates hold "$seg" on
offers one
candidates create "$seg" --group roo
offers root
candidates create ""
offers_nothing

# lockshm-bridge: the same, from its own file.
find_bridge || exit 0
candidates()
{
	PATH=$(dirname "$bridge_program"):$(dirname "$LOCKCTL"):$PATH bash --norc -c '
		. "$1"
		shift
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
		_lockshm_bridge
		printf "%s\n" "${COMPREPLY[@]}"' bash "$top_dir/completions/lockshm-bridge" lockshm-bridge "$@" \
		>"$dir/stdout" 2>"$dir/stderr" || fail "completion of $*"
	silent stderr
}
options_of() { grep -oE -- '--[a-z][a-z-]*' | sort -u; }

candidates ""
for word in show release ack "$seg"; do
	offers "$word"
done
# Every option of the help, in the usage line of its command, and no other; NAME alone has --version, too.
for command in show release ack; do
	candidates "$command" -
	{ "$bridge_program" --help | grep "lockshm-bridge $command "; echo --help; } | options_of >"$dir/help"
	options_of <"$dir/stdout" | diff "$dir/help" - >&2 || fail "options of $command"
done
candidates -
{ "$bridge_program" --help | grep -E "lockshm-bridge (\[--any|--check)"; echo --help --version; } | options_of >"$dir/help"
options_of <"$dir/stdout" | diff "$dir/help" - >&2 || fail "options without a command"
candidates show "${seg%?}"
offers "$seg"
candidates --while-used "${seg%?}"
offers "$seg"
candidates show "$seg" o
equal "keys with o" "$(cat "$dir/stdout")" one
candidates release "$seg" ""
offers one
candidates show --escaped "$seg" ""
offers a%20b
candidates --credentials "$dir/" "$seg" ""
offers --
candidates "$seg" -- lockct
offers lockctl
candidates --credentials /et
offers /etc
candidates --host-name ""
offers "$(uname -n)"
candidates release "$seg" one ""
offers_nothing # a segment without Redis
[ ! -e "$dir/executed" ] || fail "completion executed a key"
