/* SPDX-License-Identifier: MIT */
/*
 * shapes.h - one outcome of a few loads, stores and swaps, and whether a machine may show it
 *
 * An execution is a set of events with the relations that herd and the papers on memory models use: po (program order),
 * rf (reads from), co (order of the stores to one place), fr (read before a store), rmw (the two halves of a swap).
 */
#ifndef LOCKSHM_TEST_SHAPES_H
#define LOCKSHM_TEST_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#define EVENTS_MAX 32
#define PLACES_MAX 8

typedef uint32_t event_set; /* a bit per event */

/* to[a] has the bit of b if a is related to b. */
struct relation {
	event_set to[EVENTS_MAX];
};

enum event_kind { EVENT_READ, EVENT_WRITE, EVENT_FENCE };
enum event_order { ORDER_RELAXED, ORDER_ACQUIRE, ORDER_RELEASE, ORDER_SC };

struct event {
	enum event_kind kind;
	enum event_order order;
	int thread; /* -1: the value a place starts with */
	int place;  /* -1: a fence */
	int value;
	bool swap;	/* half of a swap */
	bool after_rmw; /* fence_after_rmw(): no instruction on x86 */
};

struct execution {
	int n;
	struct event events[EVENTS_MAX];
	struct relation po, rf, co, rmw;
};

enum model {
	MODEL_X86,  /* TSO */
	MODEL_LLSC, /* Armv8.0: LDAR, STLR, swaps by LDAXR and STLXR */
	MODEL_LSE,  /* Armv8.1: LDAR, STLR, swaps by CASAL */
	MODEL_RCPC, /* the weakest Arm: LDAPR for LDAR, swaps by LDAXR and STLXR */
	MODEL_C11,  /* RC11 */
	MODELS
};
extern const char *const model_names[MODELS];

/* May @model show this execution? */
bool model_allows(enum model model, const struct execution *x);

#endif
