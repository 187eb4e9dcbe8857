/* SPDX-License-Identifier: MIT */
#include <lockshm.h>
#include <stdio.h>

void log_status(const char *what, int status)
{
	if (status != LOCKSHM_OK)
		fprintf(stderr, "%s: %s (%s)\n", what, lockshm_strerror(status),
			lockshm_code_name(status));
}
