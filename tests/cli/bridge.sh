#!/bin/sh
# SPDX-License-Identifier: MIT
# bridge.sh - lockshm-bridge: help, wrong usage, segments that come and go, a command beside, signals, the service manager
. "$(dirname "$0")/common.sh"

needs_bridge
stat_of() { lockctl stat "$seg" | awk -v name="$1" '$1 == name { print $2 }'; }
bridge_is() { [ "$(stat_of bridge_pid)" = "$1" ]; }
logged() { grep -qF -- "$2" "$dir/$1"; }
make_segment()
{
	expect 0 lockctl create "$seg" --redis "unix://$dir/redis.sock" --redis-prefix test: --redis-ttl 2s --host-leases 8 \
		--keys 64 --requests 256 --owners 32
}

# Help, version, usage.
expect 0 bridge --help
silent stderr
says stdout "usage: lockshm-bridge"
cp "$dir/stdout" "$dir/help"
expect 0 bridge -h
expect 0 bridge show --help
expect 0 bridge --version
grep -Eqx 'lockshm-bridge [0-9]+\.[0-9]+\.[0-9]+ \(liblockshm [0-9]+\.[0-9]+\.[0-9]+\)' "$dir/stdout" || fail "version"
expect 2 bridge
silent stdout
says stderr "usage:"
expect 2 bridge --frobnicate
says stderr "(see lockshm-bridge --help)"
expect 2 bridge --any-owner
expect 2 bridge "$seg" --
says stderr "no command after --"
expect 2 bridge "$seg" more
says stderr "unexpected argument 'more'"
expect 2 bridge show "$seg"
says stderr "KEY"
expect 2 bridge release "$seg" key
says stderr "VALUE"
expect 2 bridge "a b"
says stderr "not a segment name"
expect 1 bridge show "$seg" key
page=$top_dir/doc/man/lockshm-bridge.8
grep -oE '^ +(-[a-z], +| +)?--[a-z-]+' "$dir/help" | grep -oE '\-\-[a-z-]+' >"$dir/options"
[ "$(wc -l <"$dir/options")" -ge 7 ] || fail "options in the help"
while read -r option; do
	sed 's/\\-/-/g' "$page" | grep -qE -- "^\.(B|BI|BR) .*$option" || fail "lockshm-bridge.8 lacks $option"
done <"$dir/options"

# A segment without Redis.
expect 0 lockctl create "$seg"
expect 1 bridge "$seg"
says stderr "lockshm-bridge: $seg: "
says stderr "a segment without Redis"
logged stderr "serves the segment" && fail "it reports that it serves a segment that it refuses"
expect 2 bridge show "$seg" key
says stderr "a segment without Redis"
expect 0 bridge "$seg" -- true
says stderr "a segment without Redis"
expect 0 lockctl rm "$seg"

# No bridge: the reason says what to do.
start redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" --logfile "$dir/log"
eventually test -S "$dir/redis.sock"
redis() { redis-cli -s "$dir/redis.sock" "$@"; }

# A segment that is made later.
"$bridge_program" "$seg" 2>"$dir/bridge.log" &
service=$!
started="$started $service"
eventually logged bridge.log "$seg: waits for the segment to be made"
make_segment
eventually bridge_is $service
logged bridge.log "$seg: serves the segment" || fail "log"
eventually logged bridge.log "leads"

# The election of the leader is a lock of the library's own: not listed, not counted, but with --internal.
expect 0 lockctl ls "$seg" --porcelain
silent stdout
expect 0 lockctl ls "$seg" --porcelain --internal
grep -q "^holder$(printf '\t')%00lockshm%20bridge$(printf '\t')" "$dir/stdout" || fail "the election is not listed"
expect 0 lockctl ls "$seg" --json
grep -q lockshm "$dir/stdout" && fail "the election is in the JSON"
equal "locks" "$(stat_of keys_known) $(stat_of keys_busy)" "0 0"
expect 0 lockctl ls --porcelain
grep -q "^/$seg$(printf '\t').*$(printf '\t0\t0\t0')\$" "$dir/stdout" || fail "locks of the segment"

# A replaced one: its hold stays, under its lease, and the new one is served at once.
start "$LOCKCTL" run "$seg" old --global -t none -- sleep 100
holder=$pid
eventually held old
expect 0 lockctl rm "$seg"
make_segment
eventually bridge_is $service
expect 0 lockctl run "$seg" new --global -- true
expect 3 lockctl run "$seg" old --global -w 3s -- true # longer than the lease: it is renewed
state_is "$holder" S || fail "the holder in the old segment has ended"
kill -TERM "$holder"
ended "$holder" 143
expect 0 lockctl run "$seg" old --global -w 20s -- true

# A second one stands by, and goes on when the first is killed.
"$bridge_program" "$seg" 2>"$dir/standby.log" &
standby=$!
started="$started $standby"
eventually logged standby.log "stands by: pid $service obtains the leases of this host"
logged standby.log "leads" && fail "two bridges lead"
start "$LOCKCTL" run "$seg" key --global -t none -- sleep 100
holder=$pid
eventually held key
value=$(redis get test:key)
kill -KILL $service
eventually bridge_is $standby
equal "the value in Redis" "$(redis get test:key)" "$value"

# Each of its signals ends it with 0; leases in use stay, the next one renews them.
service=$standby
for signal in HUP INT TERM; do
	kill -$signal $service
	ended $service 0
	equal "the bridge" "$(stat_of bridge_pid)" 0
	equal "the value in Redis" "$(redis get test:key)" "$value"
	# A shell lets its background processes ignore INT.
	env --default-signal=INT "$bridge_program" "$seg" 2>"$dir/bridge.log" &
	service=$!
	started="$started $service"
	eventually bridge_is $service
done
state_is "$holder" S || fail "the holder has lost the key"
kill -TERM "$holder"
ended "$holder" 143
kill -TERM $service
ended $service 0
equal "keys that are held in Redis" "$(redis exists test:key)" 0

# Beside a command: its status, its signals, its end.
expect 7 bridge "$seg" -- sh -c 'exit 7'
expect 127 bridge "$seg" -- "$dir/nothing"
says stderr "cannot execute"
expect 126 bridge "$seg" -- "$dir"
expect 0 bridge "$seg" -- "$LOCKCTL" run "$seg" key --global -- true
start "$bridge_program" "$seg" -- sleep 100
service=$pid
eventually bridge_is $service
eventually runs $service sleep
command=$(command_of $service)
kill -TERM $service
ended $service 143
gone "$command" 2>/dev/null || fail "the command goes on"
start "$bridge_program" "$seg" -- sleep 100
service=$pid
eventually runs $service sleep
command=$(command_of $service)
kill -KILL $service
ended $service 137
eventually gone "$command"

# As long as a global key is in use; lockctl run starts one if there is none.
start "$bridge_program" --while-used "$seg"
ended $pid 0
start "$LOCKCTL" run "$seg" key --global -- sleep 100
holder=$pid
eventually held key
lease_held() { lockctl show "$seg" key | grep -q '^lease    held'; }
eventually lease_held
by_run=$(stat_of bridge_pid)
[ "$by_run" != 0 ] && [ "$by_run" != "$holder" ] || fail "no bridge was started"
kill -TERM "$holder"
ended "$holder" 143
eventually bridge_is 0
eventually gone "$by_run"

# The service manager: readiness and signs of life.
if command -v python3 >/dev/null; then
	python3 -c '
import os, socket, subprocess, sys
path = sys.argv[1]
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(path)
manager.settimeout(60)
env = dict(os.environ, NOTIFY_SOCKET=path, WATCHDOG_USEC="100000")
env.pop("WATCHDOG_PID", None)
service = subprocess.Popen(sys.argv[2:], env=env)
wanted = {"READY=1", "WATCHDOG=1", "STATUS=serves segment " + sys.argv[3]}
while wanted:
    wanted.discard(manager.recv(1000).decode())
service.terminate()
while manager.recv(1000).decode() != "STOPPING=1":
    pass
sys.exit(service.wait())' "$dir/notify" "$bridge_program" "$seg" || fail "what the service manager gets"
	# An interval of less than two milliseconds, or none at all: it does not spin, and reports at its own pace.
	for usec in 1 1000 -5 99999999999999999999; do
		python3 -c '
import os, socket, subprocess, sys, time
path, usec = sys.argv[1:3]
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(path)
manager.settimeout(60)
env = dict(os.environ, NOTIFY_SOCKET=path, WATCHDOG_USEC=usec)
env.pop("WATCHDOG_PID", None)
service = subprocess.Popen(sys.argv[3:], env=env)
signs = 0
begun = time.monotonic()
while signs < 11:
    signs += manager.recv(1000) == b"WATCHDOG=1"
passed = time.monotonic() - begun
service.terminate()
service.wait()
sys.exit(passed < 0.09)' "$dir/notify-$usec" "$usec" "$bridge_program" "$seg" || fail "it spins with WATCHDOG_USEC=$usec"
	done
fi

# None, and none can be started: Redis counts as out of reach.
mkdir "$dir/alone"
cp "$LOCKCTL" "$dir/alone/lockctl"
PATH=/nonexistent expect 1 "$dir/alone/lockctl" run "$seg" key --global -- true
says stderr "lockshm-bridge"
PATH=/nonexistent expect 0 "$dir/alone/lockctl" show "$seg" key
says stdout "redis    not asked: the program lockshm-bridge is not installed"

# It is there and fails: its own message has the reason, and no other one denies that it was asked.
LOCKSHM_CREDENTIALS=$dir/none expect 0 lockctl show "$seg" key
says stderr "$dir/none: No such file"
says stdout "redis    lockshm-bridge ended with status 2, see its message"
LOCKSHM_CREDENTIALS=$dir/none expect 1 lockctl ack "$seg" key
says stderr "lockctl: ack $seg: not cleared in Redis: lockshm-bridge ended with status 2, see its message"
