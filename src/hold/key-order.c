/* SPDX-License-Identifier: MIT */
/* key-order.c - the order in which several locks are taken; see key-order.h */
#include "hold/key-order.h"

#include <string.h>

#include "sys/error.h"

static int compare_bytes(const struct lockshm_key *a, const struct lockshm_key *b)
{
	int d = memcmp(a->data, b->data, a->len < b->len ? a->len : b->len);

	return d ? d : (a->len > b->len) - (a->len < b->len);
}

static int compare_keys(const struct wanted *a, const struct wanted *b)
{
	return a->by ? compare_bytes(a->by, b->by) : memcmp(&a->id, &b->id, sizeof(a->id));
}

static int compare(const struct wanted *a, const struct wanted *b)
{
	int d = compare_keys(a, b);

	return d ? d : (a->qpos > b->qpos) - (a->qpos < b->qpos);
}

/* Insertion sort: at most 64, and qsort may allocate. */
static void sort(struct wanted *w, size_t n)
{
	size_t i, j;

	for (i = 1; i < n; i++)
		for (j = i; j > 0 && compare(&w[j - 1], &w[j]) > 0; j--) {
			struct wanted t = w[j];

			w[j] = w[j - 1];
			w[j - 1] = t;
		}
}

/* Keep the first of equal keys, with the stronger mode.  Returns how many are left. */
static size_t merge(struct wanted *w, size_t n)
{
	size_t i, kept = 0;

	for (i = 0; i < n; i++) {
		if (kept > 0 && compare_keys(&w[kept - 1], &w[i]) == 0) {
			if (w[i].mode == LOCKSHM_EXCLUSIVE)
				w[kept - 1].mode = LOCKSHM_EXCLUSIVE;
		} else {
			w[kept++] = w[i];
		}
	}
	return kept;
}

static int check_key(const struct lockshm_key *k, size_t i, const struct lockshm_request *common,
		     struct lockshm_error *error)
{
	int mode = k->mode ? k->mode : common->mode;

	if (!k->data || k->len == 0)
		return error_set(error, LOCKSHM_INVALID, "key %zu is empty", i);
	if (k->len > LOCKSHM_KEY_MAX)
		return error_set(error, LOCKSHM_KEY_TOO_LONG, "key %zu has %zu bytes, at most %d are allowed", i,
				 k->len, LOCKSHM_KEY_MAX);
	if (mode != LOCKSHM_SHARED && mode != LOCKSHM_EXCLUSIVE)
		return error_set(error, LOCKSHM_INVALID, "mode of key %zu is %d", i, mode);
	if (k->reserved[0] | k->reserved[1] | k->reserved[2])
		return error_set(error, LOCKSHM_INVALID, "reserved words of key %zu must be 0", i);
	return 0;
}

static int collect(const struct lockshm *s, struct wanted *w, const struct lockshm_request *common,
		   const struct lockshm_key *keys, size_t n, struct lockshm_error *error)
{
	size_t i;
	int err;

	for (i = 0; i < n; i++) {
		err = check_key(&keys[i], i, common, error);
		if (err)
			return err;
		w[i].by = s->n_host_leases ? &keys[i] : NULL;
		if (!w[i].by)
			hash_key(&w[i].id, s->hash_secret, keys[i].data, keys[i].len);
		w[i].qpos = (uint32_t)i;
		w[i].mode = keys[i].mode ? keys[i].mode : common->mode;
	}
	return 0;
}

int many_order(const struct lockshm *s, struct wanted *w, const struct lockshm_request *common,
	       const struct lockshm_key *keys, size_t n, size_t *kept, struct lockshm_error *error)
{
	int err = collect(s, w, common, keys, n, error);

	if (err)
		return err;
	sort(w, n);
	*kept = merge(w, n);
	return 0;
}

int many_check(const struct lockshm_request *common, const struct lockshm_key *keys, size_t n,
	       const lockshm_hold_t *holds, struct lockshm_error *error)
{
	char text[HOLD_USE_BYTES];
	size_t i;

	if (!keys || !holds)
		return error_set(error, LOCKSHM_INVALID, "%s is NULL", keys ? "holds" : "keys");
	if (common->flags & LOCKSHM_BARGE)
		return error_set(error, LOCKSHM_INVALID, "flags: LOCKSHM_BARGE is for one key");
	if (n < 1 || n > LOCKSHM_MANY_MAX)
		return error_set(error, LOCKSHM_INVALID, "n is %zu, must be 1..%d", n, LOCKSHM_MANY_MAX);
	for (i = 0; i < n; i++)
		if (hold_in_use(hold_of(&holds[i]), text))
			return error_set(error, LOCKSHM_INVALID, "hold %zu is %s: release it first", i, text);
	return 0;
}

int many_worse(int a, int b)
{
	if (a == LOCKSHM_LOCAL_ONLY || b == LOCKSHM_LOCAL_ONLY)
		return LOCKSHM_LOCAL_ONLY;
	if (a == LOCKSHM_OWNER_DIED || b == LOCKSHM_OWNER_DIED)
		return LOCKSHM_OWNER_DIED;
	return a ? a : b;
}

void many_add_report(struct lockshm_report *all, const struct lockshm_report *one)
{
	all->waited_ns += one->waited_ns;
	all->slept_ns += one->slept_ns;
	all->error = one->error;
	all->blocker = one->blocker;
	if (!all->token)
		all->token = one->token;
	if (!all->damage.status || one->damage.status == LOCKSHM_OWNER_DIED)
		all->damage = one->damage;
}

void many_forget_holds(struct lockshm_report *all)
{
	all->token = 0;
	memset(&all->damage, 0, sizeof(all->damage));
}
