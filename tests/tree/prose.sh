#!/bin/sh
# SPDX-License-Identifier: MIT
#
# prose.sh - sentences of comments and documents have subjects: a role or a thing
#
# Counts the pronouns below per 1,000 words, folder by folder.  Words are those of C comments, of comment lines of
# scripts, makefiles and Lua, and of whole documents.  One is allowed in every folder, however small.
#
# Usage: prose.sh [-v]    -v: figures of every folder
set -u
LC_ALL=C
export LC_ALL

srcdir=$(cd "${srcdir:-.}" && pwd)
out=$(mktemp) || exit 99
trap 'rm -f "$out"' EXIT
cd "$srcdir" || exit 99

# No name in this tree has a blank.
# shellcheck disable=SC2046
set -- "${1:--q}" $(find src include doc tests perf model examples bindings -type f \( -name '*.[ch137]' -o -name '*.pml' \
	-o -name '*.sh' -o -name '*.mk' -o -name '*.awk' -o -name '*.py' -o -name '*.php' -o -name '*.lua' -o -name '*.md' \) | sort)
verbose=$1
shift

awk -v verbose="$verbose" '
	# The comment in a line of C, in pieces; what goes on in the next line is remembered in inside.
	function c_comment(line, text, at) {
		text = ""
		while (line != "") {
			at = index(line, inside ? "*/" : "/*")
			if (inside)
				text = text " " (at ? substr(line, 1, at - 1) : line)
			if (!at)
				break
			inside = !inside
			line = substr(line, at + 2)
		}
		return text
	}
	function lua_comment(line, at) {
		at = index(line, "--")
		return at ? substr(line, at) : ""
	}
	function comment(line) {
		if (language == "c")
			return c_comment(line)
		if (language == "lua")
			return lua_comment(line)
		return language == "text" || line ~ /^[ \t]*#/ ? line : ""
	}
	function count(text, found) {
		text = tolower(text)
		found = text
		words[folder] += gsub(/[a-z\047]+/, "", text)
		gsub(/[^a-z0-9_]/, "  ", found)
		found = " " found " "
		found = gsub(/ (who|whoever|nobody|somebody) /, "", found)
		hits[folder] += found
		if (found)
			of_file[FILENAME] += found
	}
	function bound(folder) {
		return folder ~ /^(src|include|doc)/ ? 1 : 4
	}
	FNR == 1 {
		inside = 0
		language = FILENAME ~ /\.([ch]|pml|php)$/ ? "c" : FILENAME ~ /\.lua$/ ? "lua" : FILENAME ~ /\.(md|[137])$/ ? "text" : "script"
		split(FILENAME, part, "/")
		folder = FILENAME ~ /^(src|tests)\/.*\// ? part[1] "/" part[2] : part[1]
		folder_of[FILENAME] = folder
	}
	{ count(comment($0)) }
	END {
		for (f in words) {
			total += words[f]
			rate = 1000 * hits[f] / (words[f] ? words[f] : 1)
			bad = hits[f] > 1 && rate > bound(f)
			if (bad || verbose == "-v")
				printf "%s: %d in %d words: %.1f of 1,000, at most %d%s\n", f, hits[f], words[f], rate, bound(f), bad ? "  FAILED" : ""
			if (bad)
				for (name in of_file)
					if (folder_of[name] == f)
						printf "%s: %d: %s\n", f, of_file[name], name
		}
		print total + 0 " words"
	}
' "$@" >"$out" || exit 99

# Folders by name, the worst files of each first, at most ten.
sed '$d' "$out" | sort -t: -k1,1 -k2,2nr | awk -F: '$1 != folder { folder = $1; n = 0 } n++ < 11'
total=$(sed -n '$s/ words$//p' "$out")
echo "$total words"
# Seeing fewer than there must be means that this script looks in the wrong place.
[ "$total" -ge 50000 ] || { echo "too few words"; exit 99; }
! grep -q 'FAILED$' "$out"
