/* SPDX-License-Identifier: MIT */
/* secrets.c - passwords and files that URIs name; see redis/secrets.h */
#define _GNU_SOURCE
#include "redis/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int redis_open_file(const char *path, bool secret, int *code, const char **why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	*code = fd < 0 ? redis_error_open(errno) : REDIS_DENIED;
	*why = fd < 0 ? strerror(errno) : NULL;
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		*why = "must be a plain file";
	else if (secret && (st.st_mode & 07))
		*why = "must be a plain file without rights for others";
	if (!*why)
		return fd;
	close(fd);
	return -1;
}

static int read_password(const struct redis_server *s, char *out, size_t *len, struct redis_error *error)
{
	const char *why;
	int code, fd = redis_open_file(s->password_file, true, &code, &why);
	ssize_t n;
	char *end;

	if (fd < 0)
		return redis_fail(error, code, "%s: password file %s: %s", s->label, s->password_file, why);
	n = read(fd, out, REDIS_PASSWORD_MAX);
	close(fd);
	end = n > 0 ? memchr(out, '\n', (size_t)n) : NULL;
	if (end)
		n = end - out;
	if (n <= 0 || n == REDIS_PASSWORD_MAX)
		return redis_fail(error, REDIS_DENIED, "%s: password file %s: its first line must have 1 to %d bytes",
				   s->label, s->password_file, REDIS_PASSWORD_MAX - 1);
	*len = (size_t)n;
	return 0;
}

int redis_password(const struct redis_server *s, char *out, size_t *len, struct redis_error *error)
{
	const char *value = s->password;

	*len = 0;
	if (s->password_file[0])
		return read_password(s, out, len, error);
	if (s->password_env[0]) {
		value = getenv(s->password_env);
		if (!value || !*value)
			return redis_fail(error, REDIS_DENIED,
					   "%s: the variable %s, which should hold the password, is not set", s->label,
					   s->password_env);
	}
	*len = strlen(value);
	if (*len >= REDIS_PASSWORD_MAX) {
		*len = 0;
		return redis_fail(error, REDIS_DENIED, "%s: the password has more than %d bytes", s->label,
				   REDIS_PASSWORD_MAX - 1);
	}
	memcpy(out, value, *len);
	return 0;
}
