/* SPDX-License-Identifier: MIT */
#include <lockshm.h>
#include <stddef.h>
#include <sys/epoll.h>

/* A loop that is added to an epoll instance, in a worker after its fork. */
/* Return: 0, or -1 with the reason in @error.  Events of the loop carry its address. */
int add_loop(lockshm_t *segment, int epoll, lockshm_loop_t **loop, struct lockshm_error *error)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (lockshm_loop_open(loop, segment, -1, error) != 0)
		return -1;
	event.data.ptr = *loop;
	return epoll_ctl(epoll, EPOLL_CTL_ADD, lockshm_loop_fd(*loop), &event);
}

void remove_loop(lockshm_loop_t *loop, int epoll)
{
	/* First: a child that was forked meanwhile has a copy of the descriptor, which would stay in the instance. */
	(void)epoll_ctl(epoll, EPOLL_CTL_DEL, lockshm_loop_fd(loop), NULL);
	(void)lockshm_loop_close(loop);
}
