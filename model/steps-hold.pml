	/* SPDX-License-Identifier: MIT */
	/*
	 * steps-hold.pml - what the owner of a granted request does: src/hold/hold.c, src/hold/upgrade.c,
	 * src/lock/deadline.c, queue_pop_owned()
	 */
	/* -------------------------------------------------- holding: release (R2, R3) */
#ifdef LONGHOLD
#define MAY_RELEASE timeout
#elif defined(TOGETHER)
#define MAY_RELEASE (joined == BIT(NPROC) - 1)
#else
#define MAY_RELEASE true
#endif
	:: d_step { MAY_RELEASE && pc == HOLD -> /* R2: the tail names me? */
#ifdef LONGHOLD
		g_nobody_forgotten();
#endif
		t = tail;
		if
		:: IDX(t) == me ->
			pc = F2
		:: else -> t = 0; pc = D1
		fi }
	:: d_step { pc == F2 -> look_at_mine() }
	:: d_step { pc == F3 -> /* R2: released and unlinked by one CAS */
		if
		:: tail == t ->
			tail = TAIL(TICKET(t), PREV(wme));
			linked = linked & ~BIT(me);
			CHANGED;
			assert(!HAS(over, _pid));	/* P5: released ok (or late): no other was granted before */
			t = 0; wme = 0; pc = F4
		:: else -> t = 0; wme = 0; pc = D1
		fi }
	:: d_step { pc == F4 -> /* R2: only I may store FREE plainly */
		assert(!HAS(linked, me) && GEN(word[me]) == g && ST(word[me]) != S_FREE && ST(word[me]) != S_WAITING);
		set_free(me);
		CHANGED;
		end_op() }
	:: d_step { pc == D1 ->
		wme = word[me];
		if
		:: MINE(wme) ->
			pc = D2
		:: else ->
			assert(HAS(lost, _pid));	/* P5: LOST only if it was taken */
			reclaim_lost()
		fi }
	:: d_step { pc == D2 -> release_by_dying() }
	/* -------------------------------------------------- R8 renew */
#ifdef RENEW
	:: d_step { pc == HOLD && !act -> act = 1; d = dl[me]; pc = RN1 } /* before the word: so it is mine */
	:: d_step { pc == RN1 ->
		wme = word[me];
		if
		:: MINE(wme) -> pc = RN2
		:: else -> d = 0; pc = D1
		fi }
	:: d_step { pc == RN2 -> /* R8: the new deadline first */
#ifdef MUT_RENEW_PLAIN
		assert(GEN(word[me]) == g && rowner[me] == _pid);	/* never the next incarnation's deadline */
		fresh(me); k = i_; dl[me] = RENEWED(k); d = 0; pc = RN3
#else
		if
		:: dl[me] == d -> fresh(me); k = i_; dl[me] = RENEWED(k); d = 0; pc = RN3
		:: else -> d = 0; wme = 0; pc = D1
		fi
#endif
		}
	:: d_step { pc == RN3 -> /* R8: then the generation */
#ifdef MUT_RENEW_NO_GEN
		conf[me] = RENEWED(k); wme = 0; k = 0; pc = HOLD
#else
		if
		:: word[me] == wme ->
			word[me] = W(k, MX(wme), ST(wme), PREV(wme));
			g = k;
			conf[me] = RENEWED(k);
			CHANGED;
			assert(!HAS(over, _pid) && !HAS(lost, _pid));	/* P5: renewed ok */
			wme = 0; k = 0; pc = HOLD
		:: else -> pc = RN4
		fi
#endif
		}
	:: d_step { pc == RN4 -> /* a bypass before me, or the end? */
		wme = word[me];
		if
		:: MINE(wme) -> pc = RN3
		:: else -> k = 0; pc = D1
		fi }
#endif
	/* -------------------------------------------------- R12 barge */
#ifdef LINGER
	:: d_step { pc == D2 && ST(wme) == S_ENTERED && MX(wme) && PREV(wme) == 0 -> /* R12: free for me and for the next waiter */
		if
		:: word[me] == wme ->
			word[me] = WITH_ST(wme, S_LINGERING);
			CHANGED;
			assert(!HAS(over, _pid) && !HAS(lost, _pid));	/* P5: released ok */
			g_forget();
			again[_pid] = me;
			wme = 0; act = 0; pc = L2
		:: else -> wme = 0; pc = D1
		fi }
	:: d_step { pc == L2 -> /* my successor? */
		k = hint[me];
		j_ = k & 7;
		if
		:: j_ != 0 && GEN(word[j_]) == (k >> 3) && LIVE(word[j_]) && PREV(word[j_]) == me -> pc = L3
		:: else -> k = 0; pc = L4
		fi }
	:: d_step { pc == L3 -> /* wake it by my word, if it may sleep */
#ifndef MUT_LINGER_NO_WAKE
		if
		:: HAS(sleeping, k & 7) ->
			i_ = 0;
			do
			:: i_ == NPROC -> break
			:: else ->
				if
				:: behind[i_] == me && slp[i_] != 0 -> slp[i_] = 0
				:: else
				fi;
				i_++
			od
		:: else
		fi;
#endif
		k = 0; pc = L1 }
	:: d_step { pc == L4 -> /* no successor found: an ordinary release */
		if
		:: word[me] == W(g, 1, S_LINGERING, 0) -> word[me] = W(g, 1, S_RELEASED, 0); CHANGED
		:: else
		fi;
		leave() }
	:: d_step { pc == L1 -> end_op() } /* not now */
	:: d_step { pc == L1 && !to -> fresh(me); k = i_; dl[me] = k; pc = L5 } /* R12: resume: deadline first */
	:: d_step { pc == L5 -> /* R12: then the generation, unless it was ended */
		if
#ifdef MUT_LINGER_PLAIN
		:: true ->
#else
		:: word[me] == W(g, 1, S_LINGERING, 0) ->
#endif
#ifdef RENEW
			conf[me] = k;
#endif
#ifndef MUT_LINGER_SAME_GEN
			g = k;
#endif
			word[me] = W(g, 1, S_ENTERED, 0);
			k = 0;
			to = 1;		/* once */
			CHANGED;
			g_again(me);
			pc = HOLD
		:: else -> k = 0; end_op()
		fi }
#endif
	/* -------------------------------------------------- R11 cool down */
#ifdef COOL
	:: d_step { pc == HOLD && x -> d = dl[me]; pc = C1 }
	:: d_step { pc == C1 ->
		wme = word[me];
		if
		:: MINE(wme) -> pc = C2
		:: else -> d = 0; pc = D1
		fi }
	:: d_step { pc == C2 -> /* R11: deadline first */
		if
		:: dl[me] == d -> dl[me] = COOLED(g); d = 0; pc = C3
		:: else -> d = 0; wme = 0; pc = D1
		fi }
	:: d_step { pc == C3 ->
		if
		:: word[me] == wme ->
			word[me] = WITH_ST(wme, S_COOLING);
			g_must_be_nudged();
			CHANGED;
			assert(!HAS(over, _pid) && !HAS(lost, _pid));
			g_forget();
#ifdef MUT_COOL_NO_WAKE
			end_op()
#else
			wme = 0; t = tail; pc = C4
#endif
		:: else -> pc = C4; wme = 0; act = 1
		fi }
	:: d_step { pc == C4 -> /* the successor sleeps until my old deadline: wake it by my hint */
		if
		:: act -> act = 0; wme = word[me]; if :: MINE(wme) -> pc = C3 :: else -> pc = D1 fi
#ifdef HINTS
		:: else ->
			k = hint[me];
			j_ = k & 7;
			if
			:: j_ != 0 && GEN(word[j_]) == (k >> 3) && LIVE(word[j_]) && PREV(word[j_]) == me -> wake(j_)
			:: else
			fi;
			end_op()
#else
		:: else -> end_op()
#endif
		fi }
#endif
	/* -------------------------------------------------- R10 upgrade, downgrade */
#ifdef UPGRADE
#ifdef MUT_TAIL_EARLY
#define LAST t
#else
#define LAST tail
#endif
	:: d_step { pc == HOLD && !act && !x -> act = 1; ret = R_UPGRADE; pc = T0 } /* R10: reap the dead */
	:: d_step { pc == U1 -> /* R10: the tail names me? */
		k = ticket[me]; t = tail;
		if
		:: IDX(t) == me -> pc = U2
		:: else -> t = 0; k = 0; pc = HOLD
		fi }
	:: d_step { pc == U2 -> /* R10: sole holder? */
		wme = word[me];
		if
		:: MINE(wme) && PREV(wme) == 0 -> pc = U3
		:: MINE(wme) && PREV(wme) != 0 -> wme = 0; t = 0; k = 0; pc = HOLD
		:: else -> wme = 0; t = 0; k = 0; pc = D1
		fi }
	:: d_step { pc == U3 -> /* R10: mode exclusive */
		if
		:: word[me] == wme ->
			wme = WITH_MX(wme, 1); word[me] = wme; flipped = flipped | BIT(me); CHANGED; pc = U4
		:: else -> wme = 0; t = 0; k = 0; pc = HOLD
		fi }
	:: d_step { pc == U4 -> /* R10: and the tail, with a new ticket */
		if
#ifdef MUT_UPGRADE_NO_TAIL
		:: true ->
#else
		:: tail == t -> tail = TAIL(TICKET(t) + 1, me);
#endif
			flipped = flipped & ~BIT(me);
			CHANGED;
			i_ = 1;
			do
			:: i_ > NREC -> break
			:: else ->
				assert(i_ == me || !HAS(linked, i_) || !LIVE(word[i_]) || ST(word[i_]) == S_WAITING);
				i_++
			od;
			assert(!HAS(over, _pid));
			assert(TICKET(t) + 1 > last_x);
			if
			:: HAS(bel, _pid) -> belx = belx | BIT(_pid); last_x = TICKET(t) + 1
			:: else
			fi;
			x = 1; wme = 0; pc = U5
		:: else -> t = 0; k = 0; pc = U6
		fi }
	:: d_step { pc == U5 -> /* by CAS from my old ticket: the record may be another request's by now */
#ifndef MUT_TICKET_PLAIN
		if
		:: ticket[me] == k -> ticket[me] = TICKET(t) + 1
		:: else
		fi;
#else
		assert(GEN(word[me]) == g);
		ticket[me] = TICKET(t) + 1;
#endif
		t = 0; k = 0; pc = HOLD }
	:: d_step { pc == U6 -> /* R10: a request arrived: back to shared */
		if
		:: word[me] == wme ->
			word[me] = WITH_MX(wme, 0);
			flipped = flipped & ~BIT(me);
			CHANGED;
			wme = 0; ret = R_HOLD; y = me; look_after()
		:: else -> wme = 0; pc = U7
		fi }
	:: d_step { pc == U7 ->
		wme = word[me];
		if
		:: MINE(wme) -> pc = U6
		:: else -> flipped = flipped & ~BIT(me); pc = D1
		fi }
	:: d_step { pc == HOLD && !act && x -> /* R10: downgrade */
		act = 1; wme = word[me];
#ifdef MUT_TAIL_EARLY
		t = tail;
#endif
		if
		:: MINE(wme) -> pc = DG2
		:: else -> t = 0; pc = D1
		fi }
	:: d_step { pc == DG2 ->
		if
		:: word[me] == wme ->
			word[me] = WITH_MX(wme, 0);
			x = 0;
			belx = belx & ~BIT(_pid);
			CHANGED;
			assert(!HAS(over, _pid) && !HAS(lost, _pid));
			wme = 0; pc = DG3
		:: else ->
			wme = word[me];
			if
			:: MINE(wme)
			:: else -> t = 0; pc = D1
			fi
		fi }
	:: d_step { pc == DG3 -> ret = R_HOLD; y = me; look_after() }
	:: d_step { pc == DG3 && IDX(LAST) == me -> t = 0; pc = HOLD } /* R10: late, and the newest: no walk */
#endif
	/* -------------------------------------------------- acknowledge the damage */
#ifdef MARKS
	:: d_step { pc == HOLD && !act && PENDING(mark) -> act = 1; m = mark; pc = HA2 }
	:: d_step { pc == HA2 ->
		if
		:: mark == m -> mark = m | 1; acked = acked | told
		:: else
		fi;
		m = 0; pc = HOLD }
#endif
