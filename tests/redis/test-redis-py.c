/* SPDX-License-Identifier: MIT */
/* test-redis-py.c - the lock shared with redis-py's Lock */
#include "redis-support/foreign.h"

int main(void)
{
	return foreign_main("bridge-redis-py", &foreign_redis_py);
}
