/* SPDX-License-Identifier: MIT */
/* test-bridge-redlock.c - the lock shared with node-redlock */
#include "redis-foreign.h"

int main(void)
{
	return foreign_main(
		"bridge-redlock", "node", "foreign-redlock.js",
		"node -e 'require(\"redlock\"), require(\"ioredis\")' 2>/dev/null",
		"node does not find redlock (version 4) and ioredis; NODE_PATH may name where npm put them");
}
