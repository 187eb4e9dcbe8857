/* SPDX-License-Identifier: MIT */
/*
 * listener.h - the leader's second thread: sleeps on the connections, while the first sleeps on the doorbell
 *
 * Which of the two is woken does the leader's pass, so that neither a ring nor a reply is handed from one thread to the
 * other.  The leader's turn is its right to do so: the first thread has it except while it sleeps, the listener for one
 * pass.  A listener that finds it taken, or wanted, rings instead.
 */
#ifndef LOCKSHM_BRIDGE_LISTENER_H
#define LOCKSHM_BRIDGE_LISTENER_H

#include <pthread.h>

#include "segment/segment.h"

struct listener {
	struct lockshm *s;
	pthread_t thread;
	pthread_mutex_t turn;
	bool wanted; /* by the first thread: a mutex is not fair */
	int64_t rest_until; /* of the first thread; host time, as what @pass returns */
	int64_t (*pass)(void *arg); /* returns when the next is due */
	void *arg;
	int epoll; /* the client adds its connections */
	int stop;
	bool runs;
};

/* The caller gets the turn.  On failure `runs` is false: what the servers send is then read when the leader wakes for
 * another reason. */
void listener_start(struct listener *listener, struct lockshm *s, int64_t (*pass)(void *arg), void *arg);
void listener_stop(struct listener *listener);

/* Around each sleep of the first thread, which ends at @until. */
void listener_give_turn(struct listener *listener, int64_t until);
void listener_take_turn(struct listener *listener);

#endif
