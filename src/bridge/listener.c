/* SPDX-License-Identifier: MIT */
/*
 * listener.c - the leader's second thread; see bridge/listener.h
 *
 * A connection reports once, until a pass watches it again.  So a listener that rings instead of a pass is not woken by
 * the same bytes again.
 */
#define _GNU_SOURCE
#include "bridge/listener.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "hostlease/host-lease.h"
#include "sys/thread.h"

/* True = the turn is the listener's.  Else it is the first thread's, which is rung: that may have looked before the bytes
 * came, and may sleep again by now. */
static bool try_turn(struct listener *listener)
{
	if (!__atomic_load_n(&listener->wanted, __ATOMIC_RELAXED) && pthread_mutex_trylock(&listener->turn) == 0)
		return true;
	host_lease_ring_leader(listener->s);
	return false;
}

/* How long the listener may sleep, in ms, rounded up; -1 = the first thread wakes before that. */
static int sleep_ms(const struct listener *listener, int64_t until)
{
	int64_t left = until - host_now(listener->s);

	if (until >= listener->rest_until)
		return -1;
	return left <= 0 ? 0 : (int)((left + LOCKSHM_MS(1) - 1) / LOCKSHM_MS(1));
}

static void *listener_main(void *arg)
{
	struct listener *listener = arg;
	struct epoll_event event;
	int n, ms = -1;

	for (;;) {
		n = epoll_wait(listener->epoll, &event, 1, ms);
		if ((n < 0 && errno != EINTR) || (n > 0 && event.data.fd == listener->stop))
			return NULL;
		ms = -1;
		if (!try_turn(listener))
			continue;
		ms = sleep_ms(listener, listener->pass(listener->arg));
		pthread_mutex_unlock(&listener->turn);
	}
}

void listener_give_turn(struct listener *listener, int64_t until)
{
	listener->rest_until = until;
	__atomic_store_n(&listener->wanted, false, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&listener->turn);
}

void listener_take_turn(struct listener *listener)
{
	__atomic_store_n(&listener->wanted, true, __ATOMIC_RELAXED);
	pthread_mutex_lock(&listener->turn);
}

static void listener_close(struct listener *listener)
{
	if (listener->epoll >= 0)
		close(listener->epoll);
	if (listener->stop >= 0)
		close(listener->stop);
}

void listener_start(struct listener *listener, struct lockshm *s, int64_t (*pass)(void *arg), void *arg)
{
	struct epoll_event event = { .events = EPOLLIN };

	listener->s = s;
	listener->pass = pass;
	listener->arg = arg;
	pthread_mutex_init(&listener->turn, NULL);
	listener_take_turn(listener);
	listener->epoll = epoll_create1(EPOLL_CLOEXEC);
	listener->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	event.data.fd = listener->stop;
	listener->runs = listener->epoll >= 0 && listener->stop >= 0 &&
			 epoll_ctl(listener->epoll, EPOLL_CTL_ADD, listener->stop, &event) == 0 &&
			 thread_start(&listener->thread, listener_main, listener) == 0;
	if (!listener->runs)
		listener_close(listener);
}

void listener_stop(struct listener *listener)
{
	uint64_t one = 1;

	/* The turn stays with the caller: the listener does nothing more. */
	if (listener->runs) {
		if (write(listener->stop, &one, sizeof(one)) != sizeof(one))
			pthread_cancel(listener->thread);
		pthread_join(listener->thread, NULL);
		listener_close(listener);
	}
	pthread_mutex_unlock(&listener->turn);
	pthread_mutex_destroy(&listener->turn);
}
