/* SPDX-License-Identifier: MIT */
/*
 * waits.h - the requests of a process that wait for its loops
 *
 * Waits are found by the index of their record, which is what a doorbell names, and by their hold; lines by their
 * entry.  A line has the waits of this process for one key, in the order of their tickets.  Only its first wait is
 * looked after: it announces itself, its predecessor's owner and lease are watched, and its self-check walks to the head
 * of the queue (R9).  The waits behind it are woken by doorbells, by their time-outs, and when it leaves.
 *
 * A wait for a global key has two phases.  In the second it is granted on this host, is in no line, and waits for the
 * host lease (global/lease-wait.h).  The service thread sleeps on the word by which a lease wakes its waiters, one for
 * each lease, and looks at all of these waits at each self-check.  It only looks, and renews their local leases: what it
 * finds is decided, and the loop's thread, which fills the loop's records, enters the hold when it collects.
 *
 * killed or stopped                   what follows
 * ----------------------------------  ----------------------------------------------------------------------------------
 * the bridge, before it wakes         the next self-check finds the word, 100 ms later
 * this process                        its local requests end with it, or 3 s after their last renewal
 * the loop, woken and not collecting  the local lease ends a second later (R14), the next request of the host goes on
 *
 * One mutex guards all of it, and every wait that is in a table.  It is never held over a system call or a walk of a
 * queue, but for memory when a loop is closed, and where a wait for a host lease rings the bridge, or looks for one, which
 * never blocks: the service thread copies what it needs, gives the lock back, and looks for the wait again.
 *
 * A wait is decided once, with the lock held: it leaves its line for its loop's list of decided waits, and that loop's
 * descriptor is written to.  Only calls of the loop's thread write to the caller's memory.
 */
#ifndef LOCKSHM_SERVICE_WAITS_H
#define LOCKSHM_SERVICE_WAITS_H

#include "global/lease-wait.h"
#include "hold/acquire.h"
#include "lock/doorbell.h"
#include "lock/tend.h"
#include "lock/wait.h"
#include "sys/timers.h"

#define WAITS_NEAR DOORBELL_CLASSES /* lists of waits by their index */
#define LINES_NEAR 1024		/* lists of lines by their entry */
#define LINES_A_TICK 1024	/* with more lines than this each is checked less often */

struct many;

struct line {
	struct cds_list_head near;
	struct cds_list_head waits;
	struct cds_list_head behind; /* of the watched owner of the first wait's predecessor */
	struct cds_list_head to_view; /* of those that the service thread is to look at */
	struct timer timer;
	int64_t walk_at;	     /* the next self-check */
	uint32_t entry;
	uint32_t qpos;		     /* distance of its first wait from the head, at the last one */
	bool busy;		     /* the service thread looks at it, with the lock given back */
};

/* What a wait for a global key has in addition. */
struct wait_lease {
	struct lease_wait g;
	struct wait *of;
	struct cds_list_head of_all; /* second phase: in the list of all that wait for a lease */
	bool waiting;		     /* it is in that list */
	bool second;		     /* granted on this host, and its demand is shown */
	bool local_only;	     /* held by policy, without a lease */
	struct lockshm_error error;
	unsigned char key[LOCKSHM_GLOBAL_KEY_MAX];
};

struct wait {
	struct cds_list_head of_loop; /* waiting or decided */
	struct cds_list_head near;
	struct cds_list_head by_hold;
	struct cds_list_head of_line;
	struct line *line;	      /* NULL = decided, in the second phase, or in no table */
	struct lockshm_loop *loop;
	struct timer timer;	      /* its time-out */
	uint32_t index;
	uint32_t entry;
	struct grant grant;
	int status;		      /* decided: 0 granted, WAIT_AGAIN, or why not */
	int64_t begun;
	int64_t deadline;	      /* segment time; INT64_MAX = never */
	struct known_key key;
	struct lockshm_request request; /* the caller's; key and tag are below */
	struct lockshm_report *report;	/* the caller's, of its size, or NULL */
	lockshm_hold_t *hold;
	size_t n_holds;
	void *user;
	struct many *many;	      /* it is for one key of several; NULL = for one key */
	struct wait_lease *lease;     /* NULL = its key is of this host only */
	struct lockshm_blocker blocker;
	bool collected;		      /* a call of lockshm_loop_next() has taken it, once at least */
	struct line *spare;	      /* made in advance, for a key without a line */
	char tag[LOCKSHM_TAG_MAX + 1];
	unsigned char shown[LOCKSHM_KEY_SHOWN_MAX];
};

/* The lines behind one owner. */
struct watched {
	struct cds_list_head lines;
	struct cds_list_head node; /* in the list of all that are watched */
	uint64_t ref;		   /* 0 = not watched */
	uint64_t control;	   /* of the slot: changes if a look at /proc has found the owner dead */
	struct futex_watch life;
};

struct waits {
	pthread_mutex_t lock;
	struct lockshm *s;
	struct participant *process; /* of the service thread, while that runs */
	unsigned n_lines;
	int64_t until;		     /* when the service thread wakes up by itself; 0 = it is awake, or will be */
	uint32_t places;	     /* bits: where loops count, see life_loop_count() */
	bool ring;		     /* wake it when the lock is given back */
	int64_t probe_at;	     /* the next look at /proc and at the file, for all lines */
	struct timers of_waits;
	struct timers of_lines;
	struct cds_list_head to_view;
	struct cds_list_head to_write; /* loops, see struct lockshm_loop */
	struct cds_list_head watched;
	struct cds_list_head for_lease; /* waits in their second phase */
	struct lease_round round;	 /* of the present look at those */
	struct cds_list_head dropped; /* lines, to be freed when the lock is given back */
	struct cds_list_head loops;
	struct cds_list_head near[WAITS_NEAR];
	struct cds_list_head by_hold[WAITS_NEAR]; /* waits, by the address of their hold */
	struct cds_list_head lines[LINES_NEAR];
	struct watched owners[]; /* by slot */
};

enum descriptor_kind { DESCRIPTOR_EVENTFD, DESCRIPTOR_SOCKET, DESCRIPTOR_PIPE };

struct lockshm_loop {
	uint64_t magic;
	uint64_t epoch;
	uint64_t number; /* never used twice in this process */
	struct lockshm *s;
	struct waits *all;
	struct participant *self; /* used by its thread only */
	/* Guarded by the lock: */
	struct cds_list_head of_all;
	struct cds_list_head waiting;
	struct cds_list_head decided;
	uint32_t lost;		       /* records whose tended hold may be lost, see lock/tend.h; 0 = none */
	struct cds_list_head to_write; /* its descriptor is to be written to */
	unsigned refs;		       /* its thread, and each thread that is about to write */
	uint32_t place;		       /* where it counts */
	struct descriptor file;
	bool own_fd;
	uint32_t written;	       /* since lockshm_loop_next() last emptied the own descriptor */
	uint32_t told;		       /* the descriptor has been written to since the list was empty */
	enum descriptor_kind kind;
};

static inline bool loop_has_outcome(const struct lockshm_loop *loop)
{
	return loop->lost != 0 || loop->decided.next != &loop->decided;
}

/* The last time of a self-check up to @ns from @now, @ns not less than a tick: all lines have theirs at the same moments. */
static inline int64_t waits_tick(int64_t now, int64_t ns)
{
	int64_t tick = wait_walk_every(0);

	return (now + ns) / tick * tick;
}

/* Make the tables of @s with its first loop.  0 or NO_MEMORY. */
MUST_CHECK int waits_make(struct lockshm *s);

/* Does the service thread with that participant serve them? */
bool waits_are_of(struct waits *all, const struct participant *process);

/* The service thread ends: there is no loop. */
void waits_end(struct lockshm *s);

/* In a child: the waits are the parent's. */
void waits_forget(struct lockshm *s, bool consistent);

void waits_lock(struct waits *all);
void waits_unlock(struct waits *all);

/* Everything below: the lock held. */

/* Waiting, or decided and not collected. */
struct wait *waits_find(struct waits *all, uint32_t index, uint64_t gen);
/* The one by record @index that @hold is one of the holds of; its generation may have changed. */
struct wait *waits_find_awaited(struct waits *all, uint32_t index, const lockshm_hold_t *hold);
struct wait *waits_find_hold(struct waits *all, const lockshm_hold_t *hold);

/* @w is in the queue, and its first look gave @view: into the tables. */
void waits_add(struct waits *all, struct wait *w, const struct wait_view *view);

/* The same for @w in its second phase, in no table yet. */
void waits_add_for_lease(struct waits *all, struct wait *w);

/* Does any wait? */
static inline bool waits_any(const struct waits *all)
{
	return all->n_lines || all->for_lease.next != &all->for_lease;
}

/* Look whether @w, in its second phase, is decided. */
void waits_look_for_lease(struct waits *all, struct wait *w);

/* Out of the tables, or out of its loop's list of decided waits. */
void waits_remove(struct waits *all, struct wait *w);

/* @w leaves its line, or those that wait for a lease, for the list of decided waits. */
void waits_decide(struct waits *all, struct wait *w, int status);

/* How its word decides @w; LOCKSHM_PENDING = not yet. */
int waits_outcome(const struct lockshm *s, const struct wait *w);

/* The tended hold of record @index may be lost: its loop looks. */
void waits_list_loss(struct waits *all, uint32_t index);

/* @loop ends: of its holds none is told any more. */
void waits_end_losses(struct waits *all, struct lockshm_loop *loop);

/* Write for decisions that are a tick old and in no descriptor yet: the thread that was to do it may be delayed. */
void waits_tell_again(struct waits *all);

/* Has the word of @w changed?  Then it is decided. */
bool waits_look(struct waits *all, struct wait *w);

/* The first wait of a line; NULL = none. */
struct wait *line_first(struct line *line);

/* The service thread is to look at the first wait of @line. */
void line_to_view(struct waits *all, struct line *line);

/* It was checked: the time of its next self-check. */
void line_set_walk(struct waits *all, struct line *line);

/* What its first wait depends on now. */
void line_set_view(struct waits *all, struct line *line, const struct wait_view *view);

/* Ends it if it is empty, and not busy; it is freed when the lock is given back. */
void line_drop_if_empty(struct waits *all, struct line *line);

/* ---------------------------------------------------------------- the lock not held */

/* waits_list_loss() by the service thread, after it has written to descriptors. */
void waits_tell_loss(struct lockshm *s, uint32_t index);

/* Write to the descriptors of the loops that waits were decided for; @any: pipes too, which only the service thread
 * may. */
void waits_write(struct waits *all, bool any);

/* The doorbell of a wait of this process rang in this thread. */
void waits_look_at(struct lockshm *s, uint32_t index);

/* One reference less to @loop.  True = it was the last, and the caller frees it, with the lock given back. */
MUST_CHECK bool loop_put(struct lockshm_loop *loop);
void loop_free(struct lockshm_loop *loop);

/* Make its descriptor readable. */
void loop_write(struct lockshm_loop *loop);

/* attend.c: what the service thread does between two sleeps.  Adds what to sleep on, returns when to look again. */
int64_t waits_attend(struct waits *all, struct futex_watch *watches, unsigned *n);

#endif
