/* SPDX-License-Identifier: MIT */
/*
 * test-capacity.c - a segment made for so many locks has room for as many keys
 *
 * Through the table's own code, with identities from a generator of fixed seed: each run sees the same keys.  A key is
 * in use while its entry has damage, which costs no request record.  Rounds follow each other in one segment, so most
 * places have an idle key of an earlier round.
 */
#include <stdlib.h>
#include <string.h>

#include "hostlease/host-lease.h"
#include "lock/damage.h"
#include "support/fixture.h"
#include "support/inside.h"

static const struct {
	uint32_t locks;
	unsigned rounds;
	unsigned swaps; /* times @locks: one key goes, another comes */
} sizes[] = {
	{ 1, 1000, 4 }, { 8, 1000, 4 }, { 64, 1000, 4 }, { 100, 1000, 4 }, { 1000, 200, 4 }, { 16384, 10, 4 },
};

static uint64_t state;

/* splitmix64 */
static uint64_t next_random(void)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* A new key in use: its entry, or ENTRY_NONE if there is no place. */
static uint32_t add_key(struct participant *self)
{
	static const unsigned char key[LOCKSHM_KEY_SHOWN_MAX + 1]; /* longer than what lockshm_verify() hashes again */
	struct identity id = { { next_random(), next_random() }, sizeof(key) };
	struct lockshm_error error;
	uint32_t i;
	int code = table_insert(self, &id, key, &i, &error);

	if (code == LOCKSHM_FULL) {
		ck_assert_int_eq(error.table, LOCKSHM_TABLE_KEYS);
		return ENTRY_NONE;
	}
	ck_code(code, 0);
	ck_assert(!damage_pending(&seg->entries[i]));
	store_relaxed(&seg->entries[i].damage_word, load_relaxed(&seg->entries[i].damage_word) & ~DAMAGE_ACKNOWLEDGED);
	return i;
}

static void drop_key(uint32_t i)
{
	store_relaxed(&seg->entries[i].damage_word, load_relaxed(&seg->entries[i].damage_word) | DAMAGE_ACKNOWLEDGED);
}

/* Did all fit?  Ends with every key idle. */
static bool one_round(struct participant *self, uint32_t *at, uint32_t locks, uint64_t swaps)
{
	uint32_t n, i;
	bool fits = true;

	for (n = 0; n < locks && fits; n++)
		fits = (at[n] = add_key(self)) != ENTRY_NONE;
	for (; fits && swaps > 0; swaps--) {
		i = (uint32_t)(next_random() % locks);
		drop_key(at[i]);
		fits = (at[i] = add_key(self)) != ENTRY_NONE;
	}
	for (i = 0; i < n; i++)
		if (at[i] != ENTRY_NONE)
			drop_key(at[i]);
	return fits;
}

START_TEST(as_many_keys_fit_as_were_asked_for)
{
	uint32_t locks = sizes[_i].locks, *at = calloc(locks, sizeof(*at));
	struct participant *self;
	unsigned round, full = 0;

	ck_assert_ptr_nonnull(at);
	state = locks;
	segment_with(locks, 64, 2);
	ck_assert_uint_ge(stat_now().keys, locks);
	ck_code(participant_get(seg, &self, NULL), 0);
	for (round = 0; round < sizes[_i].rounds; round++)
		full += !one_round(self, at, locks, (uint64_t)locks * sizes[_i].swaps);
	ck_assert_msg(full <= sizes[_i].rounds / 1000, "locks %u: %u of %u rounds found no place", locks, full,
		      sizes[_i].rounds);
	verify_clean();
	free(at);
}
END_TEST

static const uint32_t leases[] = { 1, 64, 65, 100, 1024, HOST_LEASES_MAX };
#define LEASE_ROUNDS 20

static void segment_with_leases(uint32_t n)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_error error;
	const char *name = other_name("leases");
	int code;

	strcpy(options.redis, "redis://localhost"); /* nothing connects to it */
	options.host_leases = n;
	code = lockshm_create(NULL, name, &options, &error);
	ck_assert_msg(code == 0, "%s", error.message);
	ck_code(lockshm_close(seg), 0);
	ck_code(lockshm_open(&seg, name, 0, NULL), 0);
}

/* The record of a key that is in use from now on. */
static uint32_t add_lease(uint64_t owner, struct identity *id)
{
	static const unsigned char key[8];
	struct lockshm_error error;
	struct shm_host_lease *r;
	uint32_t i;
	int code;

	*id = (struct identity){ { next_random(), next_random() }, sizeof(key) };
	code = host_lease_find(seg, owner, id, key, &i, &error);
	ck_assert_msg(code == 0, "%s: %s", lockshm_code_name(code), error.message);
	r = &seg->host_leases[i];
	ck_assert_int_eq(host_lease_state(r->word), HOST_LEASE_NONE);
	r->word = host_lease_with_state(r->word, HOST_LEASE_HELD);
	return i;
}

START_TEST(as_many_global_keys_fit_as_were_asked_for)
{
	static struct identity ids[HOST_LEASES_MAX];
	static uint32_t at[HOST_LEASES_MAX];
	uint32_t n = leases[_i], i, round;
	struct participant *self;

	state = n;
	segment_with_leases(n);
	ck_code(participant_get(seg, &self, NULL), 0);
	for (round = 0; round < LEASE_ROUNDS; round++) {
		for (i = 0; i < n; i++)
			at[i] = add_lease(self->ref, &ids[i]);
		for (i = 0; i < n; i++)
			ck_assert_uint_eq(host_lease_look(seg, &ids[i]), at[i]);
		/* One goes, another comes. */
		i = (uint32_t)(next_random() % n);
		seg->host_leases[at[i]].word = host_lease_with_state(seg->host_leases[at[i]].word, HOST_LEASE_NONE);
		(void)add_lease(self->ref, &ids[i]);
		for (i = 0; i < n; i++)
			seg->host_leases[i].word = host_lease_with_state(seg->host_leases[i].word, HOST_LEASE_NONE);
	}
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, as_many_global_keys_fit_as_were_asked_for, 0, sizeof(leases) / sizeof(leases[0]));
	tcase_add_loop_test(tc, as_many_keys_fit_as_were_asked_for, 0, sizeof(sizes) / sizeof(sizes[0]));
}

int main(void)
{
	return fixture_main("capacity", add);
}
