#!/bin/sh
# SPDX-License-Identifier: MIT
# man.sh - lockctl(1) and lockshm-bridge(8) are well-formed
. "$(dirname "$0")/common.sh"

command -v mandoc >/dev/null || skip "mandoc is not installed"
for page in lockshm-bridge.8 lockctl.1; do
	page=$top_dir/doc/man/$page
	mandoc -T lint "$page" >"$dir/stdout" 2>&1 || fail "mandoc complains"
	silent stdout
done
equal sections "$(sed -n 's/^\.SH //p' "$page" | tr '\n' ',')" \
	"NAME,SYNOPSIS,DESCRIPTION,COMMANDS,OPTIONS,EXIT STATUS,OUTPUT FORMATS,EXAMPLES,NOTES,SEE ALSO,"
