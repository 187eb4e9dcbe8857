#!/bin/sh
# SPDX-License-Identifier: MIT
#
# model-rules.sh - the design, the models, their README and the source speak of the same rules
#
#   1. each rule of doc/internals/local-locks.md section 6 is named at steps of the model, in src/, and in the README's
#      table of rules; no file names a rule that the design does not have
#   2. that table names labels and inlines that the models have, and functions that src/ defines, in files that name
#      the rule
#   3. each property, switch and seeded fault of the models is explained in the README, and nothing else is
#   4. the rows and faults of run.sh are those of the README's tables, with the same switches
# shellcheck disable=SC2016 # Markdown has backquotes.
set -u
LC_ALL=C
export LC_ALL

top=${srcdir:-.}
model=$top/model
readme=$model/README.md
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
problems=0

problem()
{
	problems=$((problems + 1))
	echo "$*"
}

# same WHAT FILE FILE: the same lines in both, which came from the README and from elsewhere
same()
{
	comm -23 "$work/$2" "$work/$3" >"$work/only"
	while read -r line; do
		problem "$readme: $1 $line: there is none"
	done <"$work/only"
	comm -13 "$work/$2" "$work/$3" >"$work/only"
	while read -r line; do
		problem "$readme: does not have $1 $line"
	done <"$work/only"
}

# enough FILE N: a list that is too short was not found where it was looked for
enough()
{
	n=$(wc -l <"$work/$1")
	[ "$n" -ge "$2" ] || { echo "model-rules.sh: found only $n $1; where are they now?"; exit 99; }
}

# section TITLE: that section of the README
section()
{
	sed -n "/^## $1/,/^## /p" "$readme"
}

# ---------------------------------------------------------------- 1. rules

sed -n '/^## 6\. /,/^## 7\. /p' "$top/doc/internals/local-locks.md" | sed -n 's/^\*\*\(R[0-9]*\) .*/\1/p' | sort -u >"$work/rules"
enough rules 11
section 'Where the rules are' |
	sed -n 's/^| \(R[0-9]*\) [^|]* | \([^|]*\) | \([^|]*\) |$/\1	\2	\3/p' >"$work/table"
enough table 11
while read -r rule; do
	cat "$model"/queue*.pml "$model"/steps-*.pml "$model"/doorbell*.pml | grep -qw "$rule" ||
		problem "model: no step is marked with $rule"
	cat "$top"/src/*/*.[ch] | grep -qw "$rule" || problem "src: no comment names $rule"
	cut -f 1 "$work/table" | grep -qx "$rule" || problem "$readme: $rule is not in the table of rules"
done <"$work/rules"
grep -how 'R[0-9][0-9]*' "$model"/*.pml "$readme" "$top"/src/lock/queue*.[ch] "$top"/src/hold/*.c "$top"/src/lock/wait.c \
	"$top"/src/lock/deadline.c | sort -u | comm -13 "$work/rules" - >"$work/unknown"
while read -r rule; do
	problem "$rule is named in model or src, but is no rule of doc/internals/local-locks.md"
done <"$work/unknown"

# ---------------------------------------------------------------- 2. places

# Labels of steps (pc == LABEL) and inlines of the models; "FILE FUNCTION" of what src/ defines.
cat "$model"/*.pml | grep -o 'pc == [A-Z][A-Z0-9_]*' | sed 's/pc == //' | sort -u >"$work/labels"
cat "$model"/*.pml | sed -n 's/^inline \([a-z_]*\)(.*/\1/p' | sort -u >"$work/inlines"
enough labels 40
awk '/^[A-Za-z].*\(/ && !/;[ \t]*$/ {
	name = $0
	sub(/\(.*/, "", name)
	sub(/.*[ *]/, "", name)
	sub(/.*\/src\//, "", FILENAME)
	print FILENAME " " name
}' "$top"/src/*/*.[ch] >"$work/functions"
enough functions 200
while IFS='	' read -r rule places functions; do
	for place in $(echo "$places" | grep -o '`[A-Za-z0-9_]*\(()\)*`' | tr -d '`'); do
		case $place in
		*"()")
			grep -qx "${place%"()"}" "$work/inlines" ||
				problem "$readme: $rule: the model has no inline $place"
			;;
		*) grep -qx "$place" "$work/labels" || problem "$readme: $rule: the model has no step $place" ;;
		esac
	done
	for function in $(echo "$functions" | grep -o '`[a-z0-9_]*()`' | tr -d '`()'); do
		file=$(sed -n "s/^\([^ ]*\) $function\$/\1/p" "$work/functions")
		[ -n "$file" ] || problem "$readme: $rule: src/ defines no $function()"
		for one in $file; do
			grep -qw "$rule" "$top/src/$one" || grep -qw "$rule" "$top/src/${one%.c}.h" 2>/dev/null ||
				problem "src/$one: $function() is said to follow $rule, but nothing there names it"
		done
	done
	echo "$functions" | grep -q '`[a-z0-9_]*()`' || problem "$readme: $rule: no function of src/"
done <"$work/table"

# ---------------------------------------------------------------- 3. properties, switches, faults

sed -n 's/^ \*   \(P[0-9]*\) .*/\1/p' "$model/queue-check.pml" | tr -d ',' | sort -u >"$work/properties"
enough properties 8
section 'Properties' | sed -n 's/^| \(P[0-9]*\) .*/\1/p' | sort -u >"$work/told"
same property told properties

{
	cat "$model"/*.pml | sed -n 's/^#ifndef \([A-Z0-9_]*\)$/\1/p;s/^#ifdef \([A-Z0-9_]*\)$/\1/p'
	cat "$model"/*.pml | grep -o 'defined([A-Z0-9_]*)' | sed 's/defined(\(.*\))/\1/'
} | grep -v '^MUT_' | sort -u >"$work/switches"
enough switches 20
section 'Switches' | sed -n 's/^| \([^|]*\) |.*/\1/p' | grep -o '`[A-Z0-9_]*`' | tr -d '`' | sort -u >"$work/told"
same switch told switches

cat "$model"/*.pml | grep -o 'MUT_[A-Z_]*[A-Z]' | sort -u >"$work/faults"
enough faults 12
section 'Seeded faults' | sed -n 's/^| `\(MUT_[A-Z_]*\)` |.*/\1/p' | sort -u >"$work/told"
same fault told faults
sh "$model/run.sh" --list | awk '/^MUT_/ { print $1 }' | sort -u >"$work/run"
same 'fault (in run.sh)' run faults

# ---------------------------------------------------------------- 4. rows

sh "$model/run.sh" --list | awk '{
	fault = $1 ~ /^MUT_/
	text = $1
	for (i = fault ? 3 : 4; i <= NF; i++)
		text = text " " $i
	print text
}' | sort -u >"$work/run"
enough run 16
# | name | ... | `model switches` | ...
grep -o '^| `*[A-Za-z_0-9-]*`* |.*| `\(queue\|table\|lease\|close\|doorbell\|wakeups\|loss\|tokens\|robust-global\)[ `][^|]*' "$readme" |
	sed 's/^| `*\([A-Za-z_0-9-]*\)`* |.*| `\([^`]*\)`.*/\1 \2/' | sort -u >"$work/told"
same row told run

echo "$(wc -l <"$work/rules") rules, $(wc -l <"$work/run") rows and faults, $problems problems"
[ $problems = 0 ]
