/* SPDX-License-Identifier: MIT */
/* minimal.c - the smallest use: start it twice, the second copy waits for the first (at most 5 s) */
#include <lockshm.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_request request = LOCKSHM_REQUEST("report");
	struct lockshm_error error = { 0 };
	lockshm_t *locks;
	lockshm_hold_t hold;

	options.flags = LOCKSHM_CREATE_OR_OPEN;
	if (lockshm_create(&locks, argc > 1 ? argv[1] : "/minimal", &options, &error) < 0)
		return fprintf(stderr, "%s\n", error.message), 1;
	int status = lockshm_acquire(locks, &request, &hold);

	if (status < 0)
		return fprintf(stderr, "%s\n", lockshm_strerror(status)), 1;
	printf("token %llu: only one process at a time gets here; Enter ends it\n",
	       (unsigned long long)lockshm_token(&hold));
	getchar();
	return lockshm_release(&hold, 0) == LOCKSHM_OK ? 0 : 1;
}
