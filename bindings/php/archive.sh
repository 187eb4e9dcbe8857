#!/bin/sh
# SPDX-License-Identifier: MIT
# Make lockshm-VERSION.tgz in the folder given, as pecl's archives are laid out; print its path.
#
# What belongs to it is what package.xml lists.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
target=$(cd "$1" && pwd)
version=$(sed -n 's/.*<release>\([0-9.]*\)<.*/\1/p' "$here/package.xml" | head -1)
files=$(awk -F'"' '
	/<dir name=/ && $2 != "/" { path = path $2 "/" }
	/<\/dir>/ { sub(/[^\/]*\/$/, "", path) }
	/<file / { print path $2 }
' "$here/package.xml")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in $files; do
	mkdir -p "$work/lockshm-$version/$(dirname "$file")"
	if [ -e "$here/$file" ]; then
		cp -p "$here/$file" "$work/lockshm-$version/$file"
	else
		cp -p "$top/$file" "$work/lockshm-$version/$file"
	fi
done
cp -p "$here/package.xml" "$work/"
tar -C "$work" --sort=name --owner=0 --group=0 -czf "$target/lockshm-$version.tgz" package.xml "lockshm-$version"
echo "$target/lockshm-$version.tgz"
