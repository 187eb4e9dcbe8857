/* SPDX-License-Identifier: MIT */
/* chaos-stopped-actor.c - see chaos-stopped.h */
#define _GNU_SOURCE
#include "chaos-stopped.h"
#include "support/acknowledge.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

lockshm_t *chaos_locks;

int64_t chaos_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void chaos_broken(const char *what)
{
	perror(what);
	exit(99);
}

/* ---------------------------------------------------------------- in the actor */

static lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT;

static void cancel(int signal)
{
	(void)signal;
	lockshm_cancel(&canceller);
}

static lockshm_loop_t *loop;

/* It is in the queue, and this thread sleeps at the loop's descriptor. */
static int await_outcome(void)
{
	struct lockshm_outcome out = LOCKSHM_OUTCOME_INIT;
	struct pollfd p = { lockshm_loop_fd(loop), POLLIN, 0 };

	while (lockshm_loop_next(loop, &out) == 0)
		poll(&p, 1, -1);
	return out.status;
}

static int take_by_loop(const struct lockshm_request *q, lockshm_hold_t *hold)
{
	int code = lockshm_loop_acquire(loop, q, hold, NULL);

	return code == LOCKSHM_PENDING ? await_outcome() : code;
}

static int take(const struct order *o, lockshm_hold_t *hold)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;

	q.key = o->key;
	q.key_len = strlen(o->key);
	q.mode = o->mode;
	q.ttl_ns = o->ttl_ns;
	q.timeout_ns = o->timeout_ns;
	q.flags = LOCKSHM_ROBUST | (o->habit == AUTO_RENEWS ? LOCKSHM_AUTO_RENEW : 0);
	q.canceller = &canceller;
	return acknowledge_told(o->by_loop ? take_by_loop(&q, hold) : lockshm_acquire(chaos_locks, &q, hold), hold);
}

static void answer(int fd, int code)
{
	struct answer a = { code, chaos_now() };

	if (send(fd, &a, sizeof(a), 0) != sizeof(a))
		_exit(99);
}

/* Until there is another order; one without a key ends just this.  The outcomes of the holder do not matter here. */
static void indulge(int fd, const struct order *o, lockshm_hold_t *hold)
{
	struct order again = *o;
	struct pollfd p = { fd, POLLIN, 0 };
	int64_t left;

	again.timeout_ns = 0;
	while (poll(&p, 1, o->habit == SITS || o->habit == AUTO_RENEWS ? -1 : 0) == 0) {
		switch (o->habit) {
		case RENEWS:
			lockshm_renew(hold, o->ttl_ns);
			break;
		case RELEASES:
			lockshm_release(hold, 0);
			take(&again, hold);
			break;
		case CHANGES_MODE:
			lockshm_downgrade(hold);
			(void)!lockshm_upgrade(hold);
			break;
		default:
			lockshm_check(hold, &left);
		}
	}
	lockshm_release(hold, 0);
}

static _Noreturn void actor_main(int fd)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct order o;
	int code;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (lockshm_loop_open(&loop, chaos_locks, -1, NULL) != 0)
		_exit(99);
	while (recv(fd, &o, sizeof(o), 0) == sizeof(o)) {
		/* A signal that was sent before the order has been taken before recv() came back. */
		canceller = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
		if (!o.key[0])
			continue;
		code = take(&o, &hold);
		answer(fd, code);
		if (code >= 0 && o.habit < HABITS)
			indulge(fd, &o, &hold);
		else if (code >= 0)
			lockshm_release(&hold, 0);
	}
	_exit(0);
}

/* ---------------------------------------------------------------- from outside */

void actor_hire(struct actor *a)
{
	char path[64];
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		chaos_broken("socketpair");
	*a = (struct actor){ .fd = fds[0] };
	/* Inherited: it may be cancelled before it has run at all. */
	signal(SIGUSR1, cancel);
	a->pid = fork();
	if (a->pid < 0)
		chaos_broken("fork");
	if (a->pid == 0)
		actor_main(fds[1]);
	close(fds[1]);
	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)a->pid);
	a->schedstat = open(path, O_RDONLY | O_CLOEXEC);
}

void actor_dismiss(struct actor *a)
{
	kill(a->pid, SIGKILL);
	waitpid(a->pid, NULL, 0);
	close(a->fd);
	close(a->schedstat);
	actor_hire(a);
}

void actor_give(struct actor *a, const struct order *o)
{
	if (o->key[0])
		a->order = *o;
	a->busy = o->key[0] != 0;
	a->hurried = a->cancelled = false;
	if (send(a->fd, o, sizeof(*o), 0) != sizeof(*o))
		chaos_broken("chaos-stopped: an actor has ended");
}

void actor_stop(struct actor *a)
{
	int status;

	kill(a->pid, SIGSTOP);
	if (waitpid(a->pid, &status, WUNTRACED) != a->pid || !WIFSTOPPED(status))
		chaos_broken("chaos-stopped: an actor has ended");
	a->stopped = true;
}

void actor_let_run(struct actor *a)
{
	if (!a->stopped)
		return;
	a->stopped = false;
	kill(a->pid, SIGCONT);
}

void actor_cancel(struct actor *a)
{
	a->cancelled = true;
	kill(a->pid, SIGUSR1);
}

bool actor_hear(struct actor *a)
{
	ssize_t n = recv(a->fd, &a->answer, sizeof(a->answer), MSG_DONTWAIT);

	if (n == 0)
		chaos_broken("chaos-stopped: an actor has ended");
	if (n != sizeof(a->answer))
		return false;
	a->busy = false;
	return true;
}

int64_t actor_run_delay(const struct actor *a)
{
	char text[96];
	ssize_t n = pread(a->schedstat, text, sizeof(text) - 1, 0);
	const char *second;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	second = strchr(text, ' ');
	return second ? strtoll(second, NULL, 10) : 0;
}
