/* SPDX-License-Identifier: MIT */
/*
 * prefork-cache.c - a cache that asks its backend once, however many clients request the same cold page
 *
 * The recipe ("single flight", known from cache locks of web servers):
 *
 *   look in the cache                     many readers at a time, under the shared lock of the slot
 *   lock the page
 *   rule 1: look again                    the previous holder has probably filled it
 *   fetch the page
 *   rule 2: store it, then unlock         in the other order the next holder would fetch it again
 *   rule 3: unlock on every way out,      otherwise an error would block the page until the lease ends
 *           and remember "no such page"   otherwise each client would fetch it, one after the other
 *
 * The page's lock is a lease: if the backend hangs for longer than that, the next holder may try.  A page fetched
 * twice is a waste, not an error.
 */
#include "prefork.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum slot_state { SLOT_EMPTY = 0, SLOT_STORING = 2, SLOT_FULL = 3 };

static const int64_t fetch_lease_ns = LOCKSHM_SECONDS(3);

static uint32_t hash(const char *key)
{
	uint32_t h = 2166136261u;

	for (; *key; key++)
		h = (h ^ (unsigned char)*key) * 16777619u;
	return h;
}

static struct slot *slot_of(struct app *app, const char *key, char *lock_name, size_t size)
{
	unsigned n = hash(key) % SLOTS;

	snprintf(lock_name, size, "slot/%u", n);
	return &app->shared->slots[n];
}

/*
 * Return: 1 = found, 0 = not there, negative = lockshm code.
 * A worker killed while storing leaves SLOT_STORING: not there.  The next store() repairs that, so no lock here has to be
 * robust.
 */
static int lookup(struct app *app, const char *key, struct page *page, struct grant *grant)
{
	char lock_name[32];
	const struct slot *slot = slot_of(app, key, lock_name, sizeof(lock_name));
	lockshm_hold_t hold;
	int found;

	if (app_lock(app, lock_name, LOCKSHM_SHARED, LOCKSHM_FOREVER, NULL, &hold, grant) < 0)
		return grant->code;
	found = slot->state == SLOT_FULL && strcmp(slot->key, key) == 0;
	if (found) {
		page->len = slot->len;
		memcpy(page->body, slot->body, slot->len);
	}
	lockshm_release(&hold, 0);
	return found;
}

static int store(struct app *app, const char *key, const struct page *page)
{
	char lock_name[32];
	struct slot *slot = slot_of(app, key, lock_name, sizeof(lock_name));
	lockshm_hold_t hold;
	struct grant grant;

	if (app_lock(app, lock_name, LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, "store", &hold, &grant) < 0)
		return grant.code;
	slot->state = SLOT_STORING;
	crash_step();
	strcpy(slot->key, key);
	slot->len = page->len;
	memcpy(slot->body, page->body, page->len);
	crash_step();
	slot->state = SLOT_FULL;
	lockshm_release(&hold, 0);
	return 0;
}

static size_t factors(uint32_t n, char *out, size_t size)
{
	size_t len = 0;

	for (uint32_t p = 2; p <= n / p; p++)
		for (; n % p == 0; n /= p)
			len += (size_t)snprintf(out + len, size - len, "%u * ", p);
	return len + (size_t)snprintf(out + len, size - len, "%u", n);
}

/*
 * The backend: slow (50 ms) and not always successful.  Pages named "no-..." do not exist, and "broken-..." is an
 * error.  All others contain the prime factors of their name's hash.
 */
static int backend_fetch(const char *key, struct page *page)
{
	size_t len;

	nanosleep(&(struct timespec){ .tv_nsec = 50 * 1000 * 1000 }, NULL);
	page->len = 0;
	if (strncmp(key, "broken-", 7) == 0)
		return -1;
	if (strncmp(key, "no-", 3) == 0)
		return 0;
	len = (size_t)snprintf(page->body, sizeof(page->body), "page %s\n%u = ", key, hash(key));
	len += factors(hash(key), page->body + len, sizeof(page->body) - len - 1);
	page->body[len++] = '\n';
	page->len = len;
	return 0;
}

/* The caller holds the page's lock; rule 3 is his: he unlocks whatever happens here. */
static int fill(struct app *app, const char *key, struct page *page)
{
	struct grant again;
	int found = lookup(app, key, page, &again); /* rule 1 */

	if (found) {
		page->source = PAGE_WAITED;
		return found < 0 ? found : 0;
	}
	page->source = PAGE_FETCHED;
	app->shared->fetched++;
	if (backend_fetch(key, page) < 0)
		return CACHE_BACKEND_FAILED;
	return store(app, key, page); /* rule 2; also if there is no such page */
}

int cache_get(struct app *app, const char *key, struct page *page, struct grant *grant)
{
	char lock_name[8 + KEY_MAX];
	lockshm_hold_t hold;
	int code = lookup(app, key, page, grant);

	if (code) {
		page->source = PAGE_HIT;
		app->shared->hits += code > 0;
		return code < 0 ? code : 0;
	}
	snprintf(lock_name, sizeof(lock_name), "page/%s", key);
	if (app_lock(app, lock_name, LOCKSHM_EXCLUSIVE, fetch_lease_ns, "fetch", &hold, grant) < 0)
		return grant->code;
	code = fill(app, key, page);
	app->shared->waited += code == 0 && page->source == PAGE_WAITED;
	lockshm_release(&hold, 0); /* rule 3 */
	return code;
}
