/* SPDX-License-Identifier: MIT */
/* operations-internal.h - steps of which the operations of operations.h are made */
#ifndef LOCKSHM_TEST_OPERATIONS_INTERNAL_H
#define LOCKSHM_TEST_OPERATIONS_INTERNAL_H

#include "support/calls.h"
#include "support/operations.h"
#include "support/rows.h"

#define MANY 70 /* more records than the first list of chunks has room for */

extern lockshm_t *handle;
extern lockshm_hold_t held[MANY];
extern lockshm_canceller_t canceller; /* of the partner's wait */
extern int partner_code; /* what its last acquire returned */

/* operations-steps.c: before and after the calls */
int take_with(lockshm_hold_t *hold, struct lockshm_request request, struct lockshm_error *error);
int take_key(lockshm_hold_t *hold, const char *key, struct lockshm_error *error);
int take_guarded(lockshm_hold_t *hold, const char *key, unsigned flags, struct lockshm_error *error);
int open_it(void);
int join_it(void);
int hold_it(void);
int hold_shared(void);
int leave_dead(void);
int open_beside_dead(void);
int join_beside_dead(void);
void use_and_close(void);
void release_and_close(void);
void join_partner(void);
int beside_a_holder(void);
int beside_a_patient_holder(void);
int before_a_waiter(void);
void end_partner(void);
void release_and_end_partner(void);
void release_to_partner(void);

/* operations-look.c: calls on a handle */
int act_open(struct lockshm_error *error);
int act_open_again(struct lockshm_error *error);
void close_one_and_use(void);
int act_open_read_only(struct lockshm_error *error);
void look_and_close(void);
int act_create(struct lockshm_error *error);
void close_and_destroy(void);
int act_current(struct lockshm_error *unused);
int act_close(struct lockshm_error *unused);
void nothing(void);
int with_service(void);
int with_idle_service(void);
int act_list_busy(struct lockshm_error *unused);
int act_list_key(struct lockshm_error *unused);
int act_list_owners(struct lockshm_error *unused);
int act_stat(struct lockshm_error *unused);
int act_list_segments(struct lockshm_error *unused);
int act_verify(struct lockshm_error *unused);
int hold_and_find_token(void);
int act_end_hold(struct lockshm_error *unused);
void end_end_hold(void);
int act_sweep(struct lockshm_error *unused);

/* operations-loops.c: event loops */
int act_loop_open(struct lockshm_error *error);
int open_with_pipe(void);
int act_loop_open_pipe(struct lockshm_error *error);
int act_loop_close(struct lockshm_error *unused);
void use_and_close_loop(void);
int with_loop(void);
int with_loop_beside_a_holder(void);
int act_loop_acquire(struct lockshm_error *error);
int act_loop_wait(struct lockshm_error *error);
int act_loop_wait_renewed(struct lockshm_error *error);
int act_loop_many(struct lockshm_error *error);
void release_and_close_loop(void);
void release_many_and_close_loop(void);
void cancel_and_close_loop(void);
int loop_waits(void);
int loop_is_granted(void);
int loop_has_lost_its_grant(void);
int act_loop_cancel(struct lockshm_error *unused);
int act_loop_next(struct lockshm_error *unused);
int act_loop_next_again(struct lockshm_error *error);
void release_and_end_wait(void);
void release_granted(void);
void collect_and_close_loop(void);

#endif
