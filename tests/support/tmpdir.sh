#!/bin/sh
# SPDX-License-Identifier: MIT
#
# tmpdir.sh - print a directory for temporary files in which programs may be executed
#
# Tests run what they build, and give sockets names of at most 107 bytes: the first of $TMPDIR, /tmp and /var/tmp that is short
# enough, can be written and is not mounted noexec; if none is, the first one, so that the tests' own messages tell.
for dir in "${TMPDIR:-/tmp}" /tmp /var/tmp ''; do
	{ [ -n "$dir" ] && [ ${#dir} -le 40 ] && probe=$(mktemp "$dir/lockshm-XXXXXX" 2>/dev/null); } || continue
	echo '#!/bin/sh' >"$probe"
	chmod +x "$probe"
	"$probe" 2>/dev/null && found=yes
	rm -f "$probe"
	[ -z "${found:-}" ] || break
done
echo "${dir:-${TMPDIR:-/tmp}}"
