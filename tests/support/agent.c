/* SPDX-License-Identifier: MIT */
/*
 * agent.c - both ends of the scripted processes: first the agent's side, then the test's
 *
 * One message of a socket pair is one command or one answer.  A new seat's socket travels to the agent with the command
 * that makes it.  The test's ends are closed in every new process, so that the end of an agent is seen as the end of
 * its socket.
 */
#define _GNU_SOURCE
#include "agent.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/segment.h"
#include "fixture.h"

#define AGENTS_MAX 512

static struct agent *agents[AGENTS_MAX];
static unsigned n_agents;

/* ---------------------------------------------------------------------------------------------------------------- *
 * The agent's side
 */
static lockshm_t *my_segment;
static lockshm_hold_t holds[AGENT_HOLDS];
static lockshm_canceller_t cancellers[AGENT_HOLDS];

static void serve(int fd) __attribute__((noreturn));

static bool receive(int fd, struct agent_command *command, int *passed_fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { command, sizeof(*command) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *header;
	ssize_t n;

	*passed_fd = -1;
	do
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	header = CMSG_FIRSTHDR(&msg);
	if (n == (ssize_t)sizeof(*command) && header)
		memcpy(passed_fd, CMSG_DATA(header), sizeof(int));
	return n == (ssize_t)sizeof(*command);
}

static void *thread_main(void *arg)
{
	serve((int)(intptr_t)arg);
}

static int make_thread(int fd)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, thread_main, (void *)(intptr_t)fd) == 0 ? 0 : LOCKSHM_SYSTEM;
}

static void close_test_ends(void)
{
	unsigned i;

	for (i = 0; i < n_agents; i++)
		close(agents[i]->fd);
	n_agents = 0;
}

static int notices = -1; /* eventfd of this process */

/* The child replies on its own socket, the parent on @own_fd. */
static int make_child(int own_fd, int fd)
{
	pid_t pid = fork();

	if (pid == 0) {
		/* No PDEATHSIG: a child may outlive its parent.  It ends with the test's end of its socket. */
		close(own_fd);
		notices = -1;
		serve(fd);
	}
	close(fd);
	return pid > 0 ? 0 : LOCKSHM_SYSTEM;
}

/* A process of its own has not the handle that it inherited from the test, but one that it made. */
static int open_own(const char *name, struct lockshm_error *error)
{
	int code = lockshm_open(&my_segment, name, 0, error);

	if (code || my_segment->opens == 1)
		return code;
	while (lockshm_close(my_segment) == 0)
		;
	return lockshm_open(&my_segment, name, 0, error);
}

static int do_acquire(const struct agent_command *c, struct agent_answer *answer)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	int status;

	request.key = c->key;
	request.key_len = strlen(c->key);
	request.mode = c->how;
	request.flags = c->flags & ~(AGENT_PLAIN | ACKNOWLEDGES);
	if (!(c->flags & (AGENT_PLAIN | LOCKSHM_GLOBAL)))
		request.flags |= LOCKSHM_ROBUST;
	request.ttl_ns = c->ns ? c->ns : LOCKSHM_FOREVER;
	request.timeout_ns = c->timeout_ns == AGENT_TRY ? 0 : c->timeout_ns ? c->timeout_ns : PATIENCE;
	request.tag = c->tag[0] ? c->tag : NULL;
	request.canceller = c->cancellable ? &cancellers[c->hold] : NULL;
	answer->report = (struct lockshm_report)LOCKSHM_REPORT_INIT;
	request.report = &answer->report;
	request.redis_policy = c->policy;
	request.max_hold_ns = c->max_ns;
	status = lockshm_acquire(my_segment, &request, &holds[c->hold]);
	return c->flags & ACKNOWLEDGES ? acknowledge_told(status, &holds[c->hold]) : status;
}

static int do_notify(const struct agent_command *c)
{
	if (notices < 0)
		notices = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return lockshm_notify(&holds[c->hold], c->how < 0 ? -1 : notices);
}

static int do_notice(const struct agent_command *c)
{
	int64_t timeout = c->timeout_ns == AGENT_TRY ? 0 : c->timeout_ns ? c->timeout_ns : PATIENCE;
	struct pollfd p = { .fd = notices, .events = POLLIN };
	uint64_t n = 0;

	if (poll(&p, 1, (int)(timeout / LOCKSHM_MS(1))) != 1)
		return LOCKSHM_TIMEOUT;
	return read(notices, &n, sizeof(n)) == sizeof(n) ? (int)n : LOCKSHM_SYSTEM;
}

static int do_hold_op(const struct agent_command *c, struct agent_answer *answer)
{
	lockshm_hold_t *hold = &holds[c->hold];

	switch (c->op) {
	case AGENT_RELEASE:
		return lockshm_release(hold, c->ns);
	case AGENT_RENEW:
		return lockshm_renew(hold, c->ns);
	case AGENT_EXTEND:
		return lockshm_extend(hold, c->ns);
	case AGENT_CHECK:
		return lockshm_check(hold, &answer->remaining_ns);
	case AGENT_UPGRADE:
		return lockshm_upgrade(hold);
	case AGENT_DOWNGRADE:
		return lockshm_downgrade(hold);
	case AGENT_ACKNOWLEDGE:
		return lockshm_acknowledge(hold);
	case AGENT_MOVE:
		return lockshm_move(hold, c->how);
	case AGENT_NOTIFY:
		return do_notify(c);
	case AGENT_NOTICE:
		return do_notice(c);
	case AGENT_CANCEL:
		return lockshm_cancel(&cancellers[c->hold]);
	case AGENT_UNCANCEL:
		cancellers[c->hold] = (lockshm_canceller_t)LOCKSHM_CANCELLER_INIT;
		return 0;
	default:
		return LOCKSHM_INVALID;
	}
}

static void become_another_program(void)
{
	/* Every socket is close-on-exec, so the test sees the end of this agent when the exec is done. */
	execl("/bin/sleep", "sleep", "120", (char *)NULL);
	_exit(127);
}

static int do_command(int fd, const struct agent_command *c, int passed_fd, struct agent_answer *answer)
{
	switch (c->op) {
	case AGENT_OPEN:
		return open_own(c->key, &answer->report.error);
	case AGENT_CLOSE:
		return lockshm_close(my_segment);
	case AGENT_CURRENT:
		return lockshm_current(my_segment);
	case AGENT_ACQUIRE:
		return do_acquire(c, answer);
	case AGENT_THREAD:
		return make_thread(passed_fd);
	case AGENT_FORK:
		return make_child(fd, passed_fd);
	case AGENT_EXIT:
		_exit(0);
	case AGENT_EXIT_THREAD:
		close(fd);
		pthread_exit(NULL);
	case AGENT_EXEC:
		become_another_program();
		return LOCKSHM_SYSTEM;
	case AGENT_PING:
		return 0;
	default:
		return do_hold_op(c, answer);
	}
}

static void ignore_signal(int number)
{
	(void)number;
}

/*
 * The test decides what the threads of one agent do in which order, but by way of sockets, through which a race
 * detector does not see.  This makes the order visible to it: from the end of each command to the start of later ones.
 */
static void order_commands(void)
{
	static unsigned turns;

	__atomic_fetch_add(&turns, 1, __ATOMIC_ACQ_REL);
}

static void serve(int fd)
{
	struct agent_command command;
	struct agent_answer answer;
	int passed_fd;

	for (;;) {
		if (!receive(fd, &command, &passed_fd))
			_exit(0);
		order_commands();
		memset(&answer, 0, sizeof(answer));
		answer.code = do_command(fd, &command, passed_fd, &answer);
		answer.at_ns = now_ns();
		answer.pid = getpid();
		answer.tid = (pid_t)syscall(SYS_gettid);
		answer.token = lockshm_token(&holds[command.hold]);
		answer.lost_to = lockshm_lost_to(&holds[command.hold]);
		order_commands();
		if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) != (ssize_t)sizeof(answer))
			_exit(1);
	}
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * The test's side
 */
static struct agent *new_seat(int *agent_end)
{
	struct agent *a = calloc(1, sizeof(*a));
	int fds[2];

	ck_assert(a && n_agents < AGENTS_MAX);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	a->fd = fds[0];
	*agent_end = fds[1];
	agents[n_agents++] = a;
	return a;
}

/* Asks the new seat for its pid and tid. */
static struct agent *introduce(struct agent *a, int agent_end)
{
	close(agent_end);
	ck_code(agent_call(a, AGENT_PING), 0);
	a->pid = a->answer.pid;
	a->tid = a->answer.tid;
	a->alive = a->pid == a->tid;
	return a;
}

struct agent *agent_inherit(void)
{
	int end;
	struct agent *a = new_seat(&end);
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close_test_ends();
		signal(SIGUSR1, ignore_signal);
		my_segment = seg;
		serve(end);
	}
	a->direct = true;
	return introduce(a, end);
}

struct agent *agent_start(void)
{
	struct agent *a = agent_inherit();
	struct agent_command open = { .op = AGENT_OPEN };
	int code;

	snprintf(open.key, sizeof(open.key), "%s", seg_name);
	code = agent_do(a, open);
	ck_assert_msg(code == 0, "agent: open: %s: %s", outcome_name(code), a->answer.report.error.message);
	return a;
}

static void send_with_fd(struct agent *a, int op, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { .bytes = { 0 } };
	struct agent_command command = { .op = op };
	struct iovec iov = { &command, sizeof(command) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&msg);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
	ck_assert(!a->busy);
	ck_assert_int_eq(sendmsg(a->fd, &msg, MSG_NOSIGNAL), (ssize_t)sizeof(command));
	a->busy = true;
}

static struct agent *seat_in(struct agent *of, int op)
{
	int end;
	struct agent *a = new_seat(&end);

	send_with_fd(of, op, end);
	ck_code(agent_end(of), 0);
	return introduce(a, end);
}

struct agent *agent_thread(struct agent *of)
{
	return seat_in(of, AGENT_THREAD);
}

struct agent *agent_child(struct agent *of)
{
	return seat_in(of, AGENT_FORK);
}

void agent_send(struct agent *a, struct agent_command command)
{
	ck_assert(!a->busy);
	ck_assert_int_eq(send(a->fd, &command, sizeof(command), MSG_NOSIGNAL), (ssize_t)sizeof(command));
	a->command = command;
	a->busy = true;
}

static int take_answer(struct agent *a, int timeout_ms)
{
	struct pollfd p = { .fd = a->fd, .events = POLLIN };
	int n = poll(&p, 1, timeout_ms);

	if (n < 0 && errno == EINTR)
		return AGENT_BLOCKED;
	ck_assert_int_ge(n, 0);
	if (n == 0)
		return AGENT_BLOCKED;
	a->busy = false;
	if (recv(a->fd, &a->answer, sizeof(a->answer), 0) == (ssize_t)sizeof(a->answer))
		return a->answer.code;
	a->answer.code = AGENT_DIED;
	return AGENT_DIED;
}

int agent_poll(struct agent *a)
{
	return take_answer(a, 0);
}

int agent_end(struct agent *a)
{
	int64_t end = now_ns() + 2 * PATIENCE;
	int code;

	ck_assert(a->busy);
	do
		code = take_answer(a, 1000);
	while (code == AGENT_BLOCKED && now_ns() < end);
	return code;
}

int agent_do(struct agent *a, struct agent_command command)
{
	agent_send(a, command);
	return agent_end(a);
}

bool agent_waits(const struct agent *a, const char *key)
{
	static struct seen seen;
	size_t i;

	look(key, &seen);
	for (i = seen.holders; i < seen.holders + seen.waiters; i++)
		if (seen.requests[i].pid == a->pid && seen.requests[i].tid == a->tid)
			return true;
	return false;
}

static bool says_it_waits(const struct agent *a)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	bool waits = false;
	int code;

	EACH_ROW(row, code, seg, LOCKSHM_LIST_OWNERS, NULL, 0)
		waits = waits || (row.request.pid == a->pid && row.request.tid == a->tid && row.request.ticket != 0);
	return waits;
}

/*
 * A request is queued a moment before its owner stores what it waits for, and that is a moment before the owner has
 * searched for a cycle.  After its first sleep all of this is done.
 */
static bool sleeps(const struct agent *a)
{
	uint32_t i;

	for (i = 0; i < seg->n_owners; i++) {
		const struct shm_owner *o = &seg->owners[i];
		struct request_ref ref = ref_unpack(load_acquire(&o->waiting));

		if (load_relaxed32(&o->tid) == (uint32_t)a->tid && ref.index != 0 &&
		    load_relaxed32(&seg->requests[ref.index].sleeping) != 0)
			return true;
	}
	return false;
}

static bool answered_or_waiting(void *arg)
{
	struct agent *a = arg;

	return agent_poll(a) != AGENT_BLOCKED ||
	       (agent_waits(a, a->command.key) && says_it_waits(a) && sleeps(a));
}

int agent_begin(struct agent *a, struct agent_command command)
{
	agent_send(a, command);
	ck_assert_msg(await(answered_or_waiting, a), "agent %d neither answers nor waits for '%s'", (int)a->pid,
		      command.key);
	return a->busy ? AGENT_BLOCKED : a->answer.code;
}

int agent_acquire(struct agent *a, const char *key, int mode)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = mode };

	snprintf(c.key, sizeof(c.key), "%s", key);
	return agent_begin(a, c);
}

int agent_take(struct agent *a, const char *key)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = LOCKSHM_EXCLUSIVE };

	snprintf(c.key, sizeof(c.key), "%s", key);
	return agent_do(a, c);
}

void held_by(struct agent *a, const char *key, int mode)
{
	ck_code(agent_acquire(a, key, mode), 0);
}

int agent_try(struct agent *a, const char *key, int mode)
{
	struct agent_command c = { .op = AGENT_ACQUIRE, .how = mode, .timeout_ns = AGENT_TRY };

	snprintf(c.key, sizeof(c.key), "%s", key);
	return agent_do(a, c);
}

int agent_call(struct agent *a, enum agent_op op)
{
	return agent_do(a, (struct agent_command){ .op = op });
}

int agent_release(struct agent *a)
{
	return agent_call(a, AGENT_RELEASE);
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Life and death
 */
static char process_state(const struct agent *a)
{
	char path[64], text[512], *paren;
	size_t n;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)a->pid, (int)a->tid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	paren = strrchr(text, ')');
	return paren && paren[1] ? paren[2] : 0;
}

static bool is_stopped(void *arg)
{
	return process_state(arg) == 'T';
}

static bool is_running(void *arg)
{
	return process_state(arg) != 'T';
}

static bool is_gone(void *arg)
{
	char state = process_state(arg);

	return state == 0 || state == 'Z' || state == 'X';
}

void agent_gone(struct agent *a)
{
	ck_assert(await(is_gone, a));
	if (a->direct)
		waitpid(a->pid, NULL, 0);
	a->direct = a->alive = false;
}

void agent_kill(struct agent *a)
{
	kill(a->pid, SIGKILL);
	agent_gone(a);
}

void agent_stop(struct agent *a)
{
	kill(a->pid, SIGSTOP);
	ck_assert(await(is_stopped, a));
}

void agent_cont(struct agent *a)
{
	kill(a->pid, SIGCONT);
	ck_assert(await(is_running, a));
}

void agent_forget(struct agent *a)
{
	unsigned i;

	for (i = 0; i < n_agents && agents[i] != a; i++)
		;
	ck_assert_uint_lt(i, n_agents);
	agents[i] = agents[--n_agents];
	close(a->fd);
	free(a);
}

void agents_end(void)
{
	unsigned i;

	for (i = 0; i < n_agents; i++)
		if (agents[i]->alive)
			kill(agents[i]->pid, SIGKILL);
	for (i = 0; i < n_agents; i++) {
		if (agents[i]->direct)
			waitpid(agents[i]->pid, NULL, 0);
		close(agents[i]->fd);
		free(agents[i]);
	}
	n_agents = 0;
}
