/* SPDX-License-Identifier: MIT */
/*
 * table.pml - keys, slots, buckets and ticket high-water marks: the insertion protocol (a)-(g) of the lock table, for
 * SPIN 6.5
 *
 * NPROC threads look up, insert, lock and release NKEY keys in NSLOT slots, so that keys have to displace each other.
 * The queue of a slot is reduced to "held or not" (queue.pml has the rest); every thread has one request
 * record, which it uses for claims and for holds in turn.  Each load, store and CAS of shared memory is one d_step, the
 * two halves of an identity among them; a thread may be killed between any two (N_CRASH).
 *
 * Switches: NOPS (operations of each thread), HOMES (1: both keys have the same bucket; 2: one each), N_CRASH.  The
 * window of both buckets is the whole table, as if the second window of each bucket overlapped the first of the other;
 * an announcement is in the key's first bucket only.
 */
#ifndef NPROC
#define NPROC 2
#endif
#ifndef NSLOT
#define NSLOT 2
#endif
#ifndef NKEY
#define NKEY 2
#endif
#ifndef NOPS
#define NOPS 2
#endif
#ifndef HOMES
#define HOMES 1
#endif
#ifndef N_CRASH
#define N_CRASH 0
#endif

#ifndef MAXTRY
#define MAXTRY 2
#endif

#define HOME(key) (((key) - 1) % HOMES)
#define IDX(v) ((v) & 3)		/* tail [ticket:6 | record:2] */
#define TICKET(v) ((v) >> 2)
#define TAIL(n, r) (((n) << 2) | (r))
#define LOW(n) ((n) & 3)		/* the bits of a claim's ticket that an announcement keeps */
#define ANNOUNCE(v, s, n) ((((v) >> 3) + 1) << 3 | (s) << 2 | LOW(n))
#define H_SLOT(v) (((v) >> 2) & 1)
#define H_LOW(v) ((v) & 3)
#define R_FREE 0
#define R_CLAIM 1
#define R_GRANTED 2
#define REC(s, h) ((s) | (h) << 2)
#define R_STATE(w) ((w) & 3)
#define R_HOME(w) ((w) >> 2)
#define HAS(set, n) (((set) >> (n)) & 1)
#define BIT(n) (1 << (n))

byte tail[NSLOT];
byte ida[NSLOT], idb[NSLOT];	/* the two halves of the identity; idb = 0: empty */
byte first[NSLOT];
byte hw[HOMES];			/* bucket word [version:5 | slot:1 | low bits of the claim's ticket:2], 0 = none yet */
byte floor[HOMES];
byte rec[NPROC + 1];		/* record of thread r - 1 */
byte dead;
#if N_CRASH > 0
byte ncrash = N_CRASH;
#endif
/* monitors */
byte holder[NKEY + 1];		/* thread + 1 */
byte last[NKEY + 1];		/* newest token of the key */
byte announced;			/* slots whose present claim has been announced */
byte done;
hidden byte i_;

mtype = { IDLE, A1, OP1, OP2, OP3, OP4, OP5, OP6, SC1, SC2, SC3, SC4, SC5, PK1, PK2, PK3, OR1, B1, B2, B3, B4, C1, D1, D2, E1, F1, F2, F3,
	G1, X1, X2, X3, Q1, Q2, Q3, Q4, Q5, HELD, GONE };

#define AFTER_OPEN_A 0		/* what follows an open or a scan */
#define AFTER_OPEN_E 1
#define AFTER_OPEN_ORPHAN 2

/* One key never in two slots. */
inline g_unique(s, key)
{
	i_ = 0;
	do
	:: i_ == NSLOT -> break
	:: else ->
		assert(i_ == s || ida[i_] != key || idb[i_] != key ||
			(IDX(tail[i_]) != 0 && R_STATE(rec[IDX(tail[i_])]) == R_CLAIM && !HAS(announced, i_)));
		i_++
	od
}

inline forget()
{
	v = 0; t = 0; o = 0; n = 0; f = 0; r = 0
}

inline end_op()
{
	forget();
	s = 0; c = 0; key = 0; after = 0; how = 0; alone = 0; tries = 0;
	ops++;
	pc = IDLE
}

/*
 * Start over.  With two slots two inserters can push each other's fresh, idle entries out for ever, so a thread gives
 * up after MAXTRY rounds; one that is alone needs no second round after repairing what the dead left.
 */
inline again()
{
	forget();
	s = 0; c = 0; how = 0; after = 0;
	tries++;
	if
	:: tries > MAXTRY -> assert(!alone); end_op()
	:: else -> pc = A1
	fi
}

/* Begin the scan of the window. */
inline scan()
{
	o = 0; t = 0; r = 0;
	pc = SC1
}

inline scanned_not_found()
{
	o = 0;
	if
	:: after == AFTER_OPEN_A -> how = 0; s = 0; v = 0; pc = PK1
	:: else ->
#ifdef MUT_FLOOR_EARLY
		pc = F2
#else
		pc = F1
#endif
	fi
}

inline opened()
{
	t = 0; r = 0; n = 0; o = 0;
	if
	:: after == AFTER_OPEN_ORPHAN -> pc = OR1
	:: after == AFTER_OPEN_E ->
#ifdef MUT_NO_RESCAN
		pc = F1
#else
		scan()
#endif
	:: else -> scan()
	fi
}

/* The next slot to look at, or the next kind of slot. */
inline next_slot()
{
	t = 0; r = 0;
	if
	:: s + 1 < NSLOT -> s++
	:: else ->
		s = 0; how++
	fi;
	if
	:: how > 2 ->
		/* FULL: only if another thread may be at work here or holds a lock. */
		assert(!alone);
		end_op()
	:: else -> pc = PK1
	fi
}

active [NPROC] proctype thread()
{
	mtype pc = IDLE;
	byte ops, key, tries;
	byte s;			/* the slot at hand */
	byte o;			/* the slot a scan or an opening is at */
	byte t, c;		/* a tail as read; my claim */
	byte v;			/* a bucket word as read */
	byte n, f, r;		/* a first ticket, a high-water mark, a record's word, as read */
	byte after, how;
	bit alone;		/* no other thread was at work when this operation began: it must succeed */

	do
	:: d_step { pc == IDLE && ops < NOPS -> key = 1; alone = done == NPROC - 1; pc = A1 }
#if NKEY > 1
	:: d_step { pc == IDLE && ops < NOPS -> key = 2; alone = done == NPROC - 1; pc = A1 }
#endif
	/* ------------------------------------------------------ (a) look up, after opening what the bucket
	 * announces */
	:: d_step { pc == A1 ->
		after = AFTER_OPEN_A; v = hw[HOME(key)];
#ifndef MUT_NO_OPEN
		if
		:: v != 0 -> o = H_SLOT(v); pc = OP1
		:: else -> opened()
		fi
#else
		opened()
#endif
		}
	/* open_if_announced(o): by anybody */
	:: d_step { pc == OP1 -> t = tail[o];
		if
		:: IDX(t) != 0 && H_LOW(v) == LOW(TICKET(t)) -> pc = OP2
		:: else -> opened()
		fi }
	:: d_step { pc == OP2 -> r = rec[IDX(t)]; pc = OP3 }
	:: d_step { pc == OP3 -> /* the tail again: that record's word was about this claim */
		if
		:: tail[o] == t && R_STATE(r) == R_CLAIM && R_HOME(r) == HOME(key) -> pc = OP4
		:: else -> opened()
		fi }
	:: d_step { pc == OP4 -> n = first[o];
#ifdef MUT_OPEN_OLD_HOME
		pc = OP5 }
#else
		pc = OP6 }
	:: d_step { pc == OP6 -> /* the bucket again: by its low bits an old announcement may fit this claim */
		if
		:: hw[HOME(key)] == v -> pc = OP5
		:: else -> opened()
		fi }
#endif
	:: d_step { pc == OP5 -> /* (g) by anybody */
		if
		:: tail[o] == t ->
			assert(HAS(announced, o));
			assert(n >= TICKET(t));
			tail[o] = TAIL(n, 0);
			announced = announced & ~BIT(o);
			g_unique(o, ida[o])
		:: else
		fi;
		opened() }
	/* scan the window for the key; o = slot */
	:: d_step { pc == SC1 ->
		if
		:: ida[o] == key -> pc = SC2
		:: else ->
			if
			:: o + 1 < NSLOT -> o++
			:: else -> scanned_not_found()
			fi
		fi }
	:: d_step { pc == SC2 ->
		if
		:: idb[o] == key -> pc = SC3
		:: else ->
			if
			:: o + 1 < NSLOT -> o++; pc = SC1
			:: else -> scanned_not_found()
			fi
		fi }
	:: d_step { pc == SC3 -> t = tail[o];
		if
		:: IDX(t) == 0 -> pc = SC5
		:: else -> pc = SC4
		fi }
	:: d_step { pc == SC4 -> /* claimed = not there (yet, or any more) */
		r = rec[IDX(t)]; pc = SC5 }
	:: d_step { pc == SC5 ->
		if
		:: IDX(t) != 0 && R_STATE(r) == R_CLAIM && tail[o] == t ->
			t = 0; r = 0;
			if
			:: o + 1 < NSLOT -> o++; pc = SC1
			:: else -> scanned_not_found()
			fi
		:: else -> /* found */
			t = 0; r = 0;
			if
			:: after == AFTER_OPEN_A -> s = o; forget(); pc = Q1
			:: else -> pc = X1
			fi
		fi }
	/* ------------------------------------------------------ (b) pick a slot: 0 empty, 1 idle, 2 the claim of a dead thread */
	:: d_step { pc == PK1 -> t = tail[s];
		if
		:: IDX(t) == 0 && how < 2 -> pc = PK2
		:: IDX(t) != 0 && how == 2 && HAS(dead, IDX(t) - 1) -> pc = PK3
		:: else -> next_slot()
		fi }
	:: d_step { pc == PK2 ->
		if
		:: how == 0 && idb[s] != 0 -> next_slot()
		:: else -> n = ida[s]; pc = B1
		fi }
	:: d_step { pc == PK3 -> r = rec[IDX(t)];
		if
		:: R_STATE(r) == R_CLAIM && tail[s] == t -> /* dead first, then its bucket: no announcement comes later */
			pc = OR1
		:: R_STATE(r) == R_GRANTED && tail[s] == t -> /* a dead holder: R3, R2 */
			tail[s] = TAIL(TICKET(t), 0);
			i_ = 1;
			do
			:: i_ > NKEY -> break
			:: else ->
				if
				:: holder[i_] == IDX(t) -> holder[i_] = 0
				:: else
				fi;
				i_++
			od;
			t = tail[s]; r = 0; pc = PK2
		:: else -> next_slot()
		fi }
	:: d_step { pc == OR1 -> v = hw[R_HOME(r)];
		if
		:: v != 0 && H_SLOT(v) == s && H_LOW(v) == LOW(TICKET(t)) -> pc = B4	/* announced: open it */
		:: else -> v = 0; n = 0; pc = B3
		fi }
	:: d_step { pc == B4 -> n = first[s]; pc = G1 }
	:: d_step { pc == B1 -> /* the old key's bucket */
		if
		:: idb[s] == 0 -> n = 0; pc = B3
		:: else ->
#ifdef MUT_FLOOR_AFTER_CLAIM
			pc = B3
#else
			pc = B2
#endif
		fi }
	:: d_step { pc == B2 -> /* (b) raise its high-water mark before the slot can be lost to it (one CAS loop) */
		if
		:: n != 0 && floor[HOME(n)] < TICKET(t) -> floor[HOME(n)] = TICKET(t)
		:: else
		fi;
#ifdef MUT_FLOOR_AFTER_CLAIM
		n = 0; t = 0; pc = D1
#else
		n = 0; pc = B3
#endif
		}
	/* ------------------------------------------------------ (c) claim */
	:: d_step { pc == B3 -> v = hw[HOME(key)]; /* an old announcement must not seem to be about this claim */
#ifdef MUT_CLAIM_SAME_TICKET
		c = TAIL(TICKET(t), _pid + 1);
#else
		c = TAIL(TICKET(t) + 1, _pid + 1);
		if
		:: v != 0 && H_SLOT(v) == s && H_LOW(v) == LOW(TICKET(c)) -> c = TAIL(TICKET(c) + 1, _pid + 1)
		:: else
		fi;
#endif
		assert(TICKET(c) < 60);
		rec[_pid + 1] = REC(R_CLAIM, HOME(key));
		v = 0; r = 0; pc = C1 }
	:: d_step { pc == C1 ->
		if
		:: tail[s] == t ->
			tail[s] = c;
			announced = announced & ~BIT(s);
#ifdef MUT_FLOOR_AFTER_CLAIM
			pc = B2
#else
			t = 0; n = 0; pc = D1
#endif
		:: else -> rec[_pid + 1] = R_FREE; again()
		fi }
	/* ------------------------------------------------------ (d) identity */
	:: d_step { pc == D1 -> ida[s] = key; pc = D2 }
	:: d_step { pc == D2 -> idb[s] = key;
#ifdef MUT_FLOOR_EARLY
		pc = F1
#else
		pc = E1
#endif
		}
	/* ------------------------------------------------------ (e) the bucket again, open, rescan; only then the
	 * high-water mark */
	:: d_step { pc == E1 -> after = AFTER_OPEN_E; v = hw[HOME(key)];
#ifndef MUT_NO_OPEN
		if
		:: v != 0 -> o = H_SLOT(v); pc = OP1
		:: else -> opened()
		fi
#else
		opened()
#endif
		}
	:: d_step { pc == F1 -> f = floor[HOME(key)];
#ifdef MUT_FLOOR_EARLY
		pc = E1
#else
		pc = F2
#endif
		}
	:: d_step { pc == F2 ->
#ifndef MUT_FIRST_LATE
		first[s] = (f > TICKET(c) -> f : TICKET(c));
#endif
		pc = F3 }
	/* ------------------------------------------------------ (f) announce: from here the key exists */
	:: d_step { pc == F3 ->
		if
#ifdef MUT_ANNOUNCE_STORE
		:: true ->
#else
		:: hw[HOME(key)] == v ->
#endif
			hw[HOME(key)] = ANNOUNCE(v, s, TICKET(c));
			assert(tail[s] == c);
			announced = announced | BIT(s);
			g_unique(s, key);
			t = c; n = (f > TICKET(c) -> f : TICKET(c)); v = 0; f = 0;
			pc = G1
		:: else -> pc = X1
		fi }
	/* ------------------------------------------------------ (g) open */
	:: d_step { pc == G1 ->
#ifdef MUT_FIRST_LATE
		if
		:: c == t -> first[s] = n
		:: else
		fi;
#endif
		if
		:: tail[s] == t ->
			assert(HAS(announced, s));
			tail[s] = TAIL(n, 0);
			announced = announced & ~BIT(s);
			g_unique(s, ida[s])
		:: else
		fi;
		n = 0; v = 0; t = 0; r = 0;
		if
		:: c != 0 -> rec[_pid + 1] = R_FREE; c = 0; pc = Q1
		:: else -> again()
		fi }
	/* give a claim back: empty, then the tail; found elsewhere or lost the race: start over */
	:: d_step { pc == X1 -> idb[s] = 0; pc = X2 }
	:: d_step { pc == X2 ->
		assert(tail[s] == c && !HAS(announced, s));
		tail[s] = TAIL(TICKET(c), 0); pc = X3 }
	:: d_step { pc == X3 -> rec[_pid + 1] = R_FREE; again() }
	/* ------------------------------------------------------ R1 append: tail, then the identity, then CAS the tail */
	:: d_step { pc == Q1 -> forget(); how = 0; after = 0; t = tail[s];
		if
#ifdef MUT_NO_IDENTITY_CHECK
		:: IDX(t) == 0 -> pc = Q4
#else
		:: IDX(t) == 0 -> pc = Q2
#endif
		:: IDX(t) != 0 && !HAS(dead, IDX(t) - 1) ->
			assert(!alone);	/* held or claimed by a living thread */
			end_op()
		:: else -> r = rec[IDX(t)]; pc = Q5
		fi }
	:: d_step { pc == Q5 -> /* by a dead one: a hold ends, a claim is left to (b) */
		if
		:: R_STATE(r) == R_GRANTED && tail[s] == t ->
			tail[s] = TAIL(TICKET(t), 0);
			i_ = 1;
			do
			:: i_ > NKEY -> break
			:: else ->
				if
				:: holder[i_] == IDX(t) -> holder[i_] = 0
				:: else
				fi;
				i_++
			od;
			pc = Q1
		:: else -> again()
		fi }
	:: d_step { pc == Q2 ->
		if
		:: ida[s] == key -> pc = Q3
		:: else -> again()
		fi }
	:: d_step { pc == Q3 ->
		if
		:: idb[s] == key -> pc = Q4
		:: else -> again()
		fi }
	:: d_step { pc == Q4 ->
		if
		:: tail[s] == t ->
			tail[s] = TAIL(TICKET(t) + 1, _pid + 1);
			rec[_pid + 1] = R_GRANTED;	/* filled before, visible with the tail */
			assert(ida[s] == key && idb[s] == key);		/* the lock of my key */
			assert(holder[key] == 0);			/* P1, also across re-keying */
			assert(TICKET(t) + 1 > last[key]);		/* P6 */
			holder[key] = _pid + 1;
			last[key] = TICKET(t) + 1;
			t = 0; pc = HELD
		:: else -> forget(); pc = Q1
		fi }
	:: d_step { pc == HELD -> /* R2 pop */
		assert(ida[s] == key && idb[s] == key && IDX(tail[s]) == _pid + 1);
		tail[s] = TAIL(TICKET(tail[s]), 0);
		holder[key] = 0;
		rec[_pid + 1] = R_FREE;
		end_op() }
	/* ------------------------------------------------------ SIGKILL */
#if N_CRASH > 0
	:: d_step { ncrash > 0 && pc != IDLE && pc != GONE ->
		ncrash--; dead = dead | BIT(_pid); end_op(); ops = NOPS; pc = GONE }
#endif
	:: atomic { (pc == IDLE && ops == NOPS) || pc == GONE -> break }
	od;
	atomic { pc = GONE; done++ }
}
