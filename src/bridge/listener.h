/* SPDX-License-Identifier: MIT */
/* listener.h - the leader's second thread: rings the doorbell when a Redis server has sent something unasked */
#ifndef LOCKSHM_BRIDGE_LISTENER_H
#define LOCKSHM_BRIDGE_LISTENER_H

#include <pthread.h>

#include "segment/segment.h"

struct listener {
	struct lockshm *s;
	pthread_t thread;
	int epoll; /* the client adds its connections */
	int stop;
	bool runs;
};

/* On failure `runs` is false: invalidations are then read when the leader wakes for another reason. */
void listener_start(struct listener *listener, struct lockshm *s);
void listener_stop(struct listener *listener);

#endif
