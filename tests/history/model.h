/* SPDX-License-Identifier: MIT */
/*
 * model.h - what a history proves: for every hold, when it certainly was held and when it certainly was over
 *
 * Nothing is guessed.  "lo" is the earliest time at which something can have happened and "hi" the latest; what cannot
 * be bounded is 0 or NEVER.  The checks of history/check.c compare bounds so that every violation they name is one
 * for any order of events that fits the times.
 */
#ifndef LOCKSHM_TEST_HISTORY_MODEL_H
#define LOCKSHM_TEST_HISTORY_MODEL_H

#include "history.h"
#include "lockshm.h"

#define NEVER INT64_MAX
#define NO_HOLD UINT32_MAX
/* Two processors' clocks may differ by this. */
#define SKEW 2000
/* A lease may end this much after its time: a tick of the coarse clock, with room. */
#define LEASE_SLACK LOCKSHM_MS(20)
/* A grant that a loop has not collected lasts for its lease or this, whichever is less. */
#define UNCOLLECTED LOCKSHM_SECONDS(1)

struct bounds {
	int64_t lo, hi; /* NEVER, NEVER = it did not happen */
};

struct hold {
	const struct history_record *acquire;
	const struct history_record **ops; /* on it, in order */
	uint32_t n_ops;
	uint32_t track; /* the thread it depends on in the end, HISTORY_NO_TRACK = the process */
	bool moved;
	bool unsure_life; /* a move was under way at the end */
	uint64_t token; /* the last one known */
	int64_t start; /* held from here on */
	int64_t kept; /* held at this time, by the result of a later call; 0 = no such call */
	struct bounds deadline;
	int64_t given_up; /* release was begun */
	bool released; /* and came back with OK or LATE */
	const struct history_record *lost; /* first call that returned LOST */
	struct bounds cooled; /* end of the cooldown */
	struct bounds ended; /* by an operator */
	struct bounds death; /* of the life it depended on, if that still mattered */
	int64_t end; /* certainly held until here, cooldown included */
	int64_t gone; /* certainly over from here on */
	bool exclusive; /* last known mode */
	bool ever_exclusive; /* may have been, at some time */
	bool maybe_exclusive; /* may be now, or at its end */
	int64_t exclusive_from; /* of the span that is open; 0 = shared */
};

/* A time during which a hold certainly had a mode; a shared span also lies under every exclusive one. */
struct span {
	int64_t from, to;
	uint64_t token;
	uint32_t hold;
	bool exclusive;
};

/* A call that requests a key, from its start until no trace of it can be left. */
struct attempt {
	const struct history_record *acquire;
	uint32_t hold; /* NO_HOLD = not granted, or not known */
	uint64_t token; /* 0 = not known */
	int64_t queued; /* it had its token by then; NEVER = not known */
	int64_t lo, hi;
	bool exclusive; /* possibly */
	bool leaves_trace; /* not a try that failed */
	bool asked_again; /* it had several tokens */
	uint64_t first_token; /* of a loop: seen before any grant of it can have ended; 0 = it was not */
	bool may_requeue; /* of a loop: a grant of it may have ended before it was collected */
};

/* One key of one realm. */
struct key {
	uint32_t key;
	uint16_t realm;
	struct attempt *attempts; /* by enter */
	uint32_t n_attempts;
	int64_t *busy_until[2]; /* highest hi of the attempts up to this one: [0] all, [1] exclusive ones */
};

struct interval {
	int64_t from, to;
	uint32_t process;
};

struct intervals {
	struct interval *list;
	uint32_t n, cap;
};

/* Records of one kind that are looked up by a number of theirs. */
struct record_list {
	const struct history_record **list;
	uint32_t n, cap;
};

struct token {
	uint64_t token;
	uint32_t key;
	uint16_t realm;
	uint32_t hold;
};

struct model {
	const struct history *h;
	uint32_t n_records; /* places, also empty ones */
	uint32_t n_tracks;
	struct bounds *track_death;
	struct bounds *image_death; /* of the image a track belongs to */
	bool *track_execs; /* it did, and was not the main thread: the kernel does not flag its life */
	uint32_t n_processes;
	struct bounds *process_death;
	struct intervals stops, starved, calm;
	struct record_list closes, end_holds, ack_marks, cancels, seen, reaps, destroys, execs, nexts, withdrawals;
	struct hold *holds;
	uint32_t n_holds;
	uint32_t *hold_of; /* for each record of an acquire: its hold, or NO_HOLD */
	const struct history_record **ops;
	struct token *tokens; /* by token */
	uint32_t n_tokens;
	struct span *spans;
	uint32_t n_spans, cap_spans;
	struct attempt *attempts;
	uint32_t n_attempts;
	struct key *keys;
	uint32_t n_keys;
};

void model_build(struct model *m, const struct history *h);
void model_free(struct model *m);

/* The record if it was written, else NULL. */
const struct history_record *model_record(const struct model *m, uint32_t number);
/* The hold a record other than an acquire is about, or NULL. */
struct hold *model_hold(const struct model *m, uint32_t acquire);
/* It waited for a loop. */
static inline bool is_loop_wait(const struct history_record *r)
{
	return r->flags & HISTORY_LOOP && r->pending;
}
/* Of a loop: may a grant of it have ended before it was collected, so that it went to the end of the queue? */
bool model_grant_may_have_ended(const struct model *m, const struct history_record *r);
/* For how long the process was or may have been stopped, and for how long no process ran, between the two times. */
int64_t model_stopped(const struct model *m, uint32_t process, int64_t from, int64_t to);
int64_t model_starved(const struct model *m, int64_t from, int64_t to);
/* Does the whole time lie in one calm phase, @heal after it began? */
bool model_is_calm(const struct model *m, int64_t from, int64_t to, int64_t heal);
uint32_t model_process(const struct model *m, const struct history_record *r);

/* Memory, or the end of the program. */
void *model_room(size_t n, size_t size);
void *model_must(void *p);

/* history/lives.c */
void model_build_lives(struct model *m);

/* history/holds.c */

/* Tokens first, since an operator names holds by them; then what the operations prove. */
void model_build_tokens(struct model *m);
void model_evaluate_hold(struct model *m, struct hold *hold);
/* The hold of that key which had that token at some time, or NULL. */
struct hold *model_find_token(const struct model *m, uint16_t realm, uint32_t key, uint64_t token);

/* For looking at a hold step by step: what was known when it was granted, and after one more operation. */
void hold_begin(const struct model *m, struct hold *state, const struct hold *hold);
void hold_step(struct hold *state, const struct history_record *op);

#endif
