/* SPDX-License-Identifier: MIT */
/*
 * lease.pml - changes of mode of a host lease: the word in the segment, the record in Redis, bridges that
 * are stopped; for SPIN 6.5
 *
 * One lease that goes on all the time.  On this host a holder who reads, and upgrades and downgrades (owner); somebody
 * whose hold is over and who does not know (stale); two bridges, each of which may stand still at any step, with a
 * command that is executed late or an answer that is heard late.  Another host that reads when Redis lets it.  The
 * local queue is taken to be right: of live holds only one writes, and then nobody reads.  Each load, store and CAS of
 * shared memory is one step, so is each script.  Switches are in README.md.
 */
#ifndef NOPS
#define NOPS 4
#endif
#ifndef N_RENEW
#define N_RENEW 1
#endif
#ifndef N_FAIL
#define N_FAIL 0
#endif
#ifndef N_STALE
#define N_STALE 1
#endif
#ifndef N_WISH
#define N_WISH 0
#endif
#ifndef N_OTHER
#define N_OTHER 1
#endif
#ifndef TMAX
#define TMAX 3
#endif

/* The word: [turn:4 | LOOKED | DOWNGRADE | UPGRADE | EXCLUSIVE] */
#define X 1
#define U 2
#define D 4
#define L 8
#define TURN(w) ((w) >> 4)
#define NEXT_TURN 16
#define HAS(w, bits) (((w) & (bits)) == (bits))
#define NONE_OF(w, bits) (((w) & (bits)) == 0)

/* host_lease_withdrawn() */
#define TAKEN_BACK(w) (TURN(w) < TMAX -> ((w) & ~U | D | L) + NEXT_TURN : (w) & ~U)

#ifdef SHARED
#define AT_FIRST 0
#else
#define AT_FIRST 1
#endif

byte word = AT_FIRST;
/* Redis: a writer's (string) or readers' (set), ours always among them; the turn in which it was a writer's last. */
bit string = AT_FIRST;
byte since;
bit other;	/* the other host reads */
bit demand;	/* or waits for that */
bit mode = AT_FIRST;	/* of the owner's request: exclusive */
bit writes = AT_FIRST;	/* and it was told so */
#if N_STALE == 0 && N_FAIL == 0
bit wished;	/* it has become a reader, and nobody has asked for anything since */
#else
hidden byte wished;
#endif
byte nrenew = N_RENEW, nfail = N_FAIL;
byte nother = N_OTHER, nstale = N_STALE, nwish = N_WISH;


mtype = { IDLE, UP1, UP2, UP3, WISH, NO_WISH, ASK1, ASK2, LOOK, CHANGE, SENT, HEARD, REFUSED };
mtype = { UPGRADE, DOWNGRADE, RENEW };
mtype = { GRANTED, BUSY, DONE, HOST, READERS };

/* ---------------------------------------------------------------- those who hold, or did */

/* hold.c: upgrade() says that it is done.  Nobody else may read while somebody writes here. */
inline g_writes()
{
	assert(!other);
	assert(string);
	writes = 1;
	wished = 0
}

inline call_over()
{
	w = 0; asked = 0; again = 0;
	pc = IDLE
}

/* UPGRADE never stands beside DOWNGRADE: only where nobody writes. */
#ifdef MUT_ASK_BESIDE
#define MAY_ASK(w) (!HAS(w, X | U))
#else
#define MAY_ASK(w) (NONE_OF(w, X | U | D))
#endif

/* global/acquire.c: global_upgrade().  One look at the word; @granted is where it goes on. */
inline ask1(granted)
{
	w = word;
	if
	:: HAS(w, X) -> w = 0; asked = 0; pc = granted
	:: !HAS(w, X) && asked && !HAS(w, U) -> call_over()
#ifdef MAJORITY
	:: !HAS(w, X) && !(asked && !HAS(w, U)) && TURN(w) == TMAX -> call_over()
#endif
	:: else -> asked = HAS(w, U); pc = ASK2
	fi
}

inline ask2()
{
	if
	:: word == w && MAY_ASK(w) -> word = w | U; asked = 1
	:: else -> skip
	fi;
	w = 0;
	pc = ASK1
}

/* Its time is over, which may be at any step. */
inline give_up()
{
	if
	:: word == w ->
		word = (HAS(w, U) -> TAKEN_BACK(w) : w);
		call_over()
	:: else -> w = 0; pc = ASK1
	fi
}

/* host_lease_request_downgrade() */
inline wish_shared()
{
	if
	:: HAS(word, X) && TURN(word) < TMAX -> word = word | D
	:: else -> skip
	fi
}

inline wish_taken_back()
{
	word = (HAS(word, X) -> word & ~D : word)
}

active proctype owner()
{
	mtype pc = IDLE;
	byte w, ops;
	bit asked, again;

	do
	:: d_step { pc == IDLE && ops < NOPS && !mode -> ops++; wished = 0; pc = UP1 }
	/* hold.c: lockshm_downgrade() */
	:: d_step { pc == IDLE && ops < NOPS && mode -> ops++; writes = 0; mode = 0; pc = WISH }
	:: d_step { pc == WISH -> wish_shared(); wished = 1; pc = IDLE }
	/* hold.c: upgrade() */
	:: d_step { pc == UP1 ->
		if
		:: HAS(word, X) -> w = TURN(word); pc = UP2
		:: !HAS(word, X) && !again -> pc = ASK1
		:: else -> call_over()
		fi
	}
	:: d_step { pc == UP2 -> mode = 1; pc = UP3 }
	/* Somebody has come in who reads, too: it is not the only one. */
	:: d_step { pc == UP2 && !again -> call_over() }
	:: d_step { pc == UP2 && again -> call_over(); pc = WISH }
	/* lease_is_exclusive() */
	:: d_step { pc == UP3 ->
		if
#ifdef MUT_NO_LOOK_BACK
		:: true ->
#else
		:: TURN(word) == w && HAS(word, X) ->
#endif
			g_writes();
			call_over();
#ifdef MUT_WISH_TAKEN_BACK
			pc = NO_WISH
#endif
		:: else ->
			mode = 0;
			w = 0;
			if
			:: again -> call_over()
			:: else -> pc = ASK1
			fi
		fi
	}
#ifdef MUT_WISH_TAKEN_BACK
	:: d_step { pc == NO_WISH -> wish_taken_back(); pc = IDLE }
#endif
	:: d_step { pc == ASK1 -> again = 1; ask1(UP1) }
	/* Sleeps as long as there is nothing to be done but to wait. */
	:: d_step { pc == ASK2 && (word != w || MAY_ASK(w)) -> ask2() }
	:: d_step { pc == ASK2 -> give_up() }
	:: pc == IDLE -> break
	od
}

/* Whose hold is over: it was stopped in one of its calls, and goes on at any time. */
active proctype stale()
{
	mtype pc = IDLE;
	byte w;
	bit asked, again;

	do
	:: d_step { pc == IDLE && nstale > 0 -> nstale--; pc = ASK1 }
	:: d_step { pc == IDLE && nwish > 0 -> nwish--; wish_shared() }
#ifdef MUT_WISH_TAKEN_BACK
	:: d_step { pc == IDLE && nwish > 0 -> nwish--; wish_taken_back() }
#endif
	:: d_step { pc == ASK1 -> ask1(IDLE) }
	/* Sleeps as long as there is nothing to be done but to wait. */
	:: d_step { pc == ASK2 && (word != w || MAY_ASK(w)) -> ask2() }
	:: d_step { pc == ASK2 -> give_up() }
	:: pc == IDLE && nstale == 0 && nwish == 0 -> break
	od
}

/* ---------------------------------------------------------------- another host */

active proctype elsewhere()
{
end:	do
	:: d_step { nother > 0 && !demand && !other -> nother--; demand = 1 }
	:: d_step { demand && !string -> demand = 0; assert(!writes); other = 1 }
	:: d_step { other -> other = 0 }
	:: nother == 0 && !demand && !other -> break
	od
}

/* ---------------------------------------------------------------- what the bridge does */

/* A wish for a downgrade, or of those who wait elsewhere. */
#ifdef MUT_WISH_ONLY
#define WANTED_SHARED(w) HAS(w, D)
#else
#define WANTED_SHARED(w) (HAS(w, D) || demand)
#endif
#ifdef MUT_ASK_BESIDE
#define UPGRADE_DUE(w) HAS(w, U)
#else
#define UPGRADE_DUE(w) (HAS(w, U) && !HAS(w, D))
#endif
#ifdef MUT_NO_LOOK
#define NOBODY true
#else
#define NOBODY !mode
#endif
#define UNLOOKED(w) (((w) & (X | D | L)) == D)
/* EXCLUSIVE is to be taken back, or the wish if there is no turn left. */
#define TOO_MUCH(w) (HAS(w, X) && (TURN(w) < TMAX -> WANTED_SHARED(w) : HAS(w, D)))
/* A change of the word that needs no answer. */
#define CHANGES(w) ((UPGRADE_DUE(w) && HAS(w, D)) || (!UPGRADE_DUE(w) && \
	((TOO_MUCH(w) && !mode) || (UNLOOKED(w) && NOBODY))))
#define CHANGED(w) (UPGRADE_DUE(w) -> (w) & ~(D | L) : (UNLOOKED(w) -> (w) | L : \
	(TURN(w) < TMAX -> (((w) & ~X) | D) + NEXT_TURN : (w) & ~D)))
#define DOWNGRADE_DUE(w) (!UPGRADE_DUE(w) && ((w) & (X | D | L)) == (D | L))
/* Redis has it as a writer's, and nobody has noted that: the next renewal will find out. */
#define UNKNOWN(w) (NONE_OF(w, X | U | D) && string)
#define DUE(w) (UPGRADE_DUE(w) || CHANGES(w) || DOWNGRADE_DUE(w) || UNKNOWN(w))

/* ---------------------------------------------------------------- and Redis */

/* upgrade.lua, downgrade.lua, renew.lua.  What is executed counts, whoever hears of it. */
inline execute()
{
	if
	:: script == UPGRADE ->
		if
		:: !string && other -> answer = BUSY
		:: else ->
			string = 1;
			since = (since > TURN(w) -> since : TURN(w));
			answer = GRANTED
		fi
	:: script == DOWNGRADE ->
		if
		:: !string -> answer = DONE
#ifndef MUT_ANY_DOWNGRADE
		:: string && since >= TURN(w) -> answer = BUSY
#endif
		:: else -> string = 0; answer = DONE
		fi
	:: else -> answer = (string -> HOST : READERS)
	fi
}

/* ---------------------------------------------------------------- and then; @w is the word with which it was asked */

/* Of a writer's lease?  bridge/lease.c: renew() */
#define EXPECTS_WRITER (HAS(w, X) || UNLOOKED(w))
/* Must it be that still? */
#ifdef MUT_TURN_ONLY
#define STILL_WRITER (EXPECTS_WRITER && TURN(w) == TURN(word))
#else
#define STILL_WRITER (TURN(w) == TURN(word) && (HAS(w, X) || (UNLOOKED(w) && UNLOOKED(word))))
#endif
/* Redis has it as a writer's, and nobody has noted that, so nobody writes. */
#define NOT_NOTED (TURN(word) == TURN(w) && NONE_OF(word, X | U | D))

inline end_downgrade()
{
	word = (TURN(word) == TURN(w) && (word & (D | X)) == D -> word & ~(D | L) : word)
}

inline look_again()
{
	w = 0; script = 0; answer = 0;
	pc = IDLE
}

/* bridge/lease-reply.c.  That the word is read first, and then changed by a CAS from what was read, is one step here: what
 * fails is tried again, or the answer is none. */
inline take()
{
	if
	:: script == RENEW && answer == READERS ->
		/* It would be LOST, though Redis has what it should have. */
		assert(!STILL_WRITER);
		look_again()
	:: script == RENEW && answer == HOST ->
#ifdef MUT_HOST_ASKS
		word = (NOT_NOTED -> word | U : word);
#else
		word = (NOT_NOTED -> TAKEN_BACK(word) : word);
#endif
		look_again()
#ifdef MUT_LATE_GRANT
	:: script == UPGRADE && answer == GRANTED ->
#else
	:: script == UPGRADE && TURN(w) == TURN(word) && answer == GRANTED ->
#endif
#ifdef MUT_GRANT_AGAIN
		word = (word | X) & ~(U | D | L);
#else
		/* Only once: by now it may be wished otherwise. */
		word = (HAS(word, X) -> word : (word | X) & ~(U | D | L));
#endif
		look_again()
	:: script == UPGRADE && TURN(w) == TURN(word) && answer == BUSY ->
#ifdef MAJORITY
		/* Some servers may have done it. */
		word = (HAS(word, X) -> word : TAKEN_BACK(word));
#else
		word = word & ~U;
#endif
		look_again()
	:: script == DOWNGRADE && TURN(w) == TURN(word) && answer == DONE -> end_downgrade(); look_again()
	:: script == DOWNGRADE && TURN(w) == TURN(word) && answer == BUSY ->
		end_downgrade();
#ifdef MAJORITY
		look_again()
#else
		pc = REFUSED
#endif
	:: else -> look_again()
	fi
}

inline ask(what)
{
	script = what;
	pc = SENT
}

active [2] proctype bridge()
{
	mtype pc = IDLE, script, answer;
	byte w;

end:	do
	/* bridge/lease-held.c: lease_at_held().  Not where there is nothing to be done. */
	:: d_step { pc == IDLE && (DUE(word) || nrenew > 0) -> w = word; pc = LOOK }
	/* A look at the queue, and what follows. */
	:: d_step { pc == LOOK && CHANGES(w) -> pc = CHANGE }
	:: d_step { pc == LOOK && UPGRADE_DUE(w) && !CHANGES(w) -> ask(UPGRADE) }
	:: d_step { pc == LOOK && DOWNGRADE_DUE(w) -> ask(DOWNGRADE) }
	:: d_step { pc == LOOK && UNKNOWN(w) -> ask(RENEW) }
	:: d_step { pc == LOOK && nrenew > 0 -> nrenew--; ask(RENEW) }
	:: d_step { pc == LOOK && !DUE(w) -> look_again() }
	:: d_step { pc == CHANGE ->
		word = (word == w -> CHANGED(w) : word);
		look_again()
	}
	:: d_step { pc == SENT -> execute(); pc = HEARD }
	/* Lost on the way there, on the way back, or refused. */
	:: d_step { pc == SENT && nfail > 0 -> nfail--; look_again() }
	:: d_step { pc == SENT && nfail > 0 -> nfail--; execute(); look_again() }
	:: d_step { pc == SENT && nfail > 0 && script != RENEW -> nfail--; answer = BUSY; pc = HEARD }
#ifdef MAJORITY
	/* Done on some servers, but not by a majority. */
	:: d_step { pc == SENT && nfail > 0 && script == UPGRADE -> nfail--; execute(); answer = BUSY; pc = HEARD }
#endif
	:: d_step { pc == HEARD -> take() }
	:: d_step { pc == REFUSED -> word = (NOT_NOTED -> word | U : word); look_again() }
	od
}

/* Nothing can move: whoever waits does so for ever. */
active proctype monitor()
{
	timeout ->
		assert(!demand || mode || TURN(word) == TMAX);
		assert(!wished || N_FAIL > 0 || N_STALE > 0 || !string || TURN(word) == TMAX)
}
