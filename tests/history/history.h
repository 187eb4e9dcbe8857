/* SPDX-License-Identifier: MIT */
/*
 * history.h - a log of what many processes did with locks, which survives those that are killed
 *
 * One file, mapped by all processes: a header, tracks, records.  Each thread writes a track of its own, in records that
 * it takes in blocks.  A record is written before the operation, with all that is intended, and completed after it; so
 * the last call of a killed thread is known: a record whose `leave` is 0.  Nothing here ever waits.
 *
 * Times are of one clock, history_clock: CLOCK_MONOTONIC unless the writer chooses another one before the first of
 * them.  `enter` is taken before the operation and `leave` after it: the operation took effect in between.  The checker
 * (history/check.h) relies on nothing else.
 *
 * A process has a number of its own, since pids come again; an image is what a process runs from one exec to the next.
 * A realm is one segment: when it is removed and made anew under the same name, another realm begins.
 */
#ifndef LOCKSHM_TEST_HISTORY_H
#define LOCKSHM_TEST_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum history_op {
	HISTORY_NONE,
	/* On a key.  `subject` of all but an acquire and an operator's step is the number of the acquire's record. */
	HISTORY_ACQUIRE, /* mode, ns = ttl, deadline; token, previous_*, slept_ns, run_delay_ns */
	HISTORY_RELEASE, /* ns = cooldown; other = lost_to */
	HISTORY_RENEW, /* ns, mode: 1 = extended */
	HISTORY_CHECK, /* ns = what remains of the lease */
	HISTORY_UPGRADE, /* token */
	HISTORY_DOWNGRADE,
	HISTORY_ACKNOWLEDGE,
	HISTORY_PREVIOUS, /* ns = age of the mark, previous_* */
	HISTORY_MOVE, /* mode = to */
	HISTORY_CANCEL, /* the acquire of another thread */
	HISTORY_END_HOLD, /* operator: token */
	HISTORY_ACK_MARKS, /* operator: key or HISTORY_ANY_KEY, token or 0; other = how many */
	HISTORY_SEEN, /* the acquire was seen waiting with this token */
	/* Lives.  `subject` is a process, or a track for JOIN. */
	HISTORY_KILL,
	HISTORY_STOP,
	HISTORY_CONTINUE,
	HISTORY_REAP, /* subject, or if that is 0 the process that had the pid in `other` */
	HISTORY_JOIN,
	HISTORY_THREAD_END, /* this track ends without releasing */
	HISTORY_EXEC,
	HISTORY_EXIT, /* this process ends without releasing */
	HISTORY_CLOSE, /* this track's part in the realm ends, and the service thread of its process */
	/* Environment. */
	HISTORY_DESTROY, /* the realm's name is removed */
	HISTORY_STARVED, /* no process ran for a while: [enter, leave] */
	HISTORY_CALM, /* no kill, stop or other death: [enter, leave] */
	HISTORY_FAULT, /* of Redis, or of the network path to it: see history/global.h */
	/* Of a loop.  `subject` is the number of the acquire's record, HISTORY_NO_WAIT where there is none. */
	HISTORY_NEXT, /* one outcome, or HISTORY_EMPTY */
	HISTORY_WITHDRAW, /* lockshm_loop_cancel(): 0, 1 or NOT_HELD; or HISTORY_AT_CLOSE */
	HISTORY_OPS
};

#define HISTORY_TRY 0x1u /* acquire: once */
#define HISTORY_MANY 0x2u /* acquire: one of several of one call, group = number of the first */
#define HISTORY_AUTO_RENEW 0x4u
#define HISTORY_ACK_AT_ONCE 0x8u /* acquire: the mark that it reports is acknowledged before `leave` */
#define HISTORY_BOOKED 0x10u /* acquire: LOCKSHM_ONLY_IF_FREE_IN_TIME */
#define HISTORY_FOREIGN 0x20u /* not the caller's hold: must be NOT_HELD */
#define HISTORY_DUPLICATE 0x40u /* acquire: the same key again in one call: no hold of its own */
#define HISTORY_WORST 0x80u /* release: one of several of one call, and the outcome is that of some of them */
#define HISTORY_ROBUST 0x100u /* acquire: LOCKSHM_ROBUST */
#define HISTORY_NO_REPORT 0x200u /* acquire: previous_* is not known */
#define HISTORY_SOME_MARKS 0x400u /* an operator acknowledges: only those that meet a further condition */
/* Acquire by a loop.  `leave` is the end of the wait: an outcome was collected, or it was withdrawn (CANCELLED).
 * `other`: from when on its thread did nothing but poll and collect; 0 = not at all. */
#define HISTORY_LOOP 0x800u
#define HISTORY_EMPTY 0x1000u /* next: there was none */
#define HISTORY_AT_CLOSE 0x2000u /* withdraw: by lockshm_loop_close(), which does not tell whether it was granted */

struct history_record {
	int64_t enter;
	int64_t leave; /* 0 = never came back */
	uint64_t token;
	uint64_t other;
	int64_t ns;
	int64_t deadline; /* of an acquire that may wait; INT64_MAX = none */
	int64_t slept_ns;
	int64_t run_delay_ns; /* how long the thread was kept from running in this call */
	uint64_t previous_token;
	int32_t previous_pid;
	int32_t previous_tid;
	uint32_t previous_track; /* from the tag */
	uint32_t track;
	uint32_t subject;
	uint32_t group;
	uint32_t key;
	uint32_t flags;
	uint16_t realm;
	int16_t outcome;
	uint8_t op; /* stored last, when the record may be read */
	uint8_t mode;
	uint8_t previous_status;
	uint8_t reserved1;
	int64_t pending; /* HISTORY_LOOP: when the call returned PENDING; 0 = it did not, or never came back */
	int64_t collect; /* HISTORY_LOOP: when the call began that collected the outcome; 0 = none did */
};
_Static_assert(sizeof(struct history_record) == 128, "two cache lines");

#define HISTORY_BLOCK 64u /* records that a track takes at a time */
#define HISTORY_TRACKS 16384u
#define HISTORY_REALMS 256u
#define HISTORY_NO_TRACK UINT32_MAX
#define HISTORY_ANY_KEY UINT32_MAX
#define HISTORY_NO_WAIT UINT32_MAX
#define HISTORY_A_BRIDGE UINT32_MAX /* stop: no worker */

struct history_track {
	int32_t pid, tid;
	uint32_t process, image;
	uint32_t parent; /* track that forked this process, or HISTORY_NO_TRACK */
	uint32_t used; /* stored last */
	uint32_t waits; /* number of the acquire it may be waiting with, plus 1 */
	uint32_t reserved;
	int64_t start;
};

struct history_realm {
	uint64_t token_base; /* stored last; 0 = unused */
	uint32_t roomy; /* nothing may be FULL here */
	uint32_t reserved;
};

struct history_header {
	uint64_t magic;
	uint32_t blocks; /* capacity */
	uint32_t next_block; /* atomic, like the following */
	uint32_t next_track;
	uint32_t next_process;
	uint32_t stop; /* the round is over */
	uint32_t calm; /* no kills and stops now */
	uint64_t seed;
	uint32_t round;
	uint32_t roomy;
	struct history_realm realms[HISTORY_REALMS];
	struct history_track tracks[HISTORY_TRACKS];
};

struct history {
	struct history_header *header;
	uint32_t *block_track; /* for each block: the track it belongs to, plus 1 */
	struct history_record *records;
	size_t size;
	int fd;
};

/* The writer of one thread. */
struct history_writer {
	struct history *history;
	uint32_t track;
	uint32_t at, end; /* records left in the block */
};

extern clockid_t history_clock;
int64_t history_now(void);

/* A new, empty history of that many blocks, shared with children and through its descriptor.  0 = done. */
int history_create(struct history *h, uint32_t blocks);
/* Map the history behind a descriptor, which may also be a saved file.  0 = done. */
int history_open(struct history *h, int fd);
void history_close(struct history *h);
/* Empty it for the next round. */
void history_clear(struct history *h);
/* Write what is used of it to a file.  0 = done. */
int history_save(const struct history *h, const char *path);
/* Is so much of it used that all tracks should end? */
bool history_is_full(const struct history *h);

uint32_t history_new_process(struct history *h);
/* The number of the realm with that token base; new ones get the next number. */
uint16_t history_realm(struct history *h, uint64_t token_base);

/* A track for the calling thread. */
void history_track_begin(struct history_writer *w, struct history *h, uint32_t process, uint32_t image, uint32_t parent);

/* A new record, not yet visible to others: fill in the arguments, then history_enter(). */
struct history_record *history_new(struct history_writer *w);
/* The operation begins / had returned @outcome at @when; its results are filled in before. */
void history_enter(struct history_record *r, enum history_op op);
void history_leave(struct history_record *r, int64_t when, int outcome);
/* Both at once, for what is done in no time. */
void history_note(struct history_writer *w, enum history_op op, uint32_t subject);

static inline uint32_t history_number(const struct history *h, const struct history_record *r)
{
	return (uint32_t)(r - h->records);
}

const char *history_op_name(int op);

/* history/print.c */

/* The first time in it: printed times count from there. */
int64_t history_origin(const struct history *h);
/* Without a line's end; returns its length. */
size_t history_print_record(const struct history *h, const struct history_record *r, int64_t origin, char *out,
			    size_t size);
/* All of it, in the order of beginning. */
void history_print(const struct history *h);

#endif
