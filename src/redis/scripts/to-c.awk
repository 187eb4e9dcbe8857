# SPDX-License-Identifier: MIT
#
# to-c.awk - awk -f to-c.awk common.lua SCRIPT.lua...: each script, with common.lua before it, as a string of C
#
# A line "-- common" in a script is where common.lua comes, after the short path; "-- alone": not at all.
#
# Comments, empty lines and indentation are left out: the server does not need them.

function put_script(    i, k)
{
	if (files < 2)
		return
	print "\nconst char redis_lua_" name "[] ="
	for (i = 0; i <= n_script; i++) {
		if (i > 0)
			print script[i]
		if (i == common_at)
			for (k = 1; k <= n_common; k++)
				print common[k]
	}
	print "\t;"
}

FNR == 1 {
	if (files == 0)
		print "/* made from src/redis/scripts/ by to-c.awk */\n#include \"redis/scripts.h\""
	put_script()
	files++
	n_script = common_at = 0
	name = FILENAME
	sub(/.*\//, "", name)
	sub(/\.lua$/, "", name)
	gsub(/-/, "_", name)
}

$0 == "-- common" { common_at = n_script }
$0 == "-- alone" { common_at = -1 }

{
	sub(/^[ \t]+/, "")
	if ($0 == "" || /^--/)
		next
	gsub(/\\/, "\\\\")
	gsub(/"/, "\\\"")
	line = "\t\"" $0 "\\n\""
	if (files == 1)
		common[++n_common] = line
	else
		script[++n_script] = line
}

END { put_script() }
