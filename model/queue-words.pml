/* SPDX-License-Identifier: MIT */
/*
 * queue-words.pml - switches of the queue's model and the layout of its words
 *
 * The numbers are smaller than those of src/segment/layout.h; the fields and what is compared with what are the same.
 */
#ifndef NPROC
#define NPROC 2
#endif
#ifndef NREC
#define NREC NPROC
#endif
#ifndef NOPS
#define NOPS 2
#endif
#ifdef HINTS
#define NO_HINTS false
#else
#define NO_HINTS true
#endif
#ifndef N_EXPIRE
#define N_EXPIRE 0
#endif
#ifndef N_CRASH
#define N_CRASH 0
#endif
#ifndef N_STOP
#define N_STOP 0
#endif
#ifndef N_SPUR
#define N_SPUR 0
#endif
#ifndef N_END
#define N_END 0
#endif
#ifndef N_CANCEL
#define N_CANCEL 0
#endif
#ifndef TOMASK
#define TOMASK 0
#endif
/* mode of each thread: 1 = exclusive, 0 = shared */
#ifndef M0
#define M0 1
#endif
#ifndef M1
#define M1 1
#endif
#ifndef M2
#define M2 1
#endif
#ifdef TOGETHER
#define MY_TURN (_pid == 0 || HAS(joined, _pid - 1))
#else
#define MY_TURN true
#endif
#define MODE(p) ((p) == 0 -> M0 : ((p) == 1 -> M1 : M2))
#ifdef ANYMODE
#define MAY_X true
#define MAY_S true
#else
#define MAY_X (MODE(_pid) == 1 && MY_TURN)
#define MAY_S (MODE(_pid) == 0 && MY_TURN)
#endif
/* operations of each thread */
#ifndef O0
#define O0 NOPS
#endif
#ifndef O1
#define O1 NOPS
#endif
#ifndef O2
#define O2 NOPS
#endif
#define OPS(p) ((p) == 0 -> O0 : ((p) == 1 -> O1 : O2))
#ifdef FOREVER
#define RENAME
#if defined(MARKS) || defined(UPGRADE)
#error "tickets in marks and registers are not renumbered"
#endif
#endif

/* Request word [gen | mode:1 | state:4 | prev:3] */
#define S_FREE 0
#define S_WAITING 1
#define S_GRANTED 2	/* its owner is not inside yet */
#define S_ENTERED 3
#define S_COOLING 4
#define S_LINGERING 5
#define S_RELEASED 6
#define S_ABANDONED 7
#define S_EXPIRED 8
#define S_DEAD 9
#define W(g, x, s, p) (((g) << 8) | ((x) << 7) | ((s) << 3) | (p))
#define PREV(w) ((w) & 7)
#define ST(w) (((w) >> 3) & 15)
#define MX(w) (((w) >> 7) & 1)
#define GEN(w) ((w) >> 8)
#define LIVE(w) (ST(w) >= S_WAITING && ST(w) <= S_LINGERING)
#define ENDED(w) (ST(w) >= S_RELEASED)
#define HELD(w) (ST(w) == S_GRANTED || ST(w) == S_ENTERED)
#define SHARED_HOLD(w) (HELD(w) && !MX(w))
#define WITH_ST(w, s) (((w) & ~120) | ((s) << 3))
#define WITH_PREV(w, p) (((w) & ~7) | (p))
#define WITH_MX(w, x) (((w) & ~128) | ((x) << 7))
#ifdef RENAME
#define FREED(w) 0
#else
#define FREED(w) W(GEN(w), 0, S_FREE, 0)
#endif

/* Tail [ticket:5 | index:3] */
#define IDX(t) ((t) & 7)
#define TICKET(t) ((t) >> 3)
#define TAIL(n, i) (((n) << 3) | (i))

/* Deadline: 128|gen = unset for gen; else a version of the lease; a renewal's or a cool-down's is never a grant's. */
#define UNSET(g) (128 | (g))
#define RENEWED(g) (64 | (g))
#define COOLED(g) (96 | (g))

/* Damage word [ticket:5 | robust:1 | died:1 | acknowledged:1]; ticket 0 = no damage yet */
#define ROBUST 4
#define MARK(n, died) (((n) << 3) | ROBUST | ((died) << 1))
#define MTICKET(v) ((v) >> 3)
#define MDIED(v) (((v) >> 1) & 1)
#define MACKED(v) ((v) & 1)
#define PENDING(v) (MTICKET(v) != 0 && !MACKED(v))
/* The state that a hold of that state has after a bad end: no damage before its owner is inside. */
#ifdef MUT_MARK_OUTSIDE
#define BAD_END(s, end) (end)
#else
#define BAD_END(s, end) ((s) == S_ENTERED -> (end) : S_ABANDONED)
#endif

#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define NOBODY NPROC	/* owner of a free record */
