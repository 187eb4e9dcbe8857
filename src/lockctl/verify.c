/* SPDX-License-Identifier: MIT */
/* verify.c - lockctl verify: check every invariant, print what is broken */
#include <stdlib.h>
#include <string.h>

#include "lockctl/lockctl.h"

static void print_problem(const char *invariant, const char *text, void *arg)
{
	char *shown = visible_line(text);

	(void)arg;
	printf("%s: %s\n", invariant, shown);
	free(shown);
}

static int verify(lockshm_t *segment)
{
	size_t problems;
	int code = lockshm_verify(segment, print_problem, NULL, &problems);

	if (code == 0)
		return EXIT_OK;
	if (problems == 0)
		return failed(code, NULL);
	message("%zu broken invariants: stop its users, remove it and create it anew", problems);
	return EXIT_FAILED;
}

int lockctl_verify(int argc, char **argv)
{
	lockshm_t *segment;
	const char *name;
	int status;

	args_no_option(argc, argv);
	name = args_segment(argc, argv);
	args_end(argc, argv);
	status = open_to_look(&segment, name);
	if (status)
		return status;
	status = verify(segment);
	lockshm_close(segment);
	return status;
}
