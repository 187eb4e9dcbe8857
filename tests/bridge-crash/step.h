/* SPDX-License-Identifier: MIT */
/*
 * step.h - a bridge that is killed or stopped at a write to the segment, or at something it sends
 *
 * The victim is a process of hosts[0] that does nothing but lockshm_bridge_serve().  Its mapping of the segment is
 * read-only, so that each write of its loop is a fault: the handler makes the segment writable for that one
 * instruction.  A point is where killing or stopping it can make a difference to others: before or behind such a write,
 * and before and behind each send().  Between two points it only reads, and wakes others, which a kill behind a write
 * takes away.
 */
#ifndef LOCKSHM_TEST_BRIDGE_STEP_H
#define LOCKSHM_TEST_BRIDGE_STEP_H

#include "redis-support/hosts.h"

#include <limits.h>

/* ---------------------------------------------------------------- victim */

enum how {
	HOW_KILL = 1, /* behind each write, before it calls anybody */
	HOW_STOP      /* before each write, which comes when it goes on */
};

/* Can this machine do it? */
bool victim_possible(void);
/* A process that is the bridge of hosts[0] when this returns; nobody else may be. */
void victim_start(void);
pid_t victim_pid(void);
/* It goes through so many points from here on, and is caught at the next. */
void victim_arm(enum how how, unsigned points);
bool victim_caught(void);
/* It is left alone from here on; true = it was caught before. */
bool victim_disarm(void);
/* How many it went through, and where it is. */
unsigned victim_points(void);
const char *victim_place(void);
/* Was it killed behind a write to that word of hosts[0]? */
bool victim_wrote(const void *word);
/* Does it sleep until somebody rings? */
bool victim_rests(void);
void victim_continue(void);
/* As a service is told to end; has it ended, having given back what nobody holds? */
void victim_retire(void);
bool victim_retired(void);
/* Kills it; false = it was dead already. */
bool victim_end(void);

/* ---------------------------------------------------------------- scene */

/* When a victim that was stopped goes on. */
enum resume {
	RESUME_CONCURRENT, /* as soon as another is the bridge */
	RESUME_LATE, /* when what it was at is over */
	RESUME_TOO_LATE, /* when another host has the key */
	RESUME_LAST, /* when somebody here has it again */
	RESUMES
};

struct subject {
	struct agent *agent;
	int wanted; /* mode it asked for last */
	int mode; /* what it has of the key; 0 = nothing */
	int code; /* its last answer */
	uint64_t token;
};

/* One round: a key, the victim, two workers beside it, and a rival on hosts[1] who stays through all rounds. */
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
	bool every; /* long mode: looks that take time, too */
};

/* What a bridge does, as a step of somebody's. */
struct step {
	const char *name;
	void (*arrange)(struct round *s); /* before it */
	void (*begin)(struct round *s);
	bool (*proceed)(struct round *s); /* again and again: what is next, and whether it is over */
	void (*check)(struct round *s); /* then */
	unsigned lost; /* leases that are lost by it */
	bool proxy; /* the way to Redis is proxies[0] */
	bool retains; /* leases are kept for some time */
	bool retires; /* the victim ends by itself */
	bool quorum; /* a majority of three servers decides */
	bool in_full; /* not in make check: there is another like it */
};
extern const struct step bridge_steps[];
extern const unsigned n_bridge_steps;

/* Segments and rival. */
void round_open(struct round *s, const struct step *op);
/* One round; true = the victim was caught. */
bool round_play(struct round *s, enum how how, unsigned point, enum resume resume);

/* Asks for the key, patiently, and returns at once. */
void requests(struct round *s, struct subject *p, int mode);
/* The same with anything else; @mode: what it has then, if that is granted. */
void requests_with(struct subject *p, struct agent_command c, int mode);
/* Has it been answered?  If it has the key now, its token is right. */
bool has_result(struct round *s, struct subject *p);
void await_result(struct round *s, struct subject *p);
/* It has the key as far as it can know. */
bool holds(struct subject *p);
bool reports_lost(struct subject *p);
void releases(struct subject *p);
/* Asks, and has it. */
void takes(struct round *s, struct subject *p, int mode);
/* The host's place in line in Redis. */
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
