# SPDX-License-Identifier: MIT
#
# hosts.sh - sourced by tests of the languages: start_hosts  starts a redis-server, and two bridges for segments that the
# test makes: two segments of this machine play hosts
#
# Exports REDIS_SOCKET and REDIS_URI, HOST_A and HOST_B (names of the segments, and of the hosts in messages), BRIDGE_A and
# BRIDGE_B (pids), LOCKCTL.  end_hosts  ends it all and removes both segments.  With nothing of that, hosts_missing  is
# the reason.
# Environment: builddir, or lockshm-bridge and lockctl are found in PATH; LD_LIBRARY_PATH has the library.

hosts_dir='' hosts_redis='' BRIDGE_A='' BRIDGE_B=''

find_hosts()
{
	if [ -n "${builddir:-}" ]; then
		hosts_bridge=$(cd "$builddir" && pwd)/lockshm-bridge
		LOCKCTL=${LOCKCTL:-$(cd "$builddir" && pwd)/lockctl}
	else
		hosts_bridge=$(command -v lockshm-bridge || :)
		LOCKCTL=${LOCKCTL:-$(command -v lockctl || :)}
	fi
	hosts_missing=
	command -v redis-server >/dev/null || hosts_missing="redis-server is not installed"
	[ -x "$hosts_bridge" ] || hosts_missing="lockshm-bridge was not built"
	[ -x "$LOCKCTL" ] || hosts_missing="there is no lockctl"
	[ -z "$hosts_missing" ]
}

start_hosts()
{
	hosts_dir=$(mktemp -d) || exit 1
	chmod 755 "$hosts_dir"
	REDIS_SOCKET=$hosts_dir/redis.sock
	REDIS_URI=unix://$REDIS_SOCKET
	HOST_A=hosts-a-$$ HOST_B=hosts-b-$$
	redis-server --port 0 --unixsocket "$REDIS_SOCKET" --unixsocketperm 777 --save '' --dir "$hosts_dir" \
		--logfile "$hosts_dir/redis.log" &
	hosts_redis=$!
	# The bridges wait for the server and for the segments, which the test makes.
	"$hosts_bridge" --any-owner --host-name "$HOST_A" "$HOST_A" 2>"$hosts_dir/bridge-a.log" &
	BRIDGE_A=$!
	"$hosts_bridge" --any-owner --host-name "$HOST_B" "$HOST_B" 2>"$hosts_dir/bridge-b.log" &
	BRIDGE_B=$!
	export REDIS_SOCKET REDIS_URI HOST_A HOST_B BRIDGE_A BRIDGE_B LOCKCTL
}

# The segments first: waits in them end then.
end_hosts()
{
	[ -n "$hosts_dir" ] || return 0
	"$LOCKCTL" rm "$HOST_A" 2>/dev/null
	"$LOCKCTL" rm "$HOST_B" 2>/dev/null
	kill "$BRIDGE_A" "$BRIDGE_B" "$hosts_redis" 2>/dev/null
	wait "$BRIDGE_A" "$BRIDGE_B" "$hosts_redis" 2>/dev/null
	rm -rf "$hosts_dir"
}
