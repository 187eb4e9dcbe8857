/* SPDX-License-Identifier: MIT */
/*
 * circles.c - circles of waits through nested lockctl run
 *
 * The library detects a circle of waits among threads.  A lockctl that holds a lock waits for no lock but for its command,
 * which may be, or have started, another lockctl that waits: two processes, of which the library knows nothing.  Here a
 * holder that is a lockctl stands for the waits of all its descendants, as /proc has them at this moment.
 */
#include <stdlib.h>
#include <string.h>

#include "lockctl/lockctl.h"

/** Parents of a process, and waits, that are looked at. */
#define ANCESTORS 32
#define WAITS 1000

/** A holder of a lock that is waited for. */
struct holder {
	int32_t pid;
	char *owner; /**< "4711 (tag)" */
};

/** A request that waits, and for whom. */
struct wait {
	int32_t pid;
	char *owner, *key;
	size_t first, n; /**< its holders */
	int32_t ancestors[ANCESTORS]; /**< the parent first; 0 = no more */
	enum { NEW, ON_PATH, LEFT } search;
};

static void add_holder(struct circles *circles, const struct lockshm_blocker *request)
{
	circles->holder = checked(reallocarray(circles->holder, circles->holders + 1, sizeof(*circles->holder)));
	circles->holder[circles->holders++] =
		(struct holder){ request->pid, format_owner(request->pid, request->tid, request->tag, true) };
}

static void add_wait(struct circles *circles, const struct lock *lock,
		     const struct lockshm_blocker *request, size_t first)
{
	struct wait *wait;
	int32_t pid = request->pid;

	circles->wait = checked(reallocarray(circles->wait, circles->waits + 1, sizeof(*circles->wait)));
	wait = &circles->wait[circles->waits++];
	memset(wait, 0, sizeof(*wait));
	wait->pid = pid;
	wait->owner = format_owner(pid, request->tid, request->tag, true);
	wait->key = format_key(lock->row.key, lock->row.key_shown, lock->row.key_len);
	wait->first = first;
	wait->n = circles->holders - first;
	for (size_t i = 0; i < ANCESTORS && pid > 1; i++)
		wait->ancestors[i] = pid = process_parent(pid);
}

void circles_add(struct circles *circles, const struct lock *lock)
{
	size_t first = circles->holders;

	for (size_t i = 0; i < lock->holders && lock->waiters; i++)
		if (lock->requests[i].alive && !strcmp(lock->requests[i].seen.name, KEEPER_NAME))
			add_holder(circles, &lock->requests[i].seen);
	for (size_t i = lock->holders; i < lock->holders + lock->waiters && circles->holders > first; i++)
		if (lock->requests[i].alive && circles->waits < WAITS)
			add_wait(circles, lock, &lock->requests[i].seen, first);
}

/** The holder of what @wait waits for that runs @other; NULL = none. */
static const struct holder *runs(const struct circles *circles, const struct wait *wait, const struct wait *other)
{
	for (size_t i = 0; i < wait->n; i++)
		for (size_t k = 0; k < ANCESTORS && other->ancestors[k]; k++)
			if (circles->holder[wait->first + i].pid == other->ancestors[k])
				return &circles->holder[wait->first + i];
	return NULL;
}

/** The waits of the path from @first on, of which the last one leads to the first. */
static void print_circle(const struct circles *circles, const size_t *path, size_t first, size_t depth, FILE *out)
{
	fputs("circle of waits: ", out);
	for (size_t i = first; i < depth; i++) {
		const struct wait *wait = &circles->wait[path[i]];
		const struct wait *next = &circles->wait[path[i + 1 < depth ? i + 1 : first]];

		fprintf(out, "%s%s waits for '%s' of %s, which runs ", wait->owner, i > first ? ", which" : "", wait->key,
			runs(circles, wait, next)->owner);
	}
	fprintf(out, "%s\n", circles->wait[path[first]].owner);
}

/** Follow all ways from the last wait of the path. */
static void search(struct circles *circles, size_t *path, size_t depth, FILE *out)
{
	size_t at = path[depth - 1], first;

	circles->wait[at].search = ON_PATH;
	for (size_t next = 0; next < circles->waits; next++) {
		if (circles->wait[next].search == LEFT || !runs(circles, &circles->wait[at], &circles->wait[next]))
			continue;
		path[depth] = next;
		if (circles->wait[next].search == NEW) {
			search(circles, path, depth + 1, out);
			continue;
		}
		for (first = 0; path[first] != next; first++)
			;
		print_circle(circles, path, first, depth, out);
	}
	circles->wait[at].search = LEFT;
}

void circles_end(struct circles *circles, FILE *out)
{
	size_t path[WAITS + 1];

	for (size_t i = 0; i < circles->waits; i++) {
		path[0] = i;
		if (circles->wait[i].search == NEW)
			search(circles, path, 1, out);
	}
	for (size_t i = 0; i < circles->waits; i++) {
		free(circles->wait[i].owner);
		free(circles->wait[i].key);
	}
	for (size_t i = 0; i < circles->holders; i++)
		free(circles->holder[i].owner);
	free(circles->wait);
	free(circles->holder);
}
