/* SPDX-License-Identifier: MIT */
/* segments.c - the segments that a process has open */
#include "php_lockshm.h"

#include <unistd.h>

/** Root may use what another user made; a segment that root makes is root's. */
static int open_or_create(lockshm_t **out, const char *name, const struct lockshm_create_options *options,
			  struct lockshm_error *error)
{
	int code;

	if (geteuid() == 0) {
		code = lockshm_open(out, name, LOCKSHM_OPEN_ANY_OWNER, error);
		if (code != LOCKSHM_NO_SEGMENT)
			return code;
	}
	return lockshm_create(out, name, options, error);
}

static struct lk_segment *find(const char *name)
{
	for (struct lk_segment *segment = LK_G(segments); segment; segment = segment->next)
		if (strcmp(segment->name, name) == 0)
			return segment;
	return NULL;
}

static bool makes_global(lockshm_t *handle)
{
	struct lockshm_bridge_stat stat = LOCKSHM_BRIDGE_STAT_INIT;

	return lockshm_bridge_stat(handle, &stat) == 0 && *stat.global_keys;
}

struct lk_segment *lk_segment_open(const char *name, const struct lockshm_create_options *options,
				   struct lockshm_error *error)
{
	struct lk_segment *segment;
	lockshm_t *handle;

	name += *name == '/';
	segment = find(name);
	if (segment)
		return segment;
	if (open_or_create(&handle, name, options, error) != 0)
		return NULL;
	segment = pecalloc(1, sizeof(*segment), 1);
	segment->handle = handle;
	segment->options = *options;
	segment->options.flags |= LOCKSHM_CREATE_OR_OPEN;
	segment->makes_global = makes_global(handle);
	snprintf(segment->name, sizeof(segment->name), "%s", name);
	segment->next = LK_G(segments);
	LK_G(segments) = segment;
	return segment;
}

/** Return: false: lockshm.segment is too long. */
bool lk_segment_default(char name[static LOCKSHM_NAME_MAX + 1])
{
	const char *given = LK_G(segment);
	int length;

	if (given && *given)
		length = snprintf(name, LOCKSHM_NAME_MAX + 1, "%s", given);
	else
		length = snprintf(name, LOCKSHM_NAME_MAX + 1, "php-%lu", (unsigned long)geteuid());
	return length <= LOCKSHM_NAME_MAX;
}

/** The loop of a parent process stays what it is there: the child opens its own. */
static void close_loop(struct lk_segment *segment)
{
	if (segment->loop && segment->loop_pid == getpid())
		lockshm_loop_close(segment->loop);
	segment->loop = NULL;
}

/** The segment was removed while open: use the one that has its name now, or make it. */
int lk_segment_reopen(struct lk_segment *segment, struct lockshm_error *error)
{
	lockshm_t *handle;
	int code;

	code = open_or_create(&handle, segment->name, &segment->options, error);
	if (code != 0)
		return code;
	close_loop(segment);
	if (segment->retired)
		lockshm_close(segment->retired);
	segment->retired = segment->handle;
	segment->handle = handle;
	segment->makes_global = makes_global(handle);
	return 0;
}

lockshm_loop_t *lk_segment_loop(struct lk_segment *segment, struct lockshm_error *error)
{
	if (segment->loop && segment->loop_pid == getpid())
		return segment->loop;
	if (lockshm_loop_open(&segment->loop, segment->handle, -1, error) != 0)
		return NULL;
	segment->loop_pid = getpid();
	return segment->loop;
}

void lk_segments_end_request(void)
{
	for (struct lk_segment *segment = LK_G(segments); segment; segment = segment->next)
		if (segment->retired) {
			lockshm_close(segment->retired);
			segment->retired = NULL;
		}
}

void lk_segment_close(struct lk_segment *segment)
{
	close_loop(segment);
	if (segment->retired)
		lockshm_close(segment->retired);
	lockshm_close(segment->handle);
	pefree(segment, 1);
}
