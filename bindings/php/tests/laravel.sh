#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the tests of lockshm/laravel with Debian's Laravel, and with the checkout in LARAVEL_DIR if it is set, with
# Laravel's own tests of locks, funnels and the concurrency limiter.
set -eu
. "$(dirname "$0")/../packages/testing/phpunit.sh"

need_php
copy=${LARAVEL_DIR:-}
unset LARAVEL_DIR
has Illuminate/Cache/autoload.php || [ -n "$copy" ] ||
	cannot_run "there is no Laravel (Debian: php-laravel-framework), and LARAVEL_DIR is not set"
with_hosts
cd "$packages/laravel"
if has Illuminate/Cache/autoload.php; then
	run "Laravel of Debian"
else
	omitted "there is no Laravel of Debian (php-laravel-framework)"
fi
if [ -n "$copy" ]; then
	LARAVEL_DIR=$copy
	export LARAVEL_DIR
	run "Laravel of LARAVEL_DIR"
	own="--no-configuration --bootstrap tests-upstream/bootstrap.php"
	# of FILE TEST: not every Laravel has each file
	of()
	{
		if [ -e "$copy/tests/$1" ]; then
			run "its own tests: $1" $own "tests-upstream/$2.php"
		else
			omitted "this Laravel has no tests/$1"
		fi
	}
	of Integration/Cache/FileCacheLockTest.php LockTest
	of Integration/Cache/RedisCacheLockTest.php RedisLockTest
	of Integration/Cache/MemcachedCacheLockTestCase.php MemcachedLockTest
	of Integration/Cache/FileCacheFunnelTest.php FunnelTest
	of Cache/ConcurrencyLimiterTest.php LimiterTest
else
	omitted "Laravel's own tests: LARAVEL_DIR is not set to a checkout of laravel/framework"
fi
finish
