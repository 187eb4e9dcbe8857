/* SPDX-License-Identifier: MIT */
/* rights.c - the smallest ACL, as doc/operations.md has it: each server of a test has that user; see redis.h */
#define _GNU_SOURCE
#include "redis.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BEGINS "    ACL SETUSER web "
#define PASSWORD "on >PASSWORD "
#define DOCUMENT "doc/operations.md"

static FILE *open_document(void)
{
	const char *srcdir = getenv("srcdir");
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "%s/" DOCUMENT, srcdir ? srcdir : "..");
	f = fopen(path, "r");
	ck_assert_msg(f != NULL, "cannot open %s: set srcdir", path);
	return f;
}

/* Of all commands that begin so: what follows, the password apart. */
static void read_rights(char *out, size_t size)
{
	FILE *f = open_document();
	char line[500];
	size_t n = 0;

	while (fgets(line, sizeof(line), f)) {
		const char *rights = line + strlen(BEGINS);

		if (strncmp(line, BEGINS, strlen(BEGINS)) != 0)
			continue;
		if (strncmp(rights, PASSWORD, strlen(PASSWORD)) == 0)
			rights += strlen(PASSWORD);
		line[strcspn(line, "\n")] = '\0';
		n += (size_t)snprintf(out + n, size - n, " %s", rights);
		ck_assert_uint_lt(n, size);
	}
	fclose(f);
	ck_assert_msg(n > 0, DOCUMENT " has no line with" BEGINS);
}

const char *smallest_rights(void)
{
	static char rights[2000];

	if (!rights[0])
		read_rights(rights, sizeof(rights));
	return rights;
}

static void put(const char *dir, const char *name)
{
	char path[100];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs("web\n", f);
	fclose(f);
	chmod(path, 0600);
}

const char *smallest_login(void)
{
	static char dir[64];

	if (!dir[0]) {
		redis_dir(dir);
		put(dir, "user");
		put(dir, "password");
	}
	return dir;
}
