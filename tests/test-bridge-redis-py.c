/* SPDX-License-Identifier: MIT */
/* test-bridge-redis-py.c - the lock shared with redis-py's Lock */
#include <stdlib.h>

#include "redis-foreign.h"

#define PROBE(python) python " -c 'import redis' 2>/dev/null"

int main(void)
{
	/* Debian's module is for Debian's Python, which need not be the first in the path. */
	const char *python = system(PROBE("python3")) == 0 ? "python3" : "/usr/bin/python3";

	return foreign_main("bridge-redis-py", python, "foreign-redis-py.py",
			    PROBE("python3") " || " PROBE("/usr/bin/python3"),
			    "Python has no module redis (python3-redis)");
}
