/* SPDX-License-Identifier: MIT */
/* builder.h - histories made by hand, for the tests of their checker */
#ifndef LOCKSHM_TEST_BUILDER_H
#define LOCKSHM_TEST_BUILDER_H

#include "support/fixture.h"
#include "check.h"

#define BASE 100 /* token base of the first segment */
#define STRICT (-1)
#define X LOCKSHM_EXCLUSIVE
#define S LOCKSHM_SHARED
#define OPEN (-1)

extern struct history h;
extern struct history_writer writers[16]; /* by track */
extern struct history_summary summary; /* of the last check */

/* A history with one segment. */
void begin(void);
/* Every track is a process of its own; @parent is the track that forked it. */
uint32_t track(void);
uint32_t track_of(uint32_t process, uint32_t parent);
uint32_t process_of(uint32_t l);
/* Times are in milliseconds; OPEN = never came back. */
struct history_record *add(uint32_t l, enum history_op op, double enter, double leave, int outcome);
/* A robust acquire that waits without end and was granted.  The token is BASE + @ticket. */
struct history_record *acquire(uint32_t l, uint32_t key, int mode, double ttl, double enter, double leave,
			       unsigned ticket);
/* The same, but not robust; or it failed, or was a try. */
struct history_record *plain(struct history_record *r);
struct history_record *failed(struct history_record *r, int code, double deadline);
struct history_record *try(struct history_record *r, int code);
/* A call on a hold. */
struct history_record *on(const struct history_record *hold, enum history_op op, double enter, double leave,
			  int outcome);
void release(const struct history_record *hold, double enter, double leave);
/* The acquire, or lockshm_previous(), reports the bad end of @of. */
struct history_record *reporting(struct history_record *r, int status, const struct history_record *of);
/* Between 3 and 4 the driver saw the wait with that token. */
void seen(uint32_t driver, const struct history_record *w, unsigned ticket);
void killed(uint32_t driver, uint32_t victim, double when);
/* The checker finds exactly these properties broken, in its order. */
void finds(const char *properties);

#endif
