# SPDX-License-Identifier: MIT
# Read by the test scripts: tools, the extension ($extension), a folder of the test's own ($work) that is removed.

skip() {
	echo "skipped: $1"
	echo "0 passed, 0 failed, 1 skipped"
	exit 77
}

[ "${have_php-yes}" = yes ] || skip "configured without PHP"
[ -z "${builddir:-}" ] || builddir=$(cd "$builddir" && pwd)
[ -z "${srcdir:-}" ] || srcdir=$(cd "$srcdir" && pwd)
for tool in php phpize php-config; do
	command -v "$tool" >/dev/null || skip "no $tool (php-dev, php-cli)"
done
php -r 'exit(PHP_VERSION_ID >= 80200 ? 0 : 1);' || skip "PHP is older than 8.2"
if [ -n "${builddir:-}" ] && [ -e "$builddir/.libs/liblockshm.so.0" ]; then
	LD_LIBRARY_PATH=$builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH
elif ! pkg-config --exists lockshm; then
	skip "liblockshm was not found"
fi
extension=$("$here/build.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
