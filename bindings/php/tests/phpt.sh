#!/bin/sh
# SPDX-License-Identifier: MIT
# The interface, by PHP's own run-tests.php.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/support/start.sh"
runner=$(php-config --prefix)/lib/php/$(php-config --phpapi)/build/run-tests.php
[ -e "$runner" ] || skip "no run-tests.php (php-dev)"

cp "$here"/phpt/*.phpt "$here"/phpt/*.inc "$work/"
cp "$runner" "$work/"
cd "$work"
LOCKSHM_PHP_SOURCE=$here/..
export LOCKSHM_PHP_SOURCE
# shellcheck disable=SC2086
TEST_PHP_EXECUTABLE=$(command -v php) NO_INTERACTION=1 php -n run-tests.php -n -q -g FAIL,SKIP,BORK,WARN \
	-d extension="$extension" -d extension=posix -d lockshm.segment="phpt-default-$$" --set-timeout 300 ${PHPT:-.} >log 2>&1 || true
count() {
	sed -n "s/^Tests $1 *: *\([0-9]*\).*/\1/p" log
}
passed=$(count passed) failed=$(count failed) skipped=$(count skipped) warned=$(count warned)
if [ "${failed:-1}" != 0 ] || [ "${warned:-0}" != 0 ] || [ "${passed:-0}" = 0 ]; then
	cat log
	for diff in ./*.diff; do
		[ -e "$diff" ] && echo "--- $diff" && cat "$diff"
	done
	echo "${passed:-0} passed, $((${failed:-1} + ${warned:-0})) failed, ${skipped:-0} skipped"
	exit 1
fi
echo "$passed passed, 0 failed, $skipped skipped"
