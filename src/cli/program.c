/* SPDX-License-Identifier: MIT */
/* program.c - begin and end of a program */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

/* What a command allocates for as long as it runs is left to its exit: no leak, in a build that looks for leaks. */
#if defined(__SANITIZE_ADDRESS__)
#define LOOKS_FOR_LEAKS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LOOKS_FOR_LEAKS
#endif
#endif
#ifdef LOOKS_FOR_LEAKS
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

const char *program_name = "";

/* The next opened file, such as the segment, would take the number of a closed standard stream and get the messages.
 * The filler cannot be read or written as its stream, and a command does not inherit it. */
void program_begin(const char *name)
{
	program_name = name;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			open("/dev/null", O_CLOEXEC | (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
}

/* A full disk must not look like an empty list. */
int program_end(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	message("cannot write the output: %s", strerror(errno));
	return status == EXIT_OK ? EXIT_FAILED : status;
}

int program_version(void)
{
	printf("%s %d.%d.%d (liblockshm %s)\n", program_name, LOCKSHM_VERSION_MAJOR, LOCKSHM_VERSION_MINOR,
	       LOCKSHM_VERSION_PATCH, lockshm_version());
	return program_end(EXIT_OK);
}
