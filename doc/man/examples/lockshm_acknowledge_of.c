/* SPDX-License-Identifier: MIT */
#include <lockshm.h>

/* Clear the marks of all sessions that ended more than a day ago. */
int forget_sessions(lockshm_t *segment)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;
	int status = lockshm_list_open(&list, segment, LOCKSHM_LIST_BUSY, LOCKSHM_KEY("session:"));

	if (status < 0)
		return status;
	while ((status = lockshm_list_next(list, &row)) == 1)
		if (!row.request.state && row.damage.age_ns > LOCKSHM_SECONDS(86400))
			lockshm_acknowledge_of(segment, row.id, row.damage.token);
	lockshm_list_close(list);
	return status;
}
