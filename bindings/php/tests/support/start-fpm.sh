# SPDX-License-Identifier: MIT
# Read by the test scripts that run php-fpm, after start.sh.

# An ordinary user's PATH has no programs of administrators.
PATH=$PATH:/usr/sbin:/usr/local/sbin
PHP_FPM=${PHP_FPM:-$(command -v "php-fpm$(php -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')" || command -v php-fpm || true)}
[ -n "$PHP_FPM" ] || skip "no php-fpm"
LOCKCTL=${LOCKCTL:-$(command -v lockctl || true)}
[ -n "$LOCKCTL" ] || skip "no lockctl"
php -n -d extension=posix -r 'exit(function_exists("posix_kill") ? 0 : 1);' || skip "no posix extension"
EXTENSION=$extension SEGMENT=php-test-$$ WORK=$work
export PHP_FPM LOCKCTL EXTENSION SEGMENT WORK
