/* SPDX-License-Identifier: MIT */
/*
 * doorbell.pml - requests that wait without a thread, for SPIN 6.5: the doorbell of a process, its service thread, and the
 * thread of an event loop that collects what was granted
 *
 * The loop's thread acquires NOPS times with NWAIT holds, in NREC records; each request is granted by a thread of
 * another process, which rings, or by one of this process, which decides.  The queue of each lock is taken to be right:
 * a request that waits may be granted at any step.  Each load, store, swap, OR and add of shared memory is one step, and
 * so is what is done under the mutex of the table, which is never held over anything else.  The store of "asleep" waits
 * in a store buffer of one place until it is flushed, at any step, or a fence waits for it.  Switches are in README.md.
 *
 * Asserted, or an "invalid end state":
 *   each call that returned PENDING has one end: one outcome, or one cancel that returned; no outcome follows a cancel
 *   a granted outcome is of a request that its collector swapped to ENTERED; the short lease ends no hold
 *   when nothing can move, no request that was granted or ended is undecided, unless the thread that had to ring for
 *   it was killed: then a self-check finds it.  Each wait's time-out is one that the service thread waits for
 *   the loop's thread sleeps only while no decided wait is uncollected, or its descriptor is readable
 */
#ifndef NWAIT
#define NWAIT 2
#endif
#ifndef NREC
#define NREC 2
#endif
#ifndef NCLASS
#define NCLASS 2
#endif
#ifndef NOPS
#define NOPS 2
#endif
#ifndef NGRANTER
#define NGRANTER 1
#endif
#ifndef NLOCAL
#define NLOCAL 0
#endif
#ifndef N_CRASH
#define N_CRASH 0
#endif
#ifndef N_EXPIRE
#define N_EXPIRE 0
#endif
#ifndef N_CANCEL
#define N_CANCEL 0
#endif
#ifndef N_QUIT
#define N_QUIT 0
#endif
#ifndef N_TIMEOUT
#define N_TIMEOUT 0
#endif
#ifndef N_SPUR
#define N_SPUR 0
#endif
#ifndef N_PEEK
#define N_PEEK 0
#endif

/* ---------------------------------------------------------------- shared memory */

/* The word of a record: [generation | state:3].  A released request is FREE at once. */
#define FREE 0
#define WAITING 1
#define GRANTED 2
#define ENTERED 3
#define ABANDONED 4
#define STATE(w) ((w) & 7)
#define GEN(w) ((w) >> 3)
#define WORD(g, state) (((g) << 3) | (state))

/* The deadline: unset in this generation, the lease until it is collected, or the full one, which does not end here. */
#define UNSET(g) (((g) << 2) | 1)
#define SHORT 2
#define FULL 3

#define CLASS(r) ((r) % NCLASS)

byte word[NREC];
byte deadline[NREC];
bit rings[NREC];		/* the flag REQUEST_DOORBELL, and a sleeping word that is not 0 */
bit rung[NCLASS];	/* one class in each word */
byte summary;
bit asleep;
bit changed;		/* the doorbell is not what the service thread read */
bit in_futex;		/* it sleeps on it */

#define EMPTY 2
byte buffer = EMPTY;	/* the service thread's store of "asleep", not yet in memory */

/* ---------------------------------------------------------------- memory of the process */

/* What a wait is. */
#define NONE 0
#define UNDECIDED 1	/* in the table */
#define DECIDED 2	/* in the list of its loop */

/* Why it was decided.  OVER: its request ended otherwise; the canceller's flag says whether it is acquired again. */
#define BY_GRANT 1
#define BY_TIME 2
#define OVER 3

/* What a hold is: the loop's thread alone writes it. */
#define IDLE 0
#define PENDING 1
#define HELD 2

byte wait[NWAIT];
byte why[NWAIT];
byte record[NWAIT];
byte gen[NWAIT];
bit seen[NWAIT];	/* its time-out is one of those that the service thread waits for */
bit used[NWAIT];	/* its canceller's flag */
bit referred[NWAIT];	/* the canceller has a reference to record and generation */
byte hold[NWAIT];
bit readable;

/* Budgets, and what the monitors remember. */
byte crashes = N_CRASH;
byte timeouts = N_TIMEOUT;
byte spurious = N_SPUR;
bit cancelling;		/* a canceller is used again after lockshm_cancel() has returned */
byte unrung[NREC];	/* the generation whose ringer was killed; 0 = none */

#define STALE(h) (wait[h] == UNDECIDED && word[record[h]] != WORD(gen[h], WAITING))
#define UNRUNG(h) (STALE(h) && unrung[record[h]] == gen[h])
#define TIMED(h) (wait[h] == UNDECIDED && seen[h])
#if NWAIT == 3
#define ANY(what) (what(0) || what(1) || what(2))
#elif NWAIT == 2
#define ANY(what) (what(0) || what(1))
#else
#define ANY(what) (what(0))
#endif
#define LISTED(h) (wait[h] == DECIDED)
#define WANTED(h) (hold[h] == PENDING && !used[h])
#define BUSY(h) (hold[h] != IDLE)

#if NREC == 1
#define SOME(state) (STATE(word[0]) == (state))
#elif NREC == 2
#define SOME(state) (STATE(word[0]) == (state) || STATE(word[1]) == (state))
#else
#define SOME(state) (STATE(word[0]) == (state) || STATE(word[1]) == (state) || STATE(word[2]) == (state))
#endif

/* Within a step. */
inline cas(at, from, to, ok)
{
	if
	:: at == from -> at = to; ok = 1
	:: else -> ok = 0
	fi
}

/* Any record in this state; blocks while there is none. */
inline any_record(r, state)
{
	if
	:: STATE(word[0]) == state -> r = 0
#if NREC > 1
	:: STATE(word[1]) == state -> r = 1
#endif
#if NREC > 2
	:: STATE(word[2]) == state -> r = 2
#endif
	fi
}

/* Any wait, or its hold, of which this is true. */
#if NWAIT == 1
#define ANY_WAIT(h, what) :: what(0) -> h = 0
#elif NWAIT == 2
#define ANY_WAIT(h, what) :: what(0) -> h = 0 :: what(1) -> h = 1
#else
#define ANY_WAIT(h, what) :: what(0) -> h = 0 :: what(1) -> h = 1 :: what(2) -> h = 2
#endif

#include "doorbell-ring.pml"
#include "doorbell-service.pml"
#include "doorbell-loop.pml"

init
{
	byte n = NGRANTER;

	atomic {
		do
		:: n > 0 -> run granter(); n--
		:: else -> break
		od;
		n = NLOCAL;
		do
		:: n > 0 -> run releaser(); n--
		:: else -> break
		od;
#if N_CANCEL > 0
		run canceller();
#endif
#if N_EXPIRE > 0
		run expirer();
#endif
		run unlinker();
		run store_buffer();
		run service();
		run loop()
	}
}
