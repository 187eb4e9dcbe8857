/* SPDX-License-Identifier: MIT */
/*
 * wakeups.pml - a segment of a run of readers is granted by one thread and woken by its readers (R5, M2b)
 *
 * One granter grants N sleepers, or ones about to sleep, in order; it wakes the first at once, and two more that sleep when
 * all have their grant.  Each reader that has learned of its own wakes two behind it that sleep.  N_STOP of all threads stop for ever at any step, N_DEATH die there: a death
 * wakes the reader behind, which sleeps on the life word of the one before it too.  No time: a self-check would hide
 * what is lost.
 *
 * Property: where all have stopped that can, each reader that did not stop has learned of its grant, if the granter was
 * not among those that stopped.
 *
 * Faults: MUT_WAKE_ONE, each reader wakes one only; MUT_WAKE_LAST, a flag is cleared before the wake-up; MUT_WAKE_EARLY, the
 * granter wakes before it has granted all.
 */
#ifndef N
#define N 4
#endif
#ifndef N_STOP
#define N_STOP 0
#endif
#ifndef N_DEATH
#define N_DEATH 0
#endif
#ifdef MUT_WAKE_ONE
#define PASSES 1
#else
#define PASSES 2
#endif

bool granted[N], flag[N], asleep[N], knows[N], stopped[N], dead[N];
bool granter_done;
byte stops = N_STOP, deaths = N_DEATH;

/* At any step of reader me: it stops for ever, or dies. */
inline may_end() {
	if
	:: atomic { stops > 0 -> stops--; stopped[me] = true }; goto over
	:: atomic {
		deaths > 0 ->
		deaths--;
		stopped[me] = true;
		dead[me] = true;
		if
		:: me + 1 < N -> asleep[me + 1] = false
		:: else
		fi
	   }; goto over
	:: true
	fi
}

/* The kernel compares both words and sleeps, at once. */
inline fall_asleep() {
	atomic {
		if
		:: !granted[me] && !(me > 0 && dead[me - 1]) -> asleep[me] = true
		:: else
		fi
	}
}

proctype reader(byte me) {
	byte at, woken;
	bool seen;

wait:
	may_end();
	if
	:: granted[me] -> goto pass_on
	:: else
	fi;
	flag[me] = true;
	fall_asleep();
	(!asleep[me]);
	may_end();
	flag[me] = false;
	/* A death alone wakes it, too: in the queue it clears the dead away and goes on waiting. */
	(granted[me] || !(me > 0 && dead[me - 1]));
	goto wait;

pass_on:
	at = me + 1;
	do
	:: at >= N || woken >= PASSES -> break
	:: else ->
		if
		:: !granted[at] -> break
		:: else
		fi;
		may_end();
		seen = flag[at];
		if
		:: seen ->
			may_end();
#ifdef MUT_WAKE_LAST
			flag[at] = false;
			may_end();
			asleep[at] = false;
#else
			asleep[at] = false;
			may_end();
			flag[at] = false;
#endif
			woken++
		:: else
		fi;
		at++
	od;
	knows[me] = true;
over:
	skip
}

active proctype granter() {
	byte i, woken;

	do
	:: i == N -> break
	:: else ->
		granted[i] = true;
		if
		:: i == 0 && flag[i] -> asleep[i] = false
#ifdef MUT_WAKE_EARLY
		:: i > 0 && woken < PASSES && flag[i] -> woken++; asleep[i] = false
#endif
		:: else
		fi;
		i++
	od;
#ifndef MUT_WAKE_EARLY
	/* Only now: a reader that runs before the last grant may find nothing to do. */
	i = 1;
	do
	:: i == N || woken == PASSES -> break
	:: else ->
		if
		:: flag[i] ->
			asleep[i] = false;
			flag[i] = false;
			woken++
		:: else
		fi;
		i++
	od;
#endif
	granter_done = true
}

active proctype judge() {
	byte i;

	timeout;
	assert(granter_done);
	for (i : 0 .. N - 1) {
		assert(knows[i] || stopped[i])
	}
}

init {
	byte i;

	atomic {
		for (i : 0 .. N - 1) {
			run reader(i)
		}
	}
}
