/* SPDX-License-Identifier: MIT */
/*
 * listener.c - the leader's second thread; see bridge/listener.h
 *
 * The leader sleeps on a futex, so that processes wake it directly.  The listener turns a readable socket into a ring
 * of that doorbell; it reads nothing itself.
 */
#define _GNU_SOURCE
#include "bridge/listener.h"

#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sys/futex.h"
#include "sys/thread.h"

static void *listener_main(void *arg)
{
	struct listener *listener = arg;
	struct epoll_event event;
	int n;

	for (;;) {
		n = epoll_wait(listener->epoll, &event, 1, -1);
		if ((n < 0 && errno != EINTR) || (n > 0 && event.data.fd == listener->stop))
			return NULL;
		(void)fetch_add32(&listener->s->bridge->doorbell, 1);
		futex_wake(&listener->s->bridge->doorbell, INT_MAX); /* see host_lease_ring() */
	}
}

static void listener_close(struct listener *listener)
{
	if (listener->epoll >= 0)
		close(listener->epoll);
	if (listener->stop >= 0)
		close(listener->stop);
}

void listener_start(struct listener *listener, struct lockshm *s)
{
	struct epoll_event event = { .events = EPOLLIN };

	listener->s = s;
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

	if (!listener->runs)
		return;
	if (write(listener->stop, &one, sizeof(one)) != sizeof(one))
		pthread_cancel(listener->thread);
	pthread_join(listener->thread, NULL);
	listener_close(listener);
}
