/* SPDX-License-Identifier: MIT */
/* step-arrange.h - the building blocks of the scenes of step-ops.c: queues, and the life of a segment */
#ifndef LOCKSHM_TEST_STEP_ARRANGE_H
#define LOCKSHM_TEST_STEP_ARRANGE_H

#include "step.h"

/* The other processes: before the victim starts, or behind it once it is prepared. */
void key_is_held(struct scene *s);
void key_is_read(struct scene *s);
void lease_is_over(struct scene *s);
void lease_ends_soon(struct scene *s);
void owner_is_dead_already(struct scene *s);
void a_mark_is_left(struct scene *s);
void reader_is_dead_already(struct scene *s);
void dead_wait_behind_the_holder(struct scene *s);
void much_to_sweep(struct scene *s);
void all_are_dead(struct scene *s);
void it_has_cooled_down(struct scene *s);
void table_is_full_of_idle(struct scene *s);
void table_is_full_of_cooled_down(struct scene *s);
void clear_table(struct scene *s, bool stopped);
void slots_are_full_of_dead(struct scene *s);
void records_are_full_of_dead(struct scene *s);
void others_take_its_place(struct scene *s, bool stopped);
void others_wait(struct scene *s);
void others_wait_stopped(struct scene *s);
void readers_wait(struct scene *s);
void mortal_reads(struct scene *s);
void others_wait_and_mortal_dies(struct scene *s);
void dead_and_living_wait(struct scene *s);
void mortal_dies(struct scene *s);
void another_reads(struct scene *s);
void another_reads_and_mortal_dies(struct scene *s);
void holder_lets_go(struct scene *s, pid_t victim);
void others_are_served(struct scene *s, pid_t victim);
void signal_arrives(struct scene *s, pid_t victim);

/* step-crowd.c: a process with so many readers that they wake each other (R5); and that each of them had the key. */
void many_readers_wait(struct scene *s);
void key_is_held_before_many(struct scene *s);
void many_were_served(struct scene *s, bool stopped);

/* step-life.c: the victim makes or removes another segment; checks of what it leaves. */
void another_segment(struct scene *s);
int create(const struct scene *s);
int create_or_open(const struct scene *s);
int destroy(const struct scene *s);
void others_use_the_name(struct scene *s, bool stopped);

/* step-loops.c: the victim's loop, with a wait for the round's key in hold 0. */
int has_loop(const struct scene *s);
int holds_by_loop(const struct scene *s);
int loop_knows_the_key(const struct scene *s);
int holds_tended(const struct scene *s);
int tended_knows_the_key(const struct scene *s);
int waits_to_be_tended(const struct scene *s);
int waits_in_loop(const struct scene *s);
int waits_twice_in_loop(const struct scene *s);
int holds_before_its_loop(const struct scene *s);
int waits_for_short_lease(const struct scene *s);
int waits_briefly_in_loop(const struct scene *s);
int loop_acquire(const struct scene *s);
int loop_acquire_to_the_end(const struct scene *s);
int loop_release(const struct scene *s);
int loop_next(const struct scene *s);
int loop_next_of_lost_grant(const struct scene *s);
int loop_acquire_three(const struct scene *s);
int loop_cancel(const struct scene *s);
int loop_close(const struct scene *s);
int loop_next_when_permitted(const struct scene *s);
/* Another process with a loop, whose wait is before those of the writer and the reader; and that it had the lock. */
void a_loop_and_others_wait(struct scene *s);
void the_loop_is_served(struct scene *s, bool stopped);
void holder_leaves_it_to_the_loop(struct scene *s);
void holder_comes_back(struct scene *s);
void its_time_is_over(struct scene *s);

#endif
