/* SPDX-License-Identifier: MIT */
/*
 * step.h - a leader that is killed or stopped at a write to the segment, or at something it sends
 *
 * The victim is a process of hosts[0] that only runs bridge_serve().  Its mapping of the segment is read-only,
 * so each write of its loop is a fault: the handler makes the segment writable for that one instruction.  A point is
 * where killing or stopping it can make a difference to others: before or after such a write, and before and after each
 * send(). Between two points it only reads, and wakes others, which a kill after a write prevents.
 */
#ifndef LOCKSHM_TEST_BRIDGE_STEP_H
#define LOCKSHM_TEST_BRIDGE_STEP_H

#include "redis-support/hosts.h"

#include <limits.h>

/* ---------------------------------------------------------------- victim */

enum how {
	HOW_KILL = 1, /* after each write, before it wakes others */
	HOW_STOP      /* before each write, which it does when it continues */
};

/* Can this machine do it? */
bool victim_possible(void);
/* A process that leads hosts[0] when this returns; there must be no other candidate. */
void victim_start(void);
pid_t victim_pid(void);
/* It passes that many points from here on, and is caught at the next. */
void victim_arm(enum how how, unsigned points);
bool victim_caught(void);
/* It is left alone from here on; true = it was caught before. */
bool victim_disarm(void);
/* How many it passed, and where it is. */
unsigned victim_points(void);
const char *victim_place(void);
/* Was it killed after a write to that word of hosts[0]? */
bool victim_wrote(const void *word);
/* Does it sleep on the doorbell? */
bool victim_rests(void);
void victim_continue(void);
/* End it as a service is ended; has it ended, having released what has no holders? */
void victim_retire(void);
bool victim_retired(void);
/* Kills it; false = it was dead already. */
bool victim_end(void);

/* ---------------------------------------------------------------- scene */

/* When a stopped victim continues. */
enum resume {
	RESUME_CONCURRENT, /* as soon as another process leads */
	RESUME_LATE, /* when its operation is over */
	RESUME_TOO_LATE, /* when another host has the key */
	RESUME_LAST, /* when this host has it again */
	RESUMES
};

struct subject {
	struct agent *agent;
	int wanted; /* mode it requested last */
	int mode; /* its mode of the key; 0 = no hold */
	int code; /* its last result */
	uint64_t token;
};

/* One round: a key, the victim and a bridge that stands by, two workers, and a rival on hosts[1] that stays through all
 * rounds. */
struct round {
	const struct step *op;
	char key[64];
	unsigned number, stage;
	struct subject first, second, rival;
	enum how how;
	bool caught;
	enum resume resume;
	bool resumed;
	bool took_over;
	bool slow; /* that was too late to save a lease */
	int64_t begun_ns, caught_ns, took_ns, slowest_ns;
	uint64_t last, last_exclusive; /* tokens */
	uint64_t lost, renewed; /* of hosts[0], when the round began; before the operation */
	bool every; /* long mode: also checks that take time */
};

/* One operation of a leader, begun by a subject. */
struct step {
	const char *name;
	void (*arrange)(struct round *s); /* before it */
	void (*begin)(struct round *s);
	bool (*proceed)(struct round *s); /* repeatedly: the next action, and whether it is over */
	void (*check)(struct round *s); /* then */
	unsigned lost; /* leases lost by it */
	bool proxy; /* the path to Redis is proxies[0] */
	bool retains; /* leases are retained for some time */
	bool retires; /* the victim ends by itself */
	bool quorum; /* a majority of three servers decides */
	bool robust; /* the key is */
	bool in_full; /* not in make check: another step is like it */
};
extern const struct step bridge_steps[];
extern const unsigned n_bridge_steps;

/* Segments and rival. */
void round_open(struct round *s, const struct step *op);
/* One round; true = the victim was caught. */
bool round_play(struct round *s, enum how how, unsigned point, enum resume resume);

/* Request the key, to wait for it, and return at once. */
void requests(struct round *s, struct subject *p, int mode);
/* The same with any command; @mode: its mode if that is granted. */
void requests_with(struct subject *p, struct agent_command c, int mode);
/* Has it a result?  If it has the key now, its token is right. */
bool has_result(struct round *s, struct subject *p);
void await_result(struct round *s, struct subject *p);
/* It has the key as far as it can know. */
bool holds(struct subject *p);
bool reports_lost(struct subject *p);
void releases(struct subject *p);
/* Request, and get it. */
void takes(struct round *s, struct subject *p, int mode);
/* Has the queue in Redis that many hosts? */
bool queue_has(const struct round *s, unsigned n);
void await_queue(struct round *s, unsigned n);
/* For assertions: the round in words. */
const char *round_name(const struct round *s);

#define ck_round(s, condition, ...)                                                                                    \
	do {                                                                                                           \
		char text_[512];                                                                                       \
		snprintf(text_, sizeof(text_), __VA_ARGS__);                                                           \
		ck_assert_msg(condition, "%s: %s", round_name(s), text_);                                              \
	} while (0)

#endif
