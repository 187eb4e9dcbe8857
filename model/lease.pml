/* SPDX-License-Identifier: MIT */
/*
 * lease.pml - the mode of a host lease: readers and writers of this host and of another one, for SPIN 6.5
 *
 * NPROC processes of one host take the key NOPS times each, in either mode, in any order that the local lock permits.
 * A hold under an exclusive lease may become shared, and exclusive again.  A leader acquires leases, each in one mode,
 * and gives them back; with LATE there is a second one: each may stop between any two steps while the other continues.
 * Another host takes the key N_OTHER times, in either mode.  Redis has a queue of hosts.  Each load, store and CAS of
 * shared memory is one step, so is a scan of the local queue, and each script.  Switches are in README.md.
 */
#ifndef NPROC
#define NPROC 2
#endif
#ifndef NOPS
#define NOPS 1
#endif
#ifndef N_OTHER
#define N_OTHER 1
#endif
#ifdef LATE
#define NBRIDGE 2
#else
#define NBRIDGE 1
#endif

/* The word: [epoch | EXCLUSIVE | state:3] */
#define NONE 0
#define ACQUIRING 1
#define HELD 2
#define CLOSING 3
#define RELEASING 4
#define STATE(w) ((w) & 7)
#define X 8
#define EPOCH(w) ((w) >> 4)
#define WITH_STATE(w, state) (((w) & ~7) | (state))

byte word;
bit exhausted;	/* host_lease_exhausted(): other hosts' turn */
bit doorbell;

/* The local queue. */
#define OUT 0
#define WANTS 1	/* granted on this host, waits for the lease */
#define HOLDS 2
byte phase[NPROC];
bit writes[NPROC];
byte under[NPROC];	/* host_grant: the epoch; 0 = none */
byte readers, writers;	/* granted on this host */

/* Redis: our value, made of the epoch, and the other host; 1 = as a reader, 2 = as a writer. */
byte ours;
bit ours_x;
byte other, other_waits;
bit queued;	/* this host waits in Redis */
bit behind;	/* and the other host came first */

byte done;

/* ---------------------------------------------------------------- Redis: acquire-x.lua, acquire-s.lua */

#define FREE_FOR_WRITER (ours == 0 && other == 0)
#define MAY_ACQUIRE(w) (((w) & X) -> FREE_FOR_WRITER && !(queued && behind) && !(!queued && other_waits > 0) : \
	other != 2 && !(other_waits == 2 && (!queued || behind)))
#define OTHER_MAY (other_waits == 2 -> FREE_FOR_WRITER && !(queued && !behind) : \
	!(ours != 0 && ours_x) && !(queued && !behind && (word & X)))
#define OTHER_IS_KEPT (other_waits > 0 && !OTHER_MAY)

/* ---------------------------------------------------------------- holders: global/acquire.c, hold/upgrade.c */

/* No host is inside beside a writer, and Redis has the lease as the holder takes it. */
inline g_inside()
{
	assert(ours == under[me]);
	assert(!writes[me] || (ours_x && other == 0));
	assert(other != 2)
}

#ifdef MUT_ENTER_ANY_MODE
#define MODE_FITS(w) true
#else
#define MODE_FITS(w) (!writes[me] || ((w) & X))
#endif
#define USABLE(w) (STATE(w) == HELD && MODE_FITS(w) && !exhausted)

#ifdef MUT_UPGRADE_SHARED
#define MAY_UPGRADE true
#else
#define MAY_UPGRADE (w & X)
#endif

proctype process(byte me)
{
	byte w, n = NOPS;

	do
	:: n == 0 -> break
	:: n > 0 ->
		if
		:: atomic { writers == 0; readers++; writes[me] = 0; phase[me] = WANTS; n-- }
		:: atomic { writers == 0 && readers == 0; writers++; writes[me] = 1; phase[me] = WANTS; n-- }
		fi;
ENTER:		w = word;
		if
		:: atomic { USABLE(w) -> under[me] = EPOCH(w) };
LOOK:			if
			:: atomic { word == w -> phase[me] = HOLDS; g_inside() }
			:: atomic { word != w -> under[me] = 0 };
				goto ENTER
			fi
		:: atomic { !USABLE(w) -> doorbell = 1 };
			/* host_lease_signal(): asleep until the word changes. */
			word != w || USABLE(w);
			goto ENTER
		fi;
		/* lockshm_downgrade(), lockshm_upgrade(): the record alone. */
		do
		:: atomic { writes[me] -> writes[me] = 0; writers--; readers++; g_inside()
#ifdef MUT_DOWNGRADE_IN_REDIS
			; ours_x = 0
#endif
		   }
		:: atomic { !writes[me] && readers == 1 && MAY_UPGRADE ->
			writes[me] = 1; writers++; readers--; g_inside() };
			break
		:: break
		od;
		atomic {
			g_inside();
			if
			:: writes[me] -> writers--
			:: else -> readers--
			fi;
			under[me] = 0; phase[me] = OUT; writes[me] = 0
		};
		atomic { doorbell = 1; w = 0 }
	od;
	done++
}

/* ---------------------------------------------------------------- another host */

active proctype other_host()
{
	byte n = N_OTHER;

	do
	:: n == 0 -> break
	:: n > 0 ->
		if
		:: atomic { n--; other_waits = 1; behind = 0 }
		:: atomic { n--; other_waits = 2; behind = 0 }
		fi;
		atomic { OTHER_MAY -> other = other_waits; other_waits = 0; behind = 0 };
		other = 0
	od;
	done++
}

/* ---------------------------------------------------------------- the leader: bridge/lease.c, bridge/lease-held.c */

/* demand_scan() */
inline look()
{
	d_step {
		live = 0; holds = 0; demand = 0; demand_x = 0;
		k = 0;
		do
		:: k < NPROC ->
			live = live || phase[k] != OUT;
#ifdef MUT_READERS_OVERLOOKED
			holds = holds || (under[k] == EPOCH(w) && under[k] != 0 && writes[k]);
#else
			holds = holds || (under[k] == EPOCH(w) && under[k] != 0);
#endif
			demand = demand || (phase[k] == WANTS && under[k] == 0);
			demand_x = demand_x || (phase[k] == WANTS && under[k] == 0 && writes[k]);
			k++
		:: else -> break
		od;
		k = 0
	}
}

#ifdef MUT_SHARED_STAYS
#define WRITER_WAITS false
#else
#define WRITER_WAITS (demand_x && !(w & X))
#endif
/* must_close() */
#define MUST_CLOSE (!live || (!holds && (WRITER_WAITS || exhausted)))

inline move(to)
{
	d_step {
		if
		:: word == w -> word = to
		:: else -> skip
		fi;
		again = true
	}
}

proctype bridge()
{
	byte w, k;
	bit live, holds, demand, demand_x;
	bool again = true;

end:	do
	/* Asleep.  It looks at what blocks in Redis from time to time, and hints tell it to. */
	:: d_step { again || doorbell || (STATE(word) == ACQUIRING && MAY_ACQUIRE(word)) ||
			(STATE(word) == HELD && OTHER_IS_KEPT && !exhausted) ->
		again = false;
		doorbell = 0;
		w = word
	   };
		if
		:: STATE(w) == NONE ->
			look();
			if
			:: demand ->
				assert(EPOCH(w) < 15);
				move(((EPOCH(w) + 1) << 4) | (demand_x -> X : 0) | ACQUIRING)
			:: else -> skip
			fi
		/* The script, and its reply. */
		:: STATE(w) == ACQUIRING ->
			d_step {
				if
				:: word == w && MAY_ACQUIRE(w) ->
					ours = EPOCH(w);
					ours_x = (w & X) > 0;
					queued = 0; behind = 0;
					exhausted = 0;
					word = WITH_STATE(w, HELD);
					again = true
				:: word == w && !MAY_ACQUIRE(w) && !queued -> queued = 1; behind = other_waits > 0
				:: else -> skip
				fi
			}
		:: STATE(w) == HELD ->
			if
			:: d_step { OTHER_IS_KEPT && word == w -> exhausted = 1 }
			:: skip
			fi;
			look();
			if
			:: MUST_CLOSE -> move(WITH_STATE(w, CLOSING))
			:: else -> skip
			fi
		:: STATE(w) == CLOSING ->
			look();
			if
			:: !holds -> move(WITH_STATE(w, RELEASING))
			:: else -> skip
			fi
		:: STATE(w) == RELEASING ->
			/* release.lua, by value; then its reply. */
			d_step {
				if
				:: ours == EPOCH(w) -> ours = 0; ours_x = 0
				:: else -> skip
				fi
			};
			move(EPOCH(w) << 4)
		fi;
		d_step { w = 0; live = 0; holds = 0; demand = 0; demand_x = 0 }
	od
}

init
{
	byte k = NPROC;

	atomic {
		do
		:: k > 0 -> k--; run process(k)
		:: else -> break
		od;
		k = NBRIDGE;
		do
		:: k > 0 -> run bridge(); k--
		:: else -> break
		od
	};
	/* In the end no host waits, and the lease without demand is released. */
	done == NPROC + 1 && STATE(word) == NONE && ours == 0
}
