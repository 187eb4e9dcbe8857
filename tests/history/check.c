/* SPDX-License-Identifier: MIT */
/* check.c - running all checks and printing the violations, see history/check.h */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t print_below(const struct check *c, const struct history_record *r, char *out, size_t size)
{
	size_t n = (size_t)snprintf(out, size, "\n    ");

	return n < size ? n + history_print_record(c->m.h, r, c->origin, out + n, size - n) : size;
}

void problem(struct check *c, const char *property, const struct history_record *a, const struct history_record *b,
	     const char *format, ...)
{
	char text[2048];
	va_list args;
	size_t n;

	c->problems++;
	va_start(args, format);
	n = (size_t)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (a && n < sizeof(text))
		n += print_below(c, a, text + n, sizeof(text) - n);
	if (b && n < sizeof(text))
		n += print_below(c, b, text + n, sizeof(text) - n);
	if (c->fn)
		c->fn(property, text, c->arg);
}

static void count(struct check *c, const struct history_record *r)
{
	struct history_summary *s = c->summary;
	int at = 20 + r->outcome;

	s->records++;
	if (r->leave && at >= 0 && at < 32)
		s->outcomes[r->op][at]++;
	if (r->op != HISTORY_ACQUIRE)
		return;
	s->acquires++;
	s->waited += r->slept_ns > 0;
	if (!r->leave)
		s->in_flight++;
	else if (r->outcome < 0)
		s->failed++;
	else
		s->granted++;
}

static void count_all(struct check *c)
{
	uint32_t i;

	c->origin = history_origin(c->m.h);
	for (i = 0; i < c->m.n_records; i++) {
		const struct history_record *r = model_record(&c->m, i);

		if (!r)
			continue;
		count(c, r);
	}
}

struct key *find_key(const struct check *c, uint16_t realm, uint32_t key)
{
	uint32_t lo = 0, hi = c->m.n_keys;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		struct key *k = &c->m.keys[mid];

		if (k->realm == realm && k->key == key)
			return k;
		if (k->realm < realm || (k->realm == realm && k->key < key))
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

int history_check(const struct history *h, history_problem_fn fn, void *arg, struct history_summary *summary)
{
	struct history_summary unused;
	struct check c = { .fn = fn, .arg = arg, .summary = summary ? summary : &unused };

	memset(c.summary, 0, sizeof(*c.summary));
	model_build(&c.m, h);
	count_all(&c);
	check_order(&c);
	check_truth(&c);
	check_damage(&c);
	check_waits(&c);
	check_loops(&c);
	model_free(&c.m);
	return c.problems;
}
