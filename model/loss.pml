/* SPDX-License-Identifier: MIT */
/*
 * loss.pml - tended holds of loops, for SPIN 6.5: one record, its place in the memory of the process, and the thread of
 * its loop, which takes NOPS holds by it; an owner's thread that releases them; takers that end holds and ring; the
 * service thread, which looks when rung, scans, and renews
 *
 * Each load, store and swap is one step.  A taker may be killed before its ring (N_CRASH): a scan finds that.  Scans come
 * at any step, N_SCAN of them, and when nothing else can move.
 *
 * Asserted, or an "invalid end state":
 *   a hold that was taken away, and not released, is told once; none is told that was not taken away, or after its
 *   release returned; a release has the result of the hold's end: lost if, and only if, it was taken away
 *   a record is not filled while its last hold is neither released nor told, and is free at the end
 */
#ifndef NOPS
#define NOPS 2
#endif
#ifndef N_TAKE
#define N_TAKE 1
#endif
#ifndef N_CRASH
#define N_CRASH 0
#endif
#ifndef N_SCAN
#define N_SCAN 1
#endif
#ifndef N_RENEW
#define N_RENEW 1
#endif

/* The record's word: its generation, and FREE, HELD, TAKEN, or POPPED: unlinked and not freed. */
#define FREE 0
#define HELD 1
#define TAKEN 2
#define POPPED 3
#define STATE(w) ((w) & 3)
#define GEN(w) ((w) >> 2)
#define WORD(g, s) (((g) << 2) | (s))

#define ENDS 128
byte word = WORD(1, FREE);
byte use;
bit rung;
bit listed;

/* What the monitors remember of each hold, by its generation. */
#define MOST 7 /* NOPS + N_RENEW is at most 5; the first is 2 */
bit out[MOST];		/* its owner has not released it */
bit taken[MOST];	/* another thread ended it */
bit told[MOST];
byte held;		/* the newest hold */
byte takes = N_TAKE, crashes = N_CRASH, scans = N_SCAN, renewals = N_RENEW, left = NOPS;
bit unrung;

#ifdef PATIENT
#define MAY_RELEASE(g) (out[g] && (!taken[g] || told[g]))
#else
#define MAY_RELEASE(g) out[g]
#endif
#define OVER(w, u) ((u) != 0 && (u) < ENDS && GEN(w) >= (u) && STATE(w) != HELD)

/* The loop's thread: fill, `use`, the append; collect. */
proctype loop()
{
	byte n, w, u, g;

end:	do
#ifdef MUT_FILL_UNTOLD
	:: n < NOPS && STATE(word) == FREE ->
#else
	:: n < NOPS && STATE(word) == FREE && use == 0 ->
#endif
		g = GEN(word) + 1;
#ifdef MUT_USE_LATE
		atomic { word = WORD(g, HELD); held = g; out[g] = 1 };
		use = g;
#else
		use = g;
		atomic { word = WORD(g, HELD); held = g; out[g] = 1 };
#endif
		n++;
		g = 0
	:: listed ->
		listed = 0;
		w = word;
		u = use;
		if
#ifdef MUT_TELL_UNSEEN
		:: u != 0 && u < ENDS ->
#else
		:: OVER(w, u) ->
#endif
			d_step {
				if
				:: use == u -> use = 0; assert(taken[u] && !told[u] && out[u]); told[u] = 1
				:: else -> skip
				fi
			}
		:: else -> skip
		fi;
		w = 0;
		u = 0
	od
}

/* The owner, in another thread: any time after the append, it claims the end before the swap. */
proctype owner()
{
	byte w, g;

end:	do
	:: atomic {
		if
		:: MAY_RELEASE(2) -> g = 2
		:: MAY_RELEASE(3) -> g = 3
		:: MAY_RELEASE(4) -> g = 4
		:: MAY_RELEASE(5) -> g = 5
		:: MAY_RELEASE(6) -> g = 6
		fi };
		skip;
#ifndef MUT_CLAIM_LATE
		d_step {
			if
			:: use == g -> use = g | ENDS
			:: else -> assert(taken[g] && told[g]); w = 1
			fi
		};
		if :: w == 1 -> goto over :: else -> skip fi;
#endif
		/* R2 or R3, or it was taken away. */
		d_step {
			if
			:: STATE(word) == HELD -> word = WORD(GEN(word), POPPED); w = 2
			:: else -> w = 3; assert(taken[g])
			fi
		};
		if
		:: w == 2 ->
			d_step {
#ifdef MUT_FREE_ONE_GENERATION
				if :: word == WORD(g, POPPED) -> word = WORD(g, FREE) :: else -> skip fi
#else
				assert(STATE(word) == POPPED && !taken[g]);
				word = WORD(GEN(word), FREE)
#endif
			}
		:: else -> skip
		fi;
#ifdef MUT_CLAIM_LATE
		d_step { if :: use == g -> use = 0 :: else -> skip fi };
#else
		d_step { assert(use == (g | ENDS)); use = 0 };
#endif
over:		skip;
		d_step { out[g] = 0; left--; w = 0; g = 0 }
	od
}

/* A walk unlinks what was taken away, and frees the record. */
proctype walker()
{
end:	do
	:: d_step { STATE(word) == TAKEN -> word = WORD(GEN(word), FREE) }
	od
}

proctype taker()
{
	byte w;

end:	do
	:: takes > 0 && STATE(word) == HELD ->
		w = word;
		d_step {
			if
			:: word == w && STATE(w) == HELD -> word = WORD(GEN(w), TAKEN); taken[held] = 1; takes--
			:: else -> w = 0
			fi
		};
		if
		:: w == 0 -> skip
		:: w != 0 && crashes > 0 -> crashes--; unrung = 1
		:: w != 0 ->
#ifndef MUT_NO_RING
			rung = 1
#else
			skip
#endif
		fi;
		w = 0
	od
}

proctype service()
{
	byte w, u;
	bit renew;

end:	do
	:: rung -> rung = 0; renew = 0;
look:		u = use;
		w = word;
		/* Of one use of the place, as a reader of a seqlock. */
		if
		:: u == 0 || u >= ENDS || use != u -> skip
		:: else ->
			if
			:: OVER(w, u) -> listed = 1
			:: !OVER(w, u) && renew && renewals > 0 && STATE(w) == HELD ->
				d_step {
					renewals--;
					if
					:: word == w -> word = WORD(GEN(w) + 1, HELD)
					:: word == WORD(GEN(w), POPPED) -> word = WORD(GEN(w) + 1, POPPED)
					:: else -> skip
					fi
				}
			:: else -> skip
			fi
		fi;
		d_step { u = 0; w = 0; renew = 0 }
	:: scans > 0 -> scans--; renew = 1; goto look
	/* What no ring was for. */
	:: timeout && unrung && OVER(word, use) -> goto look
	od
}

/* Nothing can move any more. */
proctype judge()
{
	timeout && !(unrung && OVER(word, use)) && !listed && !rung ->
	d_step {
		assert(left == 0);
		assert(use == 0 && STATE(word) == FREE)
	}
}

init
{
	atomic { run loop(); run owner(); run walker(); run taker(); run service(); run judge() }
}
