/* SPDX-License-Identifier: MIT */
/* error.c - the closed list of codes, in words */
#include "sys/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sys/compiler.h"

static const struct {
	int code;
	const char *name;
	const char *text;
} codes[] = {
	{ LOCKSHM_OK, "OK", "done" },
	{ LOCKSHM_OWNER_DIED, "OWNER_DIED", "held, but an earlier holder died inside; what the lock protects may be torn" },
	{ LOCKSHM_TOOK_OVER_EXPIRED, "TOOK_OVER_EXPIRED",
	  "held, but an earlier holder overran its lease and may still be at work" },
	{ LOCKSHM_LATE, "LATE", "done, but the lease had run out before; the lock was not granted in between" },
	{ LOCKSHM_LOCAL_ONLY, "LOCAL_ONLY", "held on this host only: Redis is out of reach, and the request permits it" },
	{ LOCKSHM_TIMEOUT, "TIMEOUT", "not granted in time" },
	{ LOCKSHM_BUSY, "BUSY", "not free now" },
	{ LOCKSHM_CANCELLED, "CANCELLED", "the wait was cancelled" },
	{ LOCKSHM_LOST, "LOST", "the hold was taken away: its lease had run out, or an operator ended it" },
	{ LOCKSHM_NOT_HELD, "NOT_HELD", "not held by the caller" },
	{ LOCKSHM_DEADLOCK, "DEADLOCK", "waiting would have closed a cycle" },
	{ LOCKSHM_FULL, "FULL", "a table of the segment is full" },
	{ LOCKSHM_INVALID, "INVALID", "invalid argument, or an upgrade under a shared lease of the host: release, then acquire "
			      "exclusive" },
	{ LOCKSHM_KEY_TOO_LONG, "KEY_TOO_LONG", "the key has more than 65535 bytes" },
	{ LOCKSHM_NO_SEGMENT, "NO_SEGMENT", "no such segment, or it was removed: open it again" },
	{ LOCKSHM_EXISTS, "EXISTS", "a segment of that name exists already" },
	{ LOCKSHM_PERMISSION, "PERMISSION", "permission denied" },
	{ LOCKSHM_BAD_SEGMENT, "BAD_SEGMENT", "not a lockshm segment, truncated or damaged" },
	{ LOCKSHM_VERSION, "VERSION", "a segment of another format version or machine layout" },
	{ LOCKSHM_NO_MEMORY, "NO_MEMORY", "out of memory, or no room in /dev/shm" },
	{ LOCKSHM_BRIDGE, "BRIDGE", "no command to Redis succeeds: it is out of reach, or refuses" },
	{ LOCKSHM_SYSTEM, "SYSTEM", "a system call failed" },
	{ LOCKSHM_PENDING, "PENDING", "waiting in the queue; an outcome follows" },
};

static const char *const table_advice[] = {
	[LOCKSHM_TABLE_KEYS] = "key table full: every place for this key is held, awaited or damaged; release or acknowledge "
				"locks, or create the segment with more keys",
	[LOCKSHM_TABLE_REQUESTS] = "request table full: every record holds, waits or is reserved by another thread; create the "
				   "segment with more requests",
	[LOCKSHM_TABLE_OWNERS] = "owner table full: too many threads take locks; create the segment with more owners",
	[LOCKSHM_TABLE_TICKETS] = "this key has used up its ticket numbers; create the segment anew",
	[LOCKSHM_TABLE_HOST_LEASES] = "lease table full: every record is in use for another global key; create the segment with "
				 "more host_leases",
};

static int find(int code)
{
	size_t i;

	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].code == code)
			return (int)i;
	return -1;
}

LOCKSHM_EXPORT const char *lockshm_strerror(int code)
{
	int i = find(code);

	return i < 0 ? "unknown code" : codes[i].text;
}

LOCKSHM_EXPORT const char *lockshm_code_name(int code)
{
	int i = find(code);

	return i < 0 ? "UNKNOWN" : codes[i].name;
}

LOCKSHM_EXPORT const char *lockshm_version(void)
{
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
	return TEXT(LOCKSHM_VERSION_MAJOR) "." TEXT(LOCKSHM_VERSION_MINOR) "." TEXT(LOCKSHM_VERSION_PATCH);
}

__attribute__((format(printf, 3, 0))) static void set(struct lockshm_error *error, int code, const char *format,
						      va_list args)
{
	error->code = code;
	error->sys_errno = 0;
	error->table = LOCKSHM_TABLE_NONE;
	error->field = LOCKSHM_FIELD_NONE;
	memset(error->reserved, 0, sizeof(error->reserved));
	/* Without printf: the first success of a process must not load its pages. */
	if (code == 0)
		error->message[0] = '\0';
	else
		vsnprintf(error->message, sizeof(error->message), format, args);
}

int error_set(struct lockshm_error *error, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (error)
		set(error, code, format, args);
	va_end(args);
	return code;
}

int error_field(struct lockshm_error *error, enum lockshm_field field, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (error)
		set(error, code, format, args);
	va_end(args);
	if (error)
		error->field = (int)field;
	return code;
}

int error_system(struct lockshm_error *error, int code, int sys_errno, const char *what)
{
	if (!error)
		return code;
	error_set(error, code, "%s: %s", what, strerror(sys_errno));
	error->sys_errno = sys_errno;
	return code;
}

void error_clean(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text >= 0x7f)
			*text = '?';
}

int error_full(struct lockshm_error *error, int table)
{
	error_set(error, LOCKSHM_FULL, "%s", table_advice[table]);
	if (error)
		error->table = table;
	return LOCKSHM_FULL;
}
