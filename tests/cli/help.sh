#!/bin/sh
# SPDX-License-Identifier: MIT
# help.sh - help, version, unknown commands: exit 0 and stdout on request, 2 and stderr otherwise
. "$(dirname "$0")/common.sh"

commands="ack create help hold ls once release rm run seat show stat sweep verify"

expect 0 lockctl --help
silent stderr
for command in $commands; do
	says stdout "  $command "
done
expect 0 lockctl -h
expect 2 lockctl
silent stdout
says stderr usage:
expect 2 lockctl frobnicate
says stderr "lockctl: unknown command 'frobnicate'"
expect 2 lockctl --frobnicate

expect 0 lockctl --version
grep -Eqx 'lockctl [0-9]+\.[0-9]+\.[0-9]+ \(liblockshm [0-9]+\.[0-9]+\.[0-9]+\)' "$dir/stdout" || fail "version"

for command in $commands; do
	expect 0 lockctl "$command" --help
	silent stderr
	says stdout "usage: lockctl $command"
	expect 0 lockctl "$command" -h
	expect 0 lockctl "$command" anything --help
done

# help prints what --help does.
lockctl --help >"$dir/list"
expect 0 lockctl help
cmp -s "$dir/stdout" "$dir/list" || fail "help is not --help"
for command in $commands; do
	lockctl "$command" --help >"$dir/list"
	expect 0 lockctl help "$command"
	cmp -s "$dir/stdout" "$dir/list" || fail "help $command is not $command --help"
done
expect 2 lockctl help frobnicate
says stderr "unknown command 'frobnicate'; lockctl --help lists the commands"
expect 2 lockctl help run more
says stderr "unexpected argument 'more'"

# The page documents every option that the help shows, and the help shows every command of the page.
page=$top_dir/doc/man/lockctl.1
for command in $commands; do
	lockctl "$command" --help | grep -oE '^ +(-[a-zA-Z], )?--[a-z-]+' | grep -oE '\-\-[a-z-]+' >"$dir/options"
	while read -r option; do
		sed 's/\\-/-/g' "$page" | grep -qE -- "^\.(B|BI|BR) .*$option" ||
			fail "lockctl.1 lacks $option of $command"
	done <"$dir/options"
	grep -qx "\.B $command" "$page" || fail "lockctl.1 lacks $command"
done
