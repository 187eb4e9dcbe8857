	/* SPDX-License-Identifier: MIT */
	/*
	 * steps-sweep.pml - operators, cancellers, reclaiming records, SIGKILL and SIGSTOP: src/lock/sweep.c,
	 * src/lock/cancel.c, queue_reclaim()
	 */
	/* -------------------------------------------------- an operator ends a hold; a thread cancels a wait */
#if N_END > 0
#ifdef MUT_END_BY_INDEX
	:: d_step { pc == IDLE && ops < OPS(_pid) && nend > 0 -> nend--; ret = R_OP; force = 1; y = 1; wy = word[1];
		if
		:: HELD(wy) -> d = dl[y]; pc = PY
		:: else -> force = 0; end_op()
		fi }
#else
	:: d_step { pc == IDLE && ops < OPS(_pid) && nend > 0 -> nend--; ret = R_OP; force = 1; pc = T0 }
#endif
#endif
#if N_CANCEL > 0
	:: d_step { pc == IDLE && ops < OPS(_pid) && ncancel > 0 && wref[(_pid + 1) % NPROC] != 0 ->
		ncancel--; k = wref[(_pid + 1) % NPROC]; pc = CN2 }
#if NPROC > 2
	:: d_step { pc == IDLE && ops < OPS(_pid) && ncancel > 0 && wref[(_pid + 2) % NPROC] != 0 ->
		ncancel--; k = wref[(_pid + 2) % NPROC]; pc = CN2 }
#endif
	:: d_step { pc == CN2 -> /* R3 by another thread: only (index, gen) */
		y = k & 7; wy = word[y];
		if
#ifdef MUT_CANCEL_NO_GEN
		:: ST(wy) == S_WAITING -> pc = CN3
#else
		:: GEN(wy) == (k >> 3) && ST(wy) == S_WAITING -> pc = CN3
#endif
		:: else -> end_op()
		fi }
	:: d_step { pc == CN3 ->
		if
		:: word[y] == wy ->
			assert(HAS(linked, y) && GEN(wy) == (k >> 3));	/* P5: that wait, no later one */
			word[y] = WITH_ST(wy, S_ABANDONED); CHANGED; pc = CN4
		:: else -> pc = CN2
		fi }
	:: d_step { pc == CN4 -> wake(y); end_op() }
#endif
	/* -------------------------------------------------- R4, R9: out of records: reclaim my own and the dead's */
	:: d_step { pc == RC1 -> wme = word[rk]; pc = RC2 }
	:: d_step { pc == RC2 -> /* the owner after the word: the CAS on that word then makes sure of it */
		if
		:: ENDED(wme) && (rowner[rk] == _pid || HAS(dead, rowner[rk])) -> ret = R_RECLAIM; pc = T0
		:: LIVE(wme) && ST(wme) != S_COOLING && HAS(dead, rowner[rk]) -> pc = RC3
		:: ST(wme) == S_LINGERING && rowner[rk] == _pid -> pc = RC3	/* R12 */
		:: else ->
			wme = 0; rk++;
			if
			:: rk > NREC -> end_op()	/* FULL */
			:: else -> pc = RC1
			fi
		fi }
	:: d_step { pc == RC3 -> /* R3: each live request of the dead dies by CAS */
		if
		:: word[rk] == wme ->
			if
			:: HELD(wme) -> g_ended(rk, wme)
			:: else
			fi;
			word[rk] = WITH_ST(wme, (ST(wme) == S_WAITING -> S_ABANDONED :
				(ST(wme) == S_LINGERING -> S_RELEASED : BAD_END(ST(wme), S_DEAD))));
			CHANGED
		:: else
		fi;
		wme = 0; pc = RC1 }
	:: d_step { pc == RC4 -> /* R4: a walk unlinks and frees all dead requests it meets; this one it did not */
		if
		:: word[rk] == wme -> assert(!HAS(linked, rk)); set_free(rk); CHANGED	/* P3 */
		:: else
		fi;
		wme = 0; rk = 0; ret = 0;
		if
		:: me != 0 -> end_op()	/* gets LOST */
		:: else -> pc = A1
		fi }
	/* -------------------------------------------------- SIGKILL, SIGSTOP */
#if N_CRASH > 0
	:: d_step { ncrash > 0 && KILLABLE && pc != GONE && !WATCHES_ME(1) && !WATCHES_ME(2) -> die(0) }
	:: d_step { ncrash > 0 && KILLABLE && pc != GONE && WATCHES_ME(1) -> die(1) }
#if NPROC > 2
	:: d_step { ncrash > 0 && KILLABLE && pc != GONE && WATCHES_ME(2) -> die(2) }
#endif
#endif
#if N_STOP > 0
	:: d_step { nstop > 0 && pc != IDLE && pc != GONE ->
		nstop--;
		stopped = stopped | BIT(_pid);
		slp[_pid] = 0;
		watch[_pid] = 0;
		end_op();
		ops = OPS(_pid);
		CHANGED;
		pc = GONE }
#endif
