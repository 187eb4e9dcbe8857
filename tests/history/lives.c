/* SPDX-License-Identifier: MIT */
/* lives.c - deaths, stops, and times when no process ran; see history/model.h */
#include "model.h"

#include <stdlib.h>

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---------------------------------------------------------------- environment */

static void add_record(struct record_list *l, const struct history_record *r)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->list = model_must(realloc(l->list, l->cap * sizeof(*l->list)));
	}
	l->list[l->n++] = r;
}

static void add_interval(struct intervals *l, struct interval i)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->list = model_must(realloc(l->list, l->cap * sizeof(*l->list)));
	}
	l->list[l->n++] = i;
}

static int64_t overlap(const struct interval *i, int64_t from, int64_t to)
{
	int64_t a = i->from > from ? i->from : from, b = earlier(i->to, to);

	return b > a ? b - a : 0;
}

int64_t model_stopped(const struct model *m, uint32_t process, int64_t from, int64_t to)
{
	int64_t sum = 0;
	uint32_t i;

	for (i = 0; i < m->stops.n; i++)
		if (m->stops.list[i].process == process)
			sum += overlap(&m->stops.list[i], from, to);
	return sum;
}

int64_t model_starved(const struct model *m, int64_t from, int64_t to)
{
	int64_t sum = 0;
	uint32_t i;

	for (i = 0; i < m->starved.n; i++)
		sum += overlap(&m->starved.list[i], from, to);
	return sum;
}

bool model_is_calm(const struct model *m, int64_t from, int64_t to, int64_t heal)
{
	uint32_t i;

	for (i = 0; i < m->calm.n; i++)
		if (m->calm.list[i].from + heal <= from && to <= m->calm.list[i].to)
			return true;
	return false;
}

/* ---------------------------------------------------------------- deaths */

static void soonest(struct bounds *b, int64_t lo, int64_t hi)
{
	b->lo = earlier(b->lo, lo);
	b->hi = earlier(b->hi, hi);
}

/* The stop that is still open, if any. */
static void end_stop(struct model *m, const struct history_record *r)
{
	uint32_t i;

	for (i = m->stops.n; i-- > 0;)
		if (m->stops.list[i].process == r->subject && m->stops.list[i].to == NEVER) {
			m->stops.list[i].to = r->leave ? r->leave : NEVER;
			return;
		}
}

static void note_life(struct model *m, const struct history_record *r)
{
	int64_t leave = r->leave ? r->leave : NEVER;

	switch (r->op) {
	case HISTORY_KILL:
		soonest(&m->process_death[r->subject], r->enter, NEVER);
		break;
	case HISTORY_EXIT:
		soonest(&m->process_death[model_process(m, r)], r->enter, NEVER);
		break;
	case HISTORY_REAP:
		if (r->subject)
			soonest(&m->process_death[r->subject], NEVER, leave);
		else
			add_record(&m->reaps, r);
		break;
	case HISTORY_THREAD_END:
		soonest(&m->track_death[r->track], r->enter, NEVER);
		break;
	case HISTORY_JOIN:
		soonest(&m->track_death[r->subject], NEVER, leave);
		break;
	default:
		break;
	}
}

static void note_environment(struct model *m, const struct history_record *r)
{
	switch (r->op) {
	case HISTORY_STOP:
		add_interval(&m->stops, (struct interval){ r->enter, NEVER, r->subject });
		break;
	case HISTORY_CONTINUE:
		end_stop(m, r);
		break;
	case HISTORY_STARVED:
		add_interval(&m->starved, (struct interval){ r->enter, r->leave, 0 });
		break;
	case HISTORY_CALM:
		add_interval(&m->calm, (struct interval){ r->enter, r->leave, 0 });
		break;
	case HISTORY_CLOSE:
		add_record(&m->closes, r);
		break;
	case HISTORY_END_HOLD:
		add_record(&m->end_holds, r);
		break;
	case HISTORY_ACK_MARKS:
		add_record(&m->ack_marks, r);
		break;
	case HISTORY_CANCEL:
		add_record(&m->cancels, r);
		break;
	case HISTORY_NEXT:
		add_record(&m->nexts, r);
		break;
	case HISTORY_WITHDRAW:
		add_record(&m->withdrawals, r);
		/* One that never came back may have been a cancel. */
		if (!r->leave || r->outcome >= 0)
			add_record(&m->cancels, r);
		break;
	case HISTORY_SEEN:
		add_record(&m->seen, r);
		break;
	case HISTORY_DESTROY:
		add_record(&m->destroys, r);
		break;
	case HISTORY_EXEC:
		add_record(&m->execs, r);
		break;
	default:
		break;
	}
}

/* A process that the driver reaped without knowing its number: the last one to have had that pid. */
static void find_reaped(struct model *m, const struct history_record *r)
{
	uint32_t i, best = 0;
	int64_t started = -1;

	for (i = 0; i < m->n_tracks; i++) {
		const struct history_track *track = &m->h->header->tracks[i];

		if (track->pid == (int32_t)r->other && track->start <= r->leave && track->start > started &&
		    m->process_death[track->process].hi == NEVER) {
			started = track->start;
			best = track->process;
		}
	}
	if (best)
		soonest(&m->process_death[best], NEVER, r->leave);
}

static bool same_process(const struct history_track *a, const struct history_track *b)
{
	return a->process == b->process;
}

/* An exec that did not come back ends that image; the first track of the next one proves it. */
static void end_images(struct model *m)
{
	const struct history_track *tracks = m->h->header->tracks;
	uint32_t i, k;

	for (i = 0; i < m->n_records; i++) {
		const struct history_record *r = model_record(m, i);

		if (!r || r->op != HISTORY_EXEC || r->leave)
			continue;
		m->track_execs[r->track] = tracks[r->track].tid != tracks[r->track].pid;
		for (k = 0; k < m->n_tracks; k++)
			if (same_process(&tracks[k], &tracks[r->track]) && tracks[k].image == tracks[r->track].image)
				soonest(&m->image_death[k], r->enter, NEVER);
	}
	for (i = 0; i < m->n_tracks; i++) {
		if (tracks[i].image == 0)
			continue;
		for (k = 0; k < m->n_tracks; k++)
			if (same_process(&tracks[k], &tracks[i]) && tracks[k].image < tracks[i].image)
				soonest(&m->image_death[k], NEVER, tracks[i].start);
	}
}

static void bound_death(struct bounds *death, const struct bounds *outer)
{
	soonest(death, outer->lo, outer->hi);
	/* Gone for a reason that was not logged. */
	if (death->hi != NEVER)
		death->lo = earlier(death->lo, death->hi);
}

/* A forked child dies with the thread that made it.  A parent's track is older than its child's. */
static void pass_on_deaths(struct model *m)
{
	uint32_t i;

	for (i = 0; i < m->n_tracks; i++) {
		const struct history_track *track = &m->h->header->tracks[i];
		struct bounds *death = &m->process_death[track->process];

		if (track->parent != HISTORY_NO_TRACK)
			soonest(death, m->track_death[track->parent].lo, NEVER);
		bound_death(&m->image_death[i], death);
		bound_death(&m->track_death[i], &m->image_death[i]);
	}
}

static void fill_never(struct bounds *b, uint32_t n)
{
	while (n-- > 0)
		b[n] = (struct bounds){ NEVER, NEVER };
}

void model_build_lives(struct model *m)
{
	uint32_t i;

	fill_never(m->track_death, m->n_tracks);
	fill_never(m->image_death, m->n_tracks);
	fill_never(m->process_death, m->n_processes);
	for (i = 0; i < m->n_records; i++) {
		const struct history_record *r = model_record(m, i);

		if (!r)
			continue;
		note_life(m, r);
		note_environment(m, r);
	}
	for (i = 0; i < m->reaps.n; i++)
		find_reaped(m, m->reaps.list[i]);
	end_images(m);
	pass_on_deaths(m);
}
