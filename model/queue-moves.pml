/* SPDX-License-Identifier: MIT */
/*
 * queue-moves.pml - where a thread goes next: no shared access of their own
 *
 * These are the branches of the functions in src/.  Each is used inside the d_step of the load, store or CAS before it.
 */

/*
 * Record r becomes FREE.  Its fields are cleared only to merge states: readers of a FREE record's fields are refused by
 * the word they check or CAS afterwards.  Not the sleep flag: its owner may be asleep still.
 */
inline set_free(r)
{
	word[r] = FREED(word[r]);
	dl[r] = 0;
	rowner[r] = NOBODY;
	ticket[r] = 0;
#ifdef HINTS
	hint[r] = 0;
#endif
#ifdef RENEW
	conf[r] = 0;
#endif
}

#define ANCHOR ((a != 0 && word[a] == wa) || (a == 0 && tail == t))
#define MINE(w) (GEN(w) == g && HELD(w))
/* May the time of y have passed?  Must it? */
#define CANPASS ((ST(wy) == S_COOLING) || (HELD(wy) && (nexp > 0 || HAS(stopped, rowner[y]) || force)))
#define MUSTPASS ((HELD(wy) && (HAS(stopped, rowner[y]) || force)) || (ST(wy) == S_COOLING && late))
#define TIME_MATTERS (CANPASS || (HELD(wy) && nstop > 0))
#if N_CRASH > 0
#define LIFE_MATTERS (ST(wy) != S_COOLING)
#else
#define LIFE_MATTERS false
#endif

inline clear_walk()
{
	a = 0; wa = 0; y = 0; wy = 0; t = 0; d = 0; k = 0; m = 0; mine = 0; one = 0; inrun = 0
}

/* Tickets are only compared: renumber them 1, 2, ... in the order they have. */
inline renumber()
{
#ifdef RENAME
	c_code { renumber_tickets(); }
#else
	skip
#endif
}

inline end_op()
{
	g_forget();
	clear_walk();
#if N_CANCEL > 0
	wref[_pid] = 0;
#endif
#ifdef LINGER
	again[_pid] = 0;
#endif
	me = 0; g = 0; x = 0; to = 0; act = 0; late = 0; force = 0; hid = 0; wme = 0; ret = 0; rk = 0;
	renumber();
#ifndef FOREVER
	ops++;
#endif
	pc = IDLE
}

inline do_ret()
{
	clear_walk();
	if
	:: ret == R_WAIT -> late = 0; pc = PM
	:: ret == R_HOLD -> ret = 0; pc = HOLD
	:: ret == R_OP -> end_op()
	:: ret == R_RECLAIM -> pc = RC4
	:: ret == R_JOIN || ret == R_ADVANCE -> ret = 0; pc = A1
	:: ret == R_UPGRADE -> ret = 0; pc = U1
	:: ret == R_LEAVE || ret == R_POP || ret == R_PASS ->
		/* P7: a thread that leaves has no request of its own in the queue. */
		assert(!(HAS(linked, me) && GEN(word[me]) == g));
#ifdef MUT_PLAIN_FREE
		set_free(me);
#endif
		end_op()
	fi
}

inline restart()
{
	if
#ifdef HINTS
	:: one && ret == R_LEAVE -> clear_walk(); pc = N5
#endif
	:: mine -> clear_walk(); pc = PM
	:: else -> clear_walk(); pc = T0
	fi
}

#define MY_DEAD (GEN(word[me]) == g && ENDED(word[me]))

/* A run of grants is over; a walk that must see the whole queue begins again. */
inline run_end()
{
	if
	:: ret == R_RECLAIM -> restart()
	:: else -> do_ret()
	fi
}

/* R5: a helper that meets a granted request whose sleep flag is set wakes it again. */
inline wake_granted()
{
	if
	:: a != 0 && a != me && ST(wa) == S_GRANTED -> wake(a)
	:: else
	fi
}

/* Anchor a (word wa) is linked and live: on to the request before it. */
inline step_on()
{
	wy = 0;
	if
	:: a == me && mine && ST(wa) != S_WAITING -> clear_walk(); pc = PM	/* granted by others meanwhile */
	:: !(a == me && mine && ST(wa) != S_WAITING) && PREV(wa) == 0 ->
		y = 0;
		if
		:: ST(wa) == S_WAITING -> pc = G1
		:: else -> wake_granted(); do_ret()
		fi
	:: !(a == me && mine && ST(wa) != S_WAITING) && PREV(wa) != 0 -> y = PREV(wa); pc = P1
	fi
}

/* y was unlinked and freed. */
inline go_on()
{
	wy = 0;
	if
	:: a == 0 -> y = 0; pc = T0
	:: else -> step_on()
	fi
}

#ifdef MUT_FREE_FIRST
#define wake_done() step_on()
#else
#define wake_done() pc = PF
#endif

/* R4: y was unlinked through a: hint and wake first, then free, so that FREE says that both are done. */
inline unlinked()
{
#ifdef MUT_FREE_FIRST
	wy = 0; y = 0;
#endif
	if
#ifdef MUT_FREE_FIRST
	:: a == 0 -> pc = T0
#endif
#ifdef HINTS
	:: a != 0 && !(a == me && GEN(wa) == g) && PREV(wa) != 0 -> pc = PH
#endif
	:: a != 0 && !(a == me && GEN(wa) == g) && ST(wa) == S_WAITING && (NO_HINTS || PREV(wa) == 0) -> pc = PK
	:: else -> wake_done()
	fi
}

/* y is live and stays so for now. */
inline live_y()
{
	if
	:: a == 0 && ret == R_JOIN -> k = 1; ret = 0; y = 0; wy = 0; pc = A3	/* R1: and granted, and so am I */
	:: a != 0 && ST(wa) == S_WAITING && !MX(wa) && SHARED_HOLD(wy) -> pc = G1	/* R5 */
#ifdef MUT_NEXT_ONLY
	:: a == me && mine && !(ST(wa) == S_WAITING && !MX(wa) && SHARED_HOLD(wy)) -> late = 0; pc = W0L
#else
	:: a == me && mine && !late && !(ST(wa) == S_WAITING && !MX(wa) && SHARED_HOLD(wy)) -> pc = W0L
#endif
	:: one && !(ST(wa) == S_WAITING && !MX(wa) && SHARED_HOLD(wy)) -> wake_granted(); do_ret()
#ifdef HINTS
	:: ret == R_PASS && a != 0 && !(ST(wa) == S_WAITING && !MX(wa) && SHARED_HOLD(wy)) ->
		wake_granted(); a = y; wa = wy; d = 0; t = 0; pc = N6
#endif
	:: else -> wake_granted(); a = y; wa = wy; d = 0; t = 0; step_on()
	fi
}

inline dead_y()
{
	d = 0;
#if defined(MARKS) && !defined(MUT_MARK_AFTER)
	if
	:: MX(wy) && (ST(wy) == S_EXPIRED || ST(wy) == S_DEAD) -> pc = M0_
	:: else -> pc = PC
	fi
#else
	pc = PC
#endif
}

/* R7: the anchor has changed.  If it is live and the same request: on from its new word; else from the start. */
inline anchor_changed()
{
	if
	:: a != 0 && LIVE(word[a]) && GEN(word[a]) == GEN(wa) -> d = 0; wa = word[a]; step_on()
	:: else -> restart()
	fi
}

/* My CAS on y's word lost: read it again from the anchor (never trust a word read after the anchor's second load). */
inline judged_by_others()
{
	wy = 0; pc = P1
}

/* Grant or wake the successor of y (R5, R6); in a run of grants wy is the word y was granted with. */
inline look_after()
{
	mine = 0; a = 0; wa = 0; t = 0;
#ifdef HINTS
	pc = LA1
#else
	y = 0; wy = 0; inrun = 0; pc = T0
#endif
}

/* a was granted by me just now. */
inline after_grant()
{
	if
	:: a != me || mine == 0 -> pc = GW
	:: else ->
		if
		:: MX(wa) -> clear_walk(); pc = PM
		:: else ->
#ifdef MUT_NO_LOOK_AFTER
			clear_walk(); pc = PM
#else
			y = a; wy = wa; inrun = 1; look_after()
#endif
		fi
	fi
}

/* The hint is no good: find the successor by a walk (R6). */
inline no_hint()
{
#ifdef HINTS
	if
	:: ret == R_LEAVE && !inrun -> clear_walk(); pc = N1
	:: ret == R_PASS && inrun -> clear_walk(); ret = R_LEAVE; pc = T0
	:: else -> clear_walk(); pc = T0
	fi
#else
	clear_walk(); pc = T0
#endif
}

inline futex_wake(r)
{
	i_ = 0;
	do
	:: i_ == NPROC -> break
	:: else ->
		if
		:: slp[i_] == r -> slp[i_] = 0
		:: else
		fi;
		i_++
	od
}

inline wake(r)
{
	if
	:: HAS(sleeping, r) -> futex_wake(r)
	:: else
	fi
}

inline awake()
{
	slp[_pid] = 0;
	watch[_pid] = 0;
	sleeping = sleeping & ~BIT(me);
#ifdef LINGER
	behind[_pid] = 0;
#endif
#ifdef COOL
	nudge = nudge & ~BIT(_pid);
#endif
	pc = PM
}

inline leave()
{
	clear_walk();
	ret = R_LEAVE; y = me; look_after()
}

/* LOST: the helper that unlinked my request may have been killed before freeing it. */
inline reclaim_lost()
{
	if
	:: GEN(wme) == g && ENDED(wme) -> g_forget(); clear_walk(); rk = me; ret = R_RECLAIM; pc = T0
	:: else -> end_op()
	fi
}

/* The word m of the damage, as read: is there nothing to write for ticket k? */
#define MARK_SKIP (!(m & ROBUST) || MTICKET(m) >= k || (PENDING(m) && MDIED(m) && ST(wy) != S_DEAD))

inline after_mark()
{
	k = 0; m = 0;
#ifdef MUT_MARK_AFTER
	pc = PF
#else
	pc = PC
#endif
}

/*
 * A generation of record r that no thread remembers, in i_.  Generations are only compared for equality, so any fresh
 * one stands for "+1"; with FOREVER the smallest is taken, and so the number of operations needs no bound.
 */
inline fresh(r)
{
#ifdef RENAME
	i_ = r;
	c_code { i_ = fresh_generation(i_); };
	assert(i_ <= 30)
#else
	i_ = GEN(word[r]) + 1
#endif
}

#ifdef LINGER
#define OTHERS_MAY_TAKE_UP(r) (again[(_pid + 1) % NPROC] == (r) || (NPROC > 2 && again[(_pid + 2) % NPROC] == (r)))
#else
#define OTHERS_MAY_TAKE_UP(r) false
#endif

/* Of several keys none is entered before the last is granted. */
#ifdef MANY
#define AT_ONCE S_GRANTED
#define THEN_INSIDE PM
#else
#define AT_ONCE S_ENTERED
#define THEN_INSIDE HOLD
#endif

/*
 * R1: fill a FREE record; unreachable until the CAS on the tail.  Not one that a thread still sleeps on: only the
 * thread of its chunk fills a record, and that one is asleep.
 */
inline fill()
{
	i_ = 1;
	do
	:: i_ > NREC || (ST(word[i_]) == S_FREE && !HAS(sleeping, i_) && !OTHERS_MAY_TAKE_UP(i_)) -> break
	:: else -> i_++
	od;
	if
	:: i_ > NREC -> clear_walk(); rk = 1; pc = RC1
	:: else ->
		me = i_;
#ifdef MUT_SAME_GEN
		g = GEN(word[me]);
#else
		fresh(me); g = i_;
#endif
		assert(g < 31 && TICKET(t) < 30);
		word[me] = W(g, x, (k -> AT_ONCE : S_WAITING), IDX(t));
		dl[me] = (k -> g : UNSET(g));
#ifdef RENEW
		conf[me] = g;
#endif
		rowner[me] = _pid;
		ticket[me] = TICKET(t) + 1;
		sleeping = sleeping & ~BIT(me);
#ifdef HINTS
		hint[me] = 0;
#endif
		pc = A4
	fi
}

/* The tail was read before y's word, so the CAS on it shows that y is still the newest, whatever its word is by then. */
inline join_fast()
{
	k = 1; y = 0; wy = 0; pc = A3
}

inline join_slowly()
{
	wy = 0; ret = R_JOIN; pc = P1
}

/* R1: empty = granted at once; shared = check whether I can join. */
inline look_at_tail()
{
	k = 0; hid = 0;
	if
	:: IDX(t) == 0 -> k = 1; pc = A3
#ifdef ADVANCE
	:: IDX(t) != 0 && !act -> clear_walk(); act = 1; ret = R_ADVANCE; pc = T0
#endif
	:: else ->
		if
		:: x -> pc = A3
		:: else ->
			y = IDX(t); pc = J1;
#if N_CRASH > 0
			hid = HAS(dead, rowner[y])
#endif
		fi
	fi
}

inline begin(exclusive)
{
	x = exclusive;
	t = tail;
	look_at_tail()
}

/* R2: my word after the tail: my gen, granted, prev 0? */
inline look_at_mine()
{
	wme = word[me];
	if
#ifdef MUT_POP_ALIVE
	:: MINE(wme) -> pc = F3
#else
	:: MINE(wme) && PREV(wme) == 0 -> pc = F3
#endif
	:: else -> wme = 0; t = 0; pc = D1
	fi
}

/* R3: die first. */
inline release_by_dying()
{
	if
	:: word[me] == wme ->
		word[me] = WITH_ST(wme, S_RELEASED);
		CHANGED;
		assert(!HAS(over, _pid) && !HAS(lost, _pid));	/* P5: released ok: no other was granted before */
		g_forget();
		leave()
	:: else -> wme = 0; pc = D1
	fi
}

/* Announced: now the flag, and the kernel. */
inline to_sleep()
{
	wme = wa; w_ = wy;
	clear_walk();
#if defined(COOL) || defined(LINGER)
	wy = w_;
#endif
	pc = W3
}

#if defined(LINGER) && !defined(MUT_LINGER_UNWATCHED)
#define SAME_PREDECESSOR (word[PREV(wme)] == wy)
#else
#define SAME_PREDECESSOR true
#endif

/* The kernel compares my word, my predecessor's (R12), and the life word of its owner. */
inline sleep()
{
#ifdef LINGER
	behind[_pid] = PREV(wme);
#endif
	if
	:: word[me] == wme && ST(wy) == S_COOLING -> slp[_pid] = me; watch[_pid] = 9; pc = ASLEEP
	:: word[me] == wme && ST(wy) != S_COOLING && SAME_PREDECESSOR && !HAS(dead, rowner[PREV(wme)]) ->
		slp[_pid] = me; watch[_pid] = rowner[PREV(wme)] + 1; pc = ASLEEP
	:: else -> awake()
	fi;
#ifdef MUT_FLAG_LATE
	if
	:: pc == ASLEEP -> pc = ASL0
	:: else
	fi;
#endif
	wy = 0; wme = 0
}

#ifdef QUIET
#define KILLABLE (pc == HOLD || pc == ASLEEP)
#else
#define KILLABLE (pc != IDLE)
#endif
#define WATCHES_ME(o) (slp[(_pid + (o)) % NPROC] != 0 && watch[(_pid + (o)) % NPROC] == _pid + 1)

/* The kernel flags my life word and wakes one watcher, if there is one (o threads on from me). */
inline die(o)
{
	ncrash--;
	dead = dead | BIT(_pid);
	if
	:: rowner[me] == _pid -> sleeping = sleeping & ~BIT(me)	/* its records are given to others */
	:: else
	fi;
	slp[_pid] = 0;
	watch[_pid] = 0;
#ifdef LINGER
	behind[_pid] = 0;
#endif
	if
	:: o != 0 -> slp[(_pid + o) % NPROC] = 0
	:: else
	fi;
	end_op();
	ops = OPS(_pid);
	JOINED;
	CHANGED;
	pc = GONE
}

#ifdef LINGER
#ifdef MUT_LINGER_SHIELD
#define LINGERS_FOR_ME (ST(wy) == S_LINGERING && (a == 0 || (a == me && mine)))
#else
#define LINGERS_FOR_ME (ST(wy) == S_LINGERING && (a == 0 || (a == me && mine) || late))
#endif
#else
#define LINGERS_FOR_ME false
#endif

/* R7: y's word was read; the anchor again, then the next step for y. */
inline judge_y()
{
#ifdef MUT_POP_WORD_FIRST
	if
	:: a == 0 && IDX(tail) == y -> t = tail
	:: else
	fi;
#endif
	if
#ifndef MUT_NO_SECOND_READ
	:: !ANCHOR -> anchor_changed()
#endif
	:: else ->
#ifndef MUT_NO_SECOND_READ
		assert(ST(wy) != S_FREE);		/* P3 */
#endif
		if
		:: ST(wy) == S_FREE -> restart()
		:: a == 0 && ret == R_JOIN && !SHARED_HOLD(wy) && ST(wy) != S_FREE -> /* R1: behind it */
			k = 0; ret = 0; y = 0; wy = 0; hid = 0; pc = A3
#ifdef MUT_JOIN_UNJUDGED
		:: a == 0 && ret == R_JOIN && SHARED_HOLD(wy) -> live_y()
#endif
		:: y == me && ret == R_UPGRADE && a == 0 && LIVE(wy) -> /* R10: overdue is not lost */
			a = y; wa = wy; t = 0; step_on()
		:: else ->
			if
#ifdef LINGER
			:: LINGERS_FOR_ME -> pc = LE
#endif
			:: LIVE(wy) && LIFE_MATTERS && !LINGERS_FOR_ME -> pc = P3
			:: LIVE(wy) && !LIFE_MATTERS && TIME_MATTERS && !LINGERS_FOR_ME -> pc = PX
			:: LIVE(wy) && !LIFE_MATTERS && !TIME_MATTERS && !LINGERS_FOR_ME -> live_y()
			:: ENDED(wy) -> dead_y()
			fi
		fi
	fi
}
