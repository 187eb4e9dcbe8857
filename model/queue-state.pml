/* SPDX-License-Identifier: MIT */
/*
 * queue-state.pml - shared memory, state of the kernel, budgets, and state of the monitors
 */
/* ------------------------------------------------------------------ shared memory */
byte tail;
short word[NREC + 1];
byte dl[NREC + 1];
byte rowner[NREC + 1] = NOBODY;	/* the thread that filled it: stands for its life word */
byte ticket[NREC + 1];
byte sleeping;		/* the sleep flags, one bit per record */
#ifdef HINTS
byte hint[NREC + 1];	/* [gen:5 | index:3] */
#endif
#ifdef MARKS
#ifdef LATE_ROBUST
byte mark;
#else
byte mark = ROBUST;
#endif
#endif
#if N_CANCEL > 0
byte wref[NPROC];	/* published [gen | index] of the thread's wait */
#endif
byte dead;		/* life words: flagged by the kernel */
/* ------------------------------------------------------------------ the kernel */
byte slp[NPROC];	/* record whose word the thread sleeps on, 0 = not in the kernel */
byte watch[NPROC];	/* thread + 1 whose life word it sleeps on too; 9 = none */
#ifdef LINGER
byte behind[NPROC];	/* record of the predecessor whose word it sleeps on too */
byte again[NPROC];	/* bargeable record that its thread may still resume: in the thread's own chunk */
#endif
byte stopped;		/* threads that got SIGSTOP and never run again */
/* ------------------------------------------------------------------ budgets */
#if N_EXPIRE > 0
byte nexp = N_EXPIRE;
#else
#define nexp 0
#endif
#if N_CRASH > 0
byte ncrash = N_CRASH;
#endif
#if N_STOP > 0
byte nstop = N_STOP;
#else
#define nstop 0
#endif
#if N_SPUR > 0
byte nspur = N_SPUR;
#endif
#if N_END > 0
byte nend = N_END;
#endif
#if N_CANCEL > 0
byte ncancel = N_CANCEL;
#endif
#if defined(SELFCHECK) || defined(COOL)
byte tried;		/* threads whose self-check found nothing to do since the last change */
#define CHANGED tried = 0
#else
#define CHANGED skip
#endif
/* ------------------------------------------------------------------ monitors */
byte linked;		/* records reachable from the tail */
byte flipped;		/* R10: mode says exclusive, tail not yet taken: still shared */
byte last_x;		/* largest ticket of an exclusive hold so far */
byte bel;		/* threads whose grant has not been seen to end by themselves */
byte belx;		/* of these, the exclusive ones */
byte over;		/* of these, those whose lock was granted to another since */
byte lost;		/* of these, those whose request was taken away */
#ifdef COOL
byte nudge;		/* threads that slept behind a hold when it began to cool down: they must be woken */
#endif
#ifdef RENEW
byte conf[NREC + 1];	/* lease version that the owner was given */
#endif
#ifdef MARKS
int died;		/* tickets of exclusive holds that ended badly, entered, while the lock was robust */
int told;		/* tickets that were written as damage */
int acked;		/* tickets that were acknowledged */
#endif
#ifdef TOGETHER
byte joined;		/* threads that have appended a request, or are dead */
#define JOINED joined = joined | BIT(_pid)
#else
#define JOINED skip
#endif
byte done;
hidden byte i_, j_;
hidden short w_;

mtype = { IDLE, A1, A3, A4, A5, J1, J2, J3, N1, N2, N3, N4, N5, N6, N7, W0, W0L, W0M, PM, P0, P1, P2, P3, PC, PF, PH, PK, PX, PY, G1, G2, GW, LA1, LA2, LA3, T0,
	W3, W4, ASL0, ASLEEP, TO1, E1, HOLD, F2, F3, F4, D1, D2, RN1, RN2, RN3, RN4, C1, C2, C3, C4, U1, U2, U3, U4, U5,
	U6, U7, DG2, DG3, LE, L1, L2, L3, L4, L5, HA2, M0_, M1_, M3_, M4_, CN2, CN3, CN4, RC1, RC2, RC3, RC4, GONE };

/* What follows a walk. */
#define R_WAIT 0	/* my next round */
#define R_LEAVE 1	/* the end of an operation that left the queue */
#define R_HOLD 2	/* I hold the lock still */
#define R_OP 3		/* the end of an operator's or a canceller's operation */
#define R_RECLAIM 4	/* record rk was not in the queue: it may be freed */
#define R_JOIN 5	/* append; the walk looks at the one I join */
#define R_ADVANCE 6	/* append, after helping forward once */
#define R_UPGRADE 7	/* the upgrade proper */
#define R_POP 8		/* as R_LEAVE; the walk ends at the newest live request */
#define R_PASS 9	/* as R_LEAVE; the walk ends when my request is unlinked */
