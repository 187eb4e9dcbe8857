	/* SPDX-License-Identifier: MIT */
	/*
	 * steps-append.pml - R1: src/hold/acquire-slow.c, queue_append_owned()
	 */
	:: d_step { pc == IDLE && ops < OPS(_pid) && MAY_X -> begin(1) }
	:: d_step { pc == IDLE && ops < OPS(_pid) && MAY_S -> begin(0) }
	:: d_step { pc == A1 -> t = tail; look_at_tail() }
#ifdef LATE_ROBUST
	:: d_step { pc == IDLE && ops < OPS(_pid) && !(mark & ROBUST) -> mark = mark | ROBUST } /* the first robust request */
#endif
	/* A join loads the tail's request (P1), the tail again (P2), its owner's life (P3), its deadline.  The fast one: its
	 * word, its owner's life, its deadline; what is not as it wants it, it leaves to the slow one. */
	:: d_step { pc == J1 -> wy = word[y];
		if
#ifdef MUT_JOIN_ANY_MODE
		:: HELD(wy) ->
#else
		:: SHARED_HOLD(wy) ->
#endif
			if
#ifndef MUT_JOIN_FAST_UNJUDGED
			:: LIFE_MATTERS -> pc = J2
			:: !LIFE_MATTERS && TIME_MATTERS -> pc = J3
			:: !LIFE_MATTERS && !TIME_MATTERS -> join_fast()
#else
			:: true -> join_fast()
#endif
			fi
		:: else -> join_slowly()
		fi }
	:: d_step { pc == J1 -> wy = word[y]; ret = R_JOIN; pc = P2 } /* not by the fast path */
	:: d_step { pc == J2 ->
		if
		:: HAS(dead, rowner[y]) -> join_slowly()
		:: !HAS(dead, rowner[y]) && TIME_MATTERS -> pc = J3
		:: else -> join_fast()
		fi }
	:: d_step { pc == J3 && CANPASS -> join_slowly() }
	:: d_step { pc == J3 && !MUSTPASS -> join_fast() }
	:: d_step { pc == A3 -> fill() }
	:: d_step { pc == A4 -> /* R1: one CAS makes owner, mode, order and ticket visible */
		if
#ifdef MUT_APPEND_INDEX_ONLY
		:: IDX(tail) == IDX(t) ->
#else
		:: tail == t ->
#endif
			tail = TAIL(TICKET(t) + 1, me);
			linked = linked | BIT(me);
			JOINED;
			CHANGED;
			assert(!(k && hid));			/* P8 */
			act = 0;
			hid = 0;
			if
			:: k ->
				k = 0;
				g_grant(me);
#ifdef HINTS
				if
				:: IDX(t) != 0 -> wme = word[me]; pc = A5
				:: else -> pc = THEN_INSIDE
				fi;
#else
				pc = THEN_INSIDE;
#endif
				t = 0;
				renumber()
			:: else ->
				t = 0;
				renumber();
#if N_CANCEL > 0
				pc = W0
#else
				pc = PM
#endif
			fi
		:: else -> /* Lost: no thread saw it; a fresh generation for the next try. */
			set_free(me); me = 0; g = 0; k = 0; t = 0; pc = A1
		fi }
#ifdef HINTS
	:: d_step { pc == A5 -> hint[PREV(wme)] = (g << 3) | me; wme = 0; pc = THEN_INSIDE } /* R6: joined shared holders */
#endif
