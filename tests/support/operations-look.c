/* SPDX-License-Identifier: MIT */
/* operations-look.c - opening and closing, and the calls that read a segment or clear it up */
#define _GNU_SOURCE
#include "support/operations-internal.h"
#include "support/acknowledge.h"

#include <errno.h>
#include <string.h>

/* ---------------------------------------------------------------- open, close */

int act_open(struct lockshm_error *error)
{
	return lockshm_open(&handle, seg_name, 0, error);
}

/* The handle that the process has already, once more. */
int act_open_again(struct lockshm_error *error)
{
	lockshm_t *again;
	int code = lockshm_open(&again, seg_name, 0, error);

	CALLS_EXPECT(code != 0 || again == handle, code);
	return code;
}

void close_one_and_use(void)
{
	int code = lockshm_close(handle);

	CALLS_EXPECT(code == 0, code);
	use_and_close();
}

int act_open_read_only(struct lockshm_error *error)
{
	return lockshm_open(&handle, seg_name, LOCKSHM_OPEN_READ_ONLY, error);
}

void look_and_close(void)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	int code = lockshm_stat(handle, &stat);

	CALLS_EXPECT(code == 0, code);
	code = lockshm_close(handle);
	CALLS_EXPECT(code == 0, code);
}

int act_create(struct lockshm_error *error)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	char name[160];

	snprintf(name, sizeof(name), "%s-made", seg_name);
	options.keys = options.requests = 64;
	options.owners = 8;
	return lockshm_create(&handle, name, &options, error);
}

void close_and_destroy(void)
{
	char name[160];
	int code;

	snprintf(name, sizeof(name), "%s-made", seg_name);
	use_and_close();
	code = lockshm_destroy(name, NULL);
	CALLS_EXPECT(code == 0, code);
}

int act_current(struct lockshm_error *unused)
{
	(void)unused;
	return lockshm_current(handle);
}

int act_close(struct lockshm_error *unused)
{
	(void)unused;
	return lockshm_close(handle);
}

void nothing(void)
{
}

int with_service(void)
{
	int code = hold_it();

	return code ? code : lockshm_move(&held[0], LOCKSHM_TO_PROCESS);
}

int with_idle_service(void)
{
	int code = with_service();

	return code ? code : lockshm_release(&held[0], 0);
}

/* ---------------------------------------------------------------- inspection */

static int act_list(int what, const char *key, int found)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int n = 0, code;

	EACH_ROW(row, code, handle, what, key, key ? strlen(key) : 0)
		n += row.holders > 0 ? row.request.state == 0 : row.alive;
	CALLS_EXPECT(code != 0 || n == found, code);
	return code;
}

int act_list_busy(struct lockshm_error *unused)
{
	(void)unused;
	return act_list(LOCKSHM_LIST_BUSY, NULL, 1);
}

int act_list_key(struct lockshm_error *unused)
{
	(void)unused;
	return act_list(LOCKSHM_LIST_KEY, "key", 1);
}

int act_list_owners(struct lockshm_error *unused)
{
	(void)unused;
	return act_list(LOCKSHM_LIST_OWNERS, NULL, 1);
}

int act_stat(struct lockshm_error *unused)
{
	struct lockshm_bridge_stat bridge = LOCKSHM_BRIDGE_STAT_INIT;
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	int code = lockshm_stat(handle, &stat);

	(void)unused;
	CALLS_EXPECT(code != 0 || (stat.requests_used == 1 && stat.owners_used == 1), code);
	return code ? code : lockshm_bridge_stat(handle, &bridge);
}

/* A segment is listed, or the list is known to be incomplete. */
int act_list_segments(struct lockshm_error *unused)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	bool found = false;
	int code;

	(void)unused;
	EACH_ROW(row, code, NULL, LOCKSHM_LIST_SEGMENTS, NULL, 0)
		found = found || strcmp(row.segment, seg_name) == 0;
	/* One that must not be read may be no segment. */
	CALLS_EXPECT(code != 0 || found || calls_now->failed_with == EACCES, code);
	return code;
}

int act_verify(struct lockshm_error *unused)
{
	(void)unused;
	return lockshm_verify(handle, NULL, NULL, NULL);
}

static uint64_t token_to_end;

int hold_and_find_token(void)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int code = open_it();

	token_to_end = 0;
	if (!code)
		code = take_guarded(&held[0], "key", 0, NULL);
	if (code)
		return code;
	EACH_ROW(row, code, handle, LOCKSHM_LIST_KEY, "key", 3)
		token_to_end = row.request.token;
	return code;
}

int act_end_hold(struct lockshm_error *unused)
{
	(void)unused;
	return lockshm_end_hold(handle, "key", 3, token_to_end);
}

void end_end_hold(void)
{
	int code = lockshm_release(&held[0], 0);

	CALLS_EXPECT(code == LOCKSHM_LOST, code);
	code = acknowledge_told(take_guarded(&held[0], "key", 0, NULL), &held[0]);
	CALLS_EXPECT(code == LOCKSHM_TOOK_OVER_EXPIRED, code);
	code = lockshm_release(&held[0], 0);
	CALLS_EXPECT(code == 0, code);
	use_and_close();
}

int act_sweep(struct lockshm_error *unused)
{
	(void)unused;
	return lockshm_sweep(handle, NULL);
}
