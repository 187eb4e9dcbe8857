#!/bin/sh
# SPDX-License-Identifier: MIT
#
# layering.sh - src/ is the ladder that src/README.md draws
#
#   1. calls and data: an object uses symbols of its own folder and of those that the ladder puts below it; the exceptions
#      are the lines of the second table there, and one that nothing uses is stale
#   2. includes: the same for headers; tools, examples and benchmarks include nothing of the library but lockshm.h
#   3. circles of calls: none spans two folders, and none inside a folder has more than four files
#   4. src/README.md has a line for each folder and each file, and no other
#   5. the system calls that a file owns are made nowhere else, and some by no file; what a segment says of a majority goes to
#      the Redis client and is shown or compared, and nothing else depends on it
set -u
LC_ALL=C
export LC_ALL

top=${srcdir:-.}
build=${builddir:-.}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

problem()
{
	echo "$*" | tee -a "$work/problems"
}

# Each line of standard input is a problem.
report()
{
	sort -u | tee -a "$work/problems"
}

# ---------------------------------------------------------------- the ladder

# "folder below": what stands directly on what; a folder with nothing below has an empty second field.
sed -n '/^## The ladder$/,/^## /p' "$top/src/README.md" >"$work/section"
awk -F'|' '/^\| `[a-z]+` \|/ {
	gsub(/[` ]/, " ", $2); gsub(/[`,]/, " ", $3)
	split($2, name, " ")
	n = split($3, below, " ")
	print name[1], ""
	for (i = 1; i <= n; i++) print name[1], below[i]
}' "$work/section" >"$work/stands"
[ "$(awk '{ print $1 }' "$work/stands" | sort -u | wc -l)" -ge 10 ] ||
	{ echo "src/README.md: no ladder found"; exit 99; }

# "above below" for all that may be used, by any number of steps
awk '{ all[$1]; if (NF > 1) { all[$2]; may[$1, $2] } }
END {
	for (k in all) for (i in all) for (j in all) if ((i, k) in may && (k, j) in may) may[i, j]
	for (i in all) { print i, i; for (j in all) if ((i, j) in may) { print i, j; if (i == j) print "circle", i } }
}' "$work/stands" >"$work/may"

# "from to symbol": the exceptions
awk -F'|' '/^\| `[a-z]+` to `[a-z]+` \|/ {
	gsub(/[`,()]/, " ", $2); gsub(/[`,()]/, " ", $3)
	split($2, edge, " ")
	n = split($3, symbol, " ")
	for (i = 1; i <= n; i++) print edge[1], edge[3], symbol[i]
}' "$work/section" >"$work/exceptions"

# ---------------------------------------------------------------- 1. symbols

# "D|U symbol folder/file" of each object.  A build has objects of one kind or of both.
for dir in "$build"/src/*/; do
	folder=$(basename "$dir")
	[ -d "$dir/.libs" ] && ls "$dir"/.libs/*.o >/dev/null 2>&1 && dir=$dir/.libs
	for object in "$dir"/*.o; do
		[ -f "$object" ] || continue
		name=$(basename "$object" .o)
		name=$folder/${name#*_la-}
		name=$folder/${name##*/lockctl-}
		name=$folder/${name##*/lockshm_bridge-}
		name=$folder/${name##*/}
		${NM:-nm} --defined-only "$object" | awk -v f="$name" 'NF == 3 && $2 ~ /[A-Zvw]/ { print "D", $3, f }'
		${NM:-nm} -u "$object" | awk -v f="$name" '{ print "U", $2, f }'
	done
done >"$work/symbols"
[ "$(grep -c '^D' "$work/symbols")" -ge 200 ] || { echo "found no objects below $build/src: build first"; exit 99; }

# "from/file to/file symbol"
awk '$1 == "D" { home[$2] = $3 } $1 == "U" { use[++n] = $2; by[n] = $3 }
END { for (i = 1; i <= n; i++) if (use[i] in home && home[use[i]] != by[i]) print by[i], home[use[i]], use[i] }' \
	"$work/symbols" | sort -u >"$work/calls"

awk -v may="$work/may" -v exceptions="$work/exceptions" '
	BEGIN {
		while ((getline line < may) > 0) allowed[line] = 1
		while ((getline line < exceptions) > 0) exception[line] = 1
	}
	{
		split($1, from, "/"); split($2, to, "/")
		if (from[1] ~ /^(lockctl|cli|daemon)$/ && $3 ~ /^lockshm_/) next
		if ((from[1] " " to[1]) in allowed) next
		edge = from[1] " " to[1] " " $3
		if (edge in exception) { used[edge] = 1; next }
		print "src/" $1 ".c uses " $3 " of src/" $2 ".c, which the ladder does not put below it"
	}
	END { for (e in exception) if (!(e in used)) print "stale exception in src/README.md: " e }
' "$work/calls" | report

# ---------------------------------------------------------------- 2. includes

(cd "$top/src" && grep -H '^#include "' ./*/*.[ch]) | sed -e 's,^\./,,' -e 's/:#include "\(.*\)".*/ \1/' >"$work/includes"
awk -v may="$work/may" -v exceptions="$work/exceptions" '
	BEGIN {
		while ((getline line < may) > 0) allowed[line] = 1
		while ((getline line < exceptions) > 0) { split(line, e, " "); edge[e[1] " " e[2]] = 1 }
	}
	$2 == "lockshm.h" { next }
	$2 !~ /\// { print "src/" $1 " includes \"" $2 "\" without its folder"; next }
	{
		split($1, from, "/"); split($2, to, "/")
		pair = from[1] " " to[1]
		if (!(pair in allowed) && !(pair in edge)) print "src/" $1 " includes " $2 ", which the ladder does not put below it"
	}
' "$work/includes" | report

# The client knows no segment.
(cd "$top" && grep -n '^#include "segment/' src/redis/*.[ch]) | grep -v '"segment/redis-uri\.h"' | report

# <sys/x.h> means the system's: no directory that the compiler searches for <...> has a file of ours by the name that we use.
# shellcheck disable=SC2086
${CC:-cc} ${BUILD_CPPFLAGS:--I$top/include -iquote $top/src -iquote $top/tests} -v -E -x c /dev/null 2>&1 >/dev/null |
	sed -n '/^#include <\.\.\.>/,/^End of search list/s/^ //p' >"$work/searched"
[ -s "$work/searched" ] || { echo "${CC:-cc} -v prints no list of directories"; exit 99; }
(cd "$top/src" && ls ./*/*.h; cd "../tests" && ls ./*/*.h) | sed 's,^\./,,' | while read -r header; do
	while read -r dir; do
		for ours in "$top/src/$header" "$top/tests/$header"; do
			# shellcheck disable=SC3013 # every sh of Linux has it
			[ ! "$dir/$header" -ef "$ours" ] || echo "$ours hides <$header>: the compiler searches $dir for it"
		done
	done <"$work/searched"
done | report

# only DIRECTORY FILES ALLOWED...: quoted and angle includes of ours in those files are among the allowed
only()
{
	dir=$1
	files=$2
	shift 2
	# shellcheck disable=SC2086
	(cd "$top/$dir" && grep -H '^#include ["<]' $files) | sed 's/:#include ["<]\(.*\)[">].*/ \1/' |
		while read -r file header; do
			case " $* " in
			*" $header "*) continue ;;
			esac
			[ ! -e "$top/src/$header" ] && [ ! -e "$top/$dir/$header" ] && continue
			echo "$dir/$file includes $header"
		done | report
}
only src/cli '*.[ch]' cli/cli.h lockshm.h
only src/lockctl '*.[ch]' lockctl/lockctl.h cli/cli.h lockshm.h
only src/daemon '*.[ch]' daemon/daemon.h bridge/admin.h bridge/check.h bridge/credentials.h bridge/hosts.h bridge/log.h bridge/serve.h cli/cli.h
only examples '*.[ch]' lockshm.h demo.h prefork.h
only perf '*.[ch] *.cc' lockshm.h bench.h bench-bridge.h bench-loop.h bench-side.h

# ---------------------------------------------------------------- 3. circles

awk -v exceptions="$work/exceptions" '
	BEGIN { while ((getline line < exceptions) > 0) exception[line] = 1 }
	{
		split($1, from, "/"); split($2, to, "/")
		if ((from[1] ~ /^(lockctl|cli|daemon)$/ && $3 ~ /^lockshm_/) || (from[1] " " to[1] " " $3) in exception) next
		all[$1]; all[$2]; reach[$1, $2]
	}
	END {
		for (k in all) for (i in all) if ((i, k) in reach) for (j in all) if ((k, j) in reach) reach[i, j]
		for (i in all) {
			if (i in done) continue
			n = 0; names = ""; split(i, home, "/"); wide = 0
			for (j in all) if (i == j || (i, j) in reach && (j, i) in reach) {
				done[j]; n++; names = names " " j
				split(j, f, "/"); if (f[1] != home[1]) wide = 1
			}
			if (wide) print "a circle of calls spans folders:" names
			else if (n > 4) print "a circle of " n " files:" names
		}
	}
' "$work/calls" | report

# ---------------------------------------------------------------- 4. the door

# `folder/` of a table line, and the files named in it
awk '/^\| `[a-z]+\/` \|/ {
	folder = $0; sub(/^\| `/, "", folder); sub(/\/`.*/, "", folder)
	line = $0
	while (match(line, /`[a-z0-9-]+\.(c|h|c,h)`/)) {
		name = substr(line, RSTART + 1, RLENGTH - 2)
		line = substr(line, RSTART + RLENGTH)
		if (sub(/\.c,h$/, "", name)) { print folder "/" name ".c"; print folder "/" name ".h" }
		else print folder "/" name
	}
}' "$top/src/README.md" | sort -u >"$work/listed"
(cd "$top/src" && ls ./*/*.[ch]) | sed 's,^\./,,' | grep -v '^lockctl/' | grep -vx 'redis/scripts.c' | sort -u >"$work/there"
comm -13 "$work/listed" "$work/there" | sed 's,.*,src/README.md has no line for src/&,' | report
comm -23 "$work/listed" "$work/there" | sed 's,.*,src/README.md names src/&\, which is not there,' | report

# ---------------------------------------------------------------- 5. system calls

# owned CALLS-AS-AN-EXPRESSION FILES-AS-AN-EXPRESSION: code lines with such a call, in other files
owned()
{
	(cd "$top/src" && grep -nE "(^|[^a-z_A-Z\"])($1)" ./*/*.[ch]) | sed 's,^\./,,' |
		grep -vE "^((cli|daemon|lockctl)/[^:]*|$2):" | grep -vE '^[^:]*:[0-9]*:([^"]*/\*| \*|#)' | sed 's,^,src/,' | report
}
owned 'SYS_futex|FUTEX_WAKE|FUTEX_WAIT_BITSET' 'sys/futex\.c'
owned 'XXH3_[a-zA-Z_0-9]+\(' 'sys/hash\.c'
owned '(shm_open|posix_fallocate|ftruncate|linkat)\(' 'segment/(create|map|remove)\.c'
owned 'mmap\(.*MAP_SHARED' 'segment/(create|map|remove)\.c'
owned 'pthread_mutexattr_setrobust\(' 'lock/life\.c'
owned 'clock_gettime\(CLOCK_MONOTONIC' 'sys/clock\.[ch]'
owned '(redis[A-Z][A-Za-z]*|freeReplyObject)\(' 'redis/resp\.c'
owned '(SSL|BIO|ERR|EVP|PEM|X509|OPENSSL)_[A-Za-z_0-9]*\(' 'redis/tls\.c'
owned 'dl(m?open|sym)\(' 'none'
owned 'socket\(' '(redis/conn-open|daemon/supervisor)\.c'
owned 'getaddrinfo\(' 'redis/resolve\.c'
owned 'REDIS_QUORUM' '(segment/(layout\.h|redis-options\.c)|api/stat\.c|bridge/(client-settings|admin|check|hosts-redis)\.c)'
owned 'redis_quorum_[a-z]+\(' 'redis/(client\.c|quorum[^:]*)'
# The library runs inside a program of its user.
owned '(printf|fprintf|puts|fputs|perror|exit|_exit|abort|assert|signal|sigaction|fork|system)\(' 'daemon/[^:]*'

[ ! -s "$work/problems" ] || exit 1
echo "$(wc -l <"$work/calls") calls and $(wc -l <"$work/includes") includes, $(wc -l <"$work/exceptions") exceptions"
