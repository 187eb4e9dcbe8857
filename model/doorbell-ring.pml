/* SPDX-License-Identifier: MIT */
/* doorbell-ring.pml - of doorbell.pml: granters, which ring or decide, a canceller, the expirer */

/* ---------------------------------------------------------------- granting and deciding, by any thread */

/* A record whose request is dead and unlinked. */
inline free(r)
{
	word[r] = WORD(GEN(word[r]), FREE);
	deadline[r] = 0
}

/* A request that waits, and its word. */
#define LOAD_WAITING atomic { SOME(WAITING) -> any_record(r, WAITING); w = word[r] }

/* The lease starts once, from "unset" of this generation; it is the short one. */
inline start_lease()
{
	d_step {
		if
		:: deadline[r] == UNSET(GEN(w)) -> deadline[r] = SHORT
		:: else -> skip
		fi
	}
}

/* The wait with this record and generation, if it is undecided.  One step, under the mutex.
 * first: the list was empty. */
inline decide(reason)
{
#ifdef MUT_WRITE_FIRST
	d_step {
		if
		:: !ANY(LISTED) -> readable = 1
		:: else -> skip
		fi
	};
#endif
	atomic {
		k = 0;
		do
#ifdef MUT_DECIDE_ANY_GEN
		:: k < NWAIT && !(wait[k] == UNDECIDED && record[k] == r) -> k++
#else
		:: k < NWAIT && !(wait[k] == UNDECIDED && record[k] == r && gen[k] == g) -> k++
#endif
		:: else -> break
		od;
		if
		:: k < NWAIT ->
			first = !ANY(LISTED);
			wait[k] = DECIDED;
			why[k] = reason
		:: else -> skip
		fi;
		k = 0
	}
}

/* After the unlock, and with the next step of the same thread. */
inline write_descriptor()
{
#ifndef MUT_WRITE_FIRST
	if
	:: first -> readable = 1
	:: else -> skip
	fi;
#endif
	first = 0
}

/* ---------------------------------------------------------------- ringing */

inline forget()
{
	d_step { h = 0; r = 0; w = 0; a = 0; ok = 0 }
}

/* A ringer that may be killed takes this step, or is killed before it. */
#define DIES atomic { mortal && crashes > 0 -> crashes--; goto killed }
#define MAY_DIE(step) if :: step :: DIES fi

inline set_bits(mortal)
{
#ifdef MUT_SUMMARY_FIRST
	MAY_DIE(summary = summary | (1 << CLASS(r)));
	MAY_DIE(rung[CLASS(r)] = 1)
#else
	MAY_DIE(rung[CLASS(r)] = 1);
	MAY_DIE(summary = summary | (1 << CLASS(r)))
#endif
}

inline add_and_wake(mortal)
{
	MAY_DIE(changed = 1);
	MAY_DIE(atomic { in_futex = 0; forget() })
}

/* After a change of the word. */
inline ring(mortal)
{
#ifdef MUT_BITS_LATE
	MAY_DIE(a = asleep);
	set_bits(mortal);
	if
	:: a -> add_and_wake(mortal)
	:: else -> forget()
	fi
#else
	set_bits(mortal);
	/* Ringer: the bits, a fence, this load.  The service thread: ASLEEP, a fence, the load of the bits. */
	if
	:: asleep -> add_and_wake(mortal)
	:: atomic { !asleep -> forget() }
	:: DIES
	fi
#endif
}

/* A thread of another process.  One that is killed is followed by another. */
proctype granter()
{
	byte h, r, w;
	bit a, ok;

end:	do
	:: atomic {
			spurious > 0 -> spurious--;
			if
			:: r = 0
#if NREC > 1
			:: r = 1
#endif
			fi
		};
		ring(1)
	:: LOAD_WAITING;
		start_lease();
		atomic {
			cas(word[r], w, WORD(GEN(w), GRANTED), ok);
			if
			:: ok -> skip
			:: else -> forget(); goto end
			fi
		};
		/* Ring for it, or wake it by its word?  The record may be in use again. */
		if
		:: rings[r] -> ring(1)
		:: atomic { !rings[r] -> forget() }
		:: atomic { crashes > 0 -> crashes-- };
killed:			atomic {
				if
				:: ok -> unrung[r] = GEN(w)
				:: else -> skip
				fi;
				forget()
			}
		fi
	od
}

/* A thread of this process that releases a lock whose next request is one of this process too. */
proctype releaser()
{
	byte r, w, g, k;
	bit ok, first;

end:	do
	:: LOAD_WAITING;
		start_lease();
		atomic {
			cas(word[r], w, WORD(GEN(w), GRANTED), ok);
			if
			:: ok -> g = GEN(w); ok = 0; w = 0
			:: else -> r = 0; w = 0; goto end
			fi
		};
		decide(BY_GRANT);
		d_step { write_descriptor(); r = 0; g = 0 }
	od
}

/* Another thread with the canceller of a wait: lock/cancel.c. */
proctype canceller()
{
	byte h, r, w, left = N_CANCEL;
	bit a, ok;

end:	do
	:: atomic {
			left > 0 && ANY(WANTED);
			if
			ANY_WAIT(h, WANTED)
			fi;
			left--;
			used[h] = 1;
			cancelling = 1
		};
		/* The flag, a fence, the reference. */
		atomic {
			if
			:: referred[h] -> r = record[h]; w = WORD(gen[h], WAITING)
			:: else -> cancelling = 0; forget(); goto end
			fi
		};
		atomic {
			cas(word[r], w, WORD(GEN(w), ABANDONED), ok);
			cancelling = 0;
			if
			:: ok -> skip
			:: else -> forget(); goto end
			fi
		};
		ring(0)
	od;
killed:	skip	/* not this one */
}

/* The lease of a request that was granted and not collected ends.  The deadline is read after the word. */
proctype expirer()
{
	byte r, w, left = N_EXPIRE;

end:	do
	:: atomic {
			left > 0 && (SOME(GRANTED) || SOME(ENTERED));
			if
			:: SOME(GRANTED) -> any_record(r, GRANTED)
			:: SOME(ENTERED) -> any_record(r, ENTERED)
			fi;
			w = word[r]
		};
		atomic {
			if
			:: deadline[r] == SHORT -> skip
			:: else -> r = 0; w = 0; goto end
			fi
		};
		d_step {
			if
			:: word[r] == w ->
				assert(STATE(w) == GRANTED);
				word[r] = WORD(GEN(w), ABANDONED);
				left--
			:: else -> skip
			fi;
			r = 0;
			w = 0
		}
	od
}

/* A dead request is taken off the queue and its record freed, by some thread. */
proctype unlinker()
{
	byte r;

end:	do
	:: d_step { SOME(ABANDONED) -> any_record(r, ABANDONED); free(r); r = 0 }
	od
}
