/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h - hostile segments: a real one, and small programs that damage it and use it
 *
 * The scene (fuzz-scene.c) is a small segment made by the library, with holders, waiters, readers, a dead owner, a dead
 * waiter, a key with a mark, a cooling key, an overrun lease, a hold of a process and a request that was not entered.  It is made anew at each start,
 * under a fixed secret of the hash, and its parts have numbers that do not depend on pids: so a program
 * means the same in every run.
 *
 * A program (fuzz-program.c) is the fuzzer's input: a byte of flags and commands of 16 bytes.  A command changes a word
 * of the segment or calls the library.  Changes before the first call are made in the file before it is opened, later
 * ones in its live mapping.  Programs have a text form, in which those that once found something are kept.
 */
#ifndef LOCKSHM_TEST_FUZZ_H
#define LOCKSHM_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "segment/segment.h"

/* ---------------------------------------------------------------- fuzz-scene.c */

#define SCENE_KEYS 13
extern const char *const scene_keys[SCENE_KEYS];

struct scene {
	unsigned char *image;
	size_t size;
	struct lockshm geometry; /* offsets and capacities, as addresses in @image */
	uint32_t owners[64];	 /* slot of the n-th subject, then the free ones */
	uint32_t requests[256];	 /* index of the records, by subject, then the free ones */
	uint32_t entries[256];	 /* of scene_keys[], then the others */
};
extern struct scene scene;

/* Make the scene; ends the program if that is not possible.  No file and no process of it is left. */
void scene_make(void);

/* ---------------------------------------------------------------- fuzz-program.c */

#define FUZZ_COMMANDS_MAX 64

enum fuzz_start {
	START_SCENE = 0, /* from the scene */
	START_ZERO = 1,	 /* from the scene's header and nothing else */
	START_RAW = 2,	 /* the rest of the input is the file; no commands */
	START_MASK = 3,
	START_READ_ONLY = 4,
	START_KEEP_CHECK = 8 /* the check word of the header is not made to fit */
};

/* What a command does, and its name in texts.  Changes, then what is done without a handle, then calls. */
#define FUZZ_OPS(X)                                                                                                    \
	X(SET, "set")                                                                                                  \
	X(ADD, "add")                                                                                                  \
	X(XOR, "xor")                                                                                                  \
	X(REQUEST, "request")                                                                                          \
	X(OWNER, "owner")                                                                                              \
	X(ENTRY, "entry")                                                                                              \
	X(TIME, "time")                                                                                                \
	X(COPY, "copy")                                                                                                \
	X(TRUNCATE, "truncate")                                                                                        \
	X(UNLINK, "unlink")                                                                                            \
	X(ACQUIRE, "acquire")                                                                                          \
	X(MANY, "many")                                                                                                \
	X(RELEASE, "release")                                                                                          \
	X(RENEW, "renew")                                                                                              \
	X(CHECK, "check")                                                                                              \
	X(UPGRADE, "upgrade")                                                                                          \
	X(DOWNGRADE, "downgrade")                                                                                      \
	X(PREVIOUS, "damage")                                                                                        \
	X(ACKNOWLEDGE, "acknowledge")                                                                                  \
	X(MOVE, "move")                                                                                                \
	X(LOOK, "look")                                                                                                \
	X(SHOW, "show")                                                                                                \
	X(VERIFY, "verify")                                                                                            \
	X(END_HOLD, "end-hold")                                                                                        \
	X(ACK_MARKS, "ack-marks")                                                                                      \
	X(SWEEP, "sweep")                                                                                              \
	X(LOOP_ACQUIRE, "loop-acquire")                                                                                \
	X(LOOP_MANY, "loop-many")                                                                                      \
	X(LOOP_NEXT, "loop-next")                                                                                      \
	X(LOOP_CANCEL, "loop-cancel")                                                                                  \
	X(LOOP_RELEASE, "loop-release")                                                                                \
	X(LOOP_CLOSE, "loop-close")
#define AS_OP(name, text) OP_##name,
enum fuzz_op { FUZZ_OPS(AS_OP) OPS };

/* Where the word is that a command changes.  FILE: anywhere. */
#define FUZZ_AREAS(X)                                                                                                  \
	X(FILE, "file")                                                                                                \
	X(HEADER, "header")                                                                                            \
	X(OWNER, "owner")                                                                                              \
	X(OWN, "own")                                                                                                  \
	X(LIFE, "life")                                                                                                \
	X(OWN_LIFE, "own-life")                                                                                        \
	X(BUCKET, "bucket")                                                                                            \
	X(TAG, "tag")                                                                                                  \
	X(ENTRY, "entry")                                                                                              \
	X(DETAIL, "detail")                                                                                            \
	X(DAMAGE, "damage")                                                                                            \
	X(REQUEST, "request")                                                                                          \
	X(OWN_REQUEST, "own-request")                                                                                  \
	X(DOORBELL, "doorbell")                                                                                        \
	X(OWN_DOORBELL, "own-doorbell")
#define AS_AREA(name, text) AREA_##name,
enum fuzz_area { FUZZ_AREAS(AS_AREA) AREAS };

struct fuzz_command {
	uint8_t op;
	uint8_t area;
	uint16_t index;
	uint8_t word;
	uint8_t shift;
	uint8_t len;
	uint8_t arg;
	int64_t value;
};
ASSERT_SIZE(struct fuzz_command, 16);

/* ---------------------------------------------------------------- fuzz-loop.c */

#define LOOP_WAITS 4
#define LOOP_HOLDS 3 /* of each */

struct fuzz_wait {
	lockshm_hold_t holds[LOOP_HOLDS];
	struct lockshm_report report;
	bool pending;
};

/* The event loop of a program; zeroed at its start. */
struct fuzz_loop {
	lockshm_loop_t *loop; /* NULL = none */
	struct fuzz_wait waits[LOOP_WAITS];
};

/* Carry out a command on it; opens it before. */
void fuzz_loop_call(struct fuzz_loop *l, lockshm_t *segment, const struct fuzz_command *c,
		    const struct lockshm_request *request, size_t n_keys, const struct lockshm_key *keys);

/* All waits end; then it is closed. */
void fuzz_loop_finish(struct fuzz_loop *l);

/* ---------------------------------------------------------------- fuzz-program.c */

/* Where programs work; a name of this process. */
extern char fuzz_name[64];

/* Run one input from beginning to end. */
void fuzz_run(const unsigned char *data, size_t size);

/* Only its changes before the first call, written to a file. */
bool fuzz_write_file(const unsigned char *data, size_t size, const char *path);

/* Change an input in place into a likely other one; returns its size.  Random numbers come from @seed. */
size_t fuzz_mutate(unsigned char *data, size_t size, size_t max, uint64_t seed);

/* ---------------------------------------------------------------- fuzz-text.c */

/* The text of a program; false = it is none. */
bool fuzz_print(FILE *out, const unsigned char *data, size_t size);
/* A program from its text; 0 = wrong, with a message. */
size_t fuzz_parse(FILE *in, const char *name, unsigned char *data, size_t max);

#endif
