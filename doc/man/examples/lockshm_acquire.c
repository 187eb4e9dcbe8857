/* SPDX-License-Identifier: MIT */
#include <lockshm.h>
#include <stdio.h>

/* Update something that a dead holder may leave torn, waiting at most two seconds. */
int update(lockshm_t *segment, const char *key, void (*work)(void), void (*repair)(void))
{
	struct lockshm_request request = LOCKSHM_REQUEST(key);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold;
	int status;

	request.flags = LOCKSHM_ROBUST;
	request.timeout_ns = LOCKSHM_SECONDS(2);
	request.report = &report;
	status = lockshm_acquire(segment, &request, &hold);
	if (status < 0) {
		fprintf(stderr, "%s: %s\n", key, report.error.message);
		return status;
	}
	if (status != LOCKSHM_OK) {
		fprintf(stderr, "%s: pid %d: %s\n", key, (int)report.damage.pid, lockshm_strerror(status));
		repair();
		lockshm_acknowledge(&hold);
	}
	work();
	return lockshm_release(&hold, 0);
}

/* Fill a cache once, however many workers miss it at the same time.  Three rules make it correct: look again after the
 * lock is held; store before releasing; release on every way out, and store a stub for "nothing there". */
const char *cache_get(const char *key);
void cache_put(const char *key, const char *value);
const char *fetch(const char *key);

const char *cached(lockshm_t *segment, const char *key)
{
	struct lockshm_request request = LOCKSHM_REQUEST(key);
	lockshm_hold_t hold;
	const char *value = cache_get(key);

	if (value)
		return value;
	if (lockshm_acquire(segment, &request, &hold) < 0) {
		value = fetch(key);
		return value ? value : "";
	}
	value = cache_get(key);
	if (!value) {
		value = fetch(key);
		if (!value)
			value = ""; /* there is none: cached, too */
		cache_put(key, value);
	}
	lockshm_release(&hold, 0);
	return value;
}
