/* SPDX-License-Identifier: MIT */
/*
 * subject-life.c - the process of a subject: into its environment, then command after command
 */
#define _GNU_SOURCE
#include "subject-life.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

lockshm_t *my_segment;
lockshm_hold_t my_holds[SUBJECT_HOLDS];

/* ---------------------------------------------------------------- commands */

static int my_acquire(const struct command *c, struct answer *answer)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	int status;

	request.key = c->key;
	request.key_len = strlen(c->key);
	request.mode = c->mode;
	request.ttl_ns = c->ttl_ns;
	request.timeout_ns = c->timeout_ns;
	request.flags = (c->flags & ~ACKNOWLEDGES) | LOCKSHM_ROBUST;
	request.tag = "subject";
	answer->report = (struct lockshm_report)LOCKSHM_REPORT_INIT;
	request.report = &answer->report;
	status = lockshm_acquire(my_segment, &request, &my_holds[c->hold]);
	return c->flags & ACKNOWLEDGES ? acknowledge_told(status, &my_holds[c->hold]) : status;
}

static int my_create(const struct command *c, struct answer *answer)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;

	options.keys = 64;
	options.requests = 64;
	options.owners = 16;
	options.permissions = (mode_t)c->mode;
	return lockshm_create(&my_segment, env_name, &options, &answer->report.error);
}

static int look_at(const char *key, struct answer *answer)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	bool first = true;
	int code;

	EACH_ROW(row, code, my_segment, LOCKSHM_LIST_KEY, key, strlen(key))
	{
		if (!row.holders || !row.request.state || !first)
			continue;
		answer->expires_ns = row.request.expires_in_ns;
		answer->token = row.request.token;
		first = false;
	}
	return code;
}

static int obey(const struct command *c, struct answer *answer)
{
	switch (c->op) {
	case ACQUIRE:
		return my_acquire(c, answer);
	case RELEASE:
		return lockshm_release(&my_holds[c->hold], 0);
	case CHECK_HOLD:
		return lockshm_check(&my_holds[c->hold], &answer->remaining_ns);
	case RENEW:
		return lockshm_renew(&my_holds[c->hold], c->ttl_ns);
	case OPEN:
		return lockshm_open(&my_segment, env_name, c->flags, &answer->report.error);
	case CLOSE:
		return lockshm_close(my_segment);
	case CURRENT:
		return lockshm_current(my_segment);
	case DESTROY:
		return lockshm_destroy(env_name, &answer->report.error);
	case CREATE:
		return my_create(c, answer);
	case LOOK:
		return look_at(c->key, answer);
	default:
		return c->function();
	}
}

static void serve(int fd) __attribute__((noreturn));

static void serve(int fd)
{
	struct command command;
	struct answer answer;

	while (recv(fd, &command, sizeof(command), 0) == (ssize_t)sizeof(command)) {
		memset(&answer, 0, sizeof(answer));
		answer.code = obey(&command, &answer);
		answer.pid = getpid();
		answer.tid = (pid_t)syscall(SYS_gettid);
		if (!answer.token && command.op <= RENEW)
			answer.token = lockshm_token(&my_holds[command.hold]);
		if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) != (ssize_t)sizeof(answer))
			break;
	}
	_exit(0);
}

int subject_forbid(const int *calls, unsigned n, int error)
{
	struct sock_filter code[32] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
	struct sock_fprog program = { .filter = code };
	unsigned i, len = 1;

	if (n > 30)
		return -1;
	for (i = 0; i < n; i++)
		code[len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i],
							   (uint8_t)(n - i), 0);
	code[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error);
	program.len = (unsigned short)len;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* ---------------------------------------------------------------- environment */

static int set_time_offset(int64_t seconds)
{
	char text[128];
	int n, fd;

	if (unshare(CLONE_NEWTIME) != 0)
		return -1;
	n = snprintf(text, sizeof(text), "monotonic %lld 0\nboottime %lld 0\n", (long long)seconds, (long long)seconds);
	fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, (size_t)n) != n)
		return -1;
	return close(fd);
}

static int set_user(const struct environment *where)
{
	if (setgroups(where->group ? 1 : 0, &where->group) != 0 || setgid(where->gid) != 0)
		return -1;
	return setuid(where->uid);
}

static int mount_own_proc(void)
{
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return -1;
	return mount("proc", "/proc", "proc", 0, NULL);
}

static void greet(int fd, const struct greeting *greeting)
{
	if (send(fd, greeting, sizeof(*greeting), MSG_NOSIGNAL) != (ssize_t)sizeof(*greeting))
		_exit(4);
}

static void refuse(int fd, const char *what) __attribute__((noreturn));

static void refuse(int fd, const char *what)
{
	struct greeting greeting = { .error = errno ? errno : EINVAL };

	snprintf(greeting.what, sizeof(greeting.what), "%s", what);
	greet(fd, &greeting);
	_exit(3);
}

void subject_live(const struct environment *where, int fd)
{
	static const struct greeting ready = { .ready = true };
	static const struct rlimit no_core = { 0, 0 };

	/* Some are to die by a signal. */
	setrlimit(RLIMIT_CORE, &no_core);
	lockshm_close(env_segment); /* inherited: a subject opens the segment by itself */
	errno = 0;
	if (where->mount_proc && mount_own_proc() != 0)
		refuse(fd, "a /proc of its own");
	if (where->change_user && set_user(where) != 0)
		refuse(fd, "another user");
	if (where->prepare && where->prepare(where->arg) != 0)
		refuse(fd, "prepare()");
	/* Last: it does not outlive a change of user. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	greet(fd, &ready);
	serve(fd);
}

void subject_stand_between(const struct environment *where, int fd)
{
	struct greeting greeting = { .error = 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	errno = 0;
	if (where->time_offset && set_time_offset(where->time_offset) != 0)
		refuse(fd, "a time namespace");
	if (where->pid_namespace && unshare(CLONE_NEWPID) != 0)
		refuse(fd, "a pid namespace");
	if (where->inherit && where->inherit(where->arg) != 0)
		refuse(fd, "inherit()");
	greeting.pid = fork();
	if (greeting.pid == 0)
		subject_live(where, fd);
	if (greeting.pid < 0)
		refuse(fd, "fork()");
	greet(fd, &greeting);
	close(fd);
	waitpid(greeting.pid, NULL, 0);
	_exit(0);
}
