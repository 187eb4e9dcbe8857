/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <lockshm.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Work in steps, and stop when the lock is lost.  Return: 0, or why it was not done. */
int work(lockshm_t *segment, struct lockshm_request *request, int input, int (*step)(int input))
{
	lockshm_hold_t hold;
	int notices = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct pollfd fds[] = { { notices, POLLIN, 0 }, { input, POLLIN, 0 } };
	int more = 1, released;
	int status = lockshm_acquire(segment, request, &hold);

	if (status < 0) {
		close(notices);
		return status;
	}
	status = lockshm_notify(&hold, notices);
	while (status >= 0 && more) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[0].revents)
			status = LOCKSHM_LOST;
		else if (fds[1].revents)
			more = step(input);
	}
	released = lockshm_release(&hold, 0);
	close(notices);
	return status < 0 ? status : released < 0 ? released : 0;
}
