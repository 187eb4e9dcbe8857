/* SPDX-License-Identifier: MIT */
/*
 * liar.h - a process between clients and a Redis server that sends lies in the place of replies
 *
 * Until a connection reaches the place of the lie, commands and replies pass.  From there on the client gets the lie and
 * nothing else, and what the client sends is dropped.
 */
#ifndef LOCKSHM_TEST_LIAR_H
#define LOCKSHM_TEST_LIAR_H

#include "redis.h"

#define LIE_FOR_EVER ((size_t)-1)

enum lie_place {
	IN_PLACE_OF_ALL, /* from the first byte of the client on */
	IN_PLACE_OF_SCRIPTS, /* from its first EVALSHA on */
	AFTER_THE_SUBSCRIPTION, /* behind the reply to its second SUBSCRIBE */
	ABOUT_ITS_RUN_ID, /* the bytes are that of another server; all else is true */
};

struct lie {
	const char *name;
	enum lie_place place;
	const char *bytes; /* sent once */
	const char *more; /* then this, @times */
	size_t times;
	bool each; /* again for each EVALSHA or EVAL */
	bool drips; /* a byte each second */
	bool closes; /* the connection ends behind it */
	const char *cause; /* in the line of the bridge */
};

struct liar {
	pid_t pid;
	char uri[64];
	struct liar_state *state; /* shared with the process */
};

/* Between clients and @r, on a port of 127.0.0.1; ends with the test. */
struct liar *liar_start(struct redis *r, const struct lie *lie);
/* The run_id of a server. */
const char *run_id_of(struct redis *r);
/* How many connections got the lie, or its beginning. */
unsigned liar_told(const struct liar *l);
/* New connections pass; those that got a lie are closed. */
void liar_repents(struct liar *l);

#endif
