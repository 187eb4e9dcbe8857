	/* SPDX-License-Identifier: MIT */
	/*
	 * steps-help.pml - R7, R9: forward to the head, and what is done on the way: src/lock/queue-advance.c,
	 * src/lock/queue.c, src/lock/damage.c
	 */
	:: d_step { pc == T0 -> /* R7: the anchor is the tail */
		t = tail; a = 0; wa = 0; wy = 0; one = ret == R_UPGRADE || ret == R_POP;
		if
		:: IDX(t) == 0 -> do_ret()
		:: else ->
			y = IDX(t); pc = P1;
#if N_CRASH > 0
			hid = ret == R_JOIN && HAS(dead, rowner[y])
#endif
		fi }
#ifdef MUT_DEADLINE_FIRST
	:: d_step { pc == P1 && d == 0 -> d = dl[y] }
	:: d_step { pc == P1 && d != 0 -> wy = word[y]; pc = P2 }
#else
	:: d_step { pc == P1 -> wy = word[y]; pc = P2 } /* R7: the one before the anchor */
#endif
	:: d_step { pc == P2 -> judge_y() } /* R7: the anchor again, after y */
#ifdef HINTS
	/* R2, R4: bypassed through a holder, which waits for none before it. */
	:: d_step { pc == P2 && one && ret == R_LEAVE && a != 0 && ST(wa) == S_ENTERED && LIVE(wy) -> do_ret() }
#endif
	/*
	 * R3: the life word of y's owner; if dead, y dies.  A flagged life stays flagged and a word that has not
	 * changed has the owner it had, so the load of a flagged life word and the CAS after it are one step.
	 */
	:: d_step { pc == P3 ->
		if
		:: HAS(dead, rowner[y]) ->
			if
			:: word[y] == wy ->
				if
				:: ST(wy) == S_WAITING -> wy = WITH_ST(wy, S_ABANDONED)
				:: ST(wy) == S_LINGERING -> wy = WITH_ST(wy, S_RELEASED)	/* R12 */
				:: else -> g_ended(y, wy); wy = WITH_ST(wy, BAD_END(ST(wy), S_DEAD))
				fi;
				word[y] = wy;
				CHANGED;
				dead_y()
			:: else -> judged_by_others()
			fi
		:: else ->
			if
			:: TIME_MATTERS -> pc = PX
			:: else -> live_y()
			fi
		fi }
	:: d_step { pc == PX && CANPASS -> /* R8: word, deadline, clock: passed */
#ifndef MUT_DEADLINE_FIRST
		d = dl[y];
#endif
		if
		:: (d & 128) -> d = 0; live_y()
		:: else ->
#if N_EXPIRE > 0
			if
			:: HELD(wy) && !MUSTPASS -> nexp--
			:: else
			fi;
#endif
			pc = PY
		fi }
	:: d_step { pc == PX && !MUSTPASS -> d = 0; live_y() } /* R8: not passed */
	:: d_step { pc == PY -> /* R8: then the CAS on the word read before */
		if
		:: word[y] == wy ->
			if
			:: HELD(wy) ->
#ifdef RENEW
				/* P5: not while a lease that the owner was given is in force. */
				assert(d == conf[y] || d == dl[y]);
#endif
				g_ended(y, wy);
				wy = WITH_ST(wy, BAD_END(ST(wy), S_EXPIRED))
			:: else -> /* R11: the end of a cool-down is no loss */
#ifdef MUT_COOL_EXPIRES
				wy = WITH_ST(wy, S_EXPIRED)
#else
				wy = WITH_ST(wy, S_RELEASED)
#endif
			fi;
			word[y] = wy;
			force = 0;
			CHANGED;
			dead_y()
		:: else -> d = 0; judged_by_others()
		fi }
	/* R12: bargeable at the tail, or before me as the next waiter: its time is over */
#ifdef LINGER
	:: d_step { pc == LE ->
		if
		:: word[y] == wy -> wy = WITH_ST(wy, S_RELEASED); word[y] = wy; CHANGED; dead_y()
		:: else -> judged_by_others()
		fi }
#endif
	/* R3: the damage, before unlinking */
#ifdef MARKS
	:: d_step { pc == M0_ -> m = mark; pc = M1_ }
	:: d_step { pc == M1_ -> k = ticket[y]; pc = M3_ }
	:: d_step { pc == M3_ -> /* the anchor again: y is still linked, and that was its ticket */
		if
#ifndef MUT_MARK_UNCHECKED
		:: !ANCHOR -> k = 0; m = 0; anchor_changed()
#endif
		:: else ->
			if
			:: MARK_SKIP -> after_mark()
			:: else -> pc = M4_
			fi
		fi }
	:: d_step { pc == M4_ ->
		if
		:: mark == m ->
			assert(HAS(died, k));		/* P4: only bad ends are reported */
			assert(!HAS(acked, k));		/* P4: what was acknowledged does not come back */
			mark = MARK(k, ST(wy) == S_DEAD);
			told = told | BIT(k);
			after_mark()
		:: else -> k = 0; m = 0; pc = M0_
		fi }
#endif
	/* R2: pop of a dead tail; R4: bypass */
	:: d_step { pc == PC ->
		if
		:: a == 0 && tail == t -> /* R2: the ticket stays */
			tail = TAIL(TICKET(t), PREV(wy));
			g_unlink(y);
			CHANGED;
			pc = PF
		:: a != 0 && word[a] == wa -> /* R4: by the word of the live successor */
			wa = WITH_PREV(wa, PREV(wy));
			word[a] = wa;
			g_unlink(y);
			CHANGED;
#ifdef MUT_FREE_FIRST
			pc = PF
#else
			unlinked()
#endif
		:: else -> anchor_changed()
		fi }
	:: d_step { pc == PF -> /* R4: the winner frees, from the exact dead word, when it has done the rest */
#ifdef MUT_FREE_ANY
		set_free(y);
#else
		assert(y != me || ret != R_LEAVE || GEN(wy) != g || word[y] == wy);	/* P3: no other thread frees what I unlinked of my own */
		if
		:: word[y] == wy -> assert(!HAS(linked, y)); set_free(y); CHANGED
		:: else
		fi;
#endif
#ifdef MUT_FREE_FIRST
		unlinked()
#else
		go_on()
#endif
		}
#ifdef HINTS
	:: d_step { pc == PH -> /* R4: the hint of a waiter or a holder */
		hint[PREV(wa)] = (GEN(wa) << 3) | a;
		if
		:: ST(wa) == S_WAITING -> pc = PK
		:: else -> wake_done()
		fi }
#endif
	:: d_step { pc == PK -> /* R4: it sleeps on the wrong life word now */
#ifndef MUT_BYPASS_NO_WAKE
		wake(a);
#endif
		wake_done() }
	/* R5 grant */
	:: d_step { pc == G1 -> /* the deadline, once: from exactly "unset, this generation" */
#ifndef MUT_GRANT_NO_DEADLINE
		if
		:: dl[a] == UNSET(GEN(wa)) ->
			/* The lease clock starts: it must be its turn, now or already. */
			assert(GEN(word[a]) != GEN(wa) || ST(word[a]) != S_WAITING || PREV(word[a]) == 0
				|| (!MX(word[a]) && (ENDED(word[PREV(word[a])]) || !MX(word[PREV(word[a])])
				|| HAS(flipped, PREV(word[a])))));
			dl[a] = GEN(wa)
		:: else
		fi;
#endif
		pc = G2 }
	:: d_step { pc == G2 ->
		if
		:: word[a] == wa ->
			assert(dl[a] == GEN(wa));	/* no grant without a lease, nor with that of another */
			wa = WITH_ST(wa, S_GRANTED);
			word[a] = wa;
			g_grant(a);
			CHANGED;
			y = 0; wy = 0; after_grant()
		:: else -> restart()
		fi }
	:: d_step { pc == GW -> /* R5: wake it; after a shared grant, its successor */
		wake(a);
#ifndef MUT_NO_LOOK_AFTER
		if
		:: !MX(wa) -> y = a; wy = wa; inrun = 1; look_after()
		:: else -> step_on()
		fi
#else
		step_on()
#endif
		}
#ifdef HINTS
	:: d_step { pc == LA1 -> k = hint[y]; /* R6 */
		if
		:: (k & 7) == 0 -> no_hint()
		:: else -> a = k & 7; pc = LA2
		fi }
	:: d_step { pc == LA2 -> /* R6: good if that generation, live, and its prev is y */
		wa = word[a];
		if
#ifdef MUT_HINT_NO_GEN
		:: LIVE(wa) -> k = 0; one = 1; inrun = 0; step_on()
#else
		:: GEN(wa) == (k >> 3) && LIVE(wa) && PREV(wa) == y && !inrun -> k = 0; one = 1; step_on()
		:: GEN(wa) == (k >> 3) && LIVE(wa) && PREV(wa) == y && inrun ->
			k = 0;
			if
			:: ST(wa) == S_WAITING && !MX(wa) -> pc = LA3
			:: else -> run_end()
			fi
#endif
		:: else -> no_hint()
		fi }
	:: d_step { pc == LA3 -> /* R5: is the one I granted as I left it?  Then the next one is due */
		if
		:: word[y] == wy || word[y] == WITH_ST(wy, S_ENTERED) -> inrun = 0; y = 0; wy = 0; pc = G1
		:: else -> no_hint()
		fi }
	/* R2, R4: my dead request, without a good hint: the newest? */
	:: d_step { pc == N1 -> t = tail;
		if
		:: IDX(t) == me -> pc = N2
		:: else -> t = 0; pc = N5
		fi }
	:: d_step { pc == N2 -> /* R2: the tail first, then my word */
		if
		:: MY_DEAD -> pc = N7
		:: else -> do_ret()
		fi }
	:: d_step { pc == N7 -> /* R2: no request is behind me, so none waits for me */
		if
		:: tail == t ->
			assert(MY_DEAD);
			tail = TAIL(TICKET(t), PREV(word[me]));
			g_unlink(me);
			CHANGED;
			t = 0;
			pc = N3
		:: else -> t = 0; pc = N5
		fi }
	:: d_step { pc == N3 -> /* R2: only I may store FREE plainly */
		assert(!HAS(linked, me) && MY_DEAD);
		y = PREV(word[me]);
		set_free(me);
		CHANGED;
		if
		:: y == 0 -> do_ret()
		:: else -> pc = N4
		fi }
	:: d_step { pc == N4 -> /* the newest now: dead, or granted by a thread that was killed before the wake? */
		if
		:: ENDED(word[y]) || ST(word[y]) == S_LINGERING -> clear_walk(); ret = R_POP; pc = T0
		:: ST(word[y]) == S_GRANTED -> wake(y); do_ret()
		:: else -> do_ret()
		fi }
	:: d_step { pc == N5 -> /* unlinked by another thread, which has woken whichever waited for me: done */
		if
#ifdef MUT_LEAVE_NO_WALK
		:: true -> do_ret()
#endif
		:: MY_DEAD -> clear_walk(); ret = R_PASS; pc = T0
		:: else -> do_ret()
		fi }
	:: d_step { pc == N5 -> clear_walk(); y = me; pc = LA1 } /* or again */
	:: d_step { pc == N6 -> /* R7: the walk is past me? */
		if
		:: MY_DEAD -> step_on()
		:: else -> do_ret()
		fi }
#endif
