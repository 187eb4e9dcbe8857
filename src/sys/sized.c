/* SPDX-License-Identifier: MIT */
/* sized.c - copies of structs whose size the library and the program may see differently */
#include "sys/sized.h"

#include "sys/error.h"

static bool zero(const unsigned char *at, const unsigned char *end)
{
	while (at < end && *at == 0)
		at++;
	return at == end;
}

int sized_in(void *own, size_t size, const void *theirs, size_t least, const char *what, struct lockshm_error *error)
{
	size_t n = sized_of(theirs), common = n < size ? n : size;

	if (!sized_good(theirs, least))
		return error_set(error, LOCKSHM_INVALID, "%s.size is %zu, must be %zu..%d: start from its initialiser",
				 what, n, least, SIZED_MAX);
	memset(own, 0, size);
	memcpy(own, theirs, common);
	memcpy(own, &size, sizeof(size));
	if (!zero((const unsigned char *)theirs + common, (const unsigned char *)theirs + n))
		return error_set(error, LOCKSHM_INVALID, "%s was made for a newer library: it uses fields that %s lacks",
				 what, lockshm_version());
	return 0;
}

void sized_out(void *theirs, const void *own, size_t size)
{
	size_t n = sized_of(theirs), common = n < size ? n : size;

	memcpy((char *)theirs + sizeof(n), (const char *)own + sizeof(n), common - sizeof(n));
	memset((char *)theirs + common, 0, n - common);
}
