#!/bin/sh
# SPDX-License-Identifier: MIT
# json.sh - JSON output: always valid, with the names and shapes of lockctl(1)
#
# json-valid checks the validity; jq checks the shape, which is skipped without it.
. "$(dirname "$0")/common.sh"

valid=
for program in ./tests/cli/json-valid ./cli-json-valid "${CLI_JSON_VALID:-}"; do
	[ -x "$program" ] && valid=$program
done
[ -n "$valid" ] || { echo "no cli-json-valid: build it first" >&2; exit 99; }

# The checker itself must reject invalid documents.
for bad in '{"a": NaN}' '[1,]' '{} {}' '"'; do
	printf '%s' "$bad" | "$valid" 2>/dev/null && fail "the checker accepts $bad"
done

# json ARGUMENT...: run lockctl, keep a valid document in $dir/stdout
json()
{
	expect 0 lockctl "$@" --json
	silent stderr
	"$valid" <"$dir/stdout" || fail "not valid JSON: lockctl $* --json"
}

# shape FILTER: true for the kept document
shape()
{
	[ -n "$jq" ] || return 0
	"$jq" -e "$1" <"$dir/stdout" >/dev/null || fail "not so: $1"
}
jq=$(command -v jq)

expect 0 lockctl create "$seg" --keys 128 --requests 96 --owners 8
json ls "$seg"
equal "empty list" "$(cat "$dir/stdout")" "{\"segment\": \"/$seg\", \"locks\": []}"

start "$LOCKCTL" run "$seg" key --tag owner -- sleep 100
holder=$pid
eventually held key
start "$LOCKCTL" run "$seg" key -s -w inf -- true
waiter=$pid
eventually waiters key 1

json ls "/$seg"
shape ".segment == \"/$seg\" and (keys == [\"locks\", \"segment\"])"
shape '.locks | length == 1'
shape '.locks[0] | .key == "key" and .key_len == 3 and .mode == "exclusive" and .damaged == false and .damage == null'
shape '.locks[0].holders | length == 1'
shape ".locks[0].holders[0] | .pid == $(keeper "$holder") and .tid == .pid and .tag == \"owner\" and .mode == \"exclusive\""
shape '.locks[0].holders[0] | (.token | type == "number" and . > 0) and .alive == true and .cooling == false'
shape '.locks[0].holders[0] | .age_ms >= 0 and .expires_in_ms > 0 and .expires_in_ms <= 30000'
shape '.locks[0].waiters | length == 1'
shape ".locks[0].waiters[0] | .pid == $(keeper "$waiter") and .tid == .pid and .tag == \"true\" and .mode == \"shared\""
shape '.locks[0] | .waiters[0].ticket > .holders[0].token and .waiters[0].waiting_ms >= 0'
json show "$seg" key
shape ".segment == \"/$seg\" and .key == \"key\" and (.holders | length == 1) and (.waiters | length == 1)"

kill -TERM "$holder"
ended "$holder" 143
ended "$waiter" 0
json show "$seg" key
shape '.mode == null and .holders == [] and .waiters == [] and .damaged == false'

# A strict hold never expires; a cooling one has no owner.
start "$LOCKCTL" run "$seg" strict -t none -- sleep 100
strict=$pid
eventually held strict
expect 0 lockctl run "$seg" cool --cooldown 1h -- true
json ls "$seg"
shape '[.locks[] | select(.key == "strict").holders[0].expires_in_ms] == [null]'
shape '[.locks[] | select(.key == "cool").holders[0].cooling] == [true]'
shape '[.locks[] | select(.key == "cool").holders[0].expires_in_ms | . > 3500000 and . <= 3600000] == [true]'
kill -TERM "$strict"
ended "$strict" 143

# A damage mark.
start "$LOCKCTL" run "$seg" damaged --robust --tag died -- sleep 100
eventually held damaged
token=$(field 8 holder damaged)
kill_lockctl
expect 0 lockctl sweep "$seg"
json show "$seg" damaged
shape '.damaged == true and .holders == [] and .mode == null'
shape ".damage | del(.age_ms) == {status: \"OWNER_DIED\", pid: $keeper, tid: $keeper, tag: \"died\", token: $token}"
shape ".damage.age_ms >= 0"
expect 0 lockctl run "$seg" damaged -w 0 -- true
says stderr "the damage mark stays: lockctl ack clears it"
json show "$seg" damaged
shape '.damaged == true'
expect 0 lockctl ack "$seg" damaged
json show "$seg" damaged
shape '.damaged == false and .damage == null'

# Keys of all kinds of bytes.
for key in 'a"b\c' "$(printf '\t\033\177')" "$(printf 'caf\303\251')" "$(printf 'caf\351')" "$(printf '\355\240\200')" \
	"$(printf '\300\257')" "$(printf '\360\237\230\200')" "$(printf '\364\220\200\200')" "$(printf '%0100d' 1)"; do
	json show "$seg" "$key"
	shape ".key_len == $(printf '%s' "$key" | wc -c)"
done
json show "$seg" "$(printf 'caf\303\251')"
shape '.key == "caf\u00e9" and .key_len == 5'
json show "$seg" "$(printf 'caf\351')"
says stdout '"caf\u00e9"'
json show "$seg" %00%01 --escaped
shape '.key == "\u0000\u0001"'
# The cut at 64 bytes does not fall into a character.
json show "$seg" "$(printf '%063d\303\251' 0)"
shape '(.key | length == 63) and .key_cut and .key_len == 65'

json ls
shape ".segments | map(select(.name == \"/$seg\")) | length == 1"
shape ".segments[] | select(.name == \"/$seg\") | .status == \"OK\" and .reason == null and .permissions == \"0600\""
shape ".segments[] | select(.name == \"/$seg\") | .uid == $(id -u) and .bytes > 0 and .keys == 128"
json stat "$seg"
shape ".segment == \"/$seg\" and .keys == 128 and .requests == 96 and .owners == 8 and .acquires > 0"

[ -n "$jq" ] || skip "jq is not installed: validity was checked, the shape was not"
