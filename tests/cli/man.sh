#!/bin/sh
# SPDX-License-Identifier: MIT
# man.sh - lockctl(1) is well-formed
. "$(dirname "$0")/common.sh"

command -v mandoc >/dev/null || skip "mandoc is not installed"
page=$top_dir/doc/man/lockctl.1
mandoc -T lint "$page" >"$dir/stdout" 2>&1 || fail "mandoc complains"
silent stdout
equal sections "$(sed -n 's/^\.SH //p' "$page" | tr '\n' ',')" \
	"NAME,SYNOPSIS,DESCRIPTION,COMMANDS,OPTIONS,EXIT STATUS,OUTPUT FORMATS,EXAMPLES,NOTES,SEE ALSO,"
