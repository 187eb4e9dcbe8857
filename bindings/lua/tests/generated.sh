#!/bin/sh
# SPDX-License-Identifier: MIT
# generated.sh - cdef.lua is what lockshm.h says, and a library or header that does not fit is refused
set -u
. "$(dirname "$0")/common.sh"

need_command "$LUAJIT"
need_command "${CC:-cc}"

header=${srcdir:+$srcdir/include/lockshm.h}
[ -n "$header" ] || header=$(pkg-config --variable=includedir lockshm)/lockshm.h
cp -r "$lua_dir/lib" "$work/lib"
module=$work/lib/resty/lockshm/cdef.lua

load() {
	LUA_PATH="$work/lib/?.lua" "$LUAJIT" -e 'require("resty.lockshm").open("x/y")' 2>&1 |
		sed -n '1s/^[^ ]*luajit[^ ]* //; 1s/^[^ ]*\.lua:[0-9]*: //p'
}

"$lua_dir/generate.sh" "$header" > "$work/generated.lua" || fail "generate.sh"
if cmp -s "$work/generated.lua" "$module"; then
	pass
else
	fail "cdef.lua is not what generate.sh makes of $header:"
	diff "$module" "$work/generated.lua" | head -20
fi

equal "modules that fit" "$(load)" ""

size=$(sed -n 's/.*struct lockshm_request"\] = { \([0-9]*\).*/\1/p' "$work/generated.lua")
sed 's/\(struct lockshm_request"\] = { \)[0-9]*/\14000/' "$work/generated.lua" > "$module"
equal "another size" "$(load)" \
	"resty.lockshm: struct lockshm_request has $size bytes here and 4000 in the header it was made from"

sed 's/ttl_ns = 32/ttl_ns = 40/' "$work/generated.lua" > "$module"
equal "another offset" "$(load)" \
	"resty.lockshm: struct lockshm_request.ttl_ns is at byte 32 here and at 40 in the header it was made from"

version=$(sed -n 's/^M.version = "\(.*\)"/\1/p' "$work/generated.lua")
sed 's/^M.version = .*/M.version = "99.0.0"/' "$work/generated.lua" > "$module"
equal "another version" "$(load)" \
	"resty.lockshm: liblockshm is version $version, and these modules were made for 99.0.0"

finish
