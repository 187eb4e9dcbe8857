#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the tests of lockshm/symfony-lock with Debian's symfony/lock, and with the copy in SYMFONY_LOCK_DIR if it is set,
# with Symfony's own tests of stores, locks and their factory.
set -eu
. "$(dirname "$0")/../packages/testing/phpunit.sh"

need_php
copy=${SYMFONY_LOCK_DIR:-}
unset SYMFONY_LOCK_DIR
has Symfony/Component/Lock/autoload.php || [ -n "$copy" ] ||
	cannot_run "there is no symfony/lock (Debian: php-symfony-lock), and SYMFONY_LOCK_DIR is not set"
with_hosts
cd "$packages/symfony"
if has Symfony/Component/Lock/autoload.php; then
	run "symfony/lock of Debian"
else
	omitted "there is no symfony/lock of Debian (php-symfony-lock)"
fi
if [ -n "$copy" ]; then
	SYMFONY_LOCK_DIR=$copy
	export SYMFONY_LOCK_DIR
	run "symfony/lock of SYMFONY_LOCK_DIR"
	own="--no-configuration --bootstrap tests-upstream/bootstrap.php"
	run "its own tests of a store, with ours" $own tests-upstream/StoreTest.php
	run "its own tests of a lock" $own "$copy/Tests/LockTest.php"
	run "its own tests of the factory" $own "$copy/Tests/LockFactoryTest.php"
else
	omitted "Symfony's own tests: SYMFONY_LOCK_DIR is not set to a copy of symfony/lock with Tests/"
fi
finish
