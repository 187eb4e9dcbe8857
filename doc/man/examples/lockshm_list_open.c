/* SPDX-License-Identifier: MIT */
#include <lockshm.h>
#include <stdio.h>

/* Print all holders. */
int print_holders(lockshm_t *segment)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;
	int status = lockshm_list_open(&list, segment, LOCKSHM_LIST_BUSY, NULL, 0);

	if (status < 0)
		return status;
	while ((status = lockshm_list_next(list, &row)) == 1)
		if (row.request.state == LOCKSHM_HOLDING)
			printf("%.*s: pid %d, token %llu\n", (int)row.key_shown,
			       (const char *)row.key, (int)row.request.pid,
			       (unsigned long long)row.request.token);
	lockshm_list_close(list);
	return status;
}
