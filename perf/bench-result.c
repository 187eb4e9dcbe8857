/* SPDX-License-Identifier: MIT */
/*
 * bench-result.c - results: collected over the rounds, printed for humans or for programs
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct result {
	struct point point;
	const char *lock;
	struct series series[METRICS];
	int tries, never;
};

static const struct {
	const char *name, *unit;
} metrics[METRICS] = {
	[NS] = { "ns", "ns" },	       [OPS_PER_S] = { "ops_per_s", "1/s" }, [JAIN] = { "jain", "1" },
	[US_P50] = { "us_p50", "us" }, [US_P99] = { "us_p99", "us" },	     [US_P999] = { "us_p999", "us" },
	[US_MAX] = { "us_max", "us" }, [BYTES] = { "bytes", "bytes" },	     [COMMANDS] = { "commands", "1" },
	[SHARE] = { "share", "1" },    [US_CALL] = { "us_call", "us" },
};

const char *result_metric_name(enum metric metric)
{
	return metrics[metric].name;
}

static struct result *results;
static size_t n_results, room;

static const char *mode_name(enum bench_mode mode)
{
	return mode == BENCH_SHARED ? "shared" : "exclusive";
}

static struct result *find(const char *scenario, const char *lock, enum bench_mode mode, int procs)
{
	for (size_t i = 0; i < n_results; i++) {
		struct result *r = &results[i];

		if (r->point.mode == mode && r->point.procs == procs && !strcmp(r->lock, lock) &&
		    !strcmp(r->point.scenario->name, scenario))
			return r;
	}
	return NULL;
}

static struct result *get(const struct point *point, const char *lock)
{
	struct result *r = find(point->scenario->name, lock, point->mode, point->procs);

	if (r)
		return r;
	if (n_results == room) {
		room = room ? 2 * room : 64;
		results = realloc(results, room * sizeof(*results));
		if (!results)
			bench_fail("realloc");
	}
	r = &results[n_results++];
	memset(r, 0, sizeof(*r));
	r->point = *point;
	r->lock = lock;
	return r;
}

void result_add(const struct point *point, const char *lock, enum metric metric, double value, double others)
{
	struct result *r = get(point, lock);

	r->tries += metric == point->scenario->first;
	series_add(&r->series[metric], value, others);
}

void result_add_hist(const struct point *point, const char *lock, const struct hist *hist, double others)
{
	if (!hist->n)
		return;
	result_add(point, lock, US_P50, hist_ns(hist, 0.5) / 1000, others);
	result_add(point, lock, US_P99, hist_ns(hist, 0.99) / 1000, others);
	result_add(point, lock, US_P999, hist_ns(hist, 0.999) / 1000, others);
	result_add(point, lock, US_MAX, hist_ns(hist, 1.0) / 1000, others);
}

void result_never(const struct point *point, const char *lock)
{
	struct result *r = get(point, lock);

	r->tries++;
	r->never++;
}

bool result_any(const char *scenario)
{
	for (size_t i = 0; i < n_results; i++)
		if (!strcmp(results[i].point.scenario->name, scenario))
			return true;
	return false;
}

bool result_tried(const struct point *point, const char *lock)
{
	return find(point->scenario->name, lock, point->mode, point->procs);
}

bool result_has(const struct point *point, const char *lock, enum metric metric)
{
	const struct result *r = find(point->scenario->name, lock, point->mode, point->procs);

	return r && r->series[metric].n;
}

bool result_median(const char *scenario, const char *lock, enum bench_mode mode, int procs, enum metric metric,
		   double *median)
{
	const struct result *r = find(scenario, lock, mode, procs);

	if (!r || !r->series[metric].n)
		return false;
	*median = series_summary(&r->series[metric]).median;
	return true;
}

static size_t scenario_index(const struct scenario *s)
{
	size_t i = 0;

	while (bench_scenarios[i] && bench_scenarios[i] != s)
		i++;
	return i;
}

static size_t lock_index(const char *name)
{
	size_t i = 0;

	while (bench_locks[i].name && strcmp(bench_locks[i].name, name))
		i++;
	return i;
}

static int compare(size_t a, size_t b)
{
	return (a > b) - (a < b);
}

/* By point and, within one, in the order of the locks. */
static int by_point(const void *a, const void *b)
{
	const struct result *x = a, *y = b;
	int c = compare(scenario_index(x->point.scenario), scenario_index(y->point.scenario));

	c = c ? c : compare(x->point.mode, y->point.mode);
	c = c ? c : compare((size_t)x->point.procs, (size_t)y->point.procs);
	return c ? c : compare(lock_index(x->lock), lock_index(y->lock));
}

static void each(void (*print)(const struct result *, FILE *), FILE *out)
{
	if (n_results)
		qsort(results, n_results, sizeof(*results), by_point);
	for (size_t i = 0; i < n_results; i++)
		print(&results[i], out);
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * For programs: one object a line
 */
static void print_json(const struct result *r, FILE *out)
{
	for (int m = 0; m < METRICS; m++) {
		struct summary s = series_summary(&r->series[m]);
		bool never = r->never && !r->series[m].n && m == (int)r->point.scenario->first;

		if (!s.used && !never)
			continue;
		fprintf(out,
			"{\"scenario\":\"%s\",\"lock\":\"%s\",\"mode\":\"%s\",\"procs\":%d,\"metric\":\"%s\",\"unit\":\"%s\",",
			r->point.scenario->name, r->lock, mode_name(r->point.mode), r->point.procs, metrics[m].name,
			metrics[m].unit);
		if (never)
			fprintf(out, "\"min\":null,\"median\":null,\"max\":null}\n");
		else
			fprintf(out, "\"min\":%.9g,\"median\":%.9g,\"max\":%.9g}\n", s.min, s.median, s.max);
	}
}

void result_print_json(FILE *out)
{
	each(print_json, out);
}

static const struct scenario *scenario_of(const char *name)
{
	size_t i = 0;

	while (bench_scenarios[i] && strcmp(bench_scenarios[i]->name, name))
		i++;
	return bench_scenarios[i];
}

static bool read_median(const char *line)
{
	char scenario[32], lock[32], mode[16], metric[16];
	struct point p = { 0 };
	double median;
	int m;

	if (sscanf(line,
		   "{\"scenario\":\"%31[^\"]\",\"lock\":\"%31[^\"]\",\"mode\":\"%15[^\"]\",\"procs\":%d,"
		   "\"metric\":\"%15[^\"]\",\"unit\":\"%*[^\"]\",\"min\":%*[^,],\"median\":%lf",
		   scenario, lock, mode, &p.procs, metric, &median) != 6)
		return false;
	p.scenario = scenario_of(scenario);
	p.mode = strcmp(mode, mode_name(BENCH_SHARED)) ? BENCH_EXCLUSIVE : BENCH_SHARED;
	for (m = 0; m < METRICS && strcmp(metric, metrics[m].name); m++)
		;
	if (!p.scenario || m == METRICS)
		return false;
	series_add(&get(&p, find(scenario, lock, p.mode, p.procs) ? lock : strdup(lock))->series[m], median, 0);
	return true;
}

bool result_read(FILE *in)
{
	char line[512];
	bool any = false;

	while (fgets(line, sizeof(line), in))
		any |= read_median(line);
	return any;
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * For humans: a table for each point
 */
static void cell(FILE *out, const struct result *r, enum metric m, int width, int decimals)
{
	if (r->series[m].n)
		fprintf(out, " %*.*f", width, decimals, series_summary(&r->series[m]).median);
	else
		fprintf(out, " %*s", width, "-");
}

static int decimals_of(double value)
{
	return value < 10 ? 2 : value < 1000 ? 1 : 0;
}

static void print_columns(FILE *out, enum metric first)
{
	fprintf(out, "%-22s %12s %12s %12s %9s", "lock", metrics[first].name, "min", "max", "lockshm/it");
	if (first == OPS_PER_S)
		fprintf(out, " %7s", "jain");
	if (first != BYTES && first != US_P50)
		fprintf(out, " %9s", "us_p50");
	if (first != BYTES)
		fprintf(out, " %9s %9s %10s %7s", "us_p99", "us_p999", "us_max", "others");
	fprintf(out, "\n");
}

static void print_ratio(FILE *out, const struct result *r, double median)
{
	double ours;

	if (result_median(r->point.scenario->name, "lockshm", r->point.mode, r->point.procs, r->point.scenario->first,
			  &ours) &&
	    median > 0)
		fprintf(out, " %10.2f", ours / median);
	else
		fprintf(out, " %10s", "-");
}

static void print_row(FILE *out, const struct result *r)
{
	enum metric first = r->point.scenario->first;
	struct summary s = series_summary(&r->series[first]);
	int d = decimals_of(s.median);

	if (!s.used) {
		fprintf(out, "%-22s %12s  (%d of %d)\n", r->lock, "never", r->never, r->tries);
		return;
	}
	fprintf(out, "%-22s %12.*f %12.*f %12.*f", r->lock, d, s.median, d, s.min, d, s.max);
	print_ratio(out, r, s.median);
	if (first == OPS_PER_S)
		cell(out, r, JAIN, 7, 3);
	if (first != BYTES && first != US_P50)
		cell(out, r, US_P50, 9, 2);
	if (first != BYTES) {
		cell(out, r, US_P99, 9, 2);
		cell(out, r, US_P999, 9, 2);
		cell(out, r, US_MAX, 10, 2);
		fprintf(out, " %6.0f%%", s.others * 100);
	}
	if (r->never)
		fprintf(out, "  never: %d of %d", r->never, r->tries);
	if (r->series[COMMANDS].n)
		fprintf(out, "  %.3g commands each", series_summary(&r->series[COMMANDS]).median);
	if (r->series[SHARE].n)
		fprintf(out, ", hosts 1 : %.2f", series_summary(&r->series[SHARE]).median);
	if (r->series[US_CALL].n)
		fprintf(out, "  the call %.1f us", series_summary(&r->series[US_CALL]).median);
	fprintf(out, "\n");
}

static void print_human(const struct result *r, FILE *out)
{
	static struct point last;

	if (last.scenario != r->point.scenario || last.mode != r->point.mode || last.procs != r->point.procs) {
		last = r->point;
		fprintf(out, "\n== %s, %s, %d %s: %s\n", last.scenario->name, mode_name(last.mode), last.procs,
			last.scenario->many ? last.scenario->many : last.procs == 1 ? "process" : "processes",
			last.scenario->what);
		print_columns(out, last.scenario->first);
	}
	print_row(out, r);
}

void result_print_table(void)
{
	each(print_human, stdout);
}
