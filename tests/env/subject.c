/* SPDX-License-Identifier: MIT */
/*
 * subject.c - see env/subject.h; the side of the test
 */
#define _GNU_SOURCE
#include "subject.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env.h"
#include "subject-life.h"

/* All that ever were: a test may ask what a dead one had answered. */
static struct person *persons;

/* ---------------------------------------------------------------- commands */

static void person_send(struct person *p, const struct command *command)
{
	if (send(p->fd, command, sizeof(*command), MSG_NOSIGNAL) != (ssize_t)sizeof(*command) && errno != EPIPE)
		env_broken("send");
}

/* False = none comes. */
static bool await_message(struct person *p)
{
	struct pollfd poll_one = { .fd = p->fd, .events = POLLIN };
	int n;

	do
		n = poll(&poll_one, 1, ENV_PATIENCE_MS);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

int person_end(struct person *p)
{
	if (!await_message(p))
		env_fail(__FILE__, __LINE__, "person %d does not answer", (int)p->pid);
	p->answered_ns = env_now();
	if (recv(p->fd, &p->answer, sizeof(p->answer), 0) == (ssize_t)sizeof(p->answer))
		return p->answer.code;
	p->answer.code = PERSON_ENDED;
	return PERSON_ENDED;
}

static int person_do(struct person *p, struct command command)
{
	person_send(p, &command);
	return person_end(p);
}

static struct command acquire_command(int hold, const char *key, int mode, int64_t ttl_ns, int64_t timeout_ns)
{
	struct command c = { .op = ACQUIRE, .hold = hold, .mode = mode, .ttl_ns = ttl_ns, .timeout_ns = timeout_ns };

	snprintf(c.key, sizeof(c.key), "%s", key);
	return c;
}

int person_acquire(struct person *p, int hold, const char *key, int mode, int64_t ttl_ns, int64_t timeout_ns,
		   unsigned flags)
{
	struct command c = acquire_command(hold, key, mode, ttl_ns, timeout_ns);

	c.flags = flags;
	return person_do(p, c);
}

void person_begin(struct person *p, int hold, const char *key, int mode, int64_t ttl_ns, int64_t timeout_ns)
{
	struct command c = acquire_command(hold, key, mode, ttl_ns, timeout_ns);

	person_send(p, &c);
}

int person_release(struct person *p, int hold)
{
	return person_do(p, (struct command){ .op = RELEASE, .hold = hold });
}

int person_check(struct person *p, int hold)
{
	return person_do(p, (struct command){ .op = CHECK_HOLD, .hold = hold });
}

int person_renew(struct person *p, int hold, int64_t ns)
{
	return person_do(p, (struct command){ .op = RENEW, .hold = hold, .ttl_ns = ns });
}

int person_open(struct person *p, unsigned flags)
{
	return person_do(p, (struct command){ .op = OPEN, .flags = flags });
}

int person_close(struct person *p)
{
	return person_do(p, (struct command){ .op = CLOSE });
}

int person_current(struct person *p)
{
	return person_do(p, (struct command){ .op = CURRENT });
}

int person_destroy(struct person *p)
{
	return person_do(p, (struct command){ .op = DESTROY });
}

int person_create(struct person *p, mode_t mode)
{
	return person_do(p, (struct command){ .op = CREATE, .mode = (int)mode });
}

int person_look(struct person *p, const char *key)
{
	struct command c = { .op = LOOK };

	snprintf(c.key, sizeof(c.key), "%s", key);
	return person_do(p, c);
}

int person_call(struct person *p, int (*function)(void))
{
	return person_do(p, (struct command){ .op = CALL, .function = function });
}

/* ---------------------------------------------------------------- those who wait */

struct waiters {
	const char *key;
	size_t wanted, seen;
};

static int see_waiters(const struct lockshm_lock_info *lock, void *arg)
{
	struct waiters *w = arg;

	w->seen = lock->waiters;
	return 0;
}

static bool enough_waiters(void *arg)
{
	struct waiters *w = arg;

	CHECK_CODE(lockshm_show_lock(env_segment, w->key, strlen(w->key), see_waiters, w), 0);
	return w->seen >= w->wanted;
}

void env_await_waiters(const char *key, size_t n)
{
	struct waiters w = { key, n, 0 };

	env_await(enough_waiters, &w, "waiting");
}

/* ---------------------------------------------------------------- life and death */

static bool needs_between(const struct circumstances *where)
{
	return where->pid_namespace || where->time_offset || where->inherit;
}

/* What comes before the first command.  False = it has ended without a word. */
static bool hear(struct person *p, struct greeting *greeting)
{
	return await_message(p) && recv(p->fd, greeting, sizeof(*greeting), 0) == (ssize_t)sizeof(*greeting);
}

static void introduce(struct person *p, const struct circumstances *where)
{
	struct greeting greeting;
	unsigned left;

	for (left = needs_between(where) ? 2 : 1; left > 0; left--) {
		if (!hear(p, &greeting))
			env_fail(__FILE__, __LINE__, "person %d ended before it began", (int)p->pid);
		if (greeting.error)
			env_skip("not possible here: %s: %s", greeting.what, strerror(greeting.error));
		if (!greeting.ready)
			p->pid = greeting.pid;
	}
}

struct person *person_start(const struct circumstances *where)
{
	static const struct circumstances like_us;
	struct person *p = calloc(1, sizeof(*p));
	const struct person *other;
	int fds[2];

	if (!where)
		where = &like_us;
	if (!p || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		env_broken("socketpair");
	fflush(NULL);
	p->pid = fork();
	if (p->pid < 0)
		env_broken("fork");
	if (p->pid == 0) {
		for (other = persons; other; other = other->next)
			if (other->fd >= 0)
				close(other->fd);
		close(fds[0]);
		if (needs_between(where))
			person_stand_between(where, fds[1]);
		person_live(where, fds[1]);
	}
	close(fds[1]);
	p->fd = fds[0];
	p->between = needs_between(where) ? p->pid : 0;
	p->alive = true;
	p->next = persons;
	persons = p;
	introduce(p, where);
	if (!where->dont_open && person_open(p, where->open_flags) == PERSON_ENDED)
		env_fail(__FILE__, __LINE__, "person %d ended while it opened the segment", (int)p->pid);
	return p;
}

void person_kill(struct person *p)
{
	kill(p->pid, SIGKILL);
	if (waitpid(p->between ? p->between : p->pid, NULL, 0) < 0)
		env_broken("waitpid");
	p->alive = false;
	close(p->fd);
	p->fd = -1;
}

static char state_of(pid_t pid)
{
	char path[64], text[512], *paren;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	paren = strrchr(text, ')');
	return paren && paren[1] ? paren[2] : 0;
}

static bool is_stopped(void *arg)
{
	return state_of(*(pid_t *)arg) == 'T';
}

void person_stop(struct person *p)
{
	kill(p->pid, SIGSTOP);
	env_await(is_stopped, &p->pid, "SIGSTOP");
}

void person_continue(struct person *p)
{
	kill(p->pid, SIGCONT);
}

/* Also called by a signal handler. */
void persons_end(void)
{
	const struct person *p;

	for (p = persons; p; p = p->next)
		if (p->alive)
			kill(p->pid, SIGKILL);
	for (p = persons; p; p = p->next)
		if (p->alive)
			waitpid(p->between ? p->between : p->pid, NULL, 0);
}
