/* SPDX-License-Identifier: MIT */
/* redis-error.c - classes of errors, and the class of each error reply */
#define _GNU_SOURCE
#include "redis/redis-error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sys/error.h"

static const struct {
	const char *word;
	int code;
} words[] = {
	{ "ASK", REDIS_RETRY }, /* a slot being moved: no node takes commands with several keys */
	{ "BUSY", REDIS_RETRY },
	{ "CLUSTERDOWN", REDIS_RETRY },
	{ "CROSSSLOT", REDIS_INVALID },
	{ "DENIED", REDIS_DENIED },
	{ "LOADING", REDIS_RETRY },
	{ "MASTERDOWN", REDIS_RETRY },
	{ "MISCONF", REDIS_RETRY },
	{ "MOVED", REDIS_MOVED },
	{ "NOAUTH", REDIS_DENIED },
	{ "NOPERM", REDIS_DENIED },
	{ "NOREPLICAS", REDIS_RETRY },
	{ "NOSCRIPT", REDIS_NO_SCRIPT },
	{ "OOM", REDIS_RETRY },
	{ "READONLY", REDIS_RETRY },
	{ "TRYAGAIN", REDIS_RETRY },
	{ "UNKILLABLE", REDIS_RETRY },
	{ "WRONGPASS", REDIS_DENIED },
	{ "WRONGTYPE", REDIS_NOT_A_LOCK },
};

/* Errors that servers report as plain ERR. */
static const struct {
	const char *part;
	int code;
} phrases[] = {
	{ "The user executing the script can't", REDIS_DENIED },
	{ "invalid password", REDIS_DENIED },
	{ "max number of clients reached", REDIS_RETRY },
};

static const char *const names[] = {
	[REDIS_OK] = "done",
	[-REDIS_INVALID] = "invalid",
	[-REDIS_UNREACHABLE] = "unreachable",
	[-REDIS_UNKNOWN] = "outcome unknown",
	[-REDIS_RETRY] = "not able now",
	[-REDIS_DENIED] = "denied",
	[-REDIS_NOT_A_LOCK] = "not a lock",
	[-REDIS_MOVED] = "moved",
	[-REDIS_NO_SCRIPT] = "script not loaded",
	[-REDIS_REFUSED] = "refused",
	[-REDIS_PROTOCOL] = "not the Redis protocol",
	[-REDIS_NO_MEMORY] = "out of memory",
};

int redis_fail(struct redis_error *error, int code, const char *format, ...)
{
	va_list args;

	if (!error)
		return code;
	error->code = code;
	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	error_clean(error->text);
	return code;
}

static int class_of_word(const char *word, size_t len)
{
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (len == strlen(words[i].word) && memcmp(word, words[i].word, len) == 0)
			return words[i].code;
	return REDIS_REFUSED;
}

/*
 * Servers before 7.0 wrap an error inside a script: "ERR Error running script (call to f_...): @user_script:3:
 * WRONGTYPE Operation ...".  The first word of the text that is a code is the cause.
 */
static int class_of_wrapped(const char *text, size_t len)
{
	const char *end = text + len, *word = text;
	int code;

	while (word < end) {
		const char *stop = memchr(word, ' ', (size_t)(end - word));

		code = class_of_word(word, (size_t)((stop ? stop : end) - word));
		if (code != REDIS_REFUSED)
			return code;
		if (!stop)
			break;
		word = stop + 1;
	}
	return REDIS_REFUSED;
}

int redis_error_class(const char *text, size_t len)
{
	const char *blank = memchr(text, ' ', len);
	int code = class_of_word(text, blank ? (size_t)(blank - text) : len);
	size_t i;

	if (code != REDIS_REFUSED)
		return code;
	for (i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++)
		if (memmem(text, len, phrases[i].part, strlen(phrases[i].part)))
			return phrases[i].code;
	return memmem(text, len, "@user_script", 12) ? class_of_wrapped(text, len) : REDIS_REFUSED;
}

/* Since 7.0 "OOM command not allowed. script: 5c16..., on @user_script:140.", before it is the first of these words that has
 * the place: "ERR Error running script (call to f_5c16...): @user_script:140: OOM command not allowed". */
const char *redis_error_words(const char *text, size_t *len)
{
	static const char place[] = "@user_script:", after[] = " script: ";
	const char *at = memmem(text, *len, place, sizeof(place) - 1), *end = text + *len;
	const char *tail = memmem(text, *len, after, sizeof(after) - 1);

	if (at && tail && tail < at) {
		*len = (size_t)(tail - text);
		return text;
	}
	if (at)
		for (at += sizeof(place) - 1; at < end && ((*at >= '0' && *at <= '9') || *at == ' '); at++)
			;
	if (!at || end - at < 3 || memcmp(at, ": ", 2) != 0)
		return text;
	*len = (size_t)(end - at - 2);
	return redis_error_words(at + 2, len);
}

int redis_error_open(int sys_errno)
{
	return sys_errno == EMFILE || sys_errno == ENFILE || sys_errno == ENOMEM ? REDIS_NO_MEMORY : REDIS_DENIED;
}

bool redis_error_passes(int code)
{
	switch (code) {
	case REDIS_UNREACHABLE:
	case REDIS_UNKNOWN:
	case REDIS_RETRY:
	case REDIS_NO_SCRIPT:
	case REDIS_NO_MEMORY:
		return true;
	default:
		return false;
	}
}

const char *redis_code_name(int code)
{
	size_t i = (size_t)-code;

	if (code == REDIS_AGAIN)
		return "not done yet";
	return i < sizeof(names) / sizeof(names[0]) ? names[i] : "unknown code";
}
