#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the tests of lockshm/nextcloud with stand-ins of Nextcloud's interfaces, and with those of the checkout in
# NEXTCLOUD_DIR if it is set, with Nextcloud's own tests of a locking provider.
set -eu
. "$(dirname "$0")/../packages/testing/phpunit.sh"

need_php
copy=${NEXTCLOUD_DIR:-}
unset NEXTCLOUD_DIR
cd "$packages/nextcloud"
run "stand-ins of Nextcloud"
if [ -n "$copy" ]; then
	NEXTCLOUD_DIR=$copy
	export NEXTCLOUD_DIR
	run "Nextcloud of NEXTCLOUD_DIR"
	run "its own tests of a provider" --no-configuration --bootstrap tests-upstream/bootstrap.php tests-upstream/ProviderTest.php
else
	omitted "Nextcloud's own tests: NEXTCLOUD_DIR is not set to a checkout of nextcloud/server"
fi
finish
