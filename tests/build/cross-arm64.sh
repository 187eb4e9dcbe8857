#!/bin/sh
# SPDX-License-Identifier: MIT
#
# cross-arm64.sh [build] - the library, tool and tests build for arm64, and the unit tests run there, in qemu's user emulation;
# with the argument it only builds them
#
# Debian's cross compiler has the C library of arm64.  The few other packages are fetched by apt into a directory of
# the build, with lists and settings of their own: neither dpkg's architectures nor apt's lists of the machine change.
#
# qemu knows neither robust lists nor futex_waitv: so this also tests the paths for kernels and containers without.
# shellcheck source=tests/build/build-common.sh
. "$(dirname "$0")/build-common.sh"

triplet=aarch64-linux-gnu
packages="check libjemalloc-dev libjemalloc2 libsubunit-dev libsubunit0 liburcu-dev libxxhash-dev"
work=$builddir/check-arm64
root=$work/root
libs=$root/usr/lib/$triplet

need $triplet-gcc gcc-$triplet
need qemu-aarch64 qemu-user
[ -e /usr/$triplet/lib/libc.so.6 ] || skip "the C library of arm64 is not installed (package libc6-dev-arm64-cross)"
mkdir -p "$work" && cd "$work" || exit 1

fetch()
{
	need apt-get apt
	need dpkg-deb dpkg
	apt=$work/apt
	rm -rf "$apt" "$root"
	mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$root" && : >"$apt/status" || return 1
	cat >"$apt/apt.conf" <<-END
		APT::Architecture "arm64";
		APT::Architectures { "arm64"; };
		APT::Sandbox::User "$(id -un)";
		Acquire::Languages "none";
		Acquire::Retries "2";
		Dir::Cache "$apt";
		Dir::State "$apt";
		Dir::State::status "$apt/status";
	END
	# A source without arm64 does not matter if the others have what is needed.
	APT_CONFIG=$apt/apt.conf apt-get update >apt.log 2>&1
	# shellcheck disable=SC2086
	(cd "$apt/archives" && APT_CONFIG=$apt/apt.conf apt-get download $packages) >>apt.log 2>&1 || return 1
	for deb in "$apt"/archives/*.deb; do
		dpkg-deb -x "$deb" "$root" >>apt.log 2>&1 || return 1
	done
	rm -rf "$apt"
	echo "$packages" >"$root/complete"
}
if [ "$(cat "$root/complete" 2>/dev/null)" != "$packages" ]; then
	fetch || { tail -n 5 apt.log; skip "apt cannot fetch the arm64 packages"; }
fi

# pkg-config must see nothing of this machine's own libraries.
configure_in "$work" --host=$triplet CFLAGS="-O2 -g" --enable-werror --disable-static --without-bridge \
	CPPFLAGS="-isystem $root/usr/include -isystem $root/usr/include/$triplet" \
	LDFLAGS="-L$libs -Wl,-rpath-link,$libs" \
	PKG_CONFIG=pkg-config PKG_CONFIG_PATH=/nonexistent PKG_CONFIG_LIBDIR="$libs/pkgconfig"
"$MAKE" -j"$jobs" all || die "$triplet-gcc"

if [ "${1:-}" = build ]; then
	exec "$MAKE" -j"$jobs" check TESTS=
fi
# One at a time: emulation is slow, and some cases compare times.
# shellcheck disable=SC2016 # make expands it
CK_TIMEOUT_MULTIPLIER=4 run_tests 'TESTS=$(tests_of_units) $(tests_of_environments) tests/memory/litmus tests/soak/threads-as-processes' \
	LOG_COMPILER="qemu-aarch64 -L /usr/$triplet -E LD_LIBRARY_PATH=$libs"
