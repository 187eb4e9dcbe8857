#!/bin/sh
# SPDX-License-Identifier: MIT
# Write lockshm_arginfo.h from lockshm.stub.php, into the folder given (default: this one).
#
# By PHP's own gen_stub.php, with PHP-Parser from the system (Debian: php-dev, php-parser).  Exit status 77: one is missing.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=${1:-$here}
generator=$("${PHP_CONFIG:-php-config}" --prefix)/lib/php/$("${PHP_CONFIG:-php-config}" --phpapi)/build/gen_stub.php
parser=${PHP_PARSER_DIR:-/usr/share/php/PhpParser}
[ -e "$generator" ] || { echo "skipped: no gen_stub.php (php-dev)"; exit 77; }
[ -d "$parser" ] || { echo "skipped: no PHP-Parser (php-parser)"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$generator" "$work/gen_stub.php"
version=$(sed -n '/function initPhpParser/,/^}/s/.*\$version = "\(.*\)";/\1/p' "$generator")
mkdir -p "$work/PHP-Parser-$version/lib"
ln -s "$parser" "$work/PHP-Parser-$version/lib/PhpParser"
cp "$here/lockshm.stub.php" "$work/"
"${PHP:-php}" "$work/gen_stub.php" -f "$work/lockshm.stub.php" >"$work/log" 2>&1 || {
	cat "$work/log" >&2
	exit 1
}
{
	echo '/* SPDX-License-Identifier: MIT */'
	cat "$work/lockshm_arginfo.h"
} >"$target/lockshm_arginfo.h"
