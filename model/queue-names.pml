/* SPDX-License-Identifier: MIT */
/*
 * queue-names.pml - what makes states equal that differ in names only
 *
 * RENAME (by FOREVER): generations and tickets are names: only their equality or order matters.  The smallest unused
 * ones make the state space finite without a bound on the number of operations.
 *
 * SYMMETRY: threads with the same mode, number of operations and right to time out are alike.  canonical_store() stands
 * for SPIN's h_store() in the generated verifier (run.sh exchanges the call): the state is stored in the one of its
 * permutations that compares smallest.  The search itself goes on from the state as it is.
 */
#ifdef HINTS
#define HINT_OF(i) now.hint[i]
#else
#define HINT_OF(i) 0
#endif
#if N_CANCEL > 0
#define WREF_OF(i) now.wref[i]
#else
#define WREF_OF(i) 0
#endif

#if defined(RENAME) || defined(SYMMETRY)
c_code {
	extern short *proc_offset;

	static P0 *thread_in(const State *state, int i)
	{
		return (P0 *)((char *)state + proc_offset[i]);
	}
}
#endif

#ifdef RENAME
c_code {
	static int generation_used(int r, int c)
	{
		int i;

		for (i = 0; i < NPROC; i++) {
			P0 *p = thread_in(&now, i);

			if ((p->me == r && p->g == c) || (p->a == r && (p->wa >> 8) == c) ||
			    (p->y == r && (p->wy >> 8) == c) || (p->wme >> 8) == c ||
			    p->k == ((c << 3) | r) || (p->d & 31) == c)
				return 1;
		}
		for (i = 1; i <= NREC; i++)
			if (HINT_OF(i) == ((c << 3) | r))
				return 1;
		for (i = 0; i < NPROC; i++)
			if (WREF_OF(i) == ((c << 3) | r))
				return 1;
		return (now.word[r] >> 8) == c || (now.dl[r] & 31) == c;
	}

	static int fresh_generation(int r)
	{
		int c = 1;

		while (generation_used(r, c))
			c++;
		return c;
	}

	static void renumber_tickets(void)
	{
		unsigned used = 1u << (now.tail >> 3) | 1u << now.last_x;
		unsigned char map[32];
		int i, n = 0;

		for (i = 1; i <= NREC; i++)
			used |= 1u << now.ticket[i];
		for (i = 0; i < NPROC; i++)
			used |= 1u << (thread_in(&now, i)->t >> 3);
		for (i = 1, map[0] = 0; i < 32; i++)
			map[i] = used >> i & 1 ? ++n : n;
		now.tail = map[now.tail >> 3] << 3 | (now.tail & 7);
		now.last_x = map[now.last_x];
		for (i = 1; i <= NREC; i++)
			now.ticket[i] = map[now.ticket[i]];
		for (i = 0; i < NPROC; i++)
			thread_in(&now, i)->t = map[thread_in(&now, i)->t >> 3] << 3 | (thread_in(&now, i)->t & 7);
	}
}
#endif

#ifdef SYMMETRY
c_code {
	int h_store(char *, int);

	static const int class_mode[] = { M0, M1, M2 }, class_ops[] = { O0, O1, O2 };

	static int alike(int i, int j)
	{
#ifdef TOGETHER
		return i == j;
#endif
#ifndef ANYMODE
		if (class_mode[i] != class_mode[j])
			return 0;
#endif
		return class_ops[i] == class_ops[j] && (TOMASK >> i & 1) == (TOMASK >> j & 1);
	}

	static unsigned char permuted_set(unsigned char set, const int *to)
	{
		unsigned char out = 0;
		int i;

		for (i = 0; i < NPROC; i++)
			out |= (set >> i & 1) << to[i];
		return out;
	}

	/* now = @from, with thread i called to[i]. */
	static void permute(const State *from, const int *to)
	{
		int i;

		for (i = 0; i < NPROC; i++) {
			P0 *old = thread_in(from, i), *new = thread_in(&now, to[i]);

			*new = *old;
			new->_pid = to[i];
			now.slp[to[i]] = from->slp[i];
			now.watch[to[i]] = from->watch[i] > 0 && from->watch[i] <= NPROC ?
						   to[from->watch[i] - 1] + 1 : from->watch[i];
#if N_CANCEL > 0
			now.wref[to[i]] = from->wref[i];
#endif
#ifdef LINGER
			now.behind[to[i]] = from->behind[i];
			now.again[to[i]] = from->again[i];
#endif
		}
		for (i = 1; i <= NREC; i++)
			now.rowner[i] = from->rowner[i] < NPROC ? to[from->rowner[i]] : from->rowner[i];
		now.dead = permuted_set(from->dead, to);
		now.stopped = permuted_set(from->stopped, to);
		now.bel = permuted_set(from->bel, to);
		now.belx = permuted_set(from->belx, to);
		now.over = permuted_set(from->over, to);
		now.lost = permuted_set(from->lost, to);
#ifdef COOL
		now.nudge = permuted_set(from->nudge, to);
#endif
#if defined(SELFCHECK) || defined(COOL)
		now.tried = permuted_set(from->tried, to);
#endif
	}

	static int canonical_store(char *vin, int nin)
	{
		static const int orders[][3] = { { 1, 0, 2 }, { 0, 2, 1 }, { 2, 1, 0 }, { 1, 2, 0 }, { 2, 0, 1 } };
		static State seen, best;
		int i, n, found;

		memcpy(&seen, &now, nin);
		memcpy(&best, &now, nin);
		for (n = 0; n < (NPROC == 2 ? 1 : 5); n++) {
			for (i = 0; i < NPROC && alike(i, orders[n][i]); i++)
				;
			if (i < NPROC)
				continue;
			permute(&seen, orders[n]);
			if (memcmp(&now, &best, nin) < 0)
				memcpy(&best, &now, nin);
			memcpy(&now, &seen, nin);
		}
		memcpy(&now, &best, nin);
		found = h_store(vin, nin);
		memcpy(&now, &seen, nin);
		return found;
	}
}
#endif
