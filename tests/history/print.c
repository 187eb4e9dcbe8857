/* SPDX-License-Identifier: MIT */
/* print.c - records of a history as text, see history.h */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "history.h"
#include "lockshm.h"

static bool is_written(const struct history_record *r)
{
	return __atomic_load_n(&r->op, __ATOMIC_ACQUIRE) != HISTORY_NONE;
}

static uint32_t n_places(const struct history *h)
{
	uint32_t blocks = h->header->next_block < h->header->blocks ? h->header->next_block : h->header->blocks;

	return blocks * HISTORY_BLOCK;
}

int64_t history_origin(const struct history *h)
{
	int64_t origin = INT64_MAX;
	uint32_t i;

	for (i = 0; i < n_places(h); i++)
		if (is_written(&h->records[i]) && h->records[i].enter < origin)
			origin = h->records[i].enter;
	return origin;
}

static void print_time(int64_t origin, char *out, size_t size, int64_t t)
{
	if (t == 0)
		snprintf(out, size, "never");
	else
		snprintf(out, size, "%.6f", (double)(t - origin) / 1e6);
}

size_t history_print_record(const struct history *h, const struct history_record *r, int64_t origin, char *out,
			    size_t size)
{
	const struct history_track *track = &h->header->tracks[r->track];
	char enter[32], leave[32];
	int n;

	print_time(origin, enter, sizeof(enter), r->enter);
	print_time(origin, leave, sizeof(leave), r->leave);
	n = snprintf(
		out, size,
		"#%u track %u process %u (%d/%d) %s realm %u key %u mode %u flags 0x%x [%s, %s] ms -> %s token %" PRIu64
		" ns %" PRId64 " subject %u other %" PRIu64,
		history_number(h, r), r->track, track->process, track->pid, track->tid, history_op_name(r->op), r->realm,
		r->key, r->mode, r->flags, enter, leave, r->leave ? lockshm_code_name(r->outcome) : "?", r->token,
		r->ns, r->subject, r->other);
	if (n > 0 && (size_t)n < size && r->previous_status)
		n += snprintf(out + n, size - (size_t)n, " previous %s token %" PRIu64 " %d/%d track %d",
			      lockshm_code_name(r->previous_status), r->previous_token, r->previous_pid,
			      r->previous_tid, (int)r->previous_track);
	return n > 0 && (size_t)n < size ? (size_t)n : size;
}

static int by_enter(const void *x, const void *y)
{
	const struct history_record *a = *(const struct history_record *const *)x;
	const struct history_record *b = *(const struct history_record *const *)y;

	return a->enter != b->enter ? (a->enter > b->enter) - (a->enter < b->enter) : (a > b) - (a < b);
}

void history_print(const struct history *h)
{
	const struct history_record **list = calloc((size_t)n_places(h) + 1, sizeof(*list));
	int64_t origin = history_origin(h);
	uint32_t i, n = 0;
	char line[1024];

	if (!list)
		exit(99);
	for (i = 0; i < n_places(h); i++)
		if (is_written(&h->records[i]))
			list[n++] = &h->records[i];
	qsort(list, n, sizeof(const struct history_record *), by_enter);
	for (i = 0; i < n; i++) {
		history_print_record(h, list[i], origin, line, sizeof(line));
		puts(line);
	}
	free(list);
}
