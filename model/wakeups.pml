/* SPDX-License-Identifier: MIT */
/*
 * wakeups.pml - a segment of a run of readers is granted by one thread and woken by its readers (R5, M2b)
 *
 * One granter grants N sleepers, or ones about to sleep, in order; it wakes the first at once, and when all have their grant
 * two more that sleep, and the last one.  Each reader that has learned of its own wakes the one before it and two behind it
 * that sleep; where it meets AWAKE that are awake and have not entered it leaves the rest to them.  The first EARLY have run
 * before the others are granted, and find none to wake: then nothing but the granter's wakes is left for those.  With ALL_SLEEP
 * they all sleep, and have their grant, at the begin.  N_STOP of the readers stop for ever at any step, N_DEATH die there: a death wakes the
 * reader behind, which sleeps on the life word of the one before it too.  No time: a self-check would hide what is lost.
 *
 * Property: where all have stopped that can, each reader that did not stop has learned of its grant.  The granter goes on.
 *
 * Faults: MUT_WAKE_AHEAD, no reader looks at the one before it; MUT_WAKE_ONE, each wakes one behind it only, and the granter
 * one; MUT_WAKE_LAST, a flag is cleared before the wake-up; MUT_WAKE_EARLY, the
 * granter wakes before it has granted all; MUT_WAKE_NEAR, no reader looks past one that is awake.
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
#ifndef EARLY
#define EARLY 0
#endif
#ifdef MUT_WAKE_NEAR
#define AWAKE 1
#else
#define AWAKE 2 /* 4 in the code */
#endif
#ifdef MUT_WAKE_ONE
#define PASSES 1
#else
#define PASSES 2
#endif

bool granted[N], flag[N], asleep[N], knows[N], stopped[N], dead[N];
bool begun, granter_done;
byte stops = N_STOP, deaths = N_DEATH;

/* Before any step of reader me, and one with it: it stops for ever, or dies. */
inline may_end() {
	if
	:: stops > 0 ->
		stops--;
		stopped[me] = true;
		goto over
	:: deaths > 0 ->
		deaths--;
		stopped[me] = true;
		dead[me] = true;
		if
		:: me + 1 < N -> asleep[me + 1] = false
		:: else
		fi;
		goto over
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

/* The reader @at, which has its grant, if it sleeps. */
inline wake(at) {
	atomic { may_end(); seen = flag[at] }
	if
	:: seen ->
#ifdef MUT_WAKE_LAST
		atomic { may_end(); flag[at] = false }
		atomic { may_end(); asleep[at] = false }
#else
		atomic { may_end(); asleep[at] = false }
		atomic { may_end(); flag[at] = false }
#endif
	:: else
	fi
}

proctype reader(byte me) {
	byte at, woken, awake;
	bool seen;

#ifdef ALL_SLEEP
	goto sleep;
#endif
wait:
	atomic {
		may_end();
		if
		:: granted[me] -> goto pass_on
		:: else
		fi
	}
	atomic { may_end(); flag[me] = true }
	fall_asleep();
sleep:
	(!asleep[me]);
	atomic { may_end(); flag[me] = false }
	/* A death alone wakes it, too: in the queue it clears the dead away and goes on waiting. */
	(granted[me] || !(me > 0 && dead[me - 1]));
	goto wait;

pass_on:
#ifndef MUT_WAKE_AHEAD
	if
	:: me > 0 -> wake(me - 1)
	:: else
	fi;
#endif
	at = me + 1;
	do
	:: at >= N || woken >= PASSES || awake >= AWAKE -> break
	:: else ->
		if
		:: !granted[at] -> break
		:: else
		fi;
		wake(at);
		woken = woken + seen;
		awake = awake + (!seen && !knows[at]);
		at++
	od;
	knows[me] = true;
over:
	/* States that differ in what it does not need any more are equal. */
	atomic {
		at = 0;
		woken = 0;
		awake = 0;
		seen = false
	}
}

active proctype granter() {
	byte i, woken;

#ifdef ALL_SLEEP
	(begun);
	i = N;
#endif
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
	:: i == N -> break
	:: i < N - 1 && woken >= PASSES -> i = N - 1
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
#ifdef ALL_SLEEP
			granted[i] = true;
			flag[i] = (i >= EARLY);
			asleep[i] = (i >= EARLY);
#endif
			if
			:: i < EARLY -> knows[i] = true
			:: else -> run reader(i)
			fi
		}
		begun = true
	}
}
