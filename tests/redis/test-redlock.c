/* SPDX-License-Identifier: MIT */
/* test-redlock.c - the lock shared with node-redlock */
#include "redis-support/foreign.h"

int main(void)
{
	return foreign_main("bridge-redlock", &foreign_redlock);
}
