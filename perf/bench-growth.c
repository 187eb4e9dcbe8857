/* SPDX-License-Identifier: MIT */
/*
 * bench-growth.c - how costs grow: what --growth runs, and the exponents of its figures
 *
 * The cost of a scenario at n of something, over points from few to many, is taken as a power of n.  Printed are the
 * exponent of the straight line through the logarithms, and the largest one between two neighbouring points: 0 is flat,
 * 1 in proportion to n.  Points within the first factor of ten show constant parts, so the largest one says more.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define POINTS_MAX 16

static const struct growth {
	const char *text;
	const struct scenario *scenario;
	enum metric metric;
	double factor; /* of the figure: to the unit */
} growths[] = {
	{ "keys held by others: a pair of one key, ns", &scenario_held_many, NS, 1 },
	{ "readers: the newest releases and joins, ns", &scenario_readers_newest, NS, 1 },
	{ "readers: the oldest, ns", &scenario_readers_oldest, NS, 1 },
	{ "readers: any one, ns", &scenario_readers_churn, NS, 1 },
	{ "readers of 100 processes: the newest, ns", &scenario_spread_newest, NS, 1 },
	{ "readers of 100 processes: the oldest, ns", &scenario_spread_oldest, NS, 1 },
	{ "readers of 100 processes: any one, ns", &scenario_spread_churn, NS, 1 },
	{ "readers: an exclusive try, ns", &scenario_try_readers, NS, 1 },
	{ "waiters: one hand-over, ns", &scenario_scale_procs, NS, 1 },
	{ "waiting readers: the writer's release, us", &scenario_wake_readers, US_CALL, 1 },
	{ "waiting readers: each runs, ns", &scenario_wake_readers, NS, 1 },
	{ "processes that want one key: an acquire, ns", &scenario_contended, OPS_PER_S, 1e9 },
	{ "live holders: open and close, us", &scenario_live_open, US_P50, 1 },
	{ "dead holders: the next open, us", &scenario_dead_open, US_P50, 1 },
	{ "dead holders, large table: the next open, us", &scenario_dead_open_large, US_P50, 1 },
	{ "dead waiters: the next acquire, us", &scenario_dead_waiters, US_P50, 1 },
};

#define GROWTHS (sizeof(growths) / sizeof(growths[0]))

bool growth_has(const struct scenario *s)
{
	for (size_t i = 0; i < GROWTHS; i++)
		if (growths[i].scenario == s)
			return true;
	return false;
}

struct curve {
	int points;
	double n[POINTS_MAX], cost[POINTS_MAX];
};

static void read_curve(const struct growth *g, const char *lock, struct curve *c)
{
	const int *procs = g->scenario->procs[bench_effort];
	double value;

	c->points = 0;
	for (int i = 0; procs[i]; i++) {
		if (!result_median(g->scenario->name, lock, BENCH_EXCLUSIVE, procs[i], g->metric, &value) || value <= 0)
			continue;
		c->n[c->points] = procs[i];
		c->cost[c->points++] = g->metric == OPS_PER_S ? g->factor / value : g->factor * value;
	}
}

static double between(const struct curve *c, int i, int j)
{
	return log(c->cost[j] / c->cost[i]) / log(c->n[j] / c->n[i]);
}

/* The slope of the straight line with the least squares of the logarithms. */
static double slope(const struct curve *c)
{
	double x = 0, y = 0, xx = 0, xy = 0;

	for (int i = 0; i < c->points; i++) {
		x += log(c->n[i]);
		y += log(c->cost[i]);
		xx += log(c->n[i]) * log(c->n[i]);
		xy += log(c->n[i]) * log(c->cost[i]);
	}
	return (c->points * xy - x * y) / (c->points * xx - x * x);
}

static void print_curve(const char *text, const char *lock, const struct curve *c)
{
	double most = between(c, 0, 1);

	for (int i = 1; i + 1 < c->points; i++)
		most = between(c, i, i + 1) > most ? between(c, i, i + 1) : most;
	printf("%-46s %-15s %6.2f %6.2f ", text, lock, slope(c), most);
	for (int i = 0; i < c->points; i++)
		printf(" %.0f: %.4g", c->n[i], c->cost[i]);
	printf("\n");
}

void growth_print(void)
{
	struct curve c;

	printf("\n== growth: exponents of cost over n: of all points, the largest between two; n: cost\n");
	for (size_t g = 0; g < GROWTHS; g++) {
		for (size_t i = 0; bench_locks[i].name; i++) {
			read_curve(&growths[g], bench_locks[i].name, &c);
			if (c.points > 1)
				print_curve(growths[g].text, bench_locks[i].name, &c);
		}
	}
}
