/* SPDX-License-Identifier: MIT */
/*
 * lockshm-bench.c - the benchmark: every scenario with every lock, in interleaved rounds
 *
 * The rounds are the outermost loop.  A lock that is not available on this machine is listed with the reason and left
 * out; one that grants two exclusive holders ends the run with status 1.
 */
#include "bench.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct scenario *const bench_scenarios[] = {
	&scenario_solo,
	&scenario_solo_100k,
	&scenario_solo_1m,
	&scenario_held_20k,
	&scenario_held_many,
	&scenario_contended,
	&scenario_mixed_95_5,
	&scenario_mixed_50_50,
	&scenario_readers_newest,
	&scenario_readers_oldest,
	&scenario_readers_churn,
	&scenario_spread_newest,
	&scenario_spread_oldest,
	&scenario_spread_churn,
	&scenario_try_readers,
	&scenario_reading,
	&scenario_handoff,
	&scenario_handoff_spin,
	&scenario_recovery,
	&scenario_recovery_1g,
	&scenario_recovery_waiter,
	&scenario_lease_expiry,
	&scenario_memory,
	&scenario_attach,
	&scenario_live_open,
	&scenario_fresh_open,
	&scenario_dead_open,
	&scenario_fresh_open_large,
	&scenario_dead_open_large,
	&scenario_dead_waiters,
	&scenario_scale_procs,
	&scenario_wake_readers,
	&scenario_loop_solo,
	&scenario_loop_handoff,
	&scenario_loop_pass,
	&scenario_loop_crowd,
	&scenario_bridge_solo,
	&scenario_bridge_solo_tcp,
	&scenario_bridge_solo_far,
	&scenario_bridge_own_200us,
	&scenario_bridge_own_1ms,
	&scenario_bridge_own_three,
	&scenario_bridge_pollers,
	&scenario_bridge_pollers_50ms,
	&scenario_bridge_pollers_400ms,
	&scenario_bridge_pollers_alone,
	&scenario_bridge_pollers_10ms_held,
	&scenario_bridge_pass,
	&scenario_bridge_rival,
	&scenario_bridge_peers,
	&scenario_bridge_handover,
	&scenario_bridge_foreign,
	&scenario_bridge_renew,
	NULL,
};

enum bench_effort bench_effort = BENCH_NORMAL;
static const int default_rounds[BENCH_EFFORTS] = { [BENCH_QUICK] = 1, [BENCH_NORMAL] = 5, [BENCH_FULL] = 11 };
static const char *const effort_names[BENCH_EFFORTS] = { "quick", "normal", "full" };
static const char *only_scenarios, *only_locks;
static bool json, growth;
static FILE *save, *saved;
static int rounds;

static void usage(FILE *out)
{
	fprintf(out,
		"usage: %s [--quick | --full] [--rounds N] [--scenario S[,S...]] [--lock L[,L...]] [--growth] [--json] "
		"[--save FILE]\n"
		"       %s --goals FILE\n"
		"S and L may be patterns like 'solo*'.  --growth runs what has a cost over n, and prints exponents;\n"
		"without --lock, of lockshm and lockshm-object.  --goals runs nothing: it compares what --save wrote into FILE,\n"
		"of a run in pieces all their files, one after the other.\nscenarios:\n",
		bench_program, bench_program);
	for (size_t i = 0; bench_scenarios[i]; i++)
		fprintf(out, "  %-18s %s\n", bench_scenarios[i]->name, bench_scenarios[i]->what);
	fprintf(out, "locks:\n ");
	for (size_t i = 0; bench_locks[i].name; i++)
		fprintf(out, " %s%s", bench_locks[i].name, bench_locks[i].lock ? "" : " (not built in)");
	fprintf(out, "\n");
}

static int number(const char *text, int max)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*end || n < 1 || n > max) {
		fprintf(stderr, "lockshm-bench: not a number from 1 to %d: %s\n", max, text);
		exit(2);
	}
	return (int)n;
}

/* Is the name one of "a,b,c*"? */
static bool chosen(const char *list, const char *name)
{
	char all[1024], *rest = all;

	if (!list)
		return true;
	snprintf(all, sizeof(all), "%s", list);
	for (char *one; (one = strsep(&rest, ","));)
		if (!fnmatch(one, name, 0))
			return true;
	return false;
}

static bool is_run(const struct scenario *s)
{
	return chosen(only_scenarios, s->name) && (!growth || growth_has(s));
}

static void parse(int argc, char **argv)
{
	static const struct option table[] = {
		{ "full", no_argument, NULL, 'f' },
		{ "goals", required_argument, NULL, 'o' },
		{ "growth", no_argument, NULL, 'g' },
		{ "help", no_argument, NULL, 'h' },
		{ "json", no_argument, NULL, 'j' },
		{ "lock", required_argument, NULL, 'l' },
		{ "quick", no_argument, NULL, 'q' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "save", required_argument, NULL, 'w' },
		{ "scenario", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	bench_program = argv[0];
	while ((c = getopt_long(argc, argv, "", table, NULL)) != -1) {
		switch (c) {
		case 'f':
			bench_effort = BENCH_FULL;
			break;
		case 'g':
			growth = true;
			break;
		case 'j':
			json = true;
			break;
		case 'l':
			only_locks = optarg;
			break;
		case 'o':
			saved = fopen(optarg, "re");
			if (!saved)
				bench_fail(optarg);
			break;
		case 'q':
			bench_effort = BENCH_QUICK;
			break;
		case 'r':
			rounds = number(optarg, BENCH_ROUNDS_MAX);
			break;
		case 'w':
			save = fopen(optarg, "we");
			if (!save)
				bench_fail(optarg);
			break;
		case 's':
			only_scenarios = optarg;
			break;
		default:
			usage(c == 'h' ? stdout : stderr);
			exit(c == 'h' ? 0 : 2);
		}
	}
	if (optind < argc) {
		usage(stderr);
		exit(2);
	}
	rounds = rounds ? rounds : default_rounds[bench_effort];
	if (growth && !only_locks)
		only_locks = "lockshm,lockshm-object";
}

/* A name without a meaning is a mistake, not an empty run. */
static void check_names(void)
{
	bool scenario = false, lock = false;

	for (size_t i = 0; bench_scenarios[i]; i++)
		scenario |= is_run(bench_scenarios[i]);
	for (size_t i = 0; bench_locks[i].name; i++)
		lock |= chosen(only_locks, bench_locks[i].name);
	if (scenario && lock)
		return;
	fprintf(stderr, "lockshm-bench: no %s of that name: %s\n", scenario ? "lock" : "scenario",
		scenario ? only_locks : only_scenarios);
	exit(2);
}

/* Comments of the output: between the rows for humans, among the objects for programs. */
static void remark(const char *name, const char *text)
{
	fprintf(json ? stderr : stdout, "# skipped: %s: %s\n", name, text);
}

/* Which locks are available: each is made and destroyed once, which also starts what it needs. */
static void find_locks(bool *have)
{
	const struct bench_need need = { .keys = 1, .procs = 2 };

	for (size_t i = 0; bench_locks[i].name; i++) {
		const struct lock_entry *e = &bench_locks[i];
		char text[128];

		/* "none" only on demand: it must violate exclusion */
		have[i] = chosen(only_locks, e->name) && (only_locks || !e->lock || !(e->lock->can & LOCK_NONE));
		if (!have[i])
			continue;
		if (!e->lock) {
			snprintf(text, sizeof(text), "not built in, needs %s", e->package);
			remark(e->name, text);
			have[i] = false;
		} else if (bench_create(e->lock, &need)) {
			remark(e->name, bench_reason());
			have[i] = false;
		} else {
			bench_destroy(e->lock);
		}
	}
}

static void run_point(const struct point *p, const bool *have)
{
	for (size_t i = 0; bench_locks[i].name; i++)
		if (have[i] && p->scenario->fits(p, bench_locks[i].lock))
			p->scenario->run(p, bench_locks[i].lock);
}

static void run_scenario(const struct scenario *s, const bool *have)
{
	for (int n = 0; s->procs[bench_effort][n]; n++) {
		struct point p = { .scenario = s, .mode = BENCH_EXCLUSIVE, .procs = s->procs[bench_effort][n] };

		run_point(&p, have);
		p.mode = BENCH_SHARED;
		if (s->shared)
			run_point(&p, have);
	}
}

static void print_header(void)
{
	char machine[512];

	bench_machine_line(machine, sizeof(machine));
	fprintf(json ? stderr : stdout, "# lockshm-bench | %s | %s, %d rounds, interleaved, pinned\n", machine,
		effort_names[bench_effort], rounds);
	fflush(stdout);
}

/* All so far: a run may be aborted. */
static void save_results(void)
{
	if (!save)
		return;
	rewind(save);
	if (ftruncate(fileno(save), 0))
		bench_fail("--save");
	result_print_json(save);
	if (fflush(save))
		bench_fail("--save");
}

int main(int argc, char **argv)
{
	bool have[64];

	parse(argc, argv);
	if (saved) {
		errno = 0;
		if (!result_read(saved))
			bench_fail("--goals: the file has no result, as --save writes them");
		goals_print();
		return 0;
	}
	check_names();
	bench_machine_init();
	bench_process_init();
	print_header();
	find_locks(have);
	for (int r = 0; r < rounds; r++) {
		for (size_t i = 0; bench_scenarios[i]; i++) {
			if (!is_run(bench_scenarios[i]))
				continue;
			run_scenario(bench_scenarios[i], have);
			save_results();
		}
	}
	if (json) {
		result_print_json(stdout);
	} else {
		result_print_table();
		if (growth)
			growth_print();
		else
			goals_print();
	}
	return 0;
}
