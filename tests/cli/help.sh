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

# The nearest one that there is.
near()
{
	expect "$1" lockctl $3
	says stderr "; did you mean $2"
}
near 2 "'run'" Run
near 2 "'run'" rnu
near 2 "'ls'" lss
near 2 "'ls'" list
near 2 "'stat'" status
near 2 "'release'" unlock
near 2 "'create'" craete
near 2 "'seat'" SEAT
near 2 "'show'" "help shwo"
near 2 "'--waiting'" "ls --wating"
near 2 "'--waiting'" "ls $seg -waiting"
near 2 "'--json'" "show --jsn=1"
near 2 "'--keep-for-children'" "run --keep-for-childs"
near 2 "'--requests', '--redis' or " "create --re"
expect 0 lockctl create "$seg"
for command in "stat" "show" "run" "ack" "release" "ls" "sweep" "verify" "rm"; do
	key=key
	case $command in ls | stat | sweep | verify | rm) key= ;; esac
	[ "$command" != release ] || key="key --token 1"
	[ "$command" != run ] || key="--no-create key true"
	"$LOCKCTL" run --help | grep -q no-create || [ "$command" != run ] || key="key true"
	near 1 "'$seg'" "$command x$seg $key"
	near 1 "'$seg'" "$command /$(echo "$seg" | tr a-z A-Z) $key"
done
expect 0 lockctl rm "$seg"
for far in frobnicate x "" -- run-or-so; do
	expect 2 lockctl "$far"
	! grep -q "did you mean" "$dir/stderr" || fail "'$far' is near to a command"
done
if find_bridge; then
	expect 2 bridge shwo "$seg" key
	says stderr "; did you mean 'show'?"
	expect 2 bridge shop "$seg"
	expect 2 bridge show "$seg" key --jsno
	says stderr "; did you mean '--json'?"
fi

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
