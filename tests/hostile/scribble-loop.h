/* SPDX-License-Identifier: MIT */
/* scribble-loop.h - the event loop of a worker of scribble.c, whose waits must end, each once */
#ifndef LOCKSHM_TEST_SCRIBBLE_LOOP_H
#define LOCKSHM_TEST_SCRIBBLE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "lockshm.h"

#define SCRIBBLE_LOST 97 /* exit status: an outcome that is none, or comes twice */

/* scribble.c */
uint32_t below(uint32_t n);
void fill_request(struct lockshm_request *request, char key[16]);
int use(lockshm_hold_t *hold);

/* One call on the loop of @segment, which is opened if there is none. */
int loop_call(lockshm_t *segment);
/* Each wait has its outcome, in the end; it does not return before that. */
void loop_finish(void);
/* Close it; its waits have no outcome. */
void loop_end(void);

#endif
