#!/bin/sh
# SPDX-License-Identifier: MIT
# man.sh - lockctl(1) and lockshm-bridge(8) have the usages and the lines of --help, and are well-formed
. "$(dirname "$0")/common.sh"

pages=$top_dir/doc/man

# A usage a line, without what is for the eye.  Those of --help and --version are in the pages only.
usages_of_help() { awk '/^usage: |^       lockctl |^       lockshm-bridge /{ sub(/^usage:/, "") } /^$/ { exit } { print }'; }
usages_of_page()
{
	sed -n '/^\.nf/,/^\.fi/p' "$1" | sed '/^\.fi/,$d; 1d; s/\\f[BIR]//g; s/\\-/-/g; s/\\(aq/'\''/g' | grep -v -e '--help$' -e '--version$'
}
joined() { awk '/^ *lockctl |^ *lockshm-bridge / && n++ { print "" } { $1 = $1; printf "%s ", $0 } END { print "" }' "$1" | sort; }
same_usages()
{
	joined "$dir/help" >"$dir/usages"
	usages_of_page "$1" >"$dir/synopsis"
	joined "$dir/synopsis" | diff "$dir/usages" - >&2 || fail "usages of --help (<) and $(basename "$1") (>)"
}

for command in $(lockctl --help | awk '/^  [a-z]/ { print $1 }'); do
	lockctl "$command" --help | usages_of_help
done >"$dir/help"
same_usages "$pages/lockctl.1"
if find_bridge; then
	bridge --help | usages_of_help >"$dir/help"
	same_usages "$pages/lockshm-bridge.8"
fi

# What lockctl show has of Redis is what lockshm-bridge show prints: one list of lines.
for page in lockctl.1 lockshm-bridge.8; do
	grep -E '^redis(\\-[a-z]+)? ' "$pages/$page" >"$dir/$page" || fail "$page has no lines of Redis"
done
diff "$dir/lockctl.1" "$dir/lockshm-bridge.8" >&2 || fail "porcelain lines of lockctl.1 (<) and lockshm-bridge.8 (>)"

# Options are in the order of their first names.
for page in lockctl.1 lockshm-bridge.8; do
	sed -n '/^\.SH OPTIONS/,/^\.SH EXIT/p' "$pages/$page" | sed 's/\\-/-/g' | grep -A1 '^\.TP' |
		sed -nE 's/^\.[BIR]+ +--?([A-Za-z-]+).*/\1/p' | tr '[:upper:]' '[:lower:]' >"$dir/order"
	[ "$(wc -l <"$dir/order")" -ge 9 ] || fail "options of $page"
	LC_ALL=C sort -c "$dir/order" 2>"$dir/stderr" || fail "options of $page are not sorted"
done

command -v mandoc >/dev/null || skip "the rest: mandoc is not installed"
for page in lockshm-bridge.8 lockctl.1; do
	page=$pages/$page
	mandoc -T lint "$page" >"$dir/stdout" 2>&1 || fail "mandoc complains"
	silent stdout
	# It fits a terminal of 80 columns, but for JSON, the porcelain lines and the table beside flock(1).
	mandoc -T ascii "$page" | sed "s/.$(printf '\b')//g" |
		awk 'length($0) > 80 && !/": | \| [a-z(]|KEY_LEN/' >"$dir/stdout"
	silent stdout
done
equal sections "$(sed -n 's/^\.SH //p' "$page" | tr '\n' ',')" \
	"NAME,SYNOPSIS,DESCRIPTION,COMMANDS,OPTIONS,EXIT STATUS,OUTPUT FORMATS,EXAMPLES,NOTES,SEE ALSO,"
