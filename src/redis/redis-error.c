/* SPDX-License-Identifier: MIT */
/* redis-error.c - classes of errors, and which error reply belongs to which */
#define _GNU_SOURCE
#include "redis/redis-error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *word;
	int code;
} words[] = {
	{ "ASK", BRIDGE_RETRY }, /* a slot on its way: nobody takes commands with several keys now */
	{ "BUSY", BRIDGE_RETRY },
	{ "CLUSTERDOWN", BRIDGE_RETRY },
	{ "CROSSSLOT", BRIDGE_INVALID },
	{ "DENIED", BRIDGE_DENIED },
	{ "LOADING", BRIDGE_RETRY },
	{ "MASTERDOWN", BRIDGE_RETRY },
	{ "MISCONF", BRIDGE_RETRY },
	{ "MOVED", BRIDGE_MOVED },
	{ "NOAUTH", BRIDGE_DENIED },
	{ "NOPERM", BRIDGE_DENIED },
	{ "NOREPLICAS", BRIDGE_RETRY },
	{ "NOSCRIPT", BRIDGE_NO_SCRIPT },
	{ "OOM", BRIDGE_RETRY },
	{ "READONLY", BRIDGE_RETRY },
	{ "TRYAGAIN", BRIDGE_RETRY },
	{ "UNKILLABLE", BRIDGE_RETRY },
	{ "WRONGPASS", BRIDGE_DENIED },
	{ "WRONGTYPE", BRIDGE_NOT_A_LOCK },
};

/* Errors that servers report as plain ERR. */
static const struct {
	const char *part;
	int code;
} phrases[] = {
	{ "The user executing the script can't", BRIDGE_DENIED },
	{ "invalid password", BRIDGE_DENIED },
	{ "max number of clients reached", BRIDGE_RETRY },
};

static const char *const names[] = {
	[BRIDGE_OK] = "done",
	[-BRIDGE_INVALID] = "invalid",
	[-BRIDGE_UNREACHABLE] = "unreachable",
	[-BRIDGE_UNKNOWN] = "outcome unknown",
	[-BRIDGE_RETRY] = "not able now",
	[-BRIDGE_DENIED] = "denied",
	[-BRIDGE_NOT_A_LOCK] = "not a lock",
	[-BRIDGE_MOVED] = "moved",
	[-BRIDGE_NO_SCRIPT] = "script not loaded",
	[-BRIDGE_REFUSED] = "refused",
	[-BRIDGE_PROTOCOL] = "not the Redis protocol",
	[-BRIDGE_FORKED] = "forked",
	[-BRIDGE_NO_MEMORY] = "out of memory",
};

int bridge_fail(struct bridge_error *error, int code, const char *format, ...)
{
	va_list args;

	if (!error)
		return code;
	error->code = code;
	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return code;
}

static int class_of_word(const char *word, size_t len)
{
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (len == strlen(words[i].word) && memcmp(word, words[i].word, len) == 0)
			return words[i].code;
	return BRIDGE_REFUSED;
}

/*
 * Servers before 7.0 wrap an error inside of a script: "ERR Error running script (call to f_...): @user_script:3:
 * WRONGTYPE Operation ...".  Any word of the text that is a code is then the cause.
 */
static int class_of_wrapped(const char *text, size_t len)
{
	const char *end = text + len, *word = text;
	int code;

	while (word < end) {
		const char *stop = memchr(word, ' ', (size_t)(end - word));

		code = class_of_word(word, (size_t)((stop ? stop : end) - word));
		if (code != BRIDGE_REFUSED)
			return code;
		if (!stop)
			break;
		word = stop + 1;
	}
	return BRIDGE_REFUSED;
}

int bridge_error_class(const char *text, size_t len)
{
	const char *blank = memchr(text, ' ', len);
	int code = class_of_word(text, blank ? (size_t)(blank - text) : len);
	size_t i;

	if (code != BRIDGE_REFUSED)
		return code;
	for (i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++)
		if (memmem(text, len, phrases[i].part, strlen(phrases[i].part)))
			return phrases[i].code;
	return memmem(text, len, "@user_script", 12) ? class_of_wrapped(text, len) : BRIDGE_REFUSED;
}

int bridge_error_open(int sys_errno)
{
	return sys_errno == EMFILE || sys_errno == ENFILE || sys_errno == ENOMEM ? BRIDGE_NO_MEMORY : BRIDGE_DENIED;
}

bool bridge_error_passes(int code)
{
	switch (code) {
	case BRIDGE_UNREACHABLE:
	case BRIDGE_UNKNOWN:
	case BRIDGE_RETRY:
	case BRIDGE_NO_SCRIPT:
	case BRIDGE_NO_MEMORY:
		return true;
	default:
		return false;
	}
}

const char *bridge_code_name(int code)
{
	size_t i = (size_t)-code;

	if (code == BRIDGE_AGAIN)
		return "not done yet";
	return i < sizeof(names) / sizeof(names[0]) ? names[i] : "unknown code";
}
