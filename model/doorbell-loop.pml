/* SPDX-License-Identifier: MIT */
/* doorbell-loop.pml - of doorbell.pml: the loop's thread */

#define GONE(r, g) (GEN(word[r]) != g || STATE(word[r]) == FREE || STATE(word[r]) == ABANDONED)

/* The end of a wait: an outcome, or a cancel that returns.  No live request is left behind. */
inline g_end(result)
{
	assert(hold[h] == PENDING);
	assert(result == HELD -> word[r] == WORD(g + 1, ENTERED) : GONE(r, g));
	hold[h] = result;
	referred[h] = 0
}

inline forget_call()
{
	h = 0;
	r = 0;
	g = 0;
	w = 0;
	reason = 0;
	ok = 0
}

/* A hold that is not held and not pending; what is not used has one value. */
inline forget_wait()
{
	record[h] = 0;
	gen[h] = 0;
	seen[h] = 0;
	used[h] = 0;
	why[h] = 0
}

/* A free record of the loop's.  What a ringer finds in it is "ring", whatever it is used for. */
inline append(state)
{
	any_record(r, FREE);
	g = GEN(word[r]) + 1;
	word[r] = WORD(g, state);
	deadline[r] = (state == WAITING -> UNSET(g) : FULL);
#ifdef MUT_FREE_KEY_SILENT
	rings[r] = state == WAITING
#else
	rings[r] = 1
#endif
}

/* Into the table, then look at the word again, and at the canceller's flag. */
inline insert()
{
	d_step {
#ifdef MUT_TABLE_BY_INDEX
		do
		:: k < NWAIT ->
			if
			:: wait[k] == UNDECIDED && record[k] == r -> wait[k] = NONE
			:: else -> skip
			fi;
			k++
		:: else -> k = 0; break
		od;
#endif
		record[h] = r;
		gen[h] = g;
		wait[h] = UNDECIDED;
		why[h] = 0;
		seen[h] = 0;
		referred[h] = 1
	};
	/* There is one more time-out.  As calls on holds ring: renewals_ring(). */
	changed = 1;
	in_futex = 0;
#ifndef MUT_NO_SECOND_LOOK
	w = word[r];
#if N_CANCEL > 0 && !defined(MUT_NO_LOOK_AT_FLAG)
	if
	:: w == WORD(g, WAITING) && used[h] ->
		d_step { cas(word[r], w, WORD(g, ABANDONED), ok); w = word[r] }
	:: else -> skip
	fi;
#endif
	if
	:: w != WORD(g, WAITING) ->
		decide((w == WORD(g, GRANTED) -> BY_GRANT : OVER));
		d_step { write_descriptor(); forget_call() }
	:: d_step { w == WORD(g, WAITING) -> forget_call() }
	fi
#else
	d_step { forget_call() }
#endif
}

/* Its request is over: cancelled, or acquired once more.  A canceller that loads no reference has stored the flag. */
inline again()
{
	if
	:: d_step { used[h] -> g_end(IDLE); forget_wait(); forget_call() }
	:: atomic {
			!used[h] && SOME(FREE) ->
			assert(GONE(r, g));
			referred[h] = 0;
			append(WAITING)
		};
		insert()
	/* No memory. */
	:: d_step { !used[h] && !SOME(FREE) && !SOME(ABANDONED) -> g_end(IDLE); forget_wait(); forget_call() }
	fi
}

/* R14.  The deadline first: an expirer that read the short one loses its swap, or the collector does. */
inline collect()
{
	w = word[r];
	if
#ifdef MUT_ENTER_ANY_GEN
	:: STATE(w) == GRANTED ->
		deadline[r] = FULL;
		d_step { cas(word[r], w, WORD(GEN(w) + 1, ENTERED), ok) }
#else
	:: w == WORD(g, GRANTED) ->
#ifdef MUT_DEADLINE_AFTER
		d_step { cas(word[r], w, WORD(g + 1, ENTERED), ok) };
		if
		:: ok -> deadline[r] = FULL
		:: else -> skip
		fi
#else
		deadline[r] = FULL;
		d_step { cas(word[r], w, WORD(g + 1, ENTERED), ok) }
#endif
#endif
	:: else -> skip
	fi;
	if
	:: d_step { ok -> g_end(HELD); gen[h] = g + 1; forget_call() }
	:: else -> again()
	fi
}

/* lockshm_loop_next(), until there is none */
inline next()
{
	do
	:: atomic {
			ANY(LISTED);
			if
			ANY_WAIT(h, LISTED)
			fi;
			wait[h] = NONE;
			reason = why[h];
			r = record[h];
			g = gen[h]
		};
		if
		:: reason == BY_GRANT -> collect()
		:: d_step { reason == BY_TIME -> g_end(IDLE); forget_wait(); forget_call() }
		:: reason == OVER -> again()
		fi
	:: !ANY(LISTED) -> break
	od
}

/* lockshm_loop_cancel(): out of the table or the list, then the request. */
inline cancel()
{
	d_step {
		r = record[h];
		g = gen[h];
#ifndef MUT_CANCEL_IN_TABLE
		wait[h] = NONE
#endif
	};
	do
	:: w = word[r];
		if
		:: w == WORD(g, WAITING) -> d_step { cas(word[r], w, WORD(g, ABANDONED), ok) }
		:: w == WORD(g, GRANTED) -> d_step { cas(word[r], w, WORD(g, ABANDONED), ok) }
		:: else -> ok = 1
		fi;
		if
		:: ok -> break
		:: else -> skip
		fi
	od;
	atomic { g_end(IDLE); forget_wait(); forget_call() }
}

#define IS_IDLE(h) (hold[h] == IDLE)
#define IS_PENDING(h) (hold[h] == PENDING)
#define IS_HELD(h) (hold[h] == HELD)

proctype loop()
{
	byte h, k, r, g, w, reason, ops = NOPS, quits = N_QUIT, peeks = N_PEEK;
	bit ok, first;

	do
	/* lockshm_loop_acquire() */
	:: atomic {
			ops > 0 && SOME(FREE) && ANY(IS_IDLE) && !cancelling ->
			ops--;
			if
			:: IS_IDLE(0) -> h = 0
#if NWAIT > 1
			:: !IS_IDLE(0) && IS_IDLE(1) -> h = 1
#endif
#if NWAIT > 2
			:: !IS_IDLE(0) && !IS_IDLE(1) && IS_IDLE(2) -> h = 2
#endif
			fi;
			append(WAITING);
			hold[h] = PENDING
		};
		insert()
#ifdef FREE_KEYS
	:: d_step {
			ops > 0 && SOME(FREE) && IS_IDLE(NWAIT - 1) && !cancelling ->
			ops--;
			h = NWAIT - 1;
			append(ENTERED);
			record[h] = r;
			gen[h] = g;
			hold[h] = HELD;
			forget_call()
		}
#endif
	/* lockshm_release() */
	:: d_step {
			ANY(IS_HELD);
			if
			ANY_WAIT(h, IS_HELD)
			fi;
			r = record[h];
			assert(word[r] == WORD(gen[h], ENTERED));
			free(r);
			hold[h] = IDLE;
			forget_wait();
			forget_call()
		}
	:: atomic {
			quits > 0 && ANY(IS_PENDING);
			quits--;
			if
			ANY_WAIT(h, IS_PENDING)
			fi
		};
		cancel()
	/* Asleep until the descriptor is readable. */
	:: readable -> readable = 0; next()
	:: peeks > 0 && ANY(IS_PENDING) -> peeks--; next()
	:: ops == 0 && !ANY(BUSY) -> break
	od;
	assert(!ANY(LISTED))
}
