	/* SPDX-License-Identifier: MIT */
	/*
	 * steps-wait.pml - the waiter's round: src/lock/wait.c, src/lock/cancel.c
	 */
#if N_CANCEL > 0
	:: d_step { pc == W0 -> wref[_pid] = (g << 3) | me; pc = PM }
#endif
	:: d_step { pc == PM -> /* check: my own word */
		wa = word[me];
		if
		:: GEN(wa) != g || ST(wa) == S_FREE -> end_op()		/* ended, unlinked and freed by others */
		:: GEN(wa) == g && ST(wa) == S_WAITING ->
			wme = wa;
			if
			:: to -> wa = 0; pc = TO1
			:: else -> ret = R_WAIT; mine = 1; a = me; wme = 0; step_on()	/* clear */
			fi
		:: GEN(wa) == g && ST(wa) == S_GRANTED ->
			assert(!HAS(over, _pid));
			wme = wa; wa = 0; to = 0; late = 0; ret = 0; pc = E1
		:: else -> leave()
		fi }
	:: d_step { pc == E1 -> /* R13: inside from here; the same CAS that an expirer loses or wins */
		if
#ifdef MUT_ENTER_PLAIN
		:: true ->
#else
		:: word[me] == wme ->
#endif
			word[me] = WITH_ST(wme, S_ENTERED);
			CHANGED;
			assert(!HAS(over, _pid) && !HAS(lost, _pid));	/* P5 */
			wme = 0; pc = HOLD
		:: else -> wme = 0; pc = PM
		fi }
#ifdef MANY
	:: d_step { pc == E1 -> wme = 0; pc = D1 } /* another key was not granted: released, never entered */
#endif
	/* announce */
	:: d_step { pc == W0L -> /* R6: the hint */
#ifdef HINTS
		hint[y] = (g << 3) | me;
#endif
		pc = W0M }
	:: d_step { pc == W0M -> /* R6: then my predecessor again */
		if
		:: word[y] != wy -> clear_walk(); pc = PM
		:: else -> to_sleep()
		fi }
	/* sleep */
#ifdef MUT_FLAG_LATE
	:: d_step { pc == W3 -> sleep() }
#else
	:: d_step { pc == W3 -> sleeping = sleeping | BIT(me); pc = W4 } /* the flag before the load of the word */
	:: d_step { pc == W4 -> sleep() }
#endif
#ifdef MUT_FLAG_LATE
	:: d_step { pc == ASL0 -> sleeping = sleeping | BIT(me); pc = ASLEEP }
#endif
	:: d_step { pc == ASLEEP && slp[_pid] == 0 -> /* a death is passed on first: the kernel wakes one watcher */
		if
		:: watch[_pid] != 9 && HAS(dead, watch[_pid] - 1) ->
			i_ = 0;
			do
			:: i_ == NPROC -> break
			:: else ->
				if
				:: slp[i_] != 0 && watch[i_] == watch[_pid] -> slp[i_] = 0; break
				:: else -> i_++
				fi
			od
		:: else
		fi;
		awake() }
#if TOMASK != 0
	:: d_step { pc == ASLEEP && slp[_pid] != 0 && HAS(TOMASK, _pid) -> to = 1; awake() } /* time-out */
#endif
#ifdef SELFCHECK
	:: d_step { timeout && pc == ASLEEP && slp[_pid] != 0 && !HAS(tried, _pid) -> /* R9 */
		tried = tried | BIT(_pid); awake(); late = 1 }
#else
#ifdef COOL
	:: d_step { timeout && pc == ASLEEP && slp[_pid] != 0 && !HAS(tried, _pid) && !HAS(nudge, _pid) ->
		tried = tried | BIT(_pid); awake(); late = 1 } /* R11: the cool-down before me has passed */
#endif
#endif
#if N_SPUR > 0
	:: d_step { pc == ASLEEP && slp[_pid] != 0 && nspur > 0 -> nspur--; awake(); late = 1 }
#endif
#if N_EXPIRE > 0
	/* My predecessor's deadline comes: a sleep ends there too. */
	:: d_step { pc == ASLEEP && slp[_pid] != 0 && nexp > 0 && HELD(word[PREV(word[me])]) -> awake() }
#endif
	:: d_step { pc == TO1 -> /* R3: time-out */
		if
		:: word[me] == wme -> word[me] = WITH_ST(wme, S_ABANDONED); CHANGED; leave()
		:: else -> wme = 0; pc = PM
		fi }
