#!/bin/sh
# SPDX-License-Identifier: MIT
# bridge-systemd.sh - the unit lockshm-bridge@.service is one that systemd understands, without a warning
. "$(dirname "$0")/common.sh"

needs_bridge
command -v systemd-analyze >/dev/null || skip "systemd-analyze is not installed"
bridge_program=$(cd "$(dirname "$bridge_program")" && pwd)/lockshm-bridge

# Program and user of an instance are those of this machine.
sed -e "s,^ExecStart=/.*/lockshm-bridge ,ExecStart=$bridge_program ," -e "s,^User=.*,User=$(id -un)," \
	"${builddir:-.}/src/daemon/lockshm-bridge@.service" >"$dir/lockshm-bridge@.service"
grep -q "^ExecStart=$bridge_program " "$dir/lockshm-bridge@.service" || fail "the unit does not name the program's path"
systemd-analyze --man=no verify "$dir/lockshm-bridge@web.service" >"$dir/stdout" 2>"$dir/stderr"
got=$?
grep -q "Failed to \(connect\|initialize manager\|get\)" "$dir/stderr" && skip "systemd-analyze cannot work here"
# Of other units of the machine nothing counts.
grep "lockshm-bridge" "$dir/stderr" >"$dir/stdout" && fail "systemd-analyze complains"
equal "exit status" "$got" 0

# It does complain of what is wrong, so the silence above means something.
sed 's/^ProtectHome=yes/ProtectHme=yes/' "$dir/lockshm-bridge@.service" >"$dir/lockshm-bridge-bad@.service"
systemd-analyze --man=no verify "$dir/lockshm-bridge-bad@web.service" 2>&1 | grep -q "lockshm-bridge-bad.*ProtectHme" ||
	skip "systemd-analyze looks at nothing here"
