/* SPDX-License-Identifier: MIT */
/* global-internal.h - what the parts of the checker of global keys share */
#ifndef LOCKSHM_TEST_HISTORY_GLOBAL_INSIDE_H
#define LOCKSHM_TEST_HISTORY_GLOBAL_INSIDE_H

#include "global.h"

/* One hold in one mode, as far as its holder knows: a change of mode begins another. */
struct good {
	const struct history_record *acquire;
	int64_t asked; /* when its acquire was called */
	uint64_t token;
	bool exclusive;
	int64_t start, end; /* end: it was good until here, and may have been longer */
	int64_t said; /* the last time a call returned so */
	int64_t known; /* the end that a call returned last; 0 = none yet */
	const struct history_record *lost;
	bool over; /* given up, lost, killed */
	bool killed; /* before its release */
	bool midway; /* in a call that may have ended it, or begun another one */
	bool unsure;
};

struct global {
	const struct history *h;
	const struct global_terms *terms;
	history_problem_fn fn;
	void *arg;
	struct global_summary *summary;
	int64_t origin, last;
	uint32_t n_records;
	uint32_t *good_of; /* for each record of an acquire; NO_HOLD = not granted */
	struct good *goods;
	uint32_t n;
	const struct history_record **faults, **kills, **disturbed; /* the last: starved and stopped */
	uint32_t n_faults, n_kills, n_disturbed;
	int problems;
};

/* A violation, with up to two records that show it. */
void global_found(struct global *c, const char *property, const struct history_record *a,
		  const struct history_record *b, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* history/global-holds.c: the records and the holds they show. */
const struct history_record *global_record(const struct global *c, uint32_t i); /* NULL = unused */
uint32_t global_process_of(const struct global *c, const struct history_record *r);
bool global_is_on_hold(const struct history_record *r);
void global_read(struct global *c);
/* By a kill, if there was one. */
void global_end_killed(struct global *c, struct good *g);
/* A lock that Redis forgot may be granted again; its holder learns of that by the end of its lease at the latest. */
void global_cut(struct global *c, struct good *g);
/* Between the two times: did Redis forget; was there any fault, of Redis, the network, a bridge or the machine? */
bool global_forgot(const struct global *c, int64_t from, int64_t to);
bool global_failed(const struct global *c, int64_t from, int64_t to);

/* history/global-damage.c */
void global_check_damage(struct global *c, const struct good *goods, uint32_t n);

#endif
