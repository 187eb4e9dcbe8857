#!/bin/sh
# SPDX-License-Identifier: MIT
# long-keys.sh - keys of which the segment keeps the beginning are shown, ended and acknowledged by what a listing prints
. "$(dirname "$0")/common.sh"

ellipsis=$(printf '\342\200\246')
# The 64th byte is the first one of a letter: of two bytes, three, four, and in a run of bytes that are no letters.
begin=$(printf '%063d' 0)
expect 0 lockctl create "$seg"
for letter in '\303\244' '\342\202\254' '\360\237\230\200' '\200\200\200\200'; do
	# shellcheck disable=SC2059
	letter=$(printf "$letter")
	lockctl run "$seg" "$begin${letter}one" --robust --tag one -- sleep 100 2>/dev/null &
	started="$started $!"
	lockctl run "$seg" "$begin${letter}two" --robust --tag two -- sleep 100 2>/dev/null &
	started="$started $!"
	both() { [ "$(lockctl ls "$seg" --porcelain | grep -c '^holder')" = 2 ]; }
	eventually both
	lockctl ls "$seg" --porcelain | awk -F '\t' '$1 == "lock" { id = $13 } $1 == "holder" { print id, $8, $11 }' >"$dir/list"
	[ "$(cut -d ' ' -f 1 "$dir/list" | sort -u | grep -cx '[0-9a-f]\{16\}')" = 2 ] || fail "the ids: $(cat "$dir/list")"
	expect 0 lockctl ls "$seg"
	[ "$(grep -c "^${begin}[^ ]*$ellipsis .* [0-9a-f]\{16\}$" "$dir/stdout")" = 2 ] || fail "the cut keys"
	case $letter in
	"$(printf '\200\200\200\200')") ;;
	*) ! grep -q '%' "$dir/stdout" || fail "a letter is cut in its middle" ;;
	esac
	expect 0 env COLUMNS=60 "$LOCKCTL" ls "$seg"
	for id in $(cut -d ' ' -f 1 "$dir/list"); do
		says stdout " $id"
	done
	while read -r id token tag; do
		"$LOCKCTL" show "$seg" --id "$id" >"$dir/stdout" || fail "show --id $id"
		says stdout " ($tag) "
		says stdout "$ellipsis ("
		says stdout "id       $id"
		"$LOCKCTL" show "$seg" --id "$id" --json >"$dir/stdout" || fail "show --id $id --json"
		says stdout "\"key_cut\": true"
		says stdout "\"id\": \"$id\""
		says stdout "\"tag\": \"$tag\""
		! "$LOCKCTL" release "$seg" --id "$id" --token $((token + 1000)) 2>"$dir/stderr" || fail "ended by a wrong token"
		says stderr "no hold of id $id has token $((token + 1000))"
		expect 0 lockctl release "$seg" --id "$id" --token "$token"
		expect 0 lockctl ack "$seg" --id "$id"
		says stdout "cleared: an earlier holder overran its lease or was ended by an operator: "
		says stdout "'$tag'"
		expect 0 lockctl ack "$seg" --id "#$id"
		equal ack "$(cat "$dir/stdout")" "no damage mark"
	done <"$dir/list"
	none() { [ -z "$(lockctl ls "$seg" --porcelain)" ]; }
	eventually none
done

# Messages of the whole key are cut in the same way.
expect 1 lockctl release "$seg" "$begin$(printf '\303\244')one" --token 1
says stderr "'$begin$ellipsis'"
expect 0 lockctl run "$seg" "$begin$(printf '\303\244')one" --cooldown 1h -- true
expect 3 lockctl run "$seg" "$begin$(printf '\303\244')one" -w 0 -- true
says stderr "'$begin$ellipsis' not obtained"
expect 1 lockctl show "$seg" --id 0123456789abcdef
says stderr "no key of this segment has the id 0123456789abcdef"
expect 1 lockctl ack "$seg" --id 0123456789abcdef
expect 1 lockctl release "$seg" --id 0123456789abcdef --token 7

# A key that was never used, and one that was: the nearest that the segment knows, used now or not.
expect 0 lockctl run "$seg" report -- true
expect 0 lockctl show "$seg" report
says stdout "mode     free"
! grep -q "known" "$dir/stdout" || fail "a key that was used is not known"
for key in reprot Report REPORT repor report1 rep; do
	expect 0 lockctl show "$seg" $key
	says stdout "mode     free; no request for it is known in this segment; did you mean 'report'?"
	expect 1 lockctl release "$seg" $key --token 9
	says stderr "no hold of '$key' has token 9: no request for it is known in this segment; did you mean 'report'?"
	expect 0 lockctl ack "$seg" $key
	equal ack "$(cat "$dir/stdout")" "no damage mark: no request for it is known in this segment; did you mean 'report'?"
	expect 0 lockctl show "$seg" $key --json
	says stdout '"known": false'
	says stdout '"near": ["report"]'
done
expect 0 lockctl show "$seg" invoice
says stdout "mode     free; no request for it is known in this segment"
! grep -q "did you mean" "$dir/stdout" || fail "invoice is near to report"
expect 0 lockctl show "$seg" report --json
says stdout '"known": true'
! grep -q '"near"' "$dir/stdout" || fail "what is near to a known key"
expect 0 lockctl verify "$seg"
