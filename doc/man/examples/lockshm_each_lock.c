/* SPDX-License-Identifier: MIT */
#include <lockshm.h>
#include <stdio.h>

/* Print all holders. */
static int show(const struct lockshm_lock_info *lock, void *arg)
{
	size_t i;

	(void)arg;
	for (i = 0; i < lock->holders; i++)
		printf("%.*s: pid %d, token %llu\n", (int)lock->key_shown,
		       (const char *)lock->key, (int)lock->requests[i]->pid,
		       (unsigned long long)lock->requests[i]->token);
	return 0;
}

int print_holders(const char *name)
{
	lockshm_t *segment;
	int status = lockshm_open(&segment, name, LOCKSHM_OPEN_READ_ONLY, NULL);

	if (status != LOCKSHM_OK)
		return status;
	status = lockshm_each_lock(segment, show, NULL);
	lockshm_close(segment);
	return status;
}
