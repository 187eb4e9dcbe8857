#!/bin/sh
# SPDX-License-Identifier: MIT
# generate.sh - print lib/resty/lockshm/cdef.lua, made from lockshm.h by the C compiler
#
#   ./generate.sh [HEADER] > lib/resty/lockshm/cdef.lua
#
# The declarations are what the preprocessor leaves of the header, without those that need callbacks, which LuaJIT
# cannot take from C safely.  Sizes, offsets and the values of macros are those of the C compiler.
set -eu

here=$(dirname "$0")
header=${1:-$here/../../include/lockshm.h}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: "${CC:=cc}"

# The text of the header alone: the preprocessor marks the lines of other files.
$CC -E -D'__attribute__(x)=' "$header" |
	awk '/^# [0-9]+ "/ { keep = index($0, "lockshm.h\""); next } keep && !/^[[:space:]]*$/' > "$work/text"

# One declaration a line, functions of the header itself and callbacks left out.
awk '
function depth_of(text,   opened) {
	opened = gsub(/[{]/, "{", text)
	return opened - gsub(/[}]/, "}", text)
}
{
	sub(/^[[:space:]]+/, "")
	statement = statement (statement == "" ? "" : " ") $0
	depth += depth_of($0)
	if (depth > 0 || $0 !~ /[;}]$/)
		next
	if (statement !~ /^static inline/ && statement ~ /;$/ && statement !~ /_fn[^a-z]|_party/)
		print statement
	statement = ""
}' "$work/text" |
	sed -e 's/\buid_t\b/unsigned int/g; s/\bgid_t\b/unsigned int/g; s/\bmode_t\b/unsigned int/g; s/ ;$/;/' > "$work/declarations"

# A program that prints the layout of each struct and the constants that are macros.
{
	printf '#include <stdio.h>\n#include <inttypes.h>\n#include "%s"\n' "$(cd "$(dirname "$header")" && pwd)/lockshm.h"
	printf '#define SIZE(type) printf("    [\\"%%s\\"] = { %%zu, {", #type, sizeof(type))\n'
	printf '#define FIELD(type, name) printf(" %%s = %%zu,", #name, offsetof(type, name))\n'
	printf '#define END() puts(" } },")\n'
	printf 'int main(void)\n{\n\tputs("M.layout = {");\n'
	awk '
	/^(typedef )?struct [a-z_]+ [{]/ {
		line = $0
		sub(/^typedef /, "", line)
		split(line, words, " ")
		type = "struct " words[2]
		sub(/^[^{]*[{] */, "", line)
		sub(/ *[}][^}]*$/, "", line)
		printf "\tSIZE(%s);", type
		count = split(line, fields, / *; */)
		for (i = 1; i < count; i++) {
			names = split(fields[i], list, / *, */)
			for (j = 1; j <= names; j++) {
				sub(/\[.*/, "", list[j])
				sub(/.*[ *]/, "", list[j])
				printf " FIELD(%s, %s);", type, list[j]
			}
		}
		print " END();"
	}' "$work/declarations"
	printf '\tputs("}\\n\\nM.number = {");\n'
	for name in KEY_MAX EXPLAIN_MAX TAG_MAX NAME_MAX TTL_MIN AUTO_RENEW_TTL_MIN TIME_MAX AUTO_RENEW ONLY_IF_FREE_IN_TIME \
		GLOBAL BARGE ROBUST CREATE_OR_OPEN CREATE_REDIS_QUORUM OPEN_READ_ONLY OPEN_ANY_OWNER; do
		printf '\tprintf("    %s = %%" PRId64 ",\\n", (int64_t)LOCKSHM_%s);\n' "$name" "$name"
	done
	printf '\tputs("}");\n'
	printf '\tprintf("\\nM.version = \\"%%d.%%d.%%d\\"\\n", LOCKSHM_VERSION_MAJOR, LOCKSHM_VERSION_MINOR, '
	printf 'LOCKSHM_VERSION_PATCH);\n\treturn 0;\n}\n'
} > "$work/layout.c"
$CC -o "$work/layout" "$work/layout.c"

echo '-- SPDX-License-Identifier: MIT'
echo '-- Made from lockshm.h by generate.sh: do not edit.'
echo 'local M = {}'
echo
echo 'M.declarations = [['
# One field or enumerator a line, as a reader expects it.
sed -e 's/{ /{\n    /' -e 's/; \([a-z]\)/;\n    \1/g' -e 's/; }/;\n}/' -e '/^enum/s/, /,\n    /g' -e '/^enum/s/ }/\n}/' \
	"$work/declarations"
echo ']]'
echo
"$work/layout"
echo
echo 'return M'
