#!/bin/sh
# SPDX-License-Identifier: MIT
# text.sh - what a terminal never gets: controls, marks of direction, what is drawn as nothing, broken UTF-8
#
# Of keys, tags, names of threads, segment names and wrong arguments; a key that is shown can be given back.
. "$(dirname "$0")/common.sh"

# Of each kind: C0, DEL, C1, no-break space, soft hyphen, joiner, Arabic mark, filler, width zero, direction, separators,
# word joiner, isolates, private use, variation, byte order mark, annotation, musical, tags, noncharacter, unassigned,
# combining at the start, a surrogate, an overlong form, bytes.
kinds='\033_\r_\b_\177_\302\205_\302\233_\302\240_\302\255_\315\217
\330\234_\341\205\237_\342\200\213_\342\200\215_\342\200\216_\342\200\256
\342\200\250_\342\200\251_\342\200\202_\342\201\240_\342\201\246_\342\201\251
\314\201_\343\200\200_\343\205\244_\356\200\200_\357\270\217_\357\273\277_\357\277\271
\360\235\205\263_\363\240\201\201_\364\200\200\200_\357\277\277_\315\270
\355\240\200_\300\257_\200_\377_\303'

# clean COMMAND...: run it with any status; none of the raw bytes is in what it prints
clean()
{
	"$@" >"$dir/stdout" 2>"$dir/stderr" </dev/null
	for file in stdout stderr; do
		if LC_ALL=C grep -qF -f "$dir/raw" "$dir/$file"; then
			LC_ALL=C od -c "$dir/$file" | head -20 >&2
			fail "raw on $file: lockctl $2"
		fi
	done
}

minimal=${builddir:-.}/examples/minimal
[ -x "$minimal" ] || { echo "examples/minimal is not built" >&2; exit 99; }
mkfifo "$dir/keys"
exec 8<>"$dir/keys"

expect 0 lockctl create "$seg"
for kind in $kinds; do
	# shellcheck disable=SC2059 # the kinds are escapes
	printf "$(echo "$kind" | sed 's/_/\\n/g')\n" >"$dir/raw"
	# shellcheck disable=SC2059
	raw=$(printf "$(echo "$kind" | sed 's/_//g').")
	raw=${raw%.}
	key="$raw"key
	start "$LOCKCTL" run "$seg" "$key" --tag "${raw}" -- sleep 100
	front=$pid
	has() { lockctl ls "$seg" --porcelain | grep -q "^$1"; }
	eventually has holder
	holder=$(keeper "$front")
	start "$LOCKCTL" run "$seg" "$key" --tag "${raw}" -w inf -- true
	eventually has waiter
	for arguments in "ls $seg" "ls $seg --json" "ls $seg --porcelain" "ls $seg --waiting" "ls $seg --pid $holder"; do
		# shellcheck disable=SC2086
		clean lockctl $arguments
	done
	clean lockctl show "$seg" "$key"
	shown=$(sed -n 's/^key      \(.*\) ([0-9]* bytes)$/\1/p' "$dir/stdout")
	clean lockctl show "$seg" "$key" --json
	clean lockctl show "$seg" "$key" --porcelain
	clean lockctl run "$seg" "$key" -w 0 -- true
	clean lockctl release "$seg" "$key" --token 1
	clean lockctl seat "$seg" "$key" -w 1ms -- true
	# What is shown can be given back.
	expect 0 lockctl show "$seg" "$shown" --escaped --porcelain
	grep -q "^holder	.*	$holder	" "$dir/stdout" || fail "$kind: '$shown' is not found again"
	token=$(awk -F '\t' '$1 == "holder" { print $8 }' "$dir/stdout")
	clean lockctl release "$seg" "$shown" --escaped --token "$token"
	eventually finished "$front"
	# A thread has the name of its program.
	cp "$minimal" "$dir/${raw}"
	"$dir/${raw}" "$seg" <"$dir/keys" >/dev/null &
	pid=$!
	started="$started $pid"
	eventually held report
	for arguments in "ls $seg" "ls $seg --json" "show $seg report" "show $seg report --json" "run $seg report -w 0 -- true"; do
		# shellcheck disable=SC2086
		clean lockctl $arguments
	done
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	for arguments in "lockctl ${raw}x" "lockctl ls ${raw}x" "lockctl run $seg --${raw}x" "lockctl ls $seg --sort ${raw}x" \
		"lockctl run $seg k -w ${raw}x" "lockctl create ${raw}x" "lockctl rm ${raw}x" "lockctl stat $seg ${raw}x" \
		"lockctl hold $seg k --fd ${raw}x" "lockctl run $seg k ./${raw}x" "lockctl create $seg-n --group ${raw}x" \
		"lockctl create $seg-n --redis redis://${raw}x:1x" "lockctl create $seg-n --redis-prefix ${raw}x --redis ${raw}x"; do
		# shellcheck disable=SC2086
		clean $arguments
	done
done

# Every other letter is shown as it is, a percent sign in a key is escaped, and blanks that would look like columns.
start "$LOCKCTL" run "$seg" "$(printf ' \303\244  \346\227\245 50%%1 e\314\201 ')" -- sleep 100
eventually held '%20%C3%A4%20%20%E6%97%A5%2050%251%20e%CC%81%20'
expect 0 lockctl ls "$seg"
says stdout "$(printf '%%20\303\244 %%20\346\227\245 50%%251 e\314\201%%20  exclusive')"

# All characters of Unicode, by their categories, through a message.
if command -v python3 >/dev/null; then
	python3 - "$LOCKCTL" <<'PYTHON' || fail "characters"
import subprocess, sys, unicodedata
hidden = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"}
bad = 0
for first in range(1, 0x110000, 0x4000):
    text = "".join("a" + chr(c) for c in range(first, min(first + 0x4000, 0x110000)) if not 0xd800 <= c < 0xe000)
    said = subprocess.run([sys.argv[1], text], capture_output=True).stderr.decode().split("\n")
    assert len(said) == 2 or not text, said
    shown = set(said[0])
    for c in set(text):
        kind = unicodedata.category(c)
        if c in shown and kind in hidden:
            # A later Unicode than that of this Python may have assigned it.
            if kind != "Cn" or ord(c) & 0xfffe == 0xfffe:
                print("shown: U+%04X %s" % (ord(c), kind))
                bad += 1
        elif c not in shown and kind in ("Lu", "Ll", "Nd", "Po", "Ps", "Pe", "Sm") and c != "\u2800":
            print("not shown: U+%04X %s" % (ord(c), kind))
            bad += 1
sys.exit(bad != 0)
PYTHON
else
	echo "left out: all characters, without python3"
fi
