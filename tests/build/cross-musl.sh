#!/bin/sh
# SPDX-License-Identifier: MIT
#
# cross-musl.sh - a program of musl and one of glibc share a segment: no type of a C library is in it
#
# Builds library, tool and tests/build/libc-peer with musl-gcc.  In both directions: one takes a lock, the other finds it
# busy, waits, and is handed it when the first releases it, and when the first is killed.
# shellcheck source=tests/build/build-common.sh
. "$(dirname "$0")/build-common.sh"

work=$builddir/check-musl
need musl-gcc musl-tools
# place_of HEADER: the directory in which this machine's compiler finds it, which distributions choose differently
place_of()
{
	printf '#include <%s>\n' "$1" | gcc -M -MT place -x c - 2>/dev/null | tr ' ' '\n' | sed -n "s|/$1\$||p" | head -n 1
}
[ -n "$(place_of xxhash.h)" ] || skip "no xxhash.h (package libxxhash-dev)"
[ -n "$(place_of urcu/arch.h)" ] || skip "no urcu headers (package liburcu-dev)"

# musl-gcc looks at musl's headers only.  What the library needs in addition is made visible without letting it see
# the C library's: the kernel's headers, those of urcu, and xxHash, which is all in its header.
mkdir -p "$work/include" && cd "$work" || exit 1
while read -r directory header; do
	ln -sfn "$(place_of "$header")/$directory" "include/$directory"
done <<END
linux linux/futex.h
asm-generic asm-generic/errno.h
asm asm/errno.h
urcu urcu/arch.h
xxhash.h xxhash.h
END
configure_in "$work" CC=musl-gcc CFLAGS="-O2 -g" --enable-werror --without-bridge --without-jemalloc \
	PKG_CONFIG_PATH=/nonexistent PKG_CONFIG_LIBDIR=/nonexistent \
	URCU_CFLAGS="-isystem $work/include" URCU_LIBS=" " \
	XXHASH_CFLAGS="-isystem $work/include" XXHASH_LIBS=" "
"$MAKE" -j"$jobs" liblockshm.la lockctl tests/build/libc-peer || die "musl-gcc"
"$MAKE" -C "$builddir" liblockshm.la tests/build/libc-peer || die "the peer of glibc"
readelf -d lockctl | grep NEEDED | grep -q 'libc\.so\.6' && die "lockctl of musl needs glibc"

segment=/lockshm-libc-test.$$
musl=$work/tests/build/libc-peer
glibc=$builddir/tests/build/libc-peer
holder=''
waiter=''
passed=0

clean_up()
{
	[ -z "$holder" ] || kill -KILL "$holder" 2>/dev/null
	[ -z "$waiter" ] || kill -KILL "$waiter" 2>/dev/null
	"$glibc" rm "$segment" 2>/dev/null
}
trap clean_up EXIT

# until_true COMMAND...: polls, at most 20 s
until_true()
{
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 2000 ] || return 1
		sleep 0.01
	done
}
is_held()
{
	grep -q '^held ' held
}
has_waiter()
{
	[ "$("$1" waiters "$segment" key)" = 1 ]
}

# start_holder PROGRAM: it holds the key until the fifo is closed
start_holder()
{
	rm -f fifo held
	mkfifo fifo
	"$1" hold "$segment" key <fifo >held &
	holder=$!
	exec 3>fifo
	until_true is_held || die "$1 does not get the lock"
}

# start_waiter PROGRAM
start_waiter()
{
	"$1" wait "$segment" key >waited 3>&- &
	waiter=$!
	until_true has_waiter "$1" || die "$1 does not wait"
}

# after_waiter WHAT OUTCOME: it ended with that outcome and with a larger token
after_waiter()
{
	wait "$waiter" || die "$1: the waiter failed"
	waiter=
	read -r outcome token at pid <waited
	[ "$outcome" = "$2" ] || die "$1: outcome $outcome instead of $2"
	[ "$token" -gt "$(sed 's/held //' held)" ] || die "$1: token $token does not rise"
	"$glibc" verify "$segment" || die "$1: verify by glibc"
	"$musl" verify "$segment" || die "$1: verify by musl"
	passed=$((passed + 1))
}

# meet NAME HOLDER NAME WAITER
meet()
{
	start_holder "$2"
	outcome=$("$4" try "$segment" key 3>&-)
	[ "$outcome" = BUSY ] || die "$3 tries what $1 holds: $outcome"
	start_waiter "$4"
	exec 3>&-
	wait "$holder" || die "$1 cannot release"
	after_waiter "$1 releases, $3 waits" OK

	start_holder "$2"
	start_waiter "$4"
	# shellcheck disable=SC2153
	killed_at=$("$2" kill "$holder" 3>&-) || die "kill"
	victim=$holder
	wait "$holder" 2>/dev/null
	holder=
	exec 3>&-
	after_waiter "$1 is killed, $3 waits" OWNER_DIED
	[ "$pid" = "$victim" ] || die "$3 reports process $pid, not $victim"
	us=$(((at - killed_at) / 1000))
	echo "$1 killed, $3 has the lock after $us us"
	# Far below any lease or time-out, far above what a loaded machine needs.
	[ $us -lt 1000000 ] || die "that is too long"
}

"$glibc" create "$segment" || die "create"
meet glibc "$glibc" musl "$musl"
meet musl "$musl" glibc "$glibc"
"$glibc" rm "$segment" || die "rm"
"$musl" create "$segment" || die "create by musl"
meet glibc "$glibc" musl "$musl"
meet musl "$musl" glibc "$glibc"
echo "$passed passed, 0 failed, 0 skipped"
