/* SPDX-License-Identifier: MIT */
/* builder.c - see history/builder.h */
#include "builder.h"

#include <string.h>

struct history h;
struct history_writer writers[16];
static char found[512]; /* names of the properties, each once */
struct history_summary summary;

static int64_t ms(double t)
{
	return (int64_t)(t * 1e6) + LOCKSHM_SECONDS(1000);
}

void begin(void)
{
	ck_assert_int_eq(history_create(&h, 256), 0);
	ck_assert_int_eq(history_realm(&h, BASE), 0);
}

uint32_t track_of(uint32_t process, uint32_t parent)
{
	struct history_writer w;
	struct history_track *l;

	history_track_begin(&w, &h, process, 0, parent);
	l = &h.header->tracks[w.track];
	l->pid = 1000 + (int32_t)process;
	l->tid = 2000 + (int32_t)w.track;
	l->start = ms(0);
	writers[w.track] = w;
	return w.track;
}

uint32_t track(void)
{
	return track_of(history_new_process(&h), HISTORY_NO_TRACK);
}

struct history_record *add(uint32_t l, enum history_op op, double enter, double leave, int outcome)
{
	struct history_record *r = history_new(&writers[l]);

	r->enter = ms(enter);
	r->leave = leave < 0 ? 0 : ms(leave);
	r->outcome = (int16_t)outcome;
	r->op = (uint8_t)op;
	return r;
}

/* Waits without end.  The token is BASE + @ticket. */
struct history_record *acquire(uint32_t l, uint32_t key, int mode, double ttl, double enter, double leave,
			       unsigned ticket)
{
	struct history_record *r = add(l, HISTORY_ACQUIRE, enter, leave, 0);

	r->key = key;
	r->mode = (uint8_t)mode;
	r->ns = ttl == STRICT ? LOCKSHM_FOREVER : (int64_t)(ttl * 1e6);
	r->deadline = INT64_MAX;
	r->token = ticket ? BASE + ticket : 0;
	r->flags = HISTORY_ROBUST;
	return r;
}

struct history_record *plain(struct history_record *r)
{
	r->flags &= ~HISTORY_ROBUST;
	return r;
}

struct history_record *failed(struct history_record *r, int code, double deadline)
{
	r->outcome = (int16_t)code;
	r->token = 0;
	r->deadline = ms(deadline);
	return r;
}

struct history_record *try(struct history_record *r, int code)
{
	r->flags |= HISTORY_TRY;
	r->outcome = (int16_t)code;
	return r;
}

struct history_record *on(const struct history_record *hold, enum history_op op, double enter, double leave,
			  int outcome)
{
	struct history_record *r = add(hold->track, op, enter, leave, outcome);

	r->subject = history_number(&h, hold);
	r->key = hold->key;
	r->realm = hold->realm;
	return r;
}

void release(const struct history_record *hold, double enter, double leave)
{
	on(hold, HISTORY_RELEASE, enter, leave, LOCKSHM_OK);
}

/* Reports the bad end of @of. */
struct history_record *reporting(struct history_record *r, int status, const struct history_record *of)
{
	const struct history_track *l = &h.header->tracks[of->track];

	r->outcome = (int16_t)(r->op == HISTORY_ACQUIRE && r->flags & HISTORY_ROBUST ? status : 0);
	r->previous_status = (uint8_t)status;
	r->previous_pid = l->pid;
	r->previous_tid = l->tid;
	r->previous_track = of->track;
	r->previous_token = of->token;
	return r;
}

uint32_t process_of(uint32_t l)
{
	return h.header->tracks[l].process;
}

void killed(uint32_t driver, uint32_t victim, double when)
{
	add(driver, HISTORY_KILL, when, when + 0.01, 0)->subject = process_of(victim);
	add(driver, HISTORY_REAP, when + 1, when + 1.01, 0)->subject = process_of(victim);
}

void seen(uint32_t driver, const struct history_record *w, unsigned ticket)
{
	struct history_record *s = add(driver, HISTORY_SEEN, 3, 4, 0);

	s->subject = history_number(&h, w);
	s->token = BASE + ticket;
	s->key = w->key;
}

static void note(const char *property, const char *text, void *arg)
{
	(void)arg;
	(void)text;
	if (strstr(found, property))
		return;
	if (*found)
		strcat(found, " ");
	strcat(found, property);
}

/* The checker finds exactly these, in its order. */
void finds(const char *properties)
{
	found[0] = '\0';
	history_check(&h, note, NULL, &summary);
	ck_assert_str_eq(found, properties);
	history_close(&h);
}
