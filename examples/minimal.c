/* SPDX-License-Identifier: MIT */
/* minimal.c - the smallest use: start it twice, the second copy waits for the first (at most 5 s) */
#include <lockshm.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct lockshm_request report = LOCKSHM_REQUEST("report");
	struct lockshm_error error;
	lockshm_t *locks;
	lockshm_hold_t hold;

	if (lockshm_create_or_open(&locks, argc > 1 ? argv[1] : "/minimal", &error) != 0)
		return fprintf(stderr, "%s\n", error.message), 1;
	if (lockshm_acquire(locks, &report, &hold) < 0)
		return fputs("not obtained\n", stderr), 1;
	printf("token %llu: only one process at a time gets here; Enter ends it\n", (unsigned long long)lockshm_token(&hold));
	getchar();
	return lockshm_release(&hold, 0) != 0;
}
