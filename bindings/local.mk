# SPDX-License-Identifier: MIT
# A language's folder is complete in itself, and its packager installs it.  Here are its files for the archive, and the
# scripts that make check runs.
tests_of_bindings = %D%/conformance.sh
EXTRA_DIST += %D%/hosts.sh
include bindings/conformance/local.mk
include bindings/lua/local.mk
include bindings/php/local.mk
include bindings/python/local.mk
