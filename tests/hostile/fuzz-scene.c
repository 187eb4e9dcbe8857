/* SPDX-License-Identifier: MIT */
/*
 * fuzz-scene.c - the segment that programs of the fuzzer damage
 *
 * Each subject is a process that plays its part and then stays still.  When all are in place the file is copied, and
 * they are killed: in the copy they live on for ever, except for those that were to be dead.  One of them is as if it
 * were between a grant and the return of its call.
 */
#define _GNU_SOURCE
#include "fuzz.h"
#include "support/rows.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct scene scene;

const char *const scene_keys[SCENE_KEYS] = {
	"held", "shared", "cooling", "damaged", "dead", "expired", "upgraded", "moved", "readers", "granted", "new-1",
	"new-2", "new-3",
};
enum key { HELD, SHARED, COOLING, MARKED, DEAD, EXPIRED, UPGRADED, MOVED, READERS, GRANTED };

#define LONG LOCKSHM_SECONDS(36000)

static char name[64];
static lockshm_t *segment;

static void give_up(const char *what)
{
	fprintf(stderr, "fuzz: the scene cannot be made: %s\n", what);
	lockshm_destroy(name, NULL);
	exit(99);
}

/* ---------------------------------------------------------------- the subjects */

static int take(enum key key, int mode, int64_t ttl, lockshm_hold_t *hold)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;

	request.key = scene_keys[key];
	request.key_len = strlen(scene_keys[key]);
	request.mode = mode;
	request.ttl_ns = ttl;
	request.timeout_ns = LOCKSHM_FOREVER;
	request.flags = LOCKSHM_ROBUST;
	request.tag = "of the scene";
	return lockshm_acquire(segment, &request, hold);
}

static bool holder(lockshm_hold_t *h)
{
	return take(HELD, LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, &h[0]) == 0 &&
	       take(SHARED, LOCKSHM_SHARED, LONG, &h[1]) == 0 && take(READERS, LOCKSHM_SHARED, LOCKSHM_FOREVER, &h[2]) == 0;
}

static bool reader(lockshm_hold_t *h)
{
	return take(SHARED, LOCKSHM_SHARED, LONG, &h[0]) == 0 && take(READERS, LOCKSHM_SHARED, LONG, &h[1]) == 0 &&
	       take(COOLING, LOCKSHM_EXCLUSIVE, LONG, &h[2]) == 0 && lockshm_release(&h[2], LONG) == 0;
}

static bool upgrader(lockshm_hold_t *h)
{
	return take(UPGRADED, LOCKSHM_SHARED, LONG, &h[0]) == 0 && lockshm_upgrade(&h[0]) == 0 &&
	       take(READERS, LOCKSHM_SHARED, LONG, &h[1]) == 0;
}

static bool mover(lockshm_hold_t *h)
{
	return take(MOVED, LOCKSHM_EXCLUSIVE, LONG, &h[0]) == 0 && lockshm_move(&h[0], LOCKSHM_TO_PROCESS) == 0;
}

static bool sleeper(lockshm_hold_t *h)
{
	return take(EXPIRED, LOCKSHM_EXCLUSIVE, LOCKSHM_TTL_MIN, &h[0]) == 0;
}

static bool dies(lockshm_hold_t *h)
{
	return take(MARKED, LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, &h[0]) == 0 &&
	       take(DEAD, LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, &h[1]) == 0;
}

static bool finder(lockshm_hold_t *h)
{
	return take(MARKED, LOCKSHM_EXCLUSIVE, LONG, &h[0]) == LOCKSHM_OWNER_DIED && lockshm_release(&h[0], 0) == 0;
}

static bool outsider(lockshm_hold_t *h)
{
	return take(GRANTED, LOCKSHM_EXCLUSIVE, LONG, &h[0]) == 0;
}

/* Those that wait do so until they are killed. */
static bool writer(lockshm_hold_t *h)
{
	return take(HELD, LOCKSHM_EXCLUSIVE, LONG, &h[0]) == 0;
}

static bool waiting_reader(lockshm_hold_t *h)
{
	return take(HELD, LOCKSHM_SHARED, LONG, &h[0]) == 0;
}

static const struct subject {
	bool (*part)(lockshm_hold_t *h);
	bool waits;
	enum { LIVES, DIES_AT_ONCE, DIES_LAST } fate;
} subjects[] = {
	{ holder, false, LIVES },	  { reader, false, LIVES },	   { upgrader, false, LIVES },
	{ mover, false, LIVES },	  { sleeper, false, LIVES },	   { dies, false, DIES_AT_ONCE },
	{ finder, false, LIVES },	  { writer, true, LIVES },	   { writer, true, DIES_LAST },
	{ waiting_reader, true, LIVES }, { waiting_reader, true, LIVES }, { outsider, false, LIVES },
};
#define SUBJECTS (sizeof(subjects) / sizeof(subjects[0]))

static void play(const struct subject *p, int ready)
{
	static lockshm_hold_t holds[3];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The inherited handle: to open it would sweep away the dead. */
	if (!p->part(holds) || write(ready, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void until_waiting(size_t wanted)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	time_t begun = time(NULL);

	/* nanosleep() is fuzz-guard.c's, and does not sleep. */
	while (row.waiters < wanted) {
		if (time(NULL) - begun > 20)
			give_up("a waiter does not wait");
		sched_yield();
		(void)key_row(segment, scene_keys[HELD], strlen(scene_keys[HELD]), &row);
	}
}

static pid_t enter(const struct subject *p, size_t waiters)
{
	int ready[2];
	pid_t pid;
	char c;

	if (pipe2(ready, O_CLOEXEC) != 0)
		give_up("pipe2()");
	pid = fork();
	if (pid < 0)
		give_up("fork()");
	if (pid == 0)
		play(p, ready[1]);
	close(ready[1]);
	if (p->waits)
		until_waiting(waiters + 1);
	else if (read(ready[0], &c, 1) != 1)
		give_up("a subject failed");
	close(ready[0]);
	return pid;
}

static void stop_all(const pid_t *pids)
{
	int status;
	size_t i;

	for (i = 0; i < SUBJECTS; i++)
		if (subjects[i].fate != DIES_AT_ONCE && (kill(pids[i], SIGSTOP) != 0 ||
							waitpid(pids[i], &status, WUNTRACED) != pids[i] || !WIFSTOPPED(status)))
			give_up("a subject cannot be stopped");
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---------------------------------------------------------------- numbers that do not depend on pids */

static void add(uint32_t *list, uint32_t *n, uint32_t value)
{
	uint32_t i;

	for (i = 0; i < *n; i++)
		if (list[i] == value)
			return;
	list[(*n)++] = value;
}

/* A subject's slots in the order of joining: its own, then its service thread's. */
static void number_owners(const pid_t *pids)
{
	const struct lockshm *g = &scene.geometry;
	uint32_t p, slot, service, n = 0;

	for (p = 0; p < SUBJECTS; p++)
		for (service = 0; service < 2; service++)
			for (slot = 0; slot < g->n_owners; slot++)
				if (control_state(g->owners[slot].control) != OWNER_FREE &&
				    control_pid(g->owners[slot].control) == pids[p] &&
				    (g->owners[slot].flags & OWNER_PROCESS) == (service ? OWNER_PROCESS : 0))
					add(scene.owners, &n, slot);
	for (slot = 0; slot < g->n_owners; slot++)
		add(scene.owners, &n, slot);
}

static void number_requests(void)
{
	const struct lockshm *g = &scene.geometry;
	uint32_t i, k, chunk, n = 0;

	for (i = 0; i < g->n_owners; i++)
		for (chunk = 0; chunk < g->n_chunks; chunk++)
			for (k = 1; k <= g->chunk_size && *chunk_word(g, chunk) != 0 &&
				    owner_ref_slot(*chunk_word(g, chunk)) == scene.owners[i]; k++)
				add(scene.requests, &n, chunk * g->chunk_size + k);
	for (i = 1; i <= g->n_requests; i++)
		add(scene.requests, &n, i);
}

static void number_entries(void)
{
	const struct lockshm *g = &scene.geometry;
	uint32_t k, i, n = 0;

	for (k = 0; k < SCENE_KEYS; k++)
		for (i = 0; i < g->n_locks; i++)
			if (g->entries[i].key_len == strlen(scene_keys[k]) &&
			    memcmp(g->details[i].key, scene_keys[k], g->entries[i].key_len) == 0)
				add(scene.entries, &n, i);
	for (i = 0; i < g->n_locks; i++)
		add(scene.entries, &n, i);
}

/* ---------------------------------------------------------------- the whole */

/* The secret decides where a key lives.  No key has been looked up yet. */
static void fix_secret(struct shm_header *h)
{
	memset(h->hash_secret, 0x5a, sizeof(h->hash_secret));
	h->check = segment_check(h);
}

static void make_segment(void)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;

	snprintf(name, sizeof(name), "/lockshm-fuzz-scene-%d", (int)getpid());
	options.keys = 64;
	options.requests = 64;
	options.owners = 16;
	if (lockshm_create(&segment, name, &options, NULL) != 0)
		give_up("lockshm_create()");
	fix_secret(segment->header);
	lockshm_close(segment);
	if (lockshm_open(&segment, name, 0, NULL) != 0)
		give_up("lockshm_open()");
}

#define MOVE(field) (scene.geometry.field = (void *)(scene.image + ((unsigned char *)segment->field - base)))

static void copy_segment(void)
{
	unsigned char *base = (unsigned char *)segment->header;

	scene.size = segment->size;
	scene.image = malloc(scene.size);
	if (!scene.image)
		give_up("malloc()");
	memcpy(scene.image, base, scene.size);
	scene.geometry = *segment;
	MOVE(header);
	MOVE(owners);
	MOVE(lives);
	MOVE(buckets);
	MOVE(tags);
	MOVE(entries);
	MOVE(details);
	MOVE(damages);
	MOVE(requests);
}

/* Its request becomes one that has not been entered. */
static void take_out(void)
{
	struct lockshm *g = &scene.geometry;
	struct shm_request *r = &g->requests[tail_index(g->entries[scene.entries[GRANTED]].tail)];

	if (!word_is(r->word, REQUEST_ENTERED))
		give_up("nothing was granted");
	r->word = word_with_state(r->word, REQUEST_GRANTED);
}

void scene_make(void)
{
	pid_t pids[SUBJECTS];
	size_t i, waiters = 0;

	make_segment();
	for (i = 0; i < SUBJECTS; i++) {
		pids[i] = enter(&subjects[i], waiters);
		waiters += subjects[i].waits;
		if (subjects[i].fate == DIES_AT_ONCE)
			end(pids[i]);
	}
	stop_all(pids); /* or the waiters would reap the one that dies waiting */
	for (i = 0; i < SUBJECTS; i++)
		if (subjects[i].fate == DIES_LAST)
			end(pids[i]);
	copy_segment();
	for (i = 0; i < SUBJECTS; i++)
		if (subjects[i].fate == LIVES)
			end(pids[i]);
	number_owners(pids);
	number_requests();
	number_entries();
	take_out();
	lockshm_close(segment);
	lockshm_destroy(name, NULL);
}
