/* SPDX-License-Identifier: MIT */
/*
 * step.h - running one call of the library instruction by instruction in a victim process
 *
 * The victim prepares itself at full speed, then runs the call under PTRACE_SINGLESTEP.  A point is a place where
 * killing or stopping it can make a difference to others: after every instruction of the program and the library, and
 * in other code (C library, vdso) before and after each system call and after each instruction that changed the
 * segment.  While it sleeps in the kernel is a point, too.  The n-th point is where the victim is caught; n past the
 * last one means that it ran through.  Or its service thread is stepped, while the thread of the call waits.
 *
 * Many of these points are alike (step-touch.c says why): then only the first of each such row counts as a point, or,
 * if the scene is deep, the last one.
 */
#ifndef LOCKSHM_TEST_STEP_H
#define LOCKSHM_TEST_STEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "support/agent.h"
#include "lockshm.h"

/* A time inside the round's lock, as far as the holder knows: conflicting spans must not overlap. */
struct span {
	pid_t pid;
	int mode;
	uint64_t token;
	int64_t from;
	int64_t until;
};
#define SPANS_MAX 24

/* Which points count. */
enum step_points {
	STEP_EVERY,
	STEP_CHANGES, /* one of those that are alike for a kill */
	STEP_TOUCHES  /* one of those that are alike for a stop */
};
extern enum step_points step_points;
/* Can this machine tell which are alike?  If not: STEP_EVERY. */
bool step_knows_touches(void);

/* The last points before a granted request is entered: as many as paths that differ a little need.  And values of
 * catch_after. */
#define STEP_BEFORE_ENTER 8
#define STEP_GRANTED 0
#define STEP_ENTERED (UINT32_MAX - 1)
#define STEP_NEVER UINT32_MAX

/* Results of the victim, in memory shared with the test. */
struct victim_result {
	struct span spans[4];
	unsigned n_spans;
	int prepared; /* what the preparation returned */
	int code;     /* what the call returned */
	int check;    /* lockshm_check() of hold 0 right after it */
	uint64_t token;
	int finished;
	int may_go; /* the service thread is not stepped any more */
};

/* Who asks for damage marks. */
enum scene_kind {
	SCENE_ROBUST, /* all */
	SCENE_MIXED,  /* all but the victim */
	SCENE_PLAIN,  /* none: then there are no marks */
	SCENE_KINDS
};
const char *scene_kind_name(enum scene_kind kind);

/* The subjects of every scene.  They take part from the start, so that their slots are no leaks. */
struct scene {
	struct agent *holder;
	struct agent *writer;
	struct agent *reader;
	struct agent *newcomer;
	enum scene_kind kind;
	char key[64];	      /* the key of this round */
	unsigned round;
	unsigned point; /* where the victim is to be caught */
	bool holder_holds;    /* hold 0 of the holder, on the key */
	int64_t victim_ttl;   /* LOCKSHM_FOREVER, or short where the victim is stopped */
	bool writer_stopped;
	struct agent *mortal; /* about to die */
	pid_t dead[8];	      /* those the arrangement has killed */
	unsigned n_dead;
	struct victim_result *result; /* of the victim that runs */
	struct lockshm_stat before; /* this round */
	uint64_t last_exclusive;    /* token of the key */
	bool overrun_reported;	    /* a grant reported an overrun of the victim */
	bool death_reported;	    /* a grant reported a death */
	pid_t dead_reported;	    /* of that process, the last one */
	bool holder_died;	    /* a writer was killed inside by the arrangement: a grant must report it */
	struct span spans[SPANS_MAX]; /* of all but the victim, in this round */
	unsigned n_spans;
	lockshm_t *other; /* a second segment */
	bool deep;	  /* catch the victim at the last one of the points that are alike */
	pid_t crowd;	  /* a process of many readers */
	/* In a round that is not to be caught at a point: so many points behind the grant of the victim's request.  And
	 * how many there were between the grant and the step that enters. */
	bool watched;
	unsigned catch_after, enters_after;
};

struct step_op {
	const char *name;
	/* The test, before the victim starts: holders and dead processes. */
	void (*arrange)(struct scene *s);
	/* The victim, at full speed: what it holds beforehand. */
	int (*prepare)(const struct scene *s);
	/* The test, after that: waiters behind the victim. */
	void (*surround)(struct scene *s);
	/* The victim, step by step. */
	int (*act)(const struct scene *s);
	/* The test, when the victim sleeps: lets it go on. */
	void (*unblock)(struct scene *s, pid_t victim);
	/* The test, when the victim is dead or stopped, and again when it has run on: what is
	 * not about the round's key. */
	void (*after)(struct scene *s, bool stopped);
	/* Request records and owner slots of the segment, if they matter. */
	uint32_t requests, owners;
	/* Uses another key in each round. */
	bool fresh_key;
	/* The call ends a hold: its result must agree with the report of the next holder. */
	bool ends_hold;
	/* The call keeps its hold: LOST must agree with the reports, too. */
	bool keeps_hold;
	/* The result of an undisturbed run, if not 0 or more. */
	int outcome;
	/* The victim has other threads, which are not traced. */
	bool threads;
	/* The service thread is the one that is stepped: it is stopped in its sleep, surrounded, and runs to the next
	 * sleep. */
	bool by_service;
	bool renews; /* the victim's lease is the shortest that is renewed, not that of the scene */
	/* The call ends what the holder has. */
	bool ends_anothers;
	/* The victim fills another segment, by the C library, too. */
	bool life;
	/* A sample has robust rounds only, since it has so many points. */
	bool of_loop;
	/* Needs no hold beforehand: a second victim can do the same at the same time. */
	bool free_handed;
	/* Is granted by another process before it enters. */
	bool enters;
	/* May clear the marks of those that died before. */
	bool clears_marks;
	/* Ends a hold as a death does, and waiters may have got the report of it already. */
	bool like_a_death;
};

/* What a second victim does where it cannot do the same as the first one. */
extern const struct step_op step_behind;
extern const struct step_op step_ops[];
extern const unsigned n_step_ops;
/* Is the @i-th operation asked for, by its name or by PART=i/n in the environment? */
bool step_op_is_mine(const struct step_op *op, unsigned i, const char *only);

/* The holds of the victim. */
#define VICTIM_HOLDS 3
extern lockshm_hold_t victim_holds[VICTIM_HOLDS];
/* Hold 0, or that of its lock object. */
lockshm_hold_t *victim_hold(void);

/* The victim is inside the round's lock in @mode until @until at least; with permissions 0 it is not any more. */
void victim_inside(const struct scene *s, int mode, int64_t until);

/* A caught victim. */
struct caught {
	pid_t pid;
	pid_t tid;	  /* of the thread that is stepped */
	int *may_go;	  /* of its result */
	bool ran_through; /* there was no such point; it has ended */
	bool asleep;	  /* caught sleeping in the kernel: it is not in a ptrace stop */
	bool missed;	  /* ran through by a mistake of the stepper: to be repeated */
	unsigned points;  /* how many were passed, of those that count */
	uintptr_t pc;
};

/* Can this machine step?  False under an emulator, a sanitizer, or without the right to. */
bool step_possible(void);

/* Before the first round of an operation: what is remembered of its path.  There are two, for two victims. */
void step_new_path(unsigned which);
/* Go on with that one. */
void step_use_path(unsigned which);
/* Runs a round of @op up to its @point-th point.  UINT32_MAX: to its end, or where @s->watched says. */
struct caught step_to(const struct step_op *op, struct scene *s, unsigned point);
/* Has the last round missed its point?  Then it is to be repeated. */
bool step_missed(void);

/* Ends the victim there and then. */
void step_kill(struct caught *c);
/* Leaves it stopped by SIGSTOP, no longer traced. */
void step_stop(struct caught *c);
/* Lets it run on from there. */
void step_continue(struct caught *c);
/* Has it ended?  Asserts that it ended well. */
bool step_ended(struct caught *c);

/* ---------------------------------------------------------------- scenes */

/* A small segment that all subjects have joined. */
void scene_open(struct scene *s, const struct step_op *op, int64_t victim_ttl, enum scene_kind kind);
/* The next round: a key, the arrangement. */
void scene_begin(struct scene *s, const struct step_op *op);
/* If the arrangement has stopped the writer, it goes on. */
void scene_writer_runs(struct scene *s);
/* The holder lets go; the writer and then the reader ask for the key, unless they wait already. */
void scene_ask(struct scene *s);
/* Has @a been granted?  Asserts: alone if exclusive, with a larger token, a report only of processes that died or
 * overran. */
bool scene_granted(struct scene *s, struct agent *a, pid_t victim);
/* It lets go. */
void scene_let_go(struct scene *s, struct agent *a);
/* Another process than the victim is inside from now on, and no longer. */
void scene_goes_in(struct scene *s, const struct agent *a);
void scene_goes_out(struct scene *s, const struct agent *a);
/* No two overlapping spans conflicted, and tokens rose.  The victim was inside until @until at most. */
void scene_check_spans(const struct scene *s, int64_t until);
/*
 * The exclusive request of a caught victim for the key of the round.  If it ends now, it leaves a mark if and only if it
 * was entered and the key is robust; or it has left one already.
 */
struct scene_request {
	bool granted; /* and not entered */
	bool entered;
	bool leaves_mark;
	bool marked; /* the key has a mark now */
};
struct scene_request scene_request_of(const struct scene *s, pid_t pid);
/* The deaths that leave a mark were reported by a grant, and no others. */
void scene_check_reports(const struct scene *s, pid_t victim, bool leaves_mark);
/* Does the queue of the round's key have a live request of @pid? */
bool scene_has_request(const struct scene *s, pid_t pid);
/* The newcomer takes the key and lets go. */
void scene_newcomer(struct scene *s, pid_t victim);
/* After a sweep nothing is in use but what was before the round. */
void scene_check_leaks(const struct scene *s);
/* After the last round: no record is lost for good. */
void scene_end(struct scene *s);

#endif
