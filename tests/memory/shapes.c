/* SPDX-License-Identifier: MIT */
/*
 * shapes.c - every fence and every release/acquire pair of the library against the memory models
 *
 *   shapes [NAME]        all shapes, or one; -v prints the shapes as well
 *
 * doc/internals/memory-model.md argues for each fence; this program checks the arguments.  A shape is an outcome that
 * would be a failure of the protocol, cut down to the loads, stores and swaps that matter.  As the code is, every model must
 * forbid it.  With each fence or order taken away in turn, exactly the models that the list names must show it: so the
 * list also shows what each of them is for, and that this program can see a missing one.
 *
 * The steps of a thread, with the functions of src/sys/atomic.h that they stand for:
 *
 *   W x 1     store_relaxed()         R x=1     load_relaxed() that sees 1
 *   Wrel x 1  store_release()         Racq x=1  load_acquire() that sees 1
 *   U x 1 2   cas() from 1 to 2, successful
 *   F  fence_full()    Frmw  fence_after_rmw()    Facq  fence_acquire()    Frel  a release fence
 *   {A|B}     A as the code is, B to see what A is good for; B may be nothing
 *
 * Every place starts with 0, and a value is stored to a place once at most.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shapes.h"

#define THREADS_MAX 4
#define WEAKENINGS_MAX 8
#define ALL "x86 llsc lse rcpc c11"
#define ARM "llsc lse rcpc"
#define WEAK "llsc lse rcpc c11" /* all but x86 */
#define NONE ""

struct shape {
	const char *name;
	const char *failure;
	const char *threads[THREADS_MAX];
	const char *without[WEAKENINGS_MAX]; /* for each {A|B}: the models that show the outcome with B */
	const char *seen;		     /* the models that show it as it is: none, but for the first shapes */
};

/* By their names in doc/internals/memory-model.md. */
static const struct shape shapes[] = {
	/* Known answers from the literature: they check this program. */
	{ "SB", "store buffering", { "W x 1; R y=0", "W y 1; R x=0" }, .seen = ALL },
	{ "SBra", "the same by release and acquire", { "Wrel x 1; Racq y=0", "Wrel y 1; Racq x=0" },
	  .seen = "x86 rcpc c11" },
	{ "SBu", "the same by swaps", { "U x 0 1; R y=0", "U y 0 1; R x=0" }, .seen = "llsc rcpc c11" },
	{ "MP", "message passing", { "W x 1; W y 1", "R y=1; R x=0" }, .seen = WEAK },
	{ "LB", "load buffering", { "R x=1; W y 1", "R y=1; W x 1" }, .seen = ARM },
	{ "IRIW", "two observers disagree about two stores",
	  { "W x 1", "W y 1", "Racq x=1; Racq y=0", "Racq y=1; Racq x=0" }, .seen = "c11" },
	{ "CoRR", "a place goes back", { "W x 1", "R x=1; R x=0" }, .seen = NONE },
	{ "P5", "a hold is both released and expired", { "U word 0 1", "U word 0 2" }, .seen = NONE },

	/* Dekker pairs: each side stores, then loads. */
	{ "M1", "the waiter sees no release, the releaser no hint",
	  { "W hint 1; {F|}; Racq word=0", "U word 0 1; {Frmw|}; Racq hint=0" },
	  .without = { ALL, "rcpc c11" } },
	{ "M1b", "the same where the change is not a swap: shorter lease, cooldown, move",
	  { "W hint 1; {F|}; Racq deadline=0", "U deadline 0 1; {F|}; Racq hint=0" },
	  .without = { ALL, "rcpc c11" } },
	{ "M1c", "an ended holder sees its end, but no hint, and the waiter behind sees no end",
	  { "W hint 1; {F|}; Racq word=0", "U word 0 1", "{Racq|R} word=1; {Frmw|}; Racq hint=0" },
	  .without = { ALL, NONE, "c11" } },
	{ "M1d", "the waiter sees no downgrade, the holder no newer request",
	  { "U tail 0 1; W hint 1; {F|}; Racq word=0", "U word 0 1; {Frmw|}; Racq tail=0" },
	  .without = { "rcpc c11", "rcpc c11" } },
	{ "M2", "the waiter sees no grant, the granter no sleeper",
	  { "W sleeping 1; {F|}; Racq word=0", "U word 0 1; {Frmw|}; R sleeping=0" },
	  .without = { ALL, "llsc rcpc c11" } },
	{ "M2b", "a third party sees the grant, but no sleeper, and the sleeper no grant",
	  { "W sleeping 1; {F|}; Racq word=0", "U word 0 1", "{Racq|R} word=1; {Frmw|}; R sleeping=0" },
	  .without = { ALL, NONE, "c11" } },
	{ "M2c", "a hold is taken away, its owner sees neither that nor is it called",
	  { "U watched 0 1; {F|}; Racq word=0", "U word 0 1; {Frmw|}; R watched=0" },
	  .without = { "rcpc c11", "llsc rcpc c11" } },
	{ "M2d", "the service thread goes to sleep without a look at the bit, the ringer does not wake it",
	  { "W asleep 1; {F|}; R bits=0", "U bits 0 1; {Frmw|}; R asleep=0" },
	  .without = { ALL, "llsc rcpc c11" } },
	{ "M2e", "the service thread stops its scans without a look at the hold, the loop's thread sees scans",
	  { "U use 0 1; {Frmw|}; R none=0", "W none 1; {F|}; Racq use=0" },
	  .without = { "llsc rcpc c11", ALL } },
	{ "M3", "two threads that close a cycle both overlook it",
	  { "Wrel wait_a 1; {F|}; Racq wait_b=0", "Wrel wait_b 1; {F|}; Racq wait_a=0" },
	  .without = { "x86 rcpc c11", "x86 rcpc c11" } },
	{ "M3b", "three threads that close a cycle all overlook it",
	  { "Wrel a 1; {F|}; Racq b=0", "Wrel b 1; {F|}; Racq c=0", "Wrel c 1; {F|}; Racq a=0" },
	  .without = { "x86 rcpc c11", "x86 rcpc c11", "x86 rcpc c11" } },
	{ "M4", "the canceller finds no wait, the waiter no cancel",
	  { "Wrel request 1; {F|}; Racq flag=0", "Wrel flag 1; {F|}; Racq request=0" },
	  .without = { "x86 rcpc c11", "x86 rcpc c11" } },
	{ "M4b", "a cancel takes the request of one wait and the segment of the next",
	  { "Wrel request 1; {Wrel|W} segment 1; Wrel request 2", "Racq request=0; {Racq|R} segment=1; R request=0" },
	  .without = { WEAK, WEAK } },
	{ "K1", "the kernel compares the old word, the waker finds no sleeper",
	  { "U sleepers 0 1; {F|}; R word=0", "U word 0 1; {F|}; R sleepers=0" },
	  .without = { "llsc rcpc c11", "llsc rcpc c11" } },

	/* Publication: stores, then a release; an acquire, then loads. */
	{ "M5", "a request is reached by its tail, its fields are old",
	  { "W field 1; {Wrel|W} word 1; U tail 0 1", "{Racq|R} tail=1; {Racq|R} word=1; R field=0" },
	  .without = { NONE, NONE, NONE } },
	{ "M5b", "a request is reached by its index, its fields are old",
	  { "W field 1; {Wrel|W} word 1", "{Racq|R} word=1; R field=0" },
	  .without = { WEAK, WEAK } },
	{ "M6", "an owner is ACTIVE, its life word is not there",
	  { "W life 1; U control 0 1", "{Racq|R} control=1; R life=0" },
	  .without = { WEAK } },
	{ "M7", "a key is announced, but a look-up does not find its tag",
	  { "W tag 1; U home 0 1", "{Racq|R} home=1; R tag=0" },
	  .without = { WEAK } },
	{ "M8", "the next holder does not see what the last one wrote: release, then acquire",
	  { "W data 1; U tail 0 1", "{Racq|R} tail=1; U tail 1 2; R data=0" },
	  .without = { NONE } },
	{ "M8b", "the same, where a helper unlinks the released request and grants the next",
	  { "W data 1; U dead 0 1", "{Racq|R} dead=1; U next 0 1", "{Racq|R} next=1; R data=0" },
	  .without = { "c11", WEAK } },
	{ "M8c", "the same, where a helper changes a reader's word and that reader releases last",
	  { "W data 1; U dead 0 1", "{Racq|R} dead=1; U reader 0 1", "{Racq|R} reader=1; U tail 0 1",
	    "{Racq|R} tail=1; R data=0" },
	  .without = { "c11", "c11", WEAK } },
	{ "M8d", "the same, where the holder was killed: the kernel flags its life word",
	  { "W data 1; U life 0 1", "{Racq|R} life=1; U dead 0 1; U next 0 1", "{Racq|R} next=1; R data=0" },
	  .without = { "c11", WEAK } },
	{ "M8e", "a lock is had, the damage of the last holder is not seen",
	  { "U mark 0 1; U tail 0 1", "{Racq|R} tail=1; U tail 1 2; Racq mark=0" },
	  .without = { NONE } },
	{ "M9", "an expirer sees the renewed word and the old deadline",
	  { "U deadline 0 1; U word 0 1", "{Racq|R} word=1; Racq deadline=0" },
	  .without = { WEAK } },
	{ "M9b", "an expirer sees the moved hold's new generation and its old owner",
	  { "U owner 0 1; U word 0 1", "{Racq|R} word=1; Racq owner=0" },
	  .without = { WEAK } },

	/* Two loads of one thing. */
	{ "R7", "a walk believes a request that was unlinked and filled anew",
	  { "U anchor 0 1; U request 0 1", "{Racq|R} request=1; Racq anchor=0" },
	  .without = { WEAK } },
	{ "R2", "a release believes a word that was ended before the tail came back to it",
	  { "U word 0 1; U tail 0 1", "{Racq|R} tail=1; Racq word=0" },
	  .without = { WEAK } },
	{ "M10", "damage is written from the fields of the record's next use, freed by a helper",
	  { "U anchor 0 1; U word 0 1", "Racq word=1; {Frel|}; W field 1", "R field=1; {Facq|}; R anchor=0" },
	  .without = { "c11", WEAK } },
	{ "M10b", "damage is written from the fields of the record's next use, freed by its owner's pop",
	  { "U anchor 0 1; Wrel word 1; Racq word=1; {Frel|}; W field 1", "R field=1; {Facq|}; R anchor=0" },
	  .without = { "rcpc c11", WEAK } },
	{ "M10c", "a snapshot has the word of one use of a record and the fields of the next",
	  { "U word 0 1", "Racq word=1; {Frel|}; W field 1", "Racq word=0; R field=1; {Facq|}; Racq word=0" },
	  .without = { "c11", WEAK } },
	{ "M11", "an owner's thread id is that of the slot's next owner",
	  { "U control 0 1", "Racq control=1; U control 1 2; {Frel|}; W tid 1",
	    "Racq control=0; R tid=1; {Facq|}; R control=0" },
	  .without = { "c11", WEAK } },
	{ "M12", "a look-up misses the key that was in the entry, and yet sees its old floor",
	  { "U floor 0 1; U entry 0 1; {Frel|}; W identity 1",
	    "U own_entry 0 1; Racq home=0; R identity=1; {Facq|}; Racq floor=0" },
	  .without = { "c11", WEAK } },
	{ "M12b", "the same, where it is the tag that has changed",
	  { "U floor 0 1; U entry 0 1; {Wrel|W} tag 1",
	    "U own_entry 0 1; Racq home=0; R tag=1; {Facq|}; Racq floor=0" },
	  .without = { "c11", WEAK } },
};

/* ---------------------------------------------------------------- reading a shape */

struct parser {
	struct execution x;
	const char *places[PLACES_MAX];
	size_t lengths[PLACES_MAX];
	int n_places;
	int weakened; /* which {A|B} is to be read as B; -1 = none */
	int seen;     /* how many there were */
};

static _Noreturn void bad(const char *what, const char *text)
{
	fprintf(stderr, "shapes: %s: %s\n", what, text);
	exit(99);
}

static int place_of(struct parser *p, const char *name, size_t length)
{
	int i;

	for (i = 0; i < p->n_places; i++)
		if (p->lengths[i] == length && memcmp(p->places[i], name, length) == 0)
			return i;
	if (i == PLACES_MAX)
		bad("too many places", name);
	p->places[i] = name;
	p->lengths[i] = length;
	p->n_places++;
	/* What it starts with. */
	p->x.events[p->x.n++] = (struct event){ .kind = EVENT_WRITE, .thread = -1, .place = i };
	return i;
}

static int add(struct parser *p, struct event e)
{
	if (p->x.n == EVENTS_MAX)
		bad("too many steps", "");
	p->x.events[p->x.n] = e;
	return p->x.n++;
}

static void add_swap(struct parser *p, int thread, int place, int from, int to)
{
	struct event e = { EVENT_READ, ORDER_SC, thread, place, from, .swap = true };
	int read = add(p, e), write;

	e.kind = EVENT_WRITE;
	e.value = to;
	write = add(p, e);
	p->x.rmw.to[read] |= UINT32_C(1) << write;
}

static enum event_order order_of(const char *suffix)
{
	return !*suffix ? ORDER_RELAXED : strcmp(suffix, "acq") == 0 ? ORDER_ACQUIRE : ORDER_RELEASE;
}

static void add_fence(struct parser *p, int thread, const char *suffix)
{
	struct event e = { .kind = EVENT_FENCE, .order = ORDER_SC, .thread = thread, .place = -1 };

	if (strcmp(suffix, "rmw") == 0)
		e.after_rmw = true;
	else if (*suffix)
		e.order = order_of(suffix);
	add(p, e);
}

/* One step, without blanks around it. */
static void read_step(struct parser *p, int thread, const char *step)
{
	char op[8], name[32];
	int a = 0, b = 0, n = sscanf(step, "%7s %31[a-zA-Z_0-9]%*[ =]%d %d", op, name, &a, &b), place;
	const char *at = strchr(step, ' ');

	if (op[0] == 'F' && n == 1) {
		add_fence(p, thread, op + 1);
		return;
	}
	if (n < 3 || !at)
		bad("not a step", step);
	place = place_of(p, at + 1, strlen(name));
	if (op[0] == 'U' && n == 4)
		add_swap(p, thread, place, a, b);
	else if ((op[0] == 'R' || op[0] == 'W') && n == 3)
		add(p, (struct event){ .kind = op[0] == 'R' ? EVENT_READ : EVENT_WRITE, .order = order_of(op + 1),
				       .thread = thread, .place = place, .value = a });
	else
		bad("not a step", step);
}

/* The text of one thread with each {A|B} resolved. */
static void resolve(struct parser *p, const char *text, char *out, size_t size)
{
	size_t n = 0;
	bool inside = false, take = true;

	for (; *text && n + 1 < size; text++) {
		if (*text == '{') {
			inside = true;
			take = p->seen++ != p->weakened;
		} else if (inside && *text == '|') {
			take = !take;
		} else if (*text == '}') {
			inside = false;
			take = true;
		} else if (take) {
			out[n++] = *text;
		}
	}
	out[n] = '\0';
}

static void read_thread(struct parser *p, int thread, const char *text)
{
	/* Steps point into it by the names of places. */
	static char kept[THREADS_MAX][256];
	char *step, *end;
	int i, first = p->x.n;

	resolve(p, text, kept[thread], sizeof(kept[thread]));
	for (step = kept[thread]; step; step = end) {
		end = strchr(step, ';');
		if (end)
			*end++ = '\0';
		step += strspn(step, " ");
		if (*step)
			read_step(p, thread, step);
	}
	for (i = first; i < p->x.n; i++)
		for (int k = i + 1; k < p->x.n; k++)
			if (p->x.events[i].thread == thread && p->x.events[k].thread == thread)
				p->x.po.to[i] |= UINT32_C(1) << k;
}

/* Each load sees the one store of its value. */
static void read_from(struct parser *p)
{
	struct execution *x = &p->x;
	int i, k, found;

	for (i = 0; i < x->n; i++) {
		if (x->events[i].kind != EVENT_READ)
			continue;
		for (found = 0, k = 0; k < x->n; k++)
			if (x->events[k].kind == EVENT_WRITE && x->events[k].place == x->events[i].place &&
			    x->events[k].value == x->events[i].value) {
				x->rf.to[k] |= UINT32_C(1) << i;
				found++;
			}
		if (found != 1)
			bad("a value that is stored never or twice", p->places[x->events[i].place]);
	}
}

static void read_shape(struct parser *p, const struct shape *s, int weakened)
{
	int t;

	memset(p, 0, sizeof(*p));
	p->weakened = weakened;
	for (t = 0; t < THREADS_MAX && s->threads[t]; t++)
		read_thread(p, t, s->threads[t]);
	read_from(p);
}

/* ---------------------------------------------------------------- asking the models */

/* All orders of the stores to @place and those after it: @done of its stores are in order already. */
static bool some_order(enum model model, struct execution *x, int place, int n_places, event_set done)
{
	struct relation before = x->co;
	bool left = false;
	int i, k;

	if (place == n_places)
		return model_allows(model, x);
	for (i = 0; i < x->n; i++) {
		if (x->events[i].kind != EVENT_WRITE || x->events[i].place != place || done >> i & 1)
			continue;
		if (!done && x->events[i].thread >= 0)
			continue; /* the first one is what it starts with */
		left = true;
		for (k = 0; k < x->n; k++)
			if (done >> k & 1)
				x->co.to[k] |= UINT32_C(1) << i;
		if (some_order(model, x, place, n_places, done | UINT32_C(1) << i))
			return true;
		x->co = before;
	}
	return !left && some_order(model, x, place + 1, n_places, 0);
}

static bool seen(enum model model, const struct parser *p)
{
	struct execution x = p->x;

	return some_order(model, &x, 0, p->n_places, 0);
}

static bool listed(const char *list, const char *name)
{
	size_t length = strlen(name);
	const char *at;

	for (at = list; (at = strstr(at, name)) != NULL; at += length)
		if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
			return true;
	return false;
}

/* The text of the @n-th {A|B} of a shape. */
static void weakening_text(const struct shape *s, int n, char *out, size_t size)
{
	const char *at;
	int t;

	for (t = 0; t < THREADS_MAX && s->threads[t]; t++)
		for (at = strchr(s->threads[t], '{'); at; at = strchr(at + 1, '{'))
			if (n-- == 0) {
				snprintf(out, size, "%.*s", (int)strcspn(at + 1, "}"), at + 1);
				return;
			}
	bad("no such weakening", s->name);
}

/* One line: the result of each model, and whether the list agrees. */
static int check_line(const struct shape *s, int weakened, const char *expected)
{
	struct parser p;
	char text[64] = "as it is";
	enum model m;
	int wrong = 0;

	read_shape(&p, s, weakened);
	if (weakened >= 0)
		weakening_text(s, weakened, text, sizeof(text));
	printf("%-4s %-22s", weakened < 0 ? s->name : "", text);
	for (m = 0; m < MODELS; m++) {
		bool is = seen(m, &p), must = listed(expected, model_names[m]);

		printf(" %5s%c", is ? "seen" : "-", is == must ? ' ' : '!');
		wrong += is != must;
	}
	putchar('\n');
	return wrong;
}

static int check_shape(const struct shape *s, bool verbose)
{
	struct parser p;
	int i, n, wrong;

	if (verbose) {
		printf("\n%s: %s\n", s->name, s->failure);
		for (i = 0; i < THREADS_MAX && s->threads[i]; i++)
			printf("  %d: %s\n", i, s->threads[i]);
	}
	wrong = check_line(s, -1, s->seen ? s->seen : NONE);
	read_shape(&p, s, -1);
	n = p.seen;
	for (i = 0; i < WEAKENINGS_MAX && s->without[i]; i++)
		if (i < n)
			wrong += check_line(s, i, s->without[i]);
	if (i != n)
		bad("weakenings and expectations differ in number", s->name);
	return wrong;
}

int main(int argc, char **argv)
{
	bool verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
	const char *only = argc > 1 + verbose ? argv[1 + verbose] : NULL;
	int wrong = 0, n = 0;
	enum model m;
	size_t i;

	printf("%-27s", "shape");
	for (m = 0; m < MODELS; m++)
		printf(" %5s ", model_names[m]);
	putchar('\n');
	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (!only || strcmp(only, shapes[i].name) == 0) {
			wrong += check_shape(&shapes[i], verbose);
			n++;
		}
	printf("%d shapes, %d answers not as expected\n", n, wrong);
	if (n == 0)
		bad("no such shape", only);
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
