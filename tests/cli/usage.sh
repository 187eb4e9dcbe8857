#!/bin/sh
# SPDX-License-Identifier: MIT
# usage.sh - every wrong argument: exit 2, a message that names it, no effect
. "$(dirname "$0")/common.sh"

# wrong TEXT ARGUMENT...: usage error whose message contains TEXT
wrong()
{
	text=$1
	shift
	expect 2 lockctl "$@"
	silent stdout
	says stderr "lockctl: $1"
	says stderr "$text"
}

# A segment that must stay as it is, and a command that must not run.
expect 0 lockctl create "$seg"
cmd="touch $dir/ran"

for command in ack create hold once release rm run seat show stat sweep verify; do
	case $command in
	release) wrong "NAME is missing" release --token 1 ;;
	hold) wrong "NAME is missing" hold --fd 9 9>/dev/null ;;
	*) wrong "NAME is missing" "$command" ;;
	esac
	wrong "unknown option '-Z'" "$command" -Z
	wrong "'--frob'" "$command" --frob
	wrong "'--help' takes no value" "$command" --help=yes
done
for command in create ls rm stat sweep verify; do
	wrong "unexpected argument 'more'" "$command" "$seg" more
done
wrong "KEY, or --id, is missing" show "$seg"
for command in ack show; do
	wrong "KEY is empty" "$command" "$seg" ""
	wrong "unexpected argument" "$command" "$seg" key more
done
wrong "NAME is empty" stat ""
wrong "segment name" stat "no/such"
wrong "segment name" stat "no such"
wrong "not a segment name" create "bad name"

# Durations.
for dur in "" nan inf5 -1s +1s 5 5x "5 s" 1.s .5s 1.5 1e3s 0x5s infs 99999999999999999999s 87601h 5s5 ms none; do
	wrong "-w: '$dur' is not a duration" run "$seg" key -w "$dur" -- $cmd
	wrong "-w: '$dur' is not a duration" hold "$seg" key --fd 9 -w "$dur"
done
for dur in nan -1s 5 inf none 87600.1h; do
	wrong "--cooldown: '$dur' is not a duration" run "$seg" key --cooldown "$dur" -- $cmd
done
for dur in nan -1s 5 x; do
	wrong "; allowed are 250ms, 1.5s, 2m, 1h, 0, inf, none" \
		run "$seg" key -t "$dur" -- $cmd
done
wrong "-t: a lease of '0' is too short" run "$seg" key -t 0 -- $cmd
wrong "-t: a lease of '199ms' is too short; at least 200ms" run "$seg" key -t 199ms -- $cmd

for dur in 5 30 0000 5000; do
	wrong "-w: '$dur' is not a duration, the unit is missing; allowed are 250ms" run "$seg" key -w "$dur" -- $cmd
done
for word in --versoin version -version; do
	expect 2 lockctl $word
	says stderr "did you mean '--version'?"
done

# The rest of run.
for code in "" -1 256 1.5 x 99999999999999999999999; do
	wrong "-E: '$code' is not a whole number from 0 to 255" run "$seg" key -E "$code" -- $cmd
done
wrong "--tag: '1234567890123456789012345678901' has more than 30 bytes" \
	run "$seg" key --tag 1234567890123456789012345678901 -- $cmd
wrong "--cooldown needs an exclusive lock" run "$seg" key -s --cooldown 1s -- $cmd
wrong "needs a value" run "$seg" key -w
wrong "needs a value" run "$seg" key --cooldown
wrong "KEY is missing" run "$seg"
wrong "KEY is empty" run "$seg" "" -- $cmd
wrong "CMD is missing" run "$seg" key
wrong "CMD is missing" run "$seg" key --
wrong "CMD is missing" run "$seg" key -- ""
wrong "CMD is missing" run -- "$seg" -key
wrong "CMD is missing" run -- "$seg" -key --
wrong "CMD is missing" run "$seg" key -w 0
wrong "-c: the command is empty" run "$seg" key -c ""
wrong "unexpected argument 'touch': -c has the command" run "$seg" key -c "$cmd" touch
wrong "unexpected argument 'touch': -c has the command" run "$seg" key -c "$cmd" -- touch
wrong "--acknowledge needs --robust" run "$seg" key --acknowledge -- $cmd
wrong "KEY is not percent-escaped" run "$seg" 50% --escaped -- $cmd
wrong "KEY is not percent-escaped" show "$seg" %4x --escaped
[ ! -e "$dir/ran" ] || fail "a wrong run ran its command"

# once, seat, hold.
for period in nan -1s 5 inf 87601h; do
	wrong "--every: '$period' is not a duration" once "$seg" key --every "$period" -- $cmd
done
wrong "--every is missing, or 0" once "$seg" key --every 0 -- $cmd
wrong "--every is missing" once "$seg" key -- $cmd
wrong "unknown option '-s'" once "$seg" key -s --every 1s -- $cmd
wrong "unknown option '-s'" seat "$seg" key -s -- $cmd
wrong "CMD is missing" seat "$seg" key
wrong "--fd is missing" hold "$seg" key
wrong "unexpected argument 'touch': hold has no command" hold "$seg" key --fd 9 $cmd 9>/dev/null
wrong "unexpected argument 'touch': hold has no command" hold --fd 9 -- "$seg" key $cmd 9>/dev/null
wrong "descriptor 9 is not open: 'exec 9>/dev/null' before" hold "$seg" key --fd 9
wrong "descriptor 9 is not open for writing" hold "$seg" key --fd 9 9</dev/null
wrong "unexpected argument 'key'" hold --fd 9 -u key 9>/dev/null
for fd in "" 0 2 -1 x 2147483648; do
	wrong "--fd: '$fd' is not a whole number from 3" hold "$seg" key --fd "$fd"
done
[ ! -e "$dir/ran" ] || fail "a wrong command line ran its command"

# ack.
wrong "KEY, --id, --all, --prefix or --older-than is missing" ack "$seg"
for id in "" 0 x 123456789012345 12345678901234567 123456789012345g -1 0x12345678901234; do
	wrong "--id: '$id' is not an id: 16 hexadecimal digits" ack "$seg" --id "$id"
	wrong "--id: '$id' is not an id" show "$seg" --id "$id"
	wrong "--id: '$id' is not an id" release "$seg" --id "$id" --token 1
done
wrong "unexpected argument 'key'" show "$seg" key --id 1234567890abcdef
wrong "unexpected argument 'key'" ack "$seg" key --id 1234567890abcdef
wrong "--id is that of one key" ack "$seg" --prefix p --id 1234567890abcdef
wrong "--all goes with no other condition" ack "$seg" --all --id 1234567890abcdef
wrong "--remote needs KEY" release "$seg" --id 1234567890abcdef --remote v
wrong "unexpected argument 'key'" ack "$seg" key --all
wrong "--all goes with no other condition" ack "$seg" --all --prefix p
wrong "--all goes with no other condition" ack "$seg" --all --older-than 1m
wrong "--prefix is empty" ack "$seg" --prefix ""
wrong "--prefix has 65 bytes" ack "$seg" --prefix "$(printf '%065d' 1)"
wrong "--older-than: 'inf' is not a duration" ack "$seg" --older-than inf

# Keys have at most 65535 bytes; one argument may have twice as many.
long=$(printf '%065535d' 7)
expect 0 lockctl show "$seg" "$long"
wrong "KEY has 65536 bytes" show "$seg" "8$long"

# release and create.
wrong "--token is missing" release "$seg" key
for token in "" 0 -1 x 1.5 18446744073709551616; do
	wrong "--token: '$token' is not a whole number" release "$seg" key --token "$token"
done
for option in --keys --requests --owners; do
	for number in "" 0 -1 x 1.5 4294967296; do
		wrong "$option: ${option#--} is " create "$seg-no" "$option" "$number"
	done
done
wrong "requests is 262144" create "$seg-no" --requests 262144
for mode in "" 8 0668 rw -1; do
	wrong "--permissions: permissions is " create "$seg-no" --permissions "$mode"
done
wrong "permissions is 0777, must be 0600 plus bits of 0066" create "$seg-no" --permissions 0777
wrong "--group: there is no group 'no-such-group'" create "$seg-no" --group no-such-group
wrong "--group: group is '4294967295', must be the number of a group" create "$seg-no" --group 4294967295
for floor in "" -5 x 9223372036854775808; do
	wrong "--token-floor: token_floor is " create "$seg-no" --token-floor "$floor"
done
expect 1 lockctl stat "$seg-no"

expect 0 lockctl ls "$seg" --porcelain
silent stdout
