/* SPDX-License-Identifier: MIT */
/*
 * soak.c - many processes do everything at once while they are killed and stopped; then their history is checked
 *
 *   soak [SECONDS [SEED [ROUND]]]       8 seconds and seed 8 if not given; seed 0 = from the clock; ROUND = the first one
 *   soak --check FILE                   check a history that was kept
 *   soak --print FILE                   show it, in the order of time
 *
 * A run is made of rounds.  Each has another mix of processes, threads, keys and capacities (soak-config.c), its own
 * segment and history.  Workers (soak-worker.c) do random operations and die in all ways; the driver kills,
 * stops, removes the segment under them, ends holds as an operator, looks, sweeps and verifies.  For a second of each
 * three it leaves them alone, so that late wake-ups can be told apart from disturbed ones.  At the end of a round all
 * workers end, nothing may be left in the segment, and the history must keep the promises of history/check.h.
 *
 * A seed gives the same rounds, and each thread the same decisions one after the other; how far it gets before it is
 * killed, and the order between threads, is up to the kernel.  A history with violations is kept as
 * soak-SEED-ROUND.history in the current directory: the checker finds in it what it found, every time.
 */
#define _GNU_SOURCE
#include "soak-driver.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "history/check.h"

enum {
	BLOCKS = 12000, /* of 64 records: 98 MB at most */
	ROUND_MS = 6000,
	SHORT_MS = 3000, /* of a run of less than a minute */
	RAGE_MS = 2000, /* then calm for the rest of a cycle */
	CYCLE_MS = 3000,
	STOP_MAX_MS = 6,
	LONG_STOP_MAX_MS = 150, /* longer than many a lease, one stop in eight */
};

static struct soak_driver driver;

static int64_t ms(int64_t n)
{
	return LOCKSHM_MS(n);
}

/* ---------------------------------------------------------------- one round */

static struct soak_worker *any_worker(struct soak_driver *d)
{
	return &d->workers[soak_below(&d->random, d->config.workers)];
}

static void hurt(struct soak_driver *d)
{
	uint32_t dice = soak_below(&d->random, 100);
	int64_t longest = soak_one_in(&d->random, 8) ? LONG_STOP_MAX_MS : STOP_MAX_MS;

	if (dice < 8 && !d->config.gentle)
		driver_kill(d, any_worker(d));
	else if (dice < 50 && !d->config.gentle)
		driver_stop(d, any_worker(d), ms(soak_between(&d->random, 1, longest)));
	else if (dice < 60)
		driver_end_hold(d);
	else if (dice < 65)
		driver_sweep(d);
	else if (dice < 75)
		driver_acknowledge(d);
	else if (dice < 77 && d->config.recreate)
		driver_remove(d);
}

static void watch(struct soak_driver *d)
{
	uint32_t dice = soak_below(&d->random, 40);

	if (dice == 0)
		driver_verify(d);
	else if (dice < 5)
		driver_look(d);
	else if (dice < 20)
		driver_see_waiters(d);
}

static void set_calm(struct soak_driver *d, bool calm, int64_t *since)
{
	struct history_record *r;

	__atomic_store_n(&d->history.header->calm, calm, __ATOMIC_RELAXED);
	if (calm) {
		driver_resume(d, INT64_MAX);
		*since = history_now();
		return;
	}
	if (!*since)
		return;
	r = history_new(&d->writer);
	r->enter = *since;
	r->leave = history_now();
	__atomic_store_n(&r->op, HISTORY_CALM, __ATOMIC_RELEASE);
	*since = 0;
}

static void rage(struct soak_driver *d, int64_t end)
{
	int64_t begun = history_now(), now, calm_since = 0;

	while ((now = history_now()) < end && !history_is_full(&d->history) && !d->problems) {
		bool calm = (now - begun) % ms(CYCLE_MS) >= ms(RAGE_MS);

		if (calm != (calm_since != 0))
			set_calm(d, calm, &calm_since);
		if (!calm)
			hurt(d);
		watch(d);
		driver_resume(d, history_now());
		driver_reap(d, true);
		nanosleep(&(struct timespec){ .tv_nsec = (long)soak_below(&d->random, 6) * 1000000 + 100000 }, NULL);
	}
	set_calm(d, false, &calm_since);
}

static void begin_round(struct soak_driver *d, uint64_t seed, unsigned round)
{
	struct history_header *h;
	unsigned i;

	history_clear(&d->history);
	h = d->history.header;
	h->seed = seed;
	h->round = round;
	soak_config(&d->config, seed, round);
	h->roomy = d->config.roomy;
	soak_seed(&d->random, seed, round, 0, 2);
	d->process = history_new_process(&d->history);
	history_track_begin(&d->writer, &d->history, d->process, 0, HISTORY_NO_TRACK);
	d->problems = 0;
	d->printed = 0;
	memset(d->workers, 0, sizeof(d->workers));
	d->kills = d->kills_stopped = d->stops = d->ends = d->verifies = d->sweeps = d->looks = d->operated =
		d->removals = 0;
	d->cleared = 0;
	driver_open(d);
	driver_heart_begin(d);
	for (i = 0; i < d->config.workers; i++)
		driver_spawn(d, &d->workers[i]);
}

static void end_round(struct soak_driver *d)
{
	__atomic_store_n(&d->history.header->stop, 1, __ATOMIC_RELAXED);
	driver_finish(d);
	driver_heart_end(d);
	driver_look_for_leaks(d);
	driver_close(d);
	lockshm_destroy(d->name, NULL);
}

/* ---------------------------------------------------------------- reports */

static void tell(const char *property, const char *text, void *arg)
{
	soak_problem(arg, property, "%s", text);
}

static void print_config(const struct soak_config *c, unsigned round)
{
	printf("round %u: %u processes x %u threads, %u keys (%u hot), %u locks, %u requests, %u owners%s%s%s%s\n",
	       round, c->workers, c->threads, c->keys, c->hot, c->locks, c->requests, c->owners,
	       c->roomy ? ", roomy" : "", c->patient ? ", patient" : "", c->recreate ? ", removed and made anew" : "",
	       c->gentle ? ", gentle" : "");
}

/* Ends of waits of loops. */
static void print_loops(const struct history_summary *s)
{
	printf("loops: %" PRIu64 " waits, %" PRIu64 " outcomes, %" PRIu64 " cancelled waiting, %" PRIu64 " granted, %" PRIu64
	       " closed, %" PRIu64 " seen to wait again",
	       s->loop_waits, s->loop_outcomes, s->loop_cancels[0], s->loop_cancels[1], s->loop_closed, s->went_back);
}

static void print_round(const struct soak_driver *d, const struct history_summary *s)
{
	printf("  %u kills (%u while stopped), %u stops, %u ends, %u holds ended, %" PRIu64 " marks acknowledged, %u removals, %u verifies, %u sweeps\n",
	       d->kills, d->kills_stopped, d->stops, d->ends, d->operated, d->cleared, d->removals, d->verifies, d->sweeps);
	printf("  %" PRIu64 " records, %" PRIu64 " acquires: %" PRIu64 " granted, %" PRIu64 " failed, %" PRIu64
	       " cut off, %" PRIu64 " slept\n",
	       s->records, s->acquires, s->granted, s->failed, s->in_flight, s->waited);
	printf("  reported %" PRIu64 " deaths and %" PRIu64 " expiries (%" PRIu64
	       " deaths certain); longest wait past its turn"
	       " %.1f ms; calm waits %" PRIu64 ", late %" PRIu64 "; violations %d\n",
	       s->deaths_reported, s->expiries_reported, s->deaths_certain, (double)s->worst_wait_ns / 1e6, s->calm_waits,
	       s->calm_late, d->problems);
	printf("  ");
	print_loops(s);
	putchar('\n');
	fflush(stdout);
}

static void print_outcomes(const struct history_summary *s)
{
	int op, i;

	for (op = 1; op <= HISTORY_ACK_MARKS; op++) {
		printf("%-12s", history_op_name(op));
		for (i = 0; i < 32; i++)
			if (s->outcomes[op][i])
				printf(" %s %" PRIu64, lockshm_code_name(i - 20), s->outcomes[op][i]);
		putchar('\n');
	}
}

static void add_summary(struct history_summary *to, const struct history_summary *from)
{
	int op, i;

	to->records += from->records;
	to->acquires += from->acquires;
	to->granted += from->granted;
	to->deaths_reported += from->deaths_reported;
	to->expiries_reported += from->expiries_reported;
	to->calm_waits += from->calm_waits;
	to->calm_late += from->calm_late;
	to->loop_waits += from->loop_waits;
	to->loop_outcomes += from->loop_outcomes;
	to->loop_cancels[0] += from->loop_cancels[0];
	to->loop_cancels[1] += from->loop_cancels[1];
	to->loop_closed += from->loop_closed;
	to->went_back += from->went_back;
	for (op = 0; op < HISTORY_OPS; op++)
		for (i = 0; i < 32; i++)
			to->outcomes[op][i] += from->outcomes[op][i];
}

static void keep_history(const struct soak_driver *d, uint64_t seed, unsigned round)
{
	char path[64];

	snprintf(path, sizeof(path), "soak-%" PRIu64 "-%u.history", seed, round);
	if (history_save(&d->history, path) == 0)
		printf("\nThe log of the round is %s.  The names of the violations are those of tests/history/check.h; below each are the\n"
		       "records that prove it.  If their times allow what happened after all, the checker is wrong, else the library.\n"
		       "  tests/soak/soak --print %s   all records: look for the key, the token, the process\n"
		       "  tests/soak/soak --check %s   the checker again, on this log\n",
		       path, path, path);
	printf("  tests/soak/soak 60 %" PRIu64 " %u   the same decisions from that round on; repeat it, beside other load\n",
	       seed, round);
}

/* ---------------------------------------------------------------- all */

static int soak(int64_t seconds, uint64_t seed, unsigned first)
{
	struct soak_driver *d = &driver;
	struct history_summary total = { 0 }, one;
	int64_t begun = history_now(), end = begun + LOCKSHM_SECONDS(seconds);
	uint64_t kills = 0, stops = 0;
	int64_t length = ms(seconds < 60 ? SHORT_MS : ROUND_MS);
	unsigned round;

	printf("soak: %" PRId64 " s, seed %" PRIu64 "\n", seconds, seed);
	for (round = first; history_now() < end; round++) {
		int64_t until = history_now() + length;

		begin_round(d, seed, round);
		print_config(&d->config, round);
		rage(d, until < end ? until : end);
		end_round(d);
		history_check(&d->history, tell, d, &one);
		print_round(d, &one);
		add_summary(&total, &one);
		kills += d->kills;
		stops += d->stops;
		if (d->problems) {
			keep_history(d, seed, round);
			return EXIT_FAILURE;
		}
	}
	print_outcomes(&total);
	printf("soak: %u rounds, %.0f s, seed %" PRIu64 ": %" PRIu64 " operations, %" PRIu64 " grants, %" PRIu64
	       " kills, %" PRIu64 " stops, %" PRIu64 " deaths and %" PRIu64
	       " expiries reported; late in calm times %" PRIu64 " of %" PRIu64 "; ",
	       round - first, (double)(history_now() - begun) / 1e9, seed, total.records, total.granted, kills, stops,
	       total.deaths_reported, total.expiries_reported, total.calm_late, total.calm_waits);
	print_loops(&total);
	puts("; no violation");
	return EXIT_SUCCESS;
}

static int read_file(const char *how, const char *path)
{
	struct history_summary summary;
	int n, fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || history_open(&driver.history, fd) != 0) {
		fprintf(stderr, "soak: %s: no history\n", path);
		return 99;
	}
	if (strcmp(how, "print") == 0) {
		history_print(&driver.history);
		return EXIT_SUCCESS;
	}
	n = history_check(&driver.history, tell, &driver, &summary);
	print_round(&driver, &summary);
	print_outcomes(&summary);
	return n ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void find_program(struct soak_driver *d)
{
	ssize_t n = readlink("/proc/self/exe", d->program, sizeof(d->program) - sizeof("-worker"));

	if (n <= 0)
		exit(99);
	d->program[n] = '\0';
	strcat(d->program, "-worker");
}

static void remove_segment(void)
{
	lockshm_destroy(driver.name, NULL);
}

int main(int argc, char **argv)
{
	int64_t seconds = argc > 1 ? strtoll(argv[1], NULL, 10) : 8;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 8;
	unsigned first = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;

	if (argc == 3 && strncmp(argv[1], "--", 2) == 0)
		return read_file(argv[1] + 2, argv[2]);
	if (argc > 4 || seconds <= 0) {
		fputs("usage: soak [SECONDS [SEED [ROUND]]] | soak --check FILE | soak --print FILE\n", stderr);
		return 99;
	}
	if (seed == 0)
		seed = (uint64_t)history_now();
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	find_program(&driver);
	snprintf(driver.name, sizeof(driver.name), "/lockshm-soak-%d", (int)getpid());
	if (history_create(&driver.history, BLOCKS) != 0) {
		perror("soak: history");
		return 99;
	}
	atexit(remove_segment);
	return soak(seconds, seed, first);
}
