/* SPDX-License-Identifier: MIT */
/*
 * bench-stat.c - figures over rounds, histograms of waits, and the processor time of other processes
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Above this part of one processor a round counts as disturbed. */
#define QUIET 0.20
#define ROUNDS_NEEDED 3

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median_of(double *v, size_t n)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void series_add(struct series *s, double value, double others)
{
	if (s->n == BENCH_ROUNDS_MAX)
		return;
	s->value[s->n] = value;
	s->others[s->n++] = others;
}

struct summary series_summary(const struct series *s)
{
	struct summary sum = { 0 };
	double value[BENCH_ROUNDS_MAX], others[BENCH_ROUNDS_MAX];
	int quiet = 0;

	for (int i = 0; i < s->n; i++)
		quiet += s->others[i] <= QUIET;
	for (int i = 0; i < s->n; i++) {
		if (quiet >= ROUNDS_NEEDED && s->others[i] > QUIET)
			continue;
		value[sum.used] = s->value[i];
		others[sum.used++] = s->others[i];
	}
	if (!sum.used)
		return sum;
	sum.median = median_of(value, (size_t)sum.used);
	sum.others = median_of(others, (size_t)sum.used);
	sum.min = value[0];
	sum.max = value[sum.used - 1];
	return sum;
}

/* Below HIST_STEPS each value has a bucket; above, the five bits after the leading one select it. */
static unsigned bucket_of(uint64_t v)
{
	unsigned shift;

	if (v < HIST_STEPS)
		return (unsigned)v;
	shift = 63 - 5 - (unsigned)__builtin_clzll(v);
	return (shift + 1) * HIST_STEPS + (unsigned)(v >> shift & (HIST_STEPS - 1));
}

static double bucket_middle(unsigned b)
{
	unsigned shift;

	if (b < HIST_STEPS)
		return b;
	shift = b / HIST_STEPS - 1;
	return ((double)(HIST_STEPS + b % HIST_STEPS) + 0.5) * (double)(UINT64_C(1) << shift);
}

void hist_add(struct hist *h, uint64_t ticks)
{
	h->count[bucket_of(ticks)]++;
	h->n++;
	if (ticks > h->max)
		h->max = ticks;
}

void hist_merge(struct hist *into, const struct hist *from)
{
	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		into->count[i] += from->count[i];
	into->n += from->n;
	if (from->max > into->max)
		into->max = from->max;
}

double hist_ns(const struct hist *h, double quantile)
{
	uint64_t want = (uint64_t)((double)h->n * quantile), seen = 0;
	double ticks = (double)h->max;

	if (quantile < 1.0) {
		for (unsigned i = 0; i < HIST_BUCKETS; i++) {
			seen += h->count[i];
			if (seen > want) {
				ticks = bucket_middle(i);
				break;
			}
		}
	}
	if (ticks > (double)h->max)
		ticks = (double)h->max;
	return ticks * bench_ns_per_tick;
}

/* User, nice, system, irq, softirq and steal time of all processors together. */
static uint64_t busy_us(void)
{
	unsigned long long v[8] = { 0 };
	long hz = sysconf(_SC_CLK_TCK);
	FILE *f = fopen("/proc/stat", "re");

	if (!f)
		return 0;
	if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6],
		   &v[7]) != 8)
		memset(v, 0, sizeof(v));
	fclose(f);
	return (v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) * 1000000 / (unsigned long long)hz;
}

static uint64_t time_us(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000 + (uint64_t)t->tv_usec;
}

static uint64_t own_us(void)
{
	struct rusage self, children;

	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &children);
	return time_us(&self.ru_utime) + time_us(&self.ru_stime) + time_us(&children.ru_utime) +
	       time_us(&children.ru_stime);
}

void neighbours_begin(struct neighbours *n)
{
	n->busy_us = busy_us();
	n->own_us = own_us();
	n->at = bench_ticks();
}

/* The kernel counts in steps of 10 ms: rough for a figure of 40 ms, good over its rounds. */
double neighbours_end(const struct neighbours *n)
{
	double wall = (double)(bench_ticks() - n->at) * bench_ns_per_tick / 1000;
	double others = (double)(busy_us() - n->busy_us) - (double)(own_us() - n->own_us);

	return others > 0 && wall > 0 ? others / wall : 0;
}
