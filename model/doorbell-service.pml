/* SPDX-License-Identifier: MIT */
/* doorbell-service.pml - of doorbell.pml: the service thread */

proctype store_buffer()
{
end:	do
	:: d_step { buffer != EMPTY -> asleep = buffer; buffer = EMPTY }
	od
}

#define LOOKED_FOR(h) (wait[h] == UNDECIDED && CLASS(record[h]) == c)

/* Go on with the next class whose bit is set; with `check`, with all. */
inline next_class()
{
	do
	:: c < NCLASS && !check && !(x & (1 << c)) -> c++
	:: else -> break
	od;
	if
	:: c == NCLASS -> c = 0; x = 0; goto drained
	:: else -> goto bits
	fi
}

inline next_wait()
{
	h++;
	r = 0;
	g = 0;
	w = 0
}

/* The time of some wait has come, or it is only thought so. */
inline time_passes()
{
	timeouts--;
	due = 1;
	check = 1
}

proctype service()
{
	byte x, c, h, k, r, g, w;
	bit y, first, due, check;

awake:
#ifndef MUT_DOORBELL_LATE
	changed = 0;
#endif
	atomic {
		x = summary;
#ifndef MUT_SUMMARY_LATE
		summary = 0;
#endif
		next_class()
	};
bits:	atomic {
		y = rung[c] || check;
		if
		:: x & (1 << c) -> rung[c] = 0
		:: else -> skip
		fi;
		if
		:: y -> y = 0
		:: else -> c++; next_class()
		fi
	};
	/* Under the mutex: the next wait of this class; then its word, without the mutex. */
table:	atomic {
		do
		:: h < NWAIT && !LOOKED_FOR(h) -> h++
		:: else -> break
		od;
		if
		:: h < NWAIT -> r = record[h]; g = gen[h]
		:: else -> h = 0; c++; next_class()
		fi
	};
	atomic {
		w = word[r];
		if
		:: w == WORD(g, WAITING) && due && seen[h] -> skip
		:: w == WORD(g, WAITING) && !(due && seen[h]) -> next_wait(); goto table
		:: else -> goto ended
		fi
	};
	atomic {
		if
		:: word[r] == w -> word[r] = WORD(g, ABANDONED)
		:: else -> next_wait(); goto table
		fi
	};
	decide(BY_TIME);
	goto decided;
ended:
#ifdef MUT_DECIDE_TWICE
	atomic { first = 1; wait[h] = DECIDED; why[h] = (w == WORD(g, GRANTED) -> BY_GRANT : OVER) };
#else
	decide((w == WORD(g, GRANTED) -> BY_GRANT : OVER));
#endif
decided:
	atomic { write_descriptor(); next_wait(); goto table };

drained:
#ifdef MUT_SUMMARY_LATE
	summary = 0;
#endif
	/* Under the mutex: the first time-out of all. */
	atomic {
		due = 0;
		check = 0;
		do
		:: h < NWAIT -> seen[h] = wait[h] == UNDECIDED; h++
		:: else -> h = 0; break
		od
	};
#ifdef MUT_DOORBELL_LATE
	changed = 0;
#endif
#ifndef MUT_ASLEEP_LATE
	buffer = 1;
#ifndef MUT_NO_FENCE
	buffer == EMPTY;
#endif
#endif
	if
	:: summary == 0
	:: summary != 0 -> goto back
	fi;
#ifdef MUT_ASLEEP_LATE
	buffer = 1;
	buffer == EMPTY;
#endif
	d_step { in_futex = !changed };
	/* N_TIMEOUT sleeps end by time at any step; others, and self-checks, when nothing else can move, so that no
	 * lost wake-up is hidden. */
endless:
	do
	:: !in_futex -> break
#if N_TIMEOUT > 0
	:: d_step { timeouts > 0 && in_futex && ANY(TIMED) -> in_futex = 0; time_passes() }
#endif
#if NGRANTER + NLOCAL + N_CANCEL == 0
	:: atomic { timeout && ANY(TIMED) && !ANY(STALE) -> due = 1; check = 1; in_futex = 0 }
#endif
#if N_CRASH > 0
	:: atomic { timeout && ANY(UNRUNG) -> check = 1; in_futex = 0 }
#endif
	od;
back:
	buffer = 0;
#if N_TIMEOUT > 0
	if
	:: d_step { timeouts > 0 && ANY(TIMED) -> time_passes() }
	:: skip
	fi;
#endif
	goto awake
}
