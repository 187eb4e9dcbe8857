/* SPDX-License-Identifier: MIT */
/* secrets.c - login and TLS files of the servers; see redis/secrets.h */
#define _GNU_SOURCE
#include "redis/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

/* Read the first line, of 1 to @size - 1 bytes, which @what names in messages. */
static int read_line(const struct redis_server *s, const char *what, const char *path, bool secret, char *out, size_t size,
		     size_t *len, struct redis_error *error)
{
	const char *why;
	int code, fd = redis_open_file(path, secret, &code, &why);
	ssize_t n;
	char *end;

	*len = 0;
	if (fd < 0)
		return redis_fail(error, code, "%s: %s file %s: %s", s->label, what, path, why);
	n = read(fd, out, size);
	close(fd);
	end = n > 0 ? memchr(out, '\n', (size_t)n) : NULL;
	if (end)
		n = end - out;
	if (n <= 0 || n == (ssize_t)size || memchr(out, 0, (size_t)n))
		return redis_fail(error, REDIS_DENIED, "%s: %s file %s: its first line must have 1 to %zu bytes, none of them zero",
				  s->label, what, path, size - 1);
	*len = (size_t)n;
	return 0;
}

int redis_password(const struct redis_server *s, char *out, size_t *len, struct redis_error *error)
{
	*len = 0;
	if (!s->password_file[0])
		return 0;
	return read_line(s, "password", s->password_file, true, out, REDIS_PASSWORD_MAX, len, error);
}

/* ---------------------------------------------------------------- the directory */

/* What follows the dot in the name of a file for one server. */
static void suffix_of(const struct redis_server *s, char out[384])
{
	const char *from = s->path[0] ? s->path + 1 : strstr(s->label, "://") + 3;
	char *c;

	snprintf(out, 384, "%s", from);
	for (c = out; *c; c++)
		if (*c == '/')
			*c = '-';
}

static bool is_absent(int sys_errno)
{
	return sys_errno == ENOENT || sys_errno == ENAMETOOLONG || sys_errno == ENOTDIR;
}

/* The path of the server's own file, or of the one for all servers; "" = there is neither. */
static int find(const struct redis_server *s, const char *name, char out[REDIS_FILE_MAX], struct redis_error *error)
{
	char suffix[384];
	struct stat st;

	suffix_of(s, suffix);
	snprintf(out, REDIS_FILE_MAX, "%.*s/%s.%.360s", REDIS_CREDENTIALS_MAX, s->credentials, name, suffix);
	if (lstat(out, &st) == 0)
		return 0;
	if (is_absent(errno))
		snprintf(out, REDIS_FILE_MAX, "%.*s/%s", REDIS_CREDENTIALS_MAX, s->credentials, name);
	if (is_absent(errno) && lstat(out, &st) == 0)
		return 0;
	if (!is_absent(errno))
		return redis_fail(error, redis_error_open(errno), "%s: %.200s: %s", s->label, out, strerror(errno));
	out[0] = '\0';
	return 0;
}

static int find_line(const struct redis_server *s, const char *name, char *out, size_t size, struct redis_error *error)
{
	char path[REDIS_FILE_MAX];
	size_t len = 0;
	int code = find(s, name, path, error);

	if (!code && path[0])
		code = read_line(s, name, path, false, out, size, &len, error);
	out[code ? 0 : len] = '\0';
	return code;
}

static int find_tls(struct redis_server *s, struct redis_error *error)
{
	int code = find(s, "ca.pem", s->tls_ca, error);

	if (!code)
		code = find(s, "cert.pem", s->tls_cert, error);
	if (!code)
		code = find(s, "crl.pem", s->tls_crl, error);
	if (!code)
		code = find(s, "key.pem", s->tls_key, error);
	if (!code)
		code = find_line(s, "tls-name", s->tls_name, sizeof(s->tls_name), error);
	if (!code && !s->tls_cert[0] != !s->tls_key[0])
		return redis_fail(error, REDIS_DENIED, "%s: cert.pem and key.pem need each other: %.120s has only one", s->label,
				  s->credentials);
	if (!code && !redis_name_is_sound(s->tls_name))
		return redis_fail(error, REDIS_DENIED,
				  "%s: tls-name in %.120s begins with a dot, or contains a blank or a control character",
				  s->label, s->credentials);
	return code;
}

int redis_credentials_find(struct redis_server *s, struct redis_error *error)
{
	int code;

	if (!s->credentials)
		return 0;
	code = find(s, "password", s->password_file, error);
	if (!code)
		code = find_line(s, "user", s->user, sizeof(s->user), error);
	if (!code && s->user[0] && !s->password_file[0])
		return redis_fail(error, REDIS_DENIED, "%s: %.120s has a user but no password", s->label, s->credentials);
	return code || !s->tls ? code : find_tls(s, error);
}
