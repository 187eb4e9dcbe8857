/* SPDX-License-Identifier: MIT */
/*
 * robust-global.pml - the note of a robust key in Redis: who is told that an earlier holder ended badly, for SPIN 6.5
 *
 * Two hosts, a leader and a series of exclusive holders each.  A holder may be killed inside (N_DEATH), a leader anywhere
 * (N_BRIDGE; the next one goes on from the segment), a host as a whole (N_HOST), and Redis may lose a lock (N_LOSS).  Each
 * script is one step, so is each store of the segment; what a leader has in its own memory is gone with it.
 *
 * In Redis: the lock, open (number and owner of the last lease), bad, good; in a segment: state and epoch of the lease,
 * KNOWN, TOLD and ACKED of its note, a dead request that is still linked, the mark of the entry.
 */
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
byte lock, open, owner, bad, good, token;
#define VALUE(h) (1 + (h) + 2 * epoch[h])

/* The segments. */
byte state[2], epoch[2], range[2];	/* range: the last token of the lease, the fence of the record */
byte found[2];	/* bad as it was told */
bit known[2], told[2], acked[2], dead[2], mark[2], inside[2], wants[2], gone[2];

/* Proof. */
bit torn;	/* a hold ended badly, and no holder acknowledged it since */
bit upset;	/* something was killed or lost: to be told once more is right from here on */
byte deaths = N_DEATH, bridges = N_BRIDGE, hosts = N_HOST, losses = N_LOSS, done;
byte turns = 1;	/* leases given back before a waiter, for another host */

inline now_inside(h)
{
	d_step {
		hears = mark[h] || (told[h] && !acked[h]);
		/* Unless Redis has lost this lock and granted it again, which this host does not know yet. */
		assert(!torn || hears || lock != VALUE(h));
		assert(!hears || torn || upset);
		assert(lock == VALUE(h) || upset);
		inside[h] = 1; wants[h] = 0
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
			mark[h] = mark[h] || dead[h]; dead[h] = 0;
			now_inside(h) }
		:: atomic { gone[h] -> wants[h] = 0; break }
		fi;
		if
		:: hears ->
			/* lockshm_acknowledge(): the mark, then the note. */
			atomic { if :: inside[h] -> mark[h] = 0 :: else -> skip fi };
			atomic {
				if
				:: inside[h] -> acked[h] = told[h]; torn = 0
				:: else -> skip
				fi
			}
		:: skip
		fi;
		if
		:: atomic { inside[h] -> inside[h] = 0 }
		:: atomic { inside[h] && deaths > 0 -> deaths--; upset = 1; torn = torn || lock == VALUE(h);
			inside[h] = 0; dead[h] = 1 }
		:: atomic { !inside[h] -> skip }	/* the lease was lost */
		fi
	od;
	done++
}

/* ---------------------------------------------------------------- the leader */

#define K 0
#define C 1
#define D 2
#define U 3

proctype bridge(bit h)
{
	byte found_bad, found_good, how, last, taken;
	bit moved, mine;

end:	do
	:: gone[h] -> break
	/* Killed: the next one has nothing but the segment. */
	:: atomic { bridges > 0 && !gone[h] -> bridges--; upset = 1; found_bad = 0; found_good = 0; how = 0; last = 0; moved = 0 }
	:: atomic { !gone[h] && state[h] == NONE && wants[h] ->
		assert(epoch[h] < 60);
		epoch[h]++; known[h] = 0; told[h] = 0; acked[h] = 0; state[h] = ACQUIRING }
	/* acquire-x.lua */
	:: atomic { !gone[h] && state[h] == ACQUIRING && (lock == 0 || lock == VALUE(h)) ->
		if
		:: owner != VALUE(h) -> bad = open; owner = VALUE(h)
		:: else -> skip
		fi;
		/* A new token for a new lease; a repeated acquire takes another one. */
		token++; open = token;
		lock = VALUE(h);
		taken = open;
		found_bad = bad; found_good = good };
		if
		/* Killed before the reply: sent again. */
		:: atomic { bridges > 0 && !gone[h] -> bridges--; upset = 1 }
		/* Granted too late: given back, not used. */
		:: atomic { !gone[h] && state[h] == ACQUIRING && losses > 0 -> losses--; upset = 1; state[h] = RELEASING }
#ifdef MUT_HELD_FIRST
		:: atomic { !gone[h] && state[h] == ACQUIRING -> state[h] = HELD; known[h] = 1; range[h] = taken };
			atomic { told[h] = found_bad > found_good }
#else
		:: atomic { !gone[h] && state[h] == ACQUIRING -> known[h] = 1; told[h] = found_bad > found_good; found[h] = found_bad; range[h] = taken };
			if
			:: atomic { bridges > 0 && !gone[h] -> bridges--; upset = 1 }
			:: atomic { !gone[h] && state[h] == ACQUIRING -> state[h] = HELD }
			:: gone[h]
			fi
#endif
		:: gone[h]
		fi;
		found_bad = 0; found_good = 0
	/* Known from the reply before a kill: the next one only goes on. */
	:: atomic { !gone[h] && state[h] == HELD && !inside[h] && (!wants[h] || turns > 0) ->
		turns = (wants[h] -> turns - 1 : turns); state[h] = CLOSING }
	:: atomic { !gone[h] && state[h] == CLOSING && !inside[h] -> state[h] = RELEASING }
	:: atomic { !gone[h] && (state[h] == HELD || state[h] == CLOSING) && lock != VALUE(h) -> state[h] = LOST }
	/* end_holds() */
	:: atomic { !gone[h] && state[h] == LOST ->
		torn = torn || (inside[h] && owner == VALUE(h));
		dead[h] = dead[h] || inside[h]; inside[h] = 0; state[h] = RELEASING }
	/* bridge_lease_close_note(): a walk leaves the mark first. */
	:: atomic { !gone[h] && state[h] == RELEASING ->
#ifndef MUT_MARK_OVERLOOKED
		mark[h] = mark[h] || dead[h]; dead[h] = 0;
#endif
		how = (mark[h] -> D : (!known[h] -> U : ((told[h] && !acked[h]) -> K : C)));
		last = range[h]
#ifdef MUT_UNUSED_IS_GOOD
		; how = (how == U -> C : how)
#endif
#ifdef MUT_TOLD_IS_GOOD
		; how = (how == K -> C : how)
#endif
		};
		/* release.lua */
		atomic {
			if
			:: gone[h] -> skip
			:: else ->
				mine = owner == VALUE(h);
				last = (mine && open > last -> open : last);
				how = (how == K && good >= found[h] -> C : how);
				moved = how == D && last >= open && last > good;
				if
				:: how == C -> good = (last > good -> last : good)
				:: moved -> open = last; owner = 0
				:: how == U && mine -> open = bad
				:: else -> skip
				fi;
				owner = (mine -> 0 : owner);
				mine = 0; last = 0;
				lock = (lock == VALUE(h) -> 0 : lock)
			fi;
			how = 0; last = 0 };
		if
		:: atomic { bridges > 0 && !gone[h] -> bridges--; upset = 1 }
#ifdef MUT_MARK_FIRST
		:: atomic { !gone[h] -> mark[h] = (moved -> 0 : mark[h]) };
			if
			:: atomic { bridges > 0 && !gone[h] -> bridges--; upset = 1 }
			:: atomic { !gone[h] -> state[h] = NONE }
			:: gone[h]
			fi
#else
		:: atomic { !gone[h] -> state[h] = NONE };
			if
			:: atomic { bridges > 0 && !gone[h] -> bridges--; upset = 1 }
			:: atomic { !gone[h] -> mark[h] = (moved -> 0 : mark[h]) }
			:: gone[h]
			fi
#endif
		:: gone[h]
		fi;
		moved = 0
	od
}

/* ---------------------------------------------------------------- what ends badly elsewhere */

proctype fate()
{
end:	do
	:: atomic { losses > 0 && lock != 0 -> losses--; upset = 1; lock = 0 }
	/* The host as a whole; host 1 stays, so that somebody can be told. */
	:: atomic { hosts > 0 && !gone[0] -> hosts--; upset = 1; torn = torn || inside[0];
		gone[0] = 1; inside[0] = 0; wants[0] = 0 }
	/* Its lease ends. */
	:: atomic { gone[0] && lock != 0 && lock == VALUE(0) -> lock = 0 }
	od
}

init
{
	atomic { run holder(0); run holder(1); run bridge(0); run bridge(1); run fate() };
	done == 2
}
