#!/bin/sh
# SPDX-License-Identifier: MIT
# The archive installs into an empty tree, and the example of README.md runs there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/support/start.sh"
passed=0
pass() {
	passed=$((passed + 1))
}
fail() {
	echo "failed: $1"
	[ -z "${2:-}" ] || tail -40 "$2"
	echo "$passed passed, 1 failed, 0 skipped"
	exit 1
}

# The generated header is that of the stub.
status=0
"$here/../generate.sh" "$work" >"$work/log" || status=$?
case $status in
0) cmp "$work/lockshm_arginfo.h" "$here/../lockshm_arginfo.h" || fail "lockshm_arginfo.h is not that of lockshm.stub.php: run generate.sh" ;;
77) cat "$work/log" ;;
*) fail "generate.sh" "$work/log" ;;
esac
pass

# The archive has every source and test.
archive=$("$here/../archive.sh" "$work")
tar -C "$work" -xzf "$archive"
source=$(echo "$work"/lockshm-*/)
for file in "$here"/../*.[ch] "$here"/../config.m4 "$here"/phpt/*; do
	name=${file#"$here"/}
	case $name in ../*) name=${name#../} ;; *) name=tests/$name ;; esac
	[ -e "$source/$name" ] || fail "package.xml does not list $name"
done
pass

if [ -n "${builddir:-}" ] && [ -e "$builddir/.libs/liblockshm.so" ]; then
	LOCKSHM_CFLAGS="-I${srcdir:?}/include" LOCKSHM_LIBS="-L$builddir/.libs -llockshm"
	export LOCKSHM_CFLAGS LOCKSHM_LIBS
fi
cd "$source"
{ phpize && ./configure && make && make install INSTALL_ROOT="$work/root"; } >"$work/log" 2>&1 || fail "make install" "$work/log"
installed=$work/root$(php-config --extension-dir)/lockshm.so
[ -e "$installed" ] || fail "no lockshm.so under $work/root" "$work/log"
if command -v readelf >/dev/null; then
	readelf -d "$installed" >"$work/log"
	! grep -E '\((RPATH|RUNPATH)\)' "$work/log" || fail "the module has a load path" "$work/log"
	grep -q 'NEEDED.*liblockshm\.so\.0' "$work/log" || fail "the module is not linked with the library" "$work/log"
fi
pass

mkdir "$work/example"
cd "$work/example"
segment=php-readme-$$
awk '/^```php$/ { on = 1; next } on && /^```$/ { exit } on' "$source/README.md" | sed "s/'shop'/'$segment'/" >example.php
destroy() {
	php -n -d extension="$installed" -r "Lockshm\\Locks::destroy('$segment');" || true
}
trap 'destroy >"$work/destroyed" 2>&1; rm -rf "$work"' EXIT
run_example() {
	php -n -d extension="$installed" -d display_errors=stderr example.php >out 2>&1 || fail "the example of README.md, $1 run" out
	[ "$(cat out)" = "$2" ] || fail "the example printed something else, $1 run" out
}
run_example first "<h1>Hello</h1>
mails sent"
grep -q '^made under token [1-9]' report.txt || fail "the example made no report" out
run_example second "<h1>Hello</h1>"
pass

php -n -d extension="$installed" -d session.save_handler=lockshm --ri lockshm >out 2>&1 || fail "php --ri lockshm" out
grep -q "^library version => 0" out || fail "php --ri lockshm" out
pass
echo "$passed passed, 0 failed, 0 skipped"
