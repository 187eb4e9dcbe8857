/* SPDX-License-Identifier: MIT */
/*
 * scenario-bridge-solo.c - one process of one host takes a free global key and releases it
 *
 *   bridge-solo       over a unix socket
 *   bridge-solo-tcp   over TCP, 127.0.0.1
 *   bridge-solo-far   over a network with a delay of 0.1 ms in each direction
 *
 * Rows: "lockshm", from the call to acquire until the server has the release, which the bridge sends after the call has
 * returned; "lockshm-returns", until both calls have returned; "lockshm-acquire", until acquire has.  In these the host
 * has nothing in Redis when the call begins.  "lockshm-again", until both have returned, is the same key in a tight
 * loop: the host retains its lease meanwhile.  "two-pings" are two minimal round trips, "set-and-delete" the usual
 * lock: SET NX PX, and a script that compares and deletes.  "set-by-another", until the server has the release, and
 * "set-by-another-returns" are that lock where another process has the connection, and gets commands and replies
 * through a futex word: the least cost of a bridge.
 */
#include "bench-bridge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WARM 20
#define AGAIN_TIMES 50
#define LOOK_NS 3000
#define PAUSE_US 200 /* between two rounds: nothing is left of the last one */
#define ANSWER_MS 60000

enum row { WHOLE, RETURNS, ACQUIRE, AGAIN, PINGS, SET, BY_ANOTHER, BY_ANOTHER_RETURNS, ROWS };
static const char *const row_names[ROWS] = { "lockshm",	       "lockshm-returns", "lockshm-acquire",
					     "lockshm-again",  "two-pings",      "set-and-delete",  "set-by-another",
					     "set-by-another-returns" };
static const int turns[BENCH_EFFORTS] = { 20, 400, 2000 };

struct scene {
	enum redis_way way;
	uint32_t asked, answered; /* for the process with the connection: acquires and releases in turn */
	struct hist row[ROWS];
};

static uint64_t released(lockshm_t *s)
{
	return bridge_stat(s).released;
}

/* Sleeps: a caller that polled would keep its processor, and a process that was woken there would wait for the end of its
 * time slice, 4 ms. */
static void pause_between_looks(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
}

static void lock_turn(struct scene *scene, lockshm_t *s, bool counts)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	uint64_t before = released(s), from = bench_ticks(), got, back;

	bridge_lock(s, REDIS_KEY, LOCKSHM_GLOBAL, &hold);
	got = bench_ticks();
	bridge_unlock(&hold);
	back = bench_ticks();
	while (released(s) == before)
		pause_between_looks();
	if (!counts)
		return;
	hist_add(&scene->row[WHOLE], bench_ticks() - from);
	hist_add(&scene->row[RETURNS], back - from);
	hist_add(&scene->row[ACQUIRE], got - from);
}

static void lock_again(struct scene *scene, lockshm_t *s)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	uint64_t from = bench_ticks();

	bridge_lock(s, REDIS_KEY, LOCKSHM_GLOBAL, &hold);
	bridge_unlock(&hold);
	hist_add(&scene->row[AGAIN], bench_ticks() - from);
}

static void locks(void *arg)
{
	struct scene *scene = arg;
	lockshm_t *s;

	bridge_unpin();
	s = bridge_open(0);
	for (int i = -WARM; i < turns[bench_effort]; i++) {
		lock_turn(scene, s, i >= 0);
		usleep(PAUSE_US);
	}
	for (int i = 0; i < AGAIN_TIMES * turns[bench_effort]; i++)
		lock_again(scene, s);
	lockshm_close(s);
}

static void ping_turn(int fd)
{
	redis_ask(fd, "PING");
	redis_ask(fd, "PING");
}

/* A connection, and the script that deletes. */
static int begin(const struct scene *scene, char sha[48])
{
	int fd = redis_dial(scene->way);

	bridge_unpin();
	errno = 0;
	snprintf(sha, 48, "%s",
		 redis_ask(fd,
			   "SCRIPT LOAD \"if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) "
			   "else return 0 end\""));
	return fd;
}

static void set_it(int fd)
{
	if (strcmp(redis_ask(fd, "SET plain token NX PX 30000"), "OK") != 0)
		bench_fail("set");
}

static void delete_it(int fd, const char *sha)
{
	if (atoi(redis_ask(fd, "EVALSHA %s 1 plain token", sha)) != 1)
		bench_fail("delete");
}

static void set_turn(int fd, const char *sha)
{
	set_it(fd);
	delete_it(fd, sha);
}

static void plain(void *arg)
{
	struct scene *scene = arg;
	char sha[48];
	int fd = begin(scene, sha);

	for (int i = -WARM; i < turns[bench_effort]; i++) {
		uint64_t from = bench_ticks(), to;

		ping_turn(fd);
		to = bench_ticks();
		if (i >= 0)
			hist_add(&scene->row[PINGS], to - from);
		usleep(PAUSE_US);
		from = bench_ticks();
		set_turn(fd, sha);
		to = bench_ticks();
		if (i >= 0)
			hist_add(&scene->row[SET], to - from);
		usleep(PAUSE_US);
	}
	close(fd);
}

static void await(uint32_t *word, uint32_t turn)
{
	if (!bench_wait(word, turn, ANSWER_MS))
		bench_fail("the other process does not answer");
}

static void serve(void *arg)
{
	struct scene *scene = arg;
	char sha[48];
	int fd = begin(scene, sha);

	for (uint32_t n = 1; n <= 2 * (uint32_t)(WARM + turns[bench_effort]); n++) {
		await(&scene->asked, n);
		if (n % 2)
			set_it(fd);
		else
			delete_it(fd, sha);
		bench_set(&scene->answered, n);
	}
	close(fd);
}

static void ask_turn(struct scene *scene, uint32_t n, bool counts)
{
	uint64_t from = bench_ticks(), back;

	bench_set(&scene->asked, n - 1);
	await(&scene->answered, n - 1);
	bench_set(&scene->asked, n);
	back = bench_ticks();
	while (__atomic_load_n(&scene->answered, __ATOMIC_ACQUIRE) != n)
		pause_between_looks();
	if (!counts)
		return;
	hist_add(&scene->row[BY_ANOTHER], bench_ticks() - from);
	hist_add(&scene->row[BY_ANOTHER_RETURNS], back - from);
}

static void by_another(void *arg)
{
	bridge_unpin();
	for (int i = -WARM; i < turns[bench_effort]; i++) {
		ask_turn(arg, 2 * (uint32_t)(i + WARM + 1), i >= 0);
		usleep(PAUSE_US);
	}
}

static void measure(struct scene *scene)
{
	pid_t server;

	bench_reap(bench_spawn(bench_cpu(0), plain, scene), "two-pings");
	server = bench_spawn(bench_cpu(0), serve, scene);
	bench_reap(bench_spawn(bench_cpu(0), by_another, scene), "set-by-another");
	bench_reap(server, "set-by-another");
	bench_reap(bench_spawn(bench_cpu(0), locks, scene), "lockshm");
}

static void run(const struct point *p, const struct lock_adapter *lock)
{
	const struct bridge_options wish = { .hosts = 1, .way = (enum redis_way)p->scenario->arg };
	static struct scene *scene;

	(void)lock;
	if (!scene)
		scene = bench_share(sizeof(*scene));
	memset(scene, 0, sizeof(*scene));
	scene->way = wish.way;
	if (wish.way == REDIS_FAR && redis_socket())
		redis_far_begin(RELAY_NS);
	if (bridge_make(&wish)) {
		measure(scene);
		bridge_unmake();
		for (int i = 0; i < ROWS; i++)
			result_add_hist(p, row_names[i], &scene->row[i], 0);
	}
	redis_far_end();
}

const struct scenario scenario_bridge_solo = {
	.name = "bridge-solo",
	.what = "acquire + release of a free global key, by unix socket",
	.first = US_P50,
	.fits = bridge_fits,
	.run = run,
	.arg = REDIS_UNIX,
	.procs = { { 1 }, { 1 }, { 1 } },
};

const struct scenario scenario_bridge_solo_tcp = {
	.name = "bridge-solo-tcp",
	.what = "the same by TCP on 127.0.0.1",
	.first = US_P50,
	.fits = bridge_fits,
	.run = run,
	.arg = REDIS_TCP,
	.procs = { { 1 }, { 1 }, { 1 } },
};

const struct scenario scenario_bridge_solo_far = {
	.name = "bridge-solo-far",
	.what = "the same by a network of 0.1 ms each way",
	.first = US_P50,
	.fits = bridge_fits,
	.run = run,
	.arg = REDIS_FAR,
	.procs = { { 1 }, { 1 }, { 1 } },
};
