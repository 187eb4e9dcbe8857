#!/bin/sh
# SPDX-License-Identifier: MIT
# Keys across hosts: scripts and php-fpm on two segments that play hosts, each with a bridge to one redis-server.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/support/start.sh"
. "$here/../../hosts.sh"
find_hosts || skip "$hosts_missing"
. "$here/support/start-fpm.sh"
trap 'end_hosts; rm -rf "$work"' EXIT
start_hosts
php -n -d extension="$extension" -d extension=posix "$here/hosts/run.php"
