#!/bin/sh
# SPDX-License-Identifier: MIT
# Requests of a real php-fpm.  LONG=1: a million locks.  ONLY=TEXT: the tests whose names contain it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/support/start.sh"
. "$here/support/start-fpm.sh"
php -n -d extension="$extension" -d extension=posix "$here/fpm/run.php"
