/* SPDX-License-Identifier: MIT */
/* credentials.c - which directory has login and TLS files; what is in it: redis/secrets.h */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/daemon.h"

#define DEFAULT_PLACE "/etc/lockshm/"

void credentials_use(const char *option, const char *name)
{
	const char *variable = getenv("LOCKSHM_CREDENTIALS");
	const char *named = option ? option : variable && *variable ? variable : NULL;
	const char *source = option ? "--credentials" : "LOCKSHM_CREDENTIALS";
	char *path = named ? format_text("%s", named) :
			     format_text(DEFAULT_PLACE "%s", *name == '/' ? name + 1 : name);
	int cause = 0;
	struct stat st;

	if (named && stat(path, &st) < 0)
		cause = errno;
	else if (named && !S_ISDIR(st.st_mode))
		cause = ENOTDIR;
	if (cause)
		usage_error("%s %s: %s", source, named, strerror(cause));
	if (strlen(path) > REDIS_CREDENTIALS_MAX)
		usage_error("%s: its path has more than %d bytes", named ? source : path, REDIS_CREDENTIALS_MAX);
	/* Until the program ends. */
	bridge_credentials = path;
}
