# SPDX-License-Identifier: MIT
#
# to-c.awk - awk -f to-c.awk common.lua SCRIPT.lua...: each script, with common.lua before it, as a string of C
#
# Lines of comment, empty lines and indentation are left out: the server needs none of them.

FNR == 1 {
	files++
	if (files == 1)
		print "/* made from src/bridge/ by to-c.awk */\n#include \"bridge-lua.h\""
	if (files > 2)
		print "\t;"
	if (files > 1) {
		name = FILENAME
		sub(/.*\//, "", name)
		sub(/\.lua$/, "", name)
		gsub(/-/, "_", name)
		print "\nconst char bridge_lua_" name "[] ="
		for (i = 1; i <= n; i++)
			print common[i]
	}
}

{
	sub(/^[ \t]+/, "")
	if ($0 == "" || /^--/)
		next
	gsub(/\\/, "\\\\")
	gsub(/"/, "\\\"")
	line = "\t\"" $0 "\\n\""
	if (files == 1)
		common[++n] = line
	else
		print line
}

END { print "\t;" }
