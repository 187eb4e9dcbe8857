#!/bin/sh
# SPDX-License-Identifier: MIT
#
# layering.sh - the files of src/ depend on each other as section "Modules" of doc/design.md says
#
#   1. every file of the library is in a row of the table, and includes only headers of its own row and those below,
#      but for the exceptions listed under the table; an exception nobody uses is stale
#   2. lockctl, examples and benchmarks include nothing of the library but lockshm.h
#   3. the calls that a file owns are made nowhere else, and some by nobody
set -u
LC_ALL=C
export LC_ALL

top=${srcdir:-.}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
problems=0

problem()
{
	problems=$((problems + 1))
	echo "$*"
}

# ---------------------------------------------------------------- 1. the table

sed -n '/^## [0-9]*\.* *Modules$/,/^## Decisions/p' "$top/doc/design.md" >"$work/section"
[ -s "$work/section" ] || { echo "doc/design.md has no section Modules"; exit 99; }

# "module rank": rank 1 is the uppermost row.  A file and its header are one module.
awk '/^\| `/ {
	rank++
	cell = $0
	sub(/^\| /, "", cell)
	sub(/ \|.*/, "", cell)
	while (match(cell, /`[a-z-]+\*?\.[ch]`/)) {
		name = substr(cell, RSTART + 1, RLENGTH - 2)
		sub(/\.[ch]$/, "", name)
		print name, rank
		cell = substr(cell, RSTART + RLENGTH)
	}
}' "$work/section" >"$work/rows"
[ "$(wc -l <"$work/rows")" -ge 20 ] || { echo "found only $(wc -l <"$work/rows") modules in doc/design.md"; exit 99; }

# The public header lies below everything.
echo "lockshm 99" >>"$work/rows"

# "file.c header.h" for each clause "`file.c` and `other.c` ... (`header.h`)" of the list under the table.
awk '
	/^- `/ { if (item != "") print item; item = $0; next }
	/^  / && item != "" { item = item " " $0; next }
	{ if (item != "") print item; item = "" }
	END { if (item != "") print item }
' "$work/section" | tr ';' '\n' | awk '{
	clause = $0
	files = headers = 0
	while (match(clause, /`[a-z-]+\.[ch]`/)) {
		name = substr(clause, RSTART + 1, RLENGTH - 2)
		if (name ~ /c$/) file[++files] = name
		else header[++headers] = name
		clause = substr(clause, RSTART + RLENGTH)
	}
	for (i = 1; i <= files; i++)
		for (j = 1; j <= headers; j++)
			print file[i], header[j]
}' >"$work/exceptions"

# "file header": what the files really include of ours
(cd "$top/src" && grep -H '^#include "' ./*.[ch]) | sed -e 's,^\./,,' -e 's/:#include "\(.*\)".*/ \1/' >"$work/includes"

grep -v '^lockctl' "$work/includes" | awk -v rows="$work/rows" -v exceptions="$work/exceptions" '
	BEGIN {
		while ((getline line < rows) > 0) { split(line, f, " "); rank[f[1]] = f[2] }
		while ((getline line < exceptions) > 0) exception[line] = 1
	}
	{
		from = $1; to = $2
		sub(/\.[ch]$/, "", from); sub(/\.h$/, "", to)
		if (!(from in rank)) { print $1 " is in no row of doc/design.md"; next }
		if (!(to in rank)) { print $1 " includes " $2 ", which is in no row of doc/design.md"; next }
		if (rank[to] >= rank[from]) next
		if (($1 " " $2) in exception) { used[$1 " " $2] = 1; next }
		print $1 " includes " $2 ", which lies above it"
	}
	END { for (e in exception) if (!(e in used)) { sub(/ /, " includes ", e); print "stale exception: " e } }
' >"$work/wrong"
for file in "$top"/src/*/*.[ch]; do
	name=$(basename "$file")
	case $name in
	lockctl*) continue ;;
	esac
	grep -q "^${name%.[ch]} " "$work/rows" || echo "$name is in no row of doc/design.md" >>"$work/wrong"
done
sort -u "$work/wrong" >"$work/list"
while read -r line; do
	problem "src: $line"
done <"$work/list"

# ---------------------------------------------------------------- 2. users of the public header

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
		done >"$work/list"
	while read -r line; do
		problem "$line"
	done <"$work/list"
}
only src 'lockctl*.c' lockctl.h lockshm.h
only src lockctl.h lockshm.h
only examples '*.[ch]' lockshm.h demo.h prefork.h
only perf '*.[ch] *.cc' lockshm.h bench.h bench-bridge.h

# ---------------------------------------------------------------- 3. calls

# owned CALLS-AS-AN-EXPRESSION FILES-AS-AN-EXPRESSION: code lines with such a call, in other files
owned()
{
	(cd "$top/src" && grep -nE "(^|[^a-z_A-Z\"])($1)" ./*.[ch]) | sed 's,^\./,,' |
		grep -vE "^(lockctl[^:]*|$2):" | grep -vE '^[^:]*:[0-9]*:([^"]*/\*| \*|#)' >"$work/list"
	while read -r line; do
		problem "src/$line"
	done <"$work/list"
}
owned 'SYS_futex|FUTEX_WAKE|FUTEX_WAIT_BITSET' 'futex\.c'
owned 'crypto_[a-z_0-9]+\(' 'hash\.c'
owned '(shm_open|posix_fallocate|ftruncate|linkat)\(' 'segment(-open)?\.c'
owned 'mmap\(.*MAP_SHARED' 'segment(-open|-remove)?\.c'
owned 'pthread_mutexattr_setrobust\(' 'owner\.c'
owned 'clock_gettime\(CLOCK_MONOTONIC' 'clock\.[ch]'
owned '(redis[A-Z][A-Za-z]*|freeReplyObject)\(' 'bridge-wire\.c'
owned '(SSL|BIO|ERR|EVP|PEM|X509|OPENSSL)_[A-Za-z_0-9]*\(' 'bridge-(openssl|tls)\.[ch]'
owned 'dl(open|sym)\(' 'bridge-library\.c'
owned 'socket\(' 'bridge-connect\.c'
owned 'getaddrinfo\(' 'bridge-resolve\.c'
# The library is a guest in somebody's process.
owned '(printf|fprintf|puts|fputs|perror|exit|_exit|abort|assert|signal|sigaction|fork|system)\(' 'none'

[ $problems = 0 ] || exit 1
echo "$(wc -l <"$work/includes") includes, $(wc -l <"$work/exceptions") exceptions"
