/* SPDX-License-Identifier: MIT */
/*
 * queue.pml - the queue of one lock, rules R1-R12, for SPIN 6.5
 *
 * One entry, NPROC threads (each with its own life word), a pool of NREC request records that all threads refill from.
 * Every load, store and CAS of shared memory is one d_step; a thread may be killed (N_CRASH) or stopped for ever
 * (N_STOP) between any two of them, and any other thread may run for any time there: so a thread that is stopped while
 * its lease expires (N_EXPIRE) and then runs on from exactly that step is among the interleavings.  A thread is a
 * program counter (pc) and a few registers in one big loop, so that no step can merge with its neighbour.  Rule names
 * are in comments at the steps.  Sequential consistency: a missing fence is modelled only as the reordering it would
 * allow.
 *
 * Time has no value.  A lease is "version v of the deadline"; an expirer may find that version passed while the budget
 * N_EXPIRE lasts; the lease of a stopped thread and a cool-down have passed for every expirer.  Self-checks and sleeps
 * that end by time happen when nothing else in the system can move (SPIN's `timeout`), or early while N_SPUR lasts.
 *
 * README.md has the list of switches, the properties, and where the rules are here and in src/.
 */
#include "queue-words.pml"
#include "queue-state.pml"
#include "queue-names.pml"
#include "queue-check.pml"
#include "queue-moves.pml"

active [NPROC] proctype thread()
{
	mtype pc = IDLE;
	byte ret, ops;
	byte me, g;	/* my request: index and generation */
	byte a, y;	/* a walk: the anchor (0 = the tail) and the request before it */
	short wa, wy;	/* their words, as read */
	byte t;		/* the tail, as read */
	byte d;		/* a deadline, as read */
	byte k, m;	/* a hint, a ticket or a yes; a mark, as read */
	short wme;	/* my own word, as read; or that of rk */
	byte rk;	/* the record that is being reclaimed */
	bit x;		/* I want, or have, exclusive mode */
	bit mine;	/* this walk began at my own request */
	bit one;	/* this walk ends at the nearest live request */
	bit late;	/* this is a self-check: time has passed */
	bit hid;	/* the holder I am about to join was dead when I checked (for P8) */
	bit force, inrun, act, to; /* operator; run of grants; one action per hold; timed out */

	do
#include "steps-append.pml"
#include "steps-wait.pml"
#include "steps-help.pml"
#include "steps-hold.pml"
#include "steps-sweep.pml"
#ifdef FOREVER
	:: atomic { pc == IDLE || pc == GONE -> break }
#else
	:: atomic { (pc == IDLE && ops == OPS(_pid)) || pc == GONE -> break }
#endif
	od;
	atomic {
		pc = GONE;
		done++;
		if
		:: done == NPROC -> g_nothing_left()
		:: else
		fi
	}
end_gone:
	false
}
