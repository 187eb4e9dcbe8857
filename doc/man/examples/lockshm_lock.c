/* SPDX-License-Identifier: MIT */
#include <lockshm.h>

/* Count under a lock, whose object was made by lockshm_lock_init(), one for each thread. */
int count(lockshm_t *segment, lockshm_lock_t *lock, long *counter)
{
	int code = lockshm_lock(lock, segment);

	if (code < 0)
		return code;
	++*counter;
	return lockshm_unlock(lock);
}

/* A reader with a lease of a second, that sends its token along. */
int make_reader(lockshm_t *segment, lockshm_lock_t *lock, const char *path)
{
	struct lockshm_request request = LOCKSHM_REQUEST(path);

	request.mode = LOCKSHM_SHARED;
	request.ttl_ns = LOCKSHM_SECONDS(1);
	return lockshm_lock_init(lock, segment, &request);
}

int read_it(lockshm_t *segment, lockshm_lock_t *lock, void (*read)(uint64_t token))
{
	int code = lockshm_lock(lock, segment);

	if (code < 0)
		return code;
	read(lockshm_token(lockshm_lock_hold(lock)));
	return lockshm_unlock(lock);
}
