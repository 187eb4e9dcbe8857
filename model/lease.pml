/* SPDX-License-Identifier: MIT */
/*
 * lease.pml - changes of mode of a host lease: the word in the segment, the record in Redis, stopped leaders; for SPIN
 * 6.5
 *
 * One lease that is held all the time.  On this host a holder that reads, upgrades and downgrades (owner); a former
 * holder that does not know yet (stale); two leaders, each of which may stop at any step, with a command that is
 * executed late or a reply that is applied late.  Another host that reads when Redis lets it.  The local queue is taken
 * to be right: of live holds only one writes, and then none reads.  Each load, store and CAS of shared memory is one
 * step, so is each script.  Switches are in README.md.
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

/* The word: [mode_gen:4 | DRAINED | DOWNGRADE | UPGRADE | EXCLUSIVE] */
#define X 1
#define U 2
#define D 4
#define L 8
#define MODE_GEN(w) ((w) >> 4)
#define NEXT_MODE_GEN 16
#define HAS(w, bits) (((w) & (bits)) == (bits))
#define NONE_OF(w, bits) (((w) & (bits)) == 0)

/* host_lease_withdrawn() */
#define WITHDRAWN(w) (MODE_GEN(w) < TMAX -> ((w) & ~U | D | L) + NEXT_MODE_GEN : (w) & ~U)

#ifdef SHARED
#define AT_FIRST 0
#else
#define AT_FIRST 1
#endif

byte word = AT_FIRST;
/* Redis: exclusive (string) or shared (set), always with our value; the last mode_gen in which it was exclusive. */
bit string = AT_FIRST;
byte since;
bit other;	/* the other host reads */
bit demand;	/* or waits to read */
bit mode = AT_FIRST;	/* of the owner's request: exclusive */
bit writes = AT_FIRST;	/* and its upgrade has returned */
#if N_STALE == 0 && N_FAIL == 0
bit requested;	/* it has become a reader, and no upgrade was requested since */
#else
hidden byte requested;
#endif
byte nrenew = N_RENEW, nfail = N_FAIL;
byte nother = N_OTHER, nstale = N_STALE, nwish = N_WISH;


mtype = { IDLE, UP1, UP2, UP3, WISH, NO_WISH, ASK1, ASK2, LOOK, CHANGE, SENT, HEARD, REFUSED };
mtype = { UPGRADE, DOWNGRADE, RENEW };
mtype = { GRANTED, BUSY, DONE, HOST, READERS };

/* ---------------------------------------------------------------- holders, and a former one */

/* hold.c: upgrade() returns.  No other host may read while a local holder writes. */
inline g_writes()
{
	assert(!other);
	assert(string);
	writes = 1;
	requested = 0
}

inline call_over()
{
	w = 0; asked = 0; again = 0;
	pc = IDLE
}

/* UPGRADE is never set together with DOWNGRADE: only without a writer. */
#ifdef MUT_ASK_BESIDE
#define MAY_ASK(w) (!HAS(w, X | U))
#else
#define MAY_ASK(w) (NONE_OF(w, X | U | D))
#endif

/* global/acquire.c: host_lease_upgrade().  One load of the word; @granted is the next step after success. */
inline ask1(granted)
{
	w = word;
	if
	:: HAS(w, X) -> w = 0; asked = 0; pc = granted
	:: !HAS(w, X) && asked && !HAS(w, U) -> call_over()
#ifdef MAJORITY
	:: !HAS(w, X) && !(asked && !HAS(w, U)) && MODE_GEN(w) == TMAX -> call_over()
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
		word = (HAS(w, U) -> WITHDRAWN(w) : w);
		call_over()
	:: else -> w = 0; pc = ASK1
	fi
}

/* host_lease_request_downgrade() */
inline request_downgrade()
{
	if
	:: HAS(word, X) && MODE_GEN(word) < TMAX -> word = word | D
	:: else -> skip
	fi
}

inline withdraw_downgrade()
{
	word = (HAS(word, X) -> word & ~D : word)
}

active proctype owner()
{
	mtype pc = IDLE;
	byte w, ops;
	bit asked, again;

	do
	:: d_step { pc == IDLE && ops < NOPS && !mode -> ops++; requested = 0; pc = UP1 }
	/* hold.c: lockshm_downgrade() */
	:: d_step { pc == IDLE && ops < NOPS && mode -> ops++; writes = 0; mode = 0; pc = WISH }
	:: d_step { pc == WISH -> request_downgrade(); requested = 1; pc = IDLE }
	/* hold.c: upgrade() */
	:: d_step { pc == UP1 ->
		if
		:: HAS(word, X) -> w = MODE_GEN(word); pc = UP2
		:: !HAS(word, X) && !again -> pc = ASK1
		:: else -> call_over()
		fi
	}
	:: d_step { pc == UP2 -> mode = 1; pc = UP3 }
	/* Another local reader has entered: the owner is not alone. */
	:: d_step { pc == UP2 && !again -> call_over() }
	:: d_step { pc == UP2 && again -> call_over(); pc = WISH }
	/* lease_is_exclusive() */
	:: d_step { pc == UP3 ->
		if
#ifdef MUT_NO_LOOK_BACK
		:: true ->
#else
		:: MODE_GEN(word) == w && HAS(word, X) ->
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
	:: d_step { pc == NO_WISH -> withdraw_downgrade(); pc = IDLE }
#endif
	:: d_step { pc == ASK1 -> again = 1; ask1(UP1) }
	/* Sleeps as long as it can only wait. */
	:: d_step { pc == ASK2 && (word != w || MAY_ASK(w)) -> ask2() }
	:: d_step { pc == ASK2 -> give_up() }
	:: pc == IDLE -> break
	od
}

/* A former holder: it was stopped in one of its calls, and continues at any time. */
active proctype stale()
{
	mtype pc = IDLE;
	byte w;
	bit asked, again;

	do
	:: d_step { pc == IDLE && nstale > 0 -> nstale--; pc = ASK1 }
	:: d_step { pc == IDLE && nwish > 0 -> nwish--; request_downgrade() }
#ifdef MUT_WISH_TAKEN_BACK
	:: d_step { pc == IDLE && nwish > 0 -> nwish--; withdraw_downgrade() }
#endif
	:: d_step { pc == ASK1 -> ask1(IDLE) }
	/* Sleeps as long as it can only wait. */
	:: d_step { pc == ASK2 && (word != w || MAY_ASK(w)) -> ask2() }
	:: d_step { pc == ASK2 -> give_up() }
	:: pc == IDLE && nstale == 0 && nwish == 0 -> break
	od
}

/* ---------------------------------------------------------------- another host */

active proctype other_host()
{
end:	do
	:: d_step { nother > 0 && !demand && !other -> nother--; demand = 1 }
	:: d_step { demand && !string -> demand = 0; assert(!writes); other = 1 }
	:: d_step { other -> other = 0 }
	:: nother == 0 && !demand && !other -> break
	od
}

/* ---------------------------------------------------------------- the leader's decisions */

/* DOWNGRADE, or waiters of other hosts. */
#ifdef MUT_WISH_ONLY
#define SHARED_WANTED(w) HAS(w, D)
#else
#define SHARED_WANTED(w) (HAS(w, D) || demand)
#endif
#ifdef MUT_ASK_BESIDE
#define UPGRADE_DUE(w) HAS(w, U)
#else
#define UPGRADE_DUE(w) (HAS(w, U) && !HAS(w, D))
#endif
#ifdef MUT_NO_LOOK
#define NO_WRITER true
#else
#define NO_WRITER !mode
#endif
#define UNDRAINED(w) (((w) & (X | D | L)) == D)
/* EXCLUSIVE is to be cleared, or DOWNGRADE if no mode_gen is left. */
#define TOO_MUCH(w) (HAS(w, X) && (MODE_GEN(w) < TMAX -> SHARED_WANTED(w) : HAS(w, D)))
/* A change of the word that needs no reply. */
#define CHANGES(w) ((UPGRADE_DUE(w) && HAS(w, D)) || (!UPGRADE_DUE(w) && \
	((TOO_MUCH(w) && !mode) || (UNDRAINED(w) && NO_WRITER))))
#define CHANGED(w) (UPGRADE_DUE(w) -> (w) & ~(D | L) : (UNDRAINED(w) -> (w) | L : \
	(MODE_GEN(w) < TMAX -> (((w) & ~X) | D) + NEXT_MODE_GEN : (w) & ~D)))
#define DOWNGRADE_DUE(w) (!UPGRADE_DUE(w) && ((w) & (X | D | L)) == (D | L))
/* Exclusive in Redis and not in the word: the next renewal finds it. */
#define UNKNOWN(w) (NONE_OF(w, X | U | D) && string)
#define DUE(w) (UPGRADE_DUE(w) || CHANGES(w) || DOWNGRADE_DUE(w) || UNKNOWN(w))

/* ---------------------------------------------------------------- Redis */

/* upgrade.lua, downgrade.lua, renew.lua.  Executed is executed, whether or not the reply arrives. */
inline execute()
{
	if
	:: script == UPGRADE ->
		if
		:: !string && other -> reply = BUSY
		:: else ->
			string = 1;
			since = (since > MODE_GEN(w) -> since : MODE_GEN(w));
			reply = GRANTED
		fi
	:: script == DOWNGRADE ->
		if
		:: !string -> reply = DONE
#ifndef MUT_ANY_DOWNGRADE
		:: string && since >= MODE_GEN(w) -> reply = BUSY
#endif
		:: else -> string = 0; reply = DONE
		fi
	:: else -> reply = (string -> HOST : READERS)
	fi
}

/* ---------------------------------------------------------------- replies; @w is the word with which the command was
 * built */

/* Is an exclusive record expected?  bridge/lease-held.c: renew() */
#define EXPECTS_WRITER (HAS(w, X) || UNDRAINED(w))
/* And still? */
#ifdef MUT_TURN_ONLY
#define STILL_WRITER (EXPECTS_WRITER && MODE_GEN(w) == MODE_GEN(word))
#else
#define STILL_WRITER (MODE_GEN(w) == MODE_GEN(word) && (HAS(w, X) || (UNDRAINED(w) && UNDRAINED(word))))
#endif
/* Exclusive in Redis and not in the word, so there is no writer. */
#define NOT_NOTED (MODE_GEN(word) == MODE_GEN(w) && NONE_OF(word, X | U | D))

inline end_downgrade()
{
	word = (MODE_GEN(word) == MODE_GEN(w) && (word & (D | X)) == D -> word & ~(D | L) : word)
}

inline look_again()
{
	w = 0; script = 0; reply = 0;
	pc = IDLE
}

/* bridge/lease-reply.c.  The load of the word and the CAS from it are one step here: after a failure the CAS is
 * repeated, or the reply has no effect. */
inline take()
{
	if
	:: script == RENEW && reply == READERS ->
		/* It would be LOST, though Redis has what it should have. */
		assert(!STILL_WRITER);
		look_again()
	:: script == RENEW && reply == HOST ->
#ifdef MUT_HOST_ASKS
		word = (NOT_NOTED -> word | U : word);
#else
		word = (NOT_NOTED -> WITHDRAWN(word) : word);
#endif
		look_again()
#ifdef MUT_LATE_GRANT
	:: script == UPGRADE && reply == GRANTED ->
#else
	:: script == UPGRADE && MODE_GEN(w) == MODE_GEN(word) && reply == GRANTED ->
#endif
#ifdef MUT_GRANT_AGAIN
		word = (word | X) & ~(U | D | L);
#else
		/* Only once: a downgrade may have been requested since. */
		word = (HAS(word, X) -> word : (word | X) & ~(U | D | L));
#endif
		look_again()
	:: script == UPGRADE && MODE_GEN(w) == MODE_GEN(word) && reply == BUSY ->
#ifdef MAJORITY
		/* Some servers may have done it. */
		word = (HAS(word, X) -> word : WITHDRAWN(word));
#else
		word = word & ~U;
#endif
		look_again()
	:: script == DOWNGRADE && MODE_GEN(w) == MODE_GEN(word) && reply == DONE -> end_downgrade(); look_again()
	:: script == DOWNGRADE && MODE_GEN(w) == MODE_GEN(word) && reply == BUSY ->
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
	mtype pc = IDLE, script, reply;
	byte w;

end:	do
	/* bridge/lease-held.c: bridge_lease_at_held().  Not if there is nothing to do. */
	:: d_step { pc == IDLE && (DUE(word) || nrenew > 0) -> w = word; pc = LOOK }
	/* A scan of the queue, and what follows. */
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
	/* The command is lost, its reply is lost, or it is refused. */
	:: d_step { pc == SENT && nfail > 0 -> nfail--; look_again() }
	:: d_step { pc == SENT && nfail > 0 -> nfail--; execute(); look_again() }
	:: d_step { pc == SENT && nfail > 0 && script != RENEW -> nfail--; reply = BUSY; pc = HEARD }
#ifdef MAJORITY
	/* Done on some servers, but not by a majority. */
	:: d_step { pc == SENT && nfail > 0 && script == UPGRADE -> nfail--; execute(); reply = BUSY; pc = HEARD }
#endif
	:: d_step { pc == HEARD -> take() }
	:: d_step { pc == REFUSED -> word = (NOT_NOTED -> word | U : word); look_again() }
	od
}

/* Nothing can move: a process that waits would wait for ever. */
active proctype monitor()
{
	timeout ->
		assert(!demand || mode || MODE_GEN(word) == TMAX);
		assert(!requested || N_FAIL > 0 || N_STALE > 0 || !string || MODE_GEN(word) == TMAX)
}
