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
static struct subject *subjects;

/* ---------------------------------------------------------------- commands */

static void subject_send(struct subject *p, const struct command *command)
{
	if (send(p->fd, command, sizeof(*command), MSG_NOSIGNAL) != (ssize_t)sizeof(*command) && errno != EPIPE)
		env_broken("send");
}

/* False = none comes. */
static bool await_message(struct subject *p)
{
	struct pollfd poll_one = { .fd = p->fd, .events = POLLIN };
	int n;

	do
		n = poll(&poll_one, 1, ENV_PATIENCE_MS);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

int subject_end(struct subject *p)
{
	if (!await_message(p))
		env_fail(__FILE__, __LINE__, "subject %d does not answer", (int)p->pid);
	p->answered_ns = env_now();
	if (recv(p->fd, &p->answer, sizeof(p->answer), 0) == (ssize_t)sizeof(p->answer))
		return p->answer.code;
	p->answer.code = SUBJECT_ENDED;
	return SUBJECT_ENDED;
}

static int subject_do(struct subject *p, struct command command)
{
	subject_send(p, &command);
	return subject_end(p);
}

static struct command acquire_command(int hold, const char *key, int mode, int64_t ttl_ns, int64_t timeout_ns)
{
	struct command c = { .op = ACQUIRE, .hold = hold, .mode = mode, .ttl_ns = ttl_ns, .timeout_ns = timeout_ns };

	snprintf(c.key, sizeof(c.key), "%s", key);
	return c;
}

int subject_acquire(struct subject *p, int hold, const char *key, int mode, int64_t ttl_ns, int64_t timeout_ns,
		   unsigned flags)
{
	struct command c = acquire_command(hold, key, mode, ttl_ns, timeout_ns);

	c.flags = flags;
	return subject_do(p, c);
}

void subject_begin(struct subject *p, int hold, const char *key, int mode, int64_t ttl_ns, int64_t timeout_ns)
{
	struct command c = acquire_command(hold, key, mode, ttl_ns, timeout_ns);

	subject_send(p, &c);
}

int subject_release(struct subject *p, int hold)
{
	return subject_do(p, (struct command){ .op = RELEASE, .hold = hold });
}

int subject_check(struct subject *p, int hold)
{
	return subject_do(p, (struct command){ .op = CHECK_HOLD, .hold = hold });
}

int subject_renew(struct subject *p, int hold, int64_t ns)
{
	return subject_do(p, (struct command){ .op = RENEW, .hold = hold, .ttl_ns = ns });
}

int subject_open(struct subject *p, unsigned flags)
{
	return subject_do(p, (struct command){ .op = OPEN, .flags = flags });
}

int subject_close(struct subject *p)
{
	return subject_do(p, (struct command){ .op = CLOSE });
}

int subject_current(struct subject *p)
{
	return subject_do(p, (struct command){ .op = CURRENT });
}

int subject_destroy(struct subject *p)
{
	return subject_do(p, (struct command){ .op = DESTROY });
}

int subject_create(struct subject *p, mode_t mode)
{
	return subject_do(p, (struct command){ .op = CREATE, .mode = (int)mode });
}

int subject_look(struct subject *p, const char *key)
{
	struct command c = { .op = LOOK };

	snprintf(c.key, sizeof(c.key), "%s", key);
	return subject_do(p, c);
}

int subject_call(struct subject *p, int (*function)(void))
{
	return subject_do(p, (struct command){ .op = CALL, .function = function });
}

/* ---------------------------------------------------------------- waiters */

struct waiters {
	const char *key;
	size_t wanted;
};

static bool enough_waiters(void *arg)
{
	struct waiters *w = arg;
	struct lockshm_row row;

	CHECK_CODE(key_row(env_segment, w->key, strlen(w->key), &row), 0);
	return row.waiters >= w->wanted;
}

void env_await_waiters(const char *key, size_t n)
{
	struct waiters w = { key, n };

	env_await(enough_waiters, &w, "waiting");
}

/* ---------------------------------------------------------------- life and death */

static bool needs_between(const struct environment *where)
{
	return where->pid_namespace || where->time_offset || where->inherit;
}

/* The messages before the first command.  False = it has ended without one. */
static bool hear(struct subject *p, struct greeting *greeting)
{
	return await_message(p) && recv(p->fd, greeting, sizeof(*greeting), 0) == (ssize_t)sizeof(*greeting);
}

static void introduce(struct subject *p, const struct environment *where)
{
	struct greeting greeting;
	unsigned left;

	for (left = needs_between(where) ? 2 : 1; left > 0; left--) {
		if (!hear(p, &greeting))
			env_fail(__FILE__, __LINE__, "subject %d ended before it began", (int)p->pid);
		if (greeting.error)
			env_skip("not possible here: %s: %s", greeting.what, strerror(greeting.error));
		if (!greeting.ready)
			p->pid = greeting.pid;
	}
}

struct subject *subject_start(const struct environment *where)
{
	static const struct environment like_us;
	struct subject *p = calloc(1, sizeof(*p));
	const struct subject *other;
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
		for (other = subjects; other; other = other->next)
			if (other->fd >= 0)
				close(other->fd);
		close(fds[0]);
		if (needs_between(where))
			subject_stand_between(where, fds[1]);
		subject_live(where, fds[1]);
	}
	close(fds[1]);
	p->fd = fds[0];
	p->between = needs_between(where) ? p->pid : 0;
	p->alive = true;
	p->next = subjects;
	subjects = p;
	introduce(p, where);
	if (!where->dont_open && subject_open(p, where->open_flags) == SUBJECT_ENDED)
		env_fail(__FILE__, __LINE__, "subject %d ended while it opened the segment", (int)p->pid);
	return p;
}

void subject_kill(struct subject *p)
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

void subject_stop(struct subject *p)
{
	kill(p->pid, SIGSTOP);
	env_await(is_stopped, &p->pid, "SIGSTOP");
}

void subject_continue(struct subject *p)
{
	kill(p->pid, SIGCONT);
}

/* Also called by a signal handler. */
void subjects_end(void)
{
	const struct subject *p;

	for (p = subjects; p; p = p->next)
		if (p->alive)
			kill(p->pid, SIGKILL);
	for (p = subjects; p; p = p->next)
		if (p->alive)
			waitpid(p->between ? p->between : p->pid, NULL, 0);
}
