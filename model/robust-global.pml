/* SPDX-License-Identifier: MIT */
/*
 * robust-global.pml - the note of a robust key in Redis: who is told that an earlier holder ended badly, for SPIN 6.5
 *
 * Two hosts, a leader (the first host: LEADERS, each of which may stop anywhere, and send late) and a series of exclusive
 * holders each.  A holder may be killed inside (N_DEATH), a leader anywhere (N_BRIDGE; the next one goes on from the
 * segment), a host as a whole (N_HOST); Redis may lose a lock, as when a lease expires with a holder inside (N_LOSS), or
 * the note of a lease that goes on, which its renewal makes anew (N_FORGET).  Each script is one step, so is each store of
 * the segment; what a leader has in its own memory is gone with it.
 *
 * In Redis: the lock, writer (the last value that had it), open (number and owner of the last lease), bad, good; in a
 * segment: state and epoch of the lease, KNOWN, TOLD with its number, and ACKED of its note, a dead request that is still
 * linked, the mark of the entry.
 */
#ifndef LEADERS
#define LEADERS 1
#endif
#ifndef N_FORGET
#define N_FORGET 0
#endif
#ifndef NOPS
#define NOPS 2
#endif
#ifndef N_DEATH
#define N_DEATH 0
#endif
#ifndef N_BRIDGE
#define N_BRIDGE 0
#endif
#ifndef N_HOST
#define N_HOST 0
#endif
#ifndef N_LOSS
#define N_LOSS 0
#endif

#define NONE 0
#define ACQUIRING 1
#define HELD 2
#define CLOSING 3
#define LOST 4
#define RELEASING 5

/* Redis.  A lease's value: 1 + host + 2 * epoch. */
byte lock, writer, open, owner, bad, good, token;
#define VALUE_OF(h, e) (1 + (h) + 2 * (e))
#define VALUE(h) VALUE_OF(h, epoch[h])

/* The segments. */
byte state[2], epoch[2], range[2];	/* range: the last token of the lease, the fence of the record */
byte inside[2];	/* 2 = another host came since, and was told of this lease */
byte told[2], mark[2];	/* the number that was told, of which mark it is; 0 = none */
bit sent[2], known[2], acked[2], dead[2], wants[2], gone[2];

/* Proof. */
bit torn;	/* a hold ended badly, or two hosts were inside, and no holder acknowledged it since */
bit upset = LEADERS - 1;	/* something was killed or lost: to be told once more is right until a lease is given back whole */
byte deaths = N_DEATH, bridges = N_BRIDGE, hosts = N_HOST, losses = N_LOSS, forgets = N_FORGET, done, stamp;
byte turns = 1;	/* leases given back before a waiter, for another host */

inline leave_mark(h)
{
	if
	:: dead[h] -> dead[h] = 0; stamp++; mark[h] = stamp
	:: else -> skip
	fi
}

inline now_inside(h)
{
	d_step {
		hears = mark[h] || (told[h] && !acked[h]);
		torn = torn || (inside[1 - h] == 1 && lock == VALUE(h));
		inside[1 - h] = (inside[1 - h] && lock == VALUE(h) -> 2 : inside[1 - h]);
		/* Unless Redis has lost this lock and granted it again, which this host does not know yet. */
		assert(!torn || hears || lock != VALUE(h));
		assert(!hears || torn || upset);
		assert(lock == VALUE(h) || upset);
		inside[h] = (writer == VALUE(h) -> 1 : 2); wants[h] = 0
	}
}

/* ---------------------------------------------------------------- holders */

proctype holder(bit h)
{
	byte n = NOPS;
	bit hears;

	do
	:: n == 0 || gone[h] -> break
	:: n > 0 && !gone[h] ->
		n--;
		wants[h] = 1;
		/* The walk that grants it has left the mark of the dead before. */
		if
		:: atomic { state[h] == HELD && known[h] && !gone[h] ->
			leave_mark(h);
			now_inside(h) }
		:: atomic { gone[h] -> wants[h] = 0; break }
		fi;
		if
		:: hears ->
			/* lockshm_acknowledge(): the mark, then the note.  Under a lost lease it is worth nothing elsewhere. */
			atomic {
				if
				:: inside[h] -> torn = torn && !mark[h]; mark[h] = 0
				:: else -> skip
				fi
			};
			atomic {
				if
				:: inside[h] -> acked[h] = told[h] != 0; torn = torn && writer != VALUE(h)
				:: else -> skip
				fi
			}
		:: skip
		fi;
		hears = 0;
		if
		:: atomic { inside[h] -> inside[h] = 0 }
		:: atomic { inside[h] && deaths > 0 -> deaths--; upset = 1; torn = torn || writer == VALUE(h);
			inside[h] = 0; dead[h] = 1 }
		:: atomic { !inside[h] -> skip }	/* the lease was lost */
		fi
	od;
	done++
}

/* ---------------------------------------------------------------- the leader */

#define K 1
#define C 2
#define D 3
#define U 4

/* release.lua; @moved: Redis has the damage. */
inline release(h, e)
{
	d_step {
		mine = owner == VALUE_OF(h, e);
		alone = lock == VALUE_OF(h, e) || writer == VALUE_OF(h, e);
#ifdef MUT_LATE_WHOLE
		alone = 1;
#endif
		last = (mine && open > last -> open : last);
#ifdef MUT_KEPT_BY_SERVER
		how = (how == K && mine && bad <= good -> C : how);
#else
		how = (how == K && good >= number -> C : how);
#endif
		moved = how == D && last >= open && last > good;
		if
		:: how == C && alone ->
			good = (last > good -> last : good);
			if
			:: LEADERS == 1 && lock == VALUE_OF(h, e) && state[1 - h] == NONE && !mark[0] && !mark[1] &&
				!dead[0] && !dead[1] -> upset = 0
			:: else -> skip
			fi
		:: moved -> open = last; owner = 0
		:: how == U && mine -> open = bad
		:: else -> skip
		fi;
		owner = (mine -> 0 : owner);
		lock = (lock == VALUE_OF(h, e) -> 0 : lock);
		mine = 0; alone = 0; last = 0; how = 0; number = 0
	}
}

proctype bridge(bit h)
{
	byte found_bad, found_good, how, last, taken, number, e, seen;
	bit moved, mine, alone;

end:	do
	:: gone[h] -> break
	:: atomic { !gone[h] && state[h] == NONE && wants[h] ->
		assert(epoch[h] < 60);
		epoch[h]++; sent[h] = 0; known[h] = 0; told[h] = 0; acked[h] = 0; state[h] = ACQUIRING }
	:: atomic { !gone[h] && state[h] == ACQUIRING && (lock == 0 || lock == VALUE(h)) -> e = epoch[h]; sent[h] = 1 };
		/* acquire-x.lua */
		atomic {
			if
			:: gone[h] -> e = 0
			:: !gone[h] && lock != 0 && lock != VALUE_OF(h, e) -> e = 0
			:: !gone[h] && (lock == 0 || lock == VALUE_OF(h, e)) ->
				bad = (owner != VALUE_OF(h, e) -> open : bad);
				/* A new token for a new lease; a repeated acquire takes another one. */
				token++; open = token; taken = token;
				owner = VALUE_OF(h, e); writer = owner; lock = owner;
				found_bad = bad; found_good = good
			fi
		};
		if
		:: e == 0 || gone[h]
		/* Killed before the reply: sent again. */
		:: atomic { e && bridges > 0 && !gone[h] -> bridges--; upset = 1 }
		/* Granted too late: given back, not used. */
		:: atomic { e && !gone[h] && state[h] == ACQUIRING && epoch[h] == e && losses > 0 ->
			losses--; upset = 1; state[h] = RELEASING }
		/* undo_late() */
		:: atomic { e && !gone[h] && (epoch[h] != e || state[h] == NONE || state[h] == RELEASING) ->
#ifdef MUT_UNDO_USED
			how = U
#else
			how = (epoch[h] == e && sent[h] && !known[h] -> U : 0)
#endif
			};
			release(h, e);
			moved = 0
		/* Another leader has gone on. */
		:: atomic { e && !gone[h] && epoch[h] == e && (state[h] == HELD || state[h] == CLOSING || state[h] == LOST) -> skip }
#ifdef MUT_HELD_FIRST
		:: atomic { e && !gone[h] && state[h] == ACQUIRING && epoch[h] == e ->
			state[h] = HELD; known[h] = 1; range[h] = taken };
			atomic { told[h] = (found_bad > found_good -> found_bad : 0) }
#else
		:: atomic { e && !gone[h] && state[h] == ACQUIRING && epoch[h] == e -> seen = 1; range[h] = taken };
			/* host_note_store(): its own CAS, of the epoch. */
			atomic {
				if
				:: !gone[h] && epoch[h] == e && (!known[h] || found_bad > told[h]) ->
#ifdef MUT_FIRST_NOTE
					told[h] = (!known[h] && found_bad > found_good -> found_bad : told[h]);
#else
					acked[h] = acked[h] && found_bad <= found_good;
					told[h] = (found_bad > found_good -> found_bad : told[h]);
#endif
					known[h] = 1
				:: else -> skip
				fi
			};
			if
			:: atomic { bridges > 0 && !gone[h] -> bridges--; upset = 1 }
			:: atomic { !gone[h] && state[h] == ACQUIRING && epoch[h] == e -> state[h] = HELD }
			:: gone[h] || state[h] != ACQUIRING || epoch[h] != e
			fi
#endif
		fi;
		d_step { found_bad = 0; found_good = 0; taken = 0; e = 0; seen = 0 }
	/* Known from the reply before a kill: the next one only goes on. */
	:: atomic { !gone[h] && state[h] == HELD && !inside[h] && (!wants[h] || turns > 0) ->
		turns = (wants[h] -> turns - 1 : turns); state[h] = CLOSING }
	:: atomic { !gone[h] && state[h] == CLOSING && !inside[h] -> state[h] = RELEASING }
	:: atomic { !gone[h] && (state[h] == HELD || state[h] == CLOSING) && lock != VALUE(h) -> state[h] = LOST }
	/* end_holds() */
	:: atomic { !gone[h] && state[h] == LOST ->
		torn = torn || (inside[h] && writer == VALUE(h));
		dead[h] = dead[h] || inside[h] != 0; inside[h] = 0; state[h] = RELEASING }
	/* bridge_lease_close_note(): a walk leaves the mark first. */
	:: atomic { !gone[h] && state[h] == RELEASING ->
		e = epoch[h];
#ifndef MUT_MARK_OVERLOOKED
		leave_mark(h);
#endif
		seen = mark[h];
		number = told[h];
		how = (seen -> D : (!known[h] -> U : ((told[h] && !acked[h]) -> K : C)));
		last = range[h]
#ifdef MUT_UNUSED_IS_GOOD
		; how = (how == U -> C : how)
#endif
#ifdef MUT_TOLD_IS_GOOD
		; how = (how == K -> C : how)
#endif
		};
		if
		:: !gone[h] -> release(h, e)
		:: gone[h]
		fi;
		if
		:: atomic { bridges > 0 && !gone[h] -> bridges--; upset = 1 }
#ifdef MUT_MARK_FIRST
		:: atomic { !gone[h] -> mark[h] = (moved && mark[h] == seen -> 0 : mark[h]) };
			if
			:: atomic { bridges > 0 && !gone[h] -> bridges--; upset = 1 }
			:: atomic { !gone[h] -> state[h] = NONE }
			:: gone[h]
			fi
#else
		:: atomic { !gone[h] && state[h] == RELEASING && epoch[h] == e -> state[h] = NONE };
			if
			:: atomic { bridges > 0 && !gone[h] -> bridges--; upset = 1 }
			:: atomic { !gone[h] -> mark[h] = (moved && mark[h] == seen -> 0 : mark[h]) }
			:: gone[h]
			fi
#endif
		:: gone[h] || state[h] != RELEASING || epoch[h] != e
		fi;
		d_step { moved = 0; e = 0; seen = 0; how = 0; last = 0; number = 0 }
	od
}

/* ---------------------------------------------------------------- what ends badly elsewhere */

#define FORGETS(h) atomic { forgets > 0 && !gone[h] && state[h] == HELD && known[h] && lock == VALUE(h) -> \
		forgets--; upset = 1; bad = 0; good = 0; open = range[h]; owner = lock; writer = lock }

proctype fate()
{
end:	do
	:: atomic { losses > 0 && lock != 0 -> losses--; upset = 1; lock = 0 }
	/* The host as a whole; host 1 stays, so that somebody can be told. */
	:: atomic { hosts > 0 && !gone[0] -> hosts--; upset = 1; torn = torn || (inside[0] && writer == VALUE(0));
		gone[0] = 1; inside[0] = 0; wants[0] = 0 }
	/* Its lease ends. */
	:: atomic { gone[0] && lock != 0 && lock == VALUE(0) -> lock = 0 }
	:: FORGETS(0)
	:: FORGETS(1)
	od
}

init
{
	atomic {
		run holder(0); run holder(1); run bridge(0); run bridge(1); run fate();
		if
		:: LEADERS == 2 -> run bridge(0)
		:: else -> skip
		fi
	};
	done == 2
}
