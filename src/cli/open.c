/* SPDX-License-Identifier: MIT */
/*
 * open.c - open the segment of a command
 *
 * Commands that only read need read permission and accept every owner: the worst effect of a foreign segment is wrong
 * output.  Commands that take or change locks trust the owner of the segment, so a foreign one needs --any-owner.
 */
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/cli.h"

#define ANY_OWNER "; --any-owner takes it, if you trust that user"

int open_to_look(lockshm_t **segment, const char *name)
{
	struct lockshm_error error;
	int code = lockshm_open(segment, name, LOCKSHM_OPEN_READ_ONLY | LOCKSHM_OPEN_ANY_OWNER, &error);

	return code < 0 ? failed(code, &error) : EXIT_OK;
}

/** Is the owner all that is in the way?  The library's message cannot name the option. */
static bool is_foreign(const char *name, const struct lockshm_error *error)
{
	lockshm_t *segment;

	/* Where the mode forbids it, a system call has failed. */
	if (error->code != LOCKSHM_PERMISSION || error->sys_errno != 0 ||
	    lockshm_open(&segment, name, LOCKSHM_OPEN_READ_ONLY | LOCKSHM_OPEN_ANY_OWNER, NULL) < 0)
		return false;
	lockshm_close(segment);
	return true;
}

char *format_user(uid_t uid)
{
	const struct passwd *user = getpwuid(uid);

	return user ? visible_line(user->pw_name) : format_text("%u", (unsigned)uid);
}

char *format_refusal(const char *name, const struct lockshm_error *error)
{
	bool refused = error->code == LOCKSHM_PERMISSION && (error->sys_errno == EACCES || error->sys_errno == EPERM);
	char *path = format_text("/dev/shm/%s", *name == '/' ? name + 1 : name), *user, *text;
	struct stat st;

	refused = refused && stat(path, &st) == 0;
	free(path);
	if (!refused)
		return format_text("%s", error->message);
	user = format_user(st.st_uid);
	text = format_text("%s; it belongs to %s, with permissions %04o", error->message, user, (unsigned)st.st_mode & 07777);
	free(user);
	return text;
}

char *open_reason(const char *name, bool any_owner, const struct lockshm_error *error)
{
	if (any_owner || !is_foreign(name, error))
		return format_refusal(name, error);
	return format_text("%s" ANY_OWNER, error->message);
}

static int refused(const char *name, bool any_owner, int code, const struct lockshm_error *error)
{
	char *text;

	if (!any_owner && is_foreign(name, error)) {
		message("%s" ANY_OWNER, error->message);
		return EXIT_FAILED;
	}
	if (code != LOCKSHM_PERMISSION || error->sys_errno != EACCES)
		return failed(code, error);
	text = format_refusal(name, error);
	message("%s; lockctl create with --permissions 0660 and --group makes one for several users", text);
	free(text);
	return EXIT_FAILED;
}

int open_to_act(lockshm_t **segment, const char *name, bool any_owner)
{
	struct lockshm_error error;
	int code = lockshm_open(segment, name, any_owner ? LOCKSHM_OPEN_ANY_OWNER : 0, &error);

	return code < 0 ? refused(name, any_owner, code, &error) : EXIT_OK;
}

int open_or_create(lockshm_t **segment, const char *name, bool any_owner)
{
	struct lockshm_error error;
	int code = lockshm_open(segment, name, any_owner ? LOCKSHM_OPEN_ANY_OWNER : 0, &error);

	if (code == LOCKSHM_NO_SEGMENT)
		code = lockshm_create_or_open(segment, name, &error);
	return code < 0 ? refused(name, any_owner, code, &error) : EXIT_OK;
}
