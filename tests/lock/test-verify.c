/* SPDX-License-Identifier: MIT */
/*
 * test-verify.c - lockshm_verify() finds each kind of damage, names the invariant, and finds nothing in a sound segment
 *
 * A queue of one holder and three waiters stands still, because the agents are stopped.  Each case damages one thing in
 * the mapped file, verifies, and puts everything back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/agent.h"
#include "support/fixture.h"
#include "support/inside.h"

#define KEY "verify"
#define ROW 4

static struct shm_entry *entry;
static struct shm_request *row[ROW]; /* oldest first */
static uint32_t at[ROW];	     /* their indices */

static void find_row(void)
{
	uint32_t k;

	entry = entry_of(KEY);
	for (k = 0; k < ROW; k++) {
		at[k] = nth_from_tail(entry, ROW - 1 - k);
		row[k] = &seg->requests[at[k]];
	}
	ck_assert_uint_eq(word_prev(row[0]->word), 0);
}

static void still_life(void)
{
	struct agent *a[ROW];
	int i;

	for (i = 0; i < ROW; i++) {
		a[i] = agent_start();
		ck_code(agent_acquire(a[i], KEY, i == 2 ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE), i ? AGENT_BLOCKED : 0);
	}
	for (i = 0; i < ROW; i++)
		agent_stop(a[i]);
	find_row();
}

/* ---------------------------------------------------------------- the damages */

static void queue_is_a_ring(void)
{
	row[0]->word = word_with_prev(row[0]->word, at[3]);
}

static void queue_runs_through_a_free_record(void)
{
	row[2]->word = word_make(word_gen(row[2]->word), false, REQUEST_FREE, 0);
}

static void tail_names_a_free_record(void)
{
	uint32_t i = 1;

	while (!word_is(seg->requests[i].word, REQUEST_FREE))
		i++;
	entry->tail = tail_make(tail_ticket(entry->tail), i);
}

static void request_is_for_another_lock(void)
{
	row[1]->entry ^= 1;
}

static void tickets_are_swapped(void)
{
	uint64_t ticket = row[1]->ticket;

	row[1]->ticket = row[2]->ticket;
	row[2]->ticket = ticket;
}

static void two_requests_have_one_ticket(void)
{
	row[1]->ticket = row[2]->ticket;
}

static void granted_behind_a_waiter(void)
{
	row[3]->word = word_with_state(row[3]->word, REQUEST_ENTERED);
}

static void two_writers_hold(void)
{
	row[1]->word = word_with_state(row[1]->word, REQUEST_GRANTED);
}

static void reader_holds_beside_a_writer(void)
{
	row[1]->word = word_with_mode(word_with_state(row[1]->word, REQUEST_GRANTED), false);
}

static void queue_is_cut_off(void)
{
	entry->tail = tail_make(tail_ticket(entry->tail), 0);
}

static void newest_is_cut_off(void)
{
	entry->tail = tail_make(tail_ticket(entry->tail), at[2]);
}

static void middle_is_cut_out(void)
{
	row[2]->word = word_with_prev(row[2]->word, at[0]);
}

/* Any other slot of the key's first window. */
static struct shm_entry *neighbour(void)
{
	uint32_t bucket = table_bucket(seg, entry->id), slot = window_slot(seg, bucket, 0);

	return &seg->entries[&seg->entries[slot] == entry ? window_slot(seg, bucket, 1) : slot];
}

static void key_is_in_two_slots(void)
{
	struct shm_entry *other = neighbour();

	memcpy(other->id, entry->id, sizeof(other->id));
	*entry_detail(seg, other) = *entry_detail(seg, entry);
	other->key_len = entry->key_len;
	seg->tags[other - seg->entries] = seg->tags[entry - seg->entries];
}

static void identity_is_wrong(void)
{
	entry->id[0] ^= 1; /* same window, another key */
}

static void length_is_wrong(void)
{
	entry->key_len++;
}

static void length_is_impossible(void)
{
	entry->key_len = LOCKSHM_KEY_MAX + 1;
}

static void shown_key_is_wrong(void)
{
	entry_detail(seg, entry)->key[0] ^= 1;
}

static void tag_is_wrong(void)
{
	seg->tags[entry - seg->entries] ^= 1;
}

static void queue_without_a_key(void)
{
	entry->key_len = 0;
}

static void key_is_out_of_its_window(void)
{
	entry->id[0] ^= UINT64_C(1) << 63;
	entry->id[1] ^= UINT64_C(1) << 63;
}

static void ticket_above_the_tails(void)
{
	entry->tail = tail_make(tail_ticket(entry->tail) - 1, tail_index(entry->tail));
}

static void tail_index_is_out_of_range(void)
{
	entry->tail = tail_make(tail_ticket(entry->tail), seg->n_requests + 1);
}

static void prev_is_out_of_range(void)
{
	row[0]->word = word_with_prev(row[0]->word, INDEX_MAX);
}

static void state_is_impossible(void)
{
	row[2]->word = word_with_state(row[2]->word, 7);
}

static void dead_state_is_impossible(void)
{
	row[2]->word = word_with_state(row[2]->word, 15);
}

static void entry_index_is_out_of_range(void)
{
	row[1]->entry = seg->n_locks;
}

static void owner_slot_is_out_of_range(void)
{
	row[1]->owner = owner_ref(0, seg->n_owners);
}

static void owner_state_is_impossible(void)
{
	seg->owners[owner_ref_slot(row[1]->owner)].control &= ~UINT64_C(3); /* free, with a pid */
}

static void life_word_is_out_of_range(void)
{
	seg->owners[owner_ref_slot(row[1]->owner)].life_off = LIFE_BYTES;
}

static uint64_t *chunk_of(uint32_t index)
{
	return chunk_word(seg, (index - 1) / seg->chunk_size);
}

static void chunk_of_an_older_owner(void)
{
	uint64_t *word = chunk_of(at[1]);

	*word = owner_ref(owner_ref_gen(*word) + 1, owner_ref_slot(*word));
}

static void chunk_without_owner(void)
{
	*chunk_of(at[1]) = 0;
}

static void chunk_owner_is_out_of_range(void)
{
	*chunk_of(at[1]) = owner_ref(0, seg->n_owners + 5);
}

static void chunk_beyond_its_owners_reach(void)
{
	uint32_t *flags = &seg->owners[owner_ref_slot(*chunk_of(at[1]))].flags;

	*flags = owner_with_reach(*flags, 0);
}

static const struct {
	const char *invariant;
	void (*damage)(void);
} damages[] = {
	{ "I1", queue_is_a_ring },
	{ "I1", queue_runs_through_a_free_record },
	{ "I1", tail_names_a_free_record },
	{ "I2", request_is_for_another_lock },
	{ "I2", tickets_are_swapped },
	{ "I2", two_requests_have_one_ticket },
	{ "I3", granted_behind_a_waiter },
	{ "I3", two_writers_hold },
	{ "I3", reader_holds_beside_a_writer },
	{ "I4", queue_is_cut_off },
	{ "I4", newest_is_cut_off },
	{ "I4", middle_is_cut_out },
	{ "I5", key_is_in_two_slots },
	{ "I5", identity_is_wrong },
	{ "I5", length_is_wrong },
	{ "I5", length_is_impossible },
	{ "I5", shown_key_is_wrong },
	{ "I5", tag_is_wrong },
	{ "I5", queue_without_a_key },
	{ "I5", key_is_out_of_its_window },
	{ "I6", ticket_above_the_tails },
	{ "I7", tail_index_is_out_of_range },
	{ "I7", prev_is_out_of_range },
	{ "I7", state_is_impossible },
	{ "I7", dead_state_is_impossible },
	{ "I7", entry_index_is_out_of_range },
	{ "I7", owner_slot_is_out_of_range },
	{ "I7", owner_state_is_impossible },
	{ "I7", life_word_is_out_of_range },
	{ "I7", chunk_of_an_older_owner },
	{ "I7", chunk_without_owner },
	{ "I7", chunk_owner_is_out_of_range },
	{ "I7", chunk_beyond_its_owners_reach },
};
#define N_DAMAGES (int)(sizeof(damages) / sizeof(damages[0]))

struct found {
	size_t n;
	bool right;
	char all[2048];
	const char *wanted;
};

static void note(const char *invariant, const char *text, void *arg)
{
	struct found *f = arg;
	size_t used = strlen(f->all);

	f->n++;
	f->right = f->right || strcmp(invariant, f->wanted) == 0;
	ck_assert_ptr_nonnull(text);
	ck_assert_uint_gt(strlen(text), 10);
	snprintf(f->all + used, sizeof(f->all) - used, "%s: %s; ", invariant, text);
}

START_TEST(damage_is_found_and_named)
{
	struct found f = { .wanted = damages[_i].invariant };
	void *whole;
	size_t n;

	segment_with(64, 64, 8);
	still_life();
	verify_clean();
	whole = malloc(seg->size);
	ck_assert_ptr_nonnull(whole);
	memcpy(whole, seg->header, seg->size);
	damages[_i].damage();
	ck_code(lockshm_verify(seg, note, &f, &n), LOCKSHM_BAD_SEGMENT);
	memcpy(seg->header, whole, seg->size);
	free(whole);
	ck_assert_uint_eq(n, f.n);
	ck_assert_msg(f.right, "%s is not among: %s", f.wanted, f.all);
	verify_clean();
}
END_TEST

/* Every sound state in which a process may stop or die. */
START_TEST(sound_segments_are_sound)
{
	struct agent *a[ROW], *cooling = agent_start(), *overdue = agent_start();
	lockshm_hold_t hold;
	int i;

	verify_clean();
	ck_code(agent_acquire(cooling, "cooling", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_do(cooling, (struct agent_command){ .op = AGENT_RELEASE, .ns = LOCKSHM_SECONDS(60) }), 0);
	ck_code(agent_do(overdue, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "overdue", .ns = LOCKSHM_MS(1),
							  .how = LOCKSHM_SHARED }),
		0);
	for (i = 0; i < ROW; i++) {
		a[i] = agent_start();
		ck_code(agent_acquire(a[i], KEY, i < 2 ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE), i < 2 ? 0 : AGENT_BLOCKED);
	}
	verify_clean();
	for (i = 0; i < ROW; i++)
		agent_kill(a[i]); /* the oldest first, waiters last: dead requests everywhere */
	verify_clean();
	ck_code(take(&hold, KEY, LOCKSHM_EXCLUSIVE), 0);
	verify_clean();
	ck_code(lockshm_sweep(seg, NULL), 0);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, sound_segments_are_sound);
	tcase_add_loop_test(tc, damage_is_found_and_named, 0, N_DAMAGES);
}

int main(void)
{
	return fixture_main("verify", add);
}
