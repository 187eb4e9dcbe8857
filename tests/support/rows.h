/* SPDX-License-Identifier: MIT */
/* rows.h - listings in few words, for tests with libcheck and without */
#ifndef LOCKSHM_TESTS_SUPPORT_ROWS_H
#define LOCKSHM_TESTS_SUPPORT_ROWS_H

#include <stdbool.h>
#include <string.h>

#include "lockshm.h"

static inline lockshm_list_t *rows_begin(int *code, lockshm_t *segment, int what, const void *key, size_t key_len)
{
	lockshm_list_t *list;

	*code = lockshm_list_open(&list, segment, what, key, key_len);
	return list;
}

static inline bool rows_next(lockshm_list_t *list, struct lockshm_row *row, int *code)
{
	int next = *code ? *code : lockshm_list_next(list, row);

	if (next == 1)
		return true;
	*code = next;
	lockshm_list_close(list);
	return false;
}

/* Each row of a listing; the loop is not left in between.  @code: [out] 0, or why there are no more. */
#define EACH_ROW(row, code, segment, what, key, key_len)                                                               \
	for (lockshm_list_t *list_ = rows_begin(&(code), (segment), (what), (key), (key_len));                         \
	     rows_next(list_, &(row), &(code));)

/* The row of a key, without those of its requests. */
static inline int key_row(lockshm_t *segment, const void *key, size_t key_len, struct lockshm_row *row)
{
	int code;
	lockshm_list_t *list = rows_begin(&code, segment, LOCKSHM_LIST_KEY, key, key_len);

	*row = (struct lockshm_row)LOCKSHM_ROW_INIT;
	if (code == 0)
		code = lockshm_list_next(list, row);
	lockshm_list_close(list);
	return code < 0 ? code : 0;
}

/* Clear the marks of a listing that have that age; looks again where one has changed meanwhile. */
static inline int clear_marks(lockshm_t *segment, int what, const void *key, size_t key_len, int64_t older_than_ns,
			      size_t *cleared)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	bool again = true;
	int code = 0, got;

	for (*cleared = 0; again && code == 0;) {
		again = false;
		EACH_ROW(row, code, segment, what, key, key_len)
		{
			if (row.request.state || !row.damage.status || row.damage.age_ns < older_than_ns)
				continue;
			got = lockshm_acknowledge_of(segment, row.id, row.damage.token);
			*cleared += got == 0;
			again = again || got == LOCKSHM_NOT_HELD;
		}
	}
	return code;
}

static inline int clear_all_marks(lockshm_t *segment, size_t *cleared)
{
	return clear_marks(segment, LOCKSHM_LIST_BUSY, NULL, 0, 0, cleared);
}

#endif
