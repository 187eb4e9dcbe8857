/* SPDX-License-Identifier: MIT */
/*
 * shapes-models.c - the memory models of x86, Arm and C11 as rules on relations
 *
 * x86    the axioms of x86-TSO as in "Herding Cats" (Alglave, Maranget, Tautschnig 2014)
 * Arm    the external visibility requirement of the Arm architecture's application-level model, without dependencies
 *        and without the order of stores to one place, both of which only forbid more
 * C11    RC11 of "Repairing Sequential Consistency in C/C++11" (Lahav and others 2017)
 *
 * Common to all: each place has one order of stores that every thread agrees with, and nothing comes between the halves
 * of a swap.
 */
#include "shapes.h"

const char *const model_names[MODELS] = { "x86", "llsc", "lse", "rcpc", "c11" };

/* ---------------------------------------------------------------- relations */

static struct relation both(struct relation a, const struct relation *b)
{
	int i;

	for (i = 0; i < EVENTS_MAX; i++)
		a.to[i] |= b->to[i];
	return a;
}

static struct relation minus(struct relation a, const struct relation *b)
{
	int i;

	for (i = 0; i < EVENTS_MAX; i++)
		a.to[i] &= ~b->to[i];
	return a;
}

static struct relation common(struct relation a, const struct relation *b)
{
	int i;

	for (i = 0; i < EVENTS_MAX; i++)
		a.to[i] &= b->to[i];
	return a;
}

/* a then b */
static struct relation then(const struct relation *a, const struct relation *b)
{
	struct relation r = { { 0 } };
	int i, j;

	for (i = 0; i < EVENTS_MAX; i++)
		for (j = 0; j < EVENTS_MAX; j++)
			if (a->to[i] >> j & 1)
				r.to[i] |= b->to[j];
	return r;
}

static struct relation inverse(const struct relation *a)
{
	struct relation r = { { 0 } };
	int i, j;

	for (i = 0; i < EVENTS_MAX; i++)
		for (j = 0; j < EVENTS_MAX; j++)
			if (a->to[i] >> j & 1)
				r.to[j] |= UINT32_C(1) << i;
	return r;
}

static struct relation closure(struct relation a)
{
	int i, k;

	for (k = 0; k < EVENTS_MAX; k++)
		for (i = 0; i < EVENTS_MAX; i++)
			if (a.to[i] >> k & 1)
				a.to[i] |= a.to[k];
	return a;
}

static struct relation identity(event_set s)
{
	struct relation r = { { 0 } };
	int i;

	for (i = 0; i < EVENTS_MAX; i++)
		r.to[i] = s & UINT32_C(1) << i;
	return r;
}

static struct relation maybe(const struct relation *a)
{
	struct relation id = identity(UINT32_MAX);

	return both(*a, &id);
}

/* a from @from to @to only */
static struct relation between(event_set from, struct relation a, event_set to)
{
	int i;

	for (i = 0; i < EVENTS_MAX; i++)
		a.to[i] = from >> i & 1 ? a.to[i] & to : 0;
	return a;
}

static bool empty(const struct relation *a)
{
	int i;

	for (i = 0; i < EVENTS_MAX; i++)
		if (a->to[i])
			return false;
	return true;
}

static bool irreflexive(const struct relation *a)
{
	struct relation id = identity(UINT32_MAX), self = common(*a, &id);

	return empty(&self);
}

static bool acyclic(const struct relation *a)
{
	struct relation c = closure(*a);

	return irreflexive(&c);
}

/* ---------------------------------------------------------------- sets and relations of an execution */

struct facts {
	event_set reads, writes, fences, sc, acquire, release, swaps, full_fences, acquire_fences, after_rmw;
	struct relation po, rf, co, fr, rmw, same_place, internal;
	struct relation rfe, coe, fre;
};

static void sort_event(struct facts *f, const struct event *e, event_set bit)
{
	if (e->kind == EVENT_FENCE) {
		f->fences |= bit;
		f->full_fences |= e->order == ORDER_SC && !e->after_rmw ? bit : 0;
		f->after_rmw |= e->after_rmw ? bit : 0;
		f->acquire_fences |= e->order == ORDER_ACQUIRE ? bit : 0;
	}
	f->reads |= e->kind == EVENT_READ ? bit : 0;
	f->writes |= e->kind == EVENT_WRITE ? bit : 0;
	f->swaps |= e->swap ? bit : 0;
	f->sc |= e->order == ORDER_SC ? bit : 0;
	if (e->order == ORDER_ACQUIRE || (e->order == ORDER_SC && e->kind != EVENT_WRITE))
		f->acquire |= bit;
	if (e->order == ORDER_RELEASE || (e->order == ORDER_SC && e->kind != EVENT_READ))
		f->release |= bit;
}

static struct facts facts_of(const struct execution *x)
{
	struct facts f = { 0 };
	struct relation rf_back = inverse(&x->rf), id = identity(UINT32_MAX);
	int i, j;

	for (i = 0; i < x->n; i++) {
		sort_event(&f, &x->events[i], UINT32_C(1) << i);
		for (j = 0; j < x->n; j++) {
			if (x->events[i].place >= 0 && x->events[i].place == x->events[j].place)
				f.same_place.to[i] |= UINT32_C(1) << j;
			if (x->events[i].thread >= 0 && x->events[i].thread == x->events[j].thread)
				f.internal.to[i] |= UINT32_C(1) << j;
		}
	}
	f.po = x->po;
	f.rf = x->rf;
	f.co = x->co;
	f.rmw = x->rmw;
	f.fr = then(&rf_back, &f.co);
	f.fr = minus(f.fr, &id);
	f.rfe = minus(f.rf, &f.internal);
	f.coe = minus(f.co, &f.internal);
	f.fre = minus(f.fr, &f.internal);
	return f;
}

/* One order of stores for each place, and swaps in one piece. */
static bool coherent(const struct facts *f)
{
	struct relation all = common(f->po, &f->same_place), torn = then(&f->fre, &f->coe);

	all = both(all, &f->rf);
	all = both(all, &f->co);
	all = both(all, &f->fr);
	torn = common(torn, &f->rmw);
	return acyclic(&all) && empty(&torn);
}

/* Pairs in program order with one of @fences between them. */
static struct relation fenced(const struct facts *f, event_set fences)
{
	struct relation before = between(UINT32_MAX, f->po, fences), after = between(fences, f->po, UINT32_MAX);

	return then(&before, &after);
}

/* ---------------------------------------------------------------- models */

static bool x86_allows(const struct facts *f)
{
	struct relation order = f->po, late = between(f->writes & ~f->swaps, f->po, f->reads & ~f->swaps), fence;

	/* A load may pass earlier stores, unless one of them is a locked instruction or a fence is between. */
	order = minus(between(~f->fences, order, ~f->fences), &late);
	fence = fenced(f, f->full_fences);
	order = both(order, &fence);
	order = both(order, &f->rfe);
	order = both(order, &f->co);
	order = both(order, &f->fr);
	return acyclic(&order);
}

static bool arm_allows(const struct facts *f, bool casal, bool rcpc)
{
	/* Halves of a swap: LDAXR is an acquire in the strong sense also where plain acquires are LDAPR. */
	event_set strong = rcpc ? f->acquire & f->swaps : f->acquire, swap_stores = f->swaps & f->writes;
	struct relation order = f->rmw, part, read_back;

	/* Atomic-ordered-before: also to an acquire that reads the own swap's store. */
	read_back = common(f->rf, &f->internal);
	part = then(&f->rmw, &read_back);
	part = between(UINT32_MAX, part, f->acquire);
	order = both(order, &part);
	/* Barrier-ordered-before. */
	part = fenced(f, f->fences & ~f->acquire_fences);
	order = both(order, &part);
	part = fenced(f, f->acquire_fences);
	part = between(f->reads, part, UINT32_MAX);
	order = both(order, &part);
	part = between(f->release & f->writes, f->po, strong & f->reads);
	order = both(order, &part);
	part = between(f->acquire & f->reads, f->po, UINT32_MAX);
	order = both(order, &part);
	part = between(UINT32_MAX, f->po, f->release & f->writes);
	order = both(order, &part);
	if (casal) {
		part = between(swap_stores, f->po, UINT32_MAX);
		order = both(order, &part);
	}
	/* Observed-by. */
	order = both(order, &f->rfe);
	order = both(order, &f->coe);
	order = both(order, &f->fre);
	return acyclic(&order);
}

/* Synchronizes-with, from the release, or a fence before it, to the acquire, or a fence after it. */
static struct relation synchronizes(const struct facts *f)
{
	struct relation chain = then(&f->rf, &f->rmw), start, end, sw;

	/* Release sequence: the store, swaps that read it, and swaps that read those. */
	chain = closure(chain);
	chain = maybe(&chain);
	start = between(f->fences & f->release, f->po, f->writes);
	sw = identity(f->writes & f->release);
	start = both(start, &sw);
	sw = then(&start, &chain);
	sw = then(&sw, &f->rf);
	end = between(f->reads, f->po, f->fences & f->acquire);
	chain = identity(f->reads & f->acquire);
	end = both(end, &chain);
	return then(&sw, &end);
}

/* The partial order of sequentially consistent operations. */
static struct relation sc_order(const struct facts *f, const struct relation *hb, const struct relation *eco)
{
	event_set fences = f->fences & f->sc;
	struct relation elsewhere = minus(f->po, &f->same_place), scb, part, left, right, hb_some = maybe(hb);

	scb = then(&elsewhere, hb);
	scb = then(&scb, &elsewhere);
	scb = both(scb, &f->po);
	part = common(*hb, &f->same_place);
	scb = both(scb, &part);
	scb = both(scb, &f->co);
	scb = both(scb, &f->fr);
	left = between(fences, hb_some, UINT32_MAX);
	part = identity(f->sc);
	left = both(left, &part);
	right = between(UINT32_MAX, hb_some, fences);
	right = both(right, &part);
	part = then(&left, &scb);
	scb = then(&part, &right);
	part = then(hb, eco);
	part = then(&part, hb);
	part = both(part, hb);
	part = between(fences, part, fences);
	return both(scb, &part);
}

static bool c11_allows(const struct facts *f)
{
	struct relation sw = synchronizes(f), hb, eco, part, psc;

	hb = closure(both(f->po, &sw));
	eco = both(f->rf, &f->co);
	eco = closure(both(eco, &f->fr));
	part = maybe(&eco);
	part = then(&hb, &part);
	if (!irreflexive(&part))
		return false;
	psc = sc_order(f, &hb, &eco);
	part = both(f->po, &f->rf);
	return acyclic(&psc) && acyclic(&part);
}

bool model_allows(enum model model, const struct execution *x)
{
	struct facts f = facts_of(x);

	if (!coherent(&f))
		return false;
	switch (model) {
	case MODEL_X86:
		return x86_allows(&f);
	case MODEL_LLSC:
		return arm_allows(&f, false, false);
	case MODEL_LSE:
		return arm_allows(&f, true, false);
	case MODEL_RCPC:
		return arm_allows(&f, false, true);
	default:
		return c11_allows(&f);
	}
}
