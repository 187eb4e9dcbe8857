/* SPDX-License-Identifier: MIT */
/*
 * close.pml - one host lease from its first hold to the moment at which it is given back, for SPIN 6.5: who holds under
 * it while it is closed, and whether the bridge hears of the last one
 *
 * NPROC processes of one host take the key NOPS times each, one at a time: the local queue is taken to be right.  A
 * bridge looks when it is rung for, or when releases do not ring and it has said that it comes; it takes a lease, and
 * gives it back when nobody wants it.  With LATE there is a second one: each may stand still between any two steps
 * while the other goes on.  Each load, store and CAS of shared memory is one step, and so is a look at the queue.
 * Switches are in README.md.
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
byte passes;
bit quiet;	/* suppress_until is to come */
bit bell;
byte owner;	/* of the local lock; 0 = free */
bit wants;	/* the owner waits for the lease */
byte under;	/* the epoch that the owner holds under; 0 = none */
byte done;	/* processes that are */

/* ---------------------------------------------------------------- who holds: global/acquire.c, hold.c */

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
TAKE:		d_step { owner == 0; owner = me; wants = 1; n-- };
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
			wants = 0;
			passes++;
		:: else ->
RING:			bell = 1;
			/* host_lease_signal(): asleep until it is another. */
			word != w;
			goto ENTER
		fi;
INSIDE:		g_inside();
#ifdef MUT_QUIET_TOO_SOON
QUIET:		w = quiet;
END:		d_step { under = 0; owner = 0 };
#else
END:		d_step { under = 0; owner = 0 };
QUIET:		w = quiet;
#endif
		if
		:: w -> skip
		:: else -> bell = 1
		fi;
		w = 0
	od;
	done++
}

/* Of itself it rings nobody. */
active proctype time()
{
end:	do
	:: quiet -> quiet = 0
	od
}

/* ---------------------------------------------------------------- the bridge: bridge/lease.c */

/* demand_scan() */
inline look()
{
	d_step {
		live = owner != 0;
		holds = under != 0 && under == EPOCH(w);
		wanted = owner != 0 && wants
	}
}

inline forget()
{
	live = 0; holds = 0; wanted = 0; w = 0
}

/* suppress(): its time may have come at any look, or not yet. */
inline suppress()
{
	if
	:: STATE(w) == HELD && passes >= seen + SUPPRESS_GRANTS ->
		seen = passes; comes = 1;
		quiet = 1
	:: STATE(w) == HELD && passes < seen + SUPPRESS_GRANTS && comes && !due -> skip
	:: else -> comes = 0; end_suppression()
	fi
}

inline end_suppression()
{
#ifdef MUT_QUIET_CLOSED
	if
	:: STATE(w) == HELD -> quiet = 0
	:: else -> skip
	fi
#else
	quiet = 0
#endif
}

proctype bridge()
{
	byte w, seen;
	bit live, holds, wanted, comes, due;
	bool again = true;

end:	do
	/* Asleep.  What it looks at by itself, each 100 ms, is not needed. */
	:: again || bell || comes ->
		/* Killed in between: whoever comes next begins with everything. */
		d_step {
			due = !again && !bell;
			again = false;
			bell = 0
		};
WORD:		w = word;
		if
		:: STATE(w) == NONE ->
			look();
			if
			:: wanted ->
				d_step {
					if
					:: word == w ->
						word = ((EPOCH(w) + 1) << 2) | HELD;
						passes = 0;
						seen = 0
					:: else -> skip
					fi
				};
				again = true
			:: else -> comes = 0
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
			/* must_close(): busy for a while only, which may be over at any look. */
			:: STATE(w) == HELD && !live ->
				if
				:: d_step { word == w -> word = (w & ~3) | CLOSING }; again = true
				:: word != w -> again = true
				:: comes -> skip
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
	/* Whatever else happens: nobody is left waiting, and what nobody wants is given back. */
	done == NPROC && STATE(word) == NONE
}
