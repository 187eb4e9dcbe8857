/* SPDX-License-Identifier: MIT */
/* note.c - the text "why" of a robust key's note; see redis/note.h */
#include "redis/note.h"

#include <stdlib.h>
#include <string.h>

struct note_end note_end(const char *why, int64_t good)
{
	struct note_end end = { .died = false };
	char *how;

	if (strtoll(why, &how, 10) <= good || !*how)
		return end;
	end.died = *how++ == 'd';
	if (strspn(how, "0123456789abcdef") < REDIS_HOST_LEN)
		return end;
	memcpy(end.host, how, REDIS_HOST_LEN);
	end.pid = (unsigned)strtoul(how + REDIS_HOST_LEN, NULL, 10);
	return end;
}
