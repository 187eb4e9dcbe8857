/* SPDX-License-Identifier: MIT */
/*
 * tokens.pml - fencing numbers of a majority of three servers, for SPIN 6.5
 *
 * NHOST hosts acquire one key NOPS times each, exclusively.  Each server executes a host's commands at any time, in the
 * order in which they were sent, or never.  A host decides with the replies that it has: numbers that a majority took alike
 * are its own, else it levels them by a second round.  A lease may expire at any step of its host; a decision after that is
 * refused.  So often as N_LOSS any servers forget their numbers, once the clock has reached all that were taken: as time
 * goes on by itself, that is at any time.  Switches are in README.md.
 */
#ifndef NHOST
#define NHOST 2
#endif
#ifndef NOPS
#define NOPS 2
#endif
#ifndef N_LOSS
#define N_LOSS 1
#endif
#ifndef N_EXPIRE
#define N_EXPIRE 0
#endif
#ifndef LEAD
#define LEAD 1	/* how far a proposal may be ahead of the clock */
#endif
#ifndef CLOCK_MAX
#define CLOCK_MAX 2
#endif

#define NSERVER 3
#define MAJORITY 2
#define AT(h, i) ((h) * NSERVER + (i))

byte clock = 1;
byte upto[NSERVER];	/* of the last range, of one number */
byte holder[NSERVER];	/* host + 1; 0 = free */
byte took[NHOST * NSERVER];	/* the number taken for this host's acquire; 0 = not granted, or no reply yet */
bit late[NHOST];	/* the time of its lease is over */
byte last;	/* the largest token of a holder */
byte losses = N_LOSS, expiries = N_EXPIRE;

inline higher(a, b)
{
	if
	:: b > a -> a = b
	:: else -> skip
	fi
}

/* acquire-x.lua at one server.  In its reserve() the proposal is another clock. */
inline take(i)
{
	d_step {
		if
		:: holder[i] == 0 ->
			holder[i] = me + 1;
			n = upto[i];
			higher(n, proposed);
#ifndef MUT_TOKENS_NO_CLOCK
			higher(n, clock);
#endif
			higher(n, 1);
			took[AT(me, i)] = n;
			upto[i] = n + 1;
			n = 0
		:: else -> skip
		fi
	}
}

/* fence.lua */
inline level(i)
{
	d_step { higher(upto[i], token + 1) }
}

/* release.lua; an acquire that was not executed yet is executed before it, or was lost. */
inline give_back(i)
{
	d_step {
		if
		:: holder[i] == me + 1 -> holder[i] = 0
		:: else -> skip
		fi;
		took[AT(me, i)] = 0
	}
}

#define TOOK(i) took[AT(me, i)]
#define GRANTED ((TOOK(0) != 0) + (TOOK(1) != 0) + (TOOK(2) != 0) >= MAJORITY)
#ifdef MUT_TOKENS_LEVELLED_ANYWHERE
#define LEVELS(i) 1
#else
/* Only where this host has the key: another one that has it there took its number before. */
#define LEVELS(i) (TOOK(i) != 0)
#endif
#define ALIKE(i, k) (TOOK(i) != 0 && TOOK(i) == TOOK(k))

/* quorum_fence_agreed(), quorum_fence_highest() */
inline decide()
{
	d_step {
#ifndef MUT_TOKENS_NOT_ALIKE
		if
		:: ALIKE(0, 1) || ALIKE(0, 2) -> token = TOOK(0); agreed = 1
		:: else ->
			if
			:: ALIKE(1, 2) -> token = TOOK(1); agreed = 1
			:: else -> higher(token, TOOK(0)); higher(token, TOOK(1)); higher(token, TOOK(2))
			fi
		fi
#else
		higher(token, TOOK(0)); higher(token, TOOK(1)); higher(token, TOOK(2));
		agreed = 1
#endif
	}
}

/* A host has the key, with a token. */
inline hold()
{
	d_step {
		if
		:: !late[me] -> assert(token > last); last = token
		:: else -> skip
		fi
	}
}

proctype host(byte me)
{
	byte n, proposed, token, ops = NOPS, tries;
	byte sent, levelled;	/* a bit for each server */
	bit agreed;

	do
	:: ops == 0 -> break
	:: ops > 0 ->
		ops--;
		/* Servers that were not seen yet: no proposal. */
		if
		:: proposed = 0
		:: proposed = clock + LEAD
		fi;
		sent = 0;
ASK:		do
		:: !(sent & 1) -> atomic { take(0); sent = sent | 1 }
		:: !(sent & 2) -> atomic { take(1); sent = sent | 2 }
		:: !(sent & 4) -> atomic { take(2); sent = sent | 4 }
		:: GRANTED -> break
		:: sent == 7 || (sent != 0 && !GRANTED) -> goto BACK	/* refused, or no reply in time */
		od;
		/* With these replies, in one step. */
DECIDE:		atomic {
			decide();
			if
			:: agreed -> hold(); goto BACK
			:: else -> skip
			fi
		}
LEVEL:			do
			:: !(levelled & 1) && LEVELS(0) -> atomic { level(0); levelled = levelled | 1 }
			:: !(levelled & 2) && LEVELS(1) -> atomic { level(1); levelled = levelled | 2 }
			:: !(levelled & 4) && LEVELS(2) -> atomic { level(2); levelled = levelled | 4 }
#ifdef MUT_TOKENS_LEVELLED_ONCE
			:: levelled != 0 -> break
#else
			:: (levelled & 1) + (levelled >> 1 & 1) + (levelled >> 2 & 1) >= MAJORITY -> break
#endif
			od;
		hold();
		/* Held until now, or for longer.  What comes late at a server comes before the release there. */
BACK:		if
		:: !(sent & 1) -> atomic { take(0); sent = sent | 1 }
		:: !(sent & 2) -> atomic { take(1); sent = sent | 2 }
		:: !(sent & 4) -> atomic { take(2); sent = sent | 4 }
		:: skip
		fi;
		give_back(0);
		give_back(1);
		atomic { give_back(2); late[me] = 0; token = 0; proposed = 0; agreed = 0; sent = 0; levelled = 0 }
	od
}

active proctype time()
{
	byte h;

end:	do
	:: clock < CLOCK_MAX -> clock++
	:: atomic {
			losses > 0 && clock >= upto[0] && clock >= upto[1] && clock >= upto[2] && clock > last;
			losses--;
			if
			:: upto[0] = 0
			:: upto[0] = 0; upto[1] = 0; upto[2] = 0
			fi
		}
	:: atomic {
			expiries > 0;
			expiries--;
			if
			:: h = 0
			:: h = NHOST - 1
			fi;
			late[h] = 1;
			if :: holder[0] == h + 1 -> holder[0] = 0 :: else -> skip fi;
			if :: holder[1] == h + 1 -> holder[1] = 0 :: else -> skip fi;
			if :: holder[2] == h + 1 -> holder[2] = 0 :: else -> skip fi;
			h = 0
		}
	od
}

init {
	byte h;

	atomic {
		do
		:: h < NHOST -> run host(h); h++
		:: else -> break
		od;
		h = 0
	}
}
