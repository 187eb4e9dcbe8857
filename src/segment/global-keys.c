/* SPDX-License-Identifier: MIT */
/* global-keys.c - "*" or prefixes, as create gets them and the header keeps them; see segment/global-keys.h */
#include "segment/global-keys.h"

#include <string.h>

#include "sys/error.h"

#define ALL '*'
#define SEPARATORS ","

int global_keys_check(const char *rule, struct lockshm_error *error)
{
	size_t len = strlen(rule), n;

	if (rule[0] == ALL && len == 1)
		return 0;
	if (memchr(rule, ALL, len))
		return error_set(error, LOCKSHM_INVALID,
				 "global_keys: '*' alone is all keys; a prefix has none, and stands for all keys that begin so");
	do {
		n = strcspn(rule, SEPARATORS);
		if (n == 0)
			return error_set(error, LOCKSHM_INVALID, "global_keys has an empty prefix; \"*\" is all keys");
		/* So that the part of a key that an entry shows decides. */
		if (n > LOCKSHM_KEY_SHOWN_MAX)
			return error_set(error, LOCKSHM_INVALID, "global_keys has a prefix of more than %d bytes",
					 LOCKSHM_KEY_SHOWN_MAX);
		rule += n;
	} while (*rule++);
	return 0;
}

bool global_keys_match(const char *rule, const void *key, size_t len)
{
	size_t n;

	if (!key)
		return false;
	if (rule[0] == ALL)
		return true;
	for (; *rule; rule += n + (rule[n] != '\0')) {
		n = strcspn(rule, SEPARATORS);
		if (n != 0 && n <= len && memcmp(rule, key, n) == 0)
			return true;
	}
	return false;
}
