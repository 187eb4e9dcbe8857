/* SPDX-License-Identifier: MIT */
/*
 * close.pml - one host lease from its first hold to its release, for SPIN 6.5: the holds under it while it is closed,
 * and the leader's notice of the last one
 *
 * NPROC processes of one host acquire the key NOPS times each, one at a time: the local queue is taken to be right.  A
 * leader looks after a ring, or by itself while it has suppressed the rings of releases; it acquires a lease, and
 * releases it without demand.  With LATE there is a second one: each may stop between any two steps while the other
 * continues. Each load, store and CAS of shared memory is one step, and so is a scan of the queue.  Switches are in
 * README.md.
 */
#ifndef NPROC
#define NPROC 2
#endif
#ifndef NOPS
#define NOPS 2
#endif
#ifdef LATE
#define NBRIDGE 2
#else
#define NBRIDGE 1
#endif
#ifndef SUPPRESS_GRANTS
#define SUPPRESS_GRANTS 2
#endif

/* The word: [epoch | state:2] */
#define NONE 0
#define HELD 1
#define CLOSING 2
#define STATE(w) ((w) & 3)
#define EPOCH(w) ((w) >> 2)

byte word;
byte grants;
bit suppressed;	/* suppress_until is in the future */
bit doorbell;
byte owner;	/* of the local lock; 0 = free */
bit waiting;	/* the owner waits for the lease */
byte under;	/* the epoch of the owner's hold; 0 = none */
byte done;	/* processes that have finished */

/* ---------------------------------------------------------------- holders: global/acquire.c, hold.c */

inline g_inside()
{
	assert(EPOCH(word) == under && STATE(word) != NONE)
}

proctype process(byte me)
{
	byte w, n = NOPS;

	do
	:: n == 0 -> break
	:: n > 0 ->
TAKE:		d_step { owner == 0; owner = me; waiting = 1; n-- };
ENTER:		w = word;
		if
		:: STATE(w) == HELD ->
NOTE:			under = EPOCH(w);
#ifndef MUT_ENTER_NO_LOOK
LOOK:			if
			:: word == w -> skip
			:: else -> under = 0; goto ENTER
			fi;
#endif
			waiting = 0;
			grants++;
		:: else ->
RING:			doorbell = 1;
			/* host_lease_signal(): asleep until the word changes. */
			word != w;
			goto ENTER
		fi;
INSIDE:		g_inside();
#ifdef MUT_QUIET_TOO_SOON
QUIET:		w = suppressed;
END:		d_step { under = 0; owner = 0 };
#else
END:		d_step { under = 0; owner = 0 };
QUIET:		w = suppressed;
#endif
		if
		:: w -> skip
		:: else -> doorbell = 1
		fi;
		w = 0
	od;
	done++
}

/* The end of the suppressed time rings for no process. */
active proctype time()
{
end:	do
	:: suppressed -> suppressed = 0
	od
}

/* ---------------------------------------------------------------- the leader: bridge/lease.c */

/* demand_scan() */
inline look()
{
	d_step {
		live = owner != 0;
		holds = under != 0 && under == EPOCH(w);
		demand = owner != 0 && waiting
	}
}

inline forget()
{
	live = 0; holds = 0; demand = 0; w = 0
}

/* suppress(): suppressed_at may have passed at any look, or not yet. */
inline suppress()
{
	if
	:: STATE(w) == HELD && grants >= seen + SUPPRESS_GRANTS ->
		seen = grants; looks_soon = 1;
		suppressed = 1
	:: STATE(w) == HELD && grants < seen + SUPPRESS_GRANTS && looks_soon && !due -> skip
	:: else -> looks_soon = 0; end_suppression()
	fi
}

inline end_suppression()
{
#ifdef MUT_QUIET_CLOSED
	if
	:: STATE(w) == HELD -> suppressed = 0
	:: else -> skip
	fi
#else
	suppressed = 0
#endif
}

proctype bridge()
{
	byte w, seen;
	bit live, holds, demand, looks_soon, due;
	bool again = true;

end:	do
	/* Asleep.  The look of its own each 100 ms is not needed. */
	:: again || doorbell || looks_soon ->
		/* Killed in between: the next leader begins with all leases. */
		d_step {
			due = !again && !doorbell;
			again = false;
			doorbell = 0
		};
WORD:		w = word;
		if
		:: STATE(w) == NONE ->
			look();
			if
			:: demand ->
				d_step {
					if
					:: word == w ->
						word = ((EPOCH(w) + 1) << 2) | HELD;
						grants = 0;
						seen = 0
					:: else -> skip
					fi
				};
				again = true
			:: else -> looks_soon = 0
			fi
		:: else ->
#ifdef MUT_QUIET_AFTER_LOOK
LOOK:			look();
KEEP:			suppress();
#else
KEEP:			suppress();
LOOK:			look();
#endif
			if
			/* must_close(): is_busy() for a while only, which may be over at any look. */
			:: STATE(w) == HELD && !live ->
				if
				:: d_step { word == w -> word = (w & ~3) | CLOSING }; again = true
				:: word != w -> again = true
				:: looks_soon -> skip
				fi
			:: STATE(w) == CLOSING && !holds ->
				d_step {
					if
					:: word == w -> word = EPOCH(w) << 2
					:: else -> skip
					fi
				};
				again = true
			:: else -> skip
			fi
		fi;
		forget()
	od
}

init
{
	byte k = NPROC;

	atomic {
		do
		:: k > 0 -> run process(k); k--
		:: else -> break
		od;
		k = NBRIDGE;
		do
		:: k > 0 -> run bridge(); k--
		:: else -> break
		od
	};
	/* In the end no process waits, and the lease without demand is released. */
	done == NPROC && STATE(word) == NONE
}
