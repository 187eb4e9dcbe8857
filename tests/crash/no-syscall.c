/* SPDX-License-Identifier: MIT */
/*
 * no-syscall.c - an uncontended acquire and release enters the kernel never and allocates nothing
 *
 * Each case runs in a process of its own: it warms up, puts itself under a seccomp filter that traps every system call
 * but write and exit, and takes and releases 100,000 times.  jemalloc's count of what the thread has allocated must not
 * change in that time.  Two cases come first that must be caught: one that makes a system call and one that allocates.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockshm.h"

/* jemalloc's, if it is linked. */
int mallctl(const char *name, void *old, size_t *old_len, void *new_value, size_t new_len) __attribute__((weak));

/* A sanitizer allocates and makes system calls of its own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

#define PAIRS 100000u
#define WARM 2000u
#define KEYS 500u

enum result { CLEAN = 0, WRONG = 1, SYSTEM_CALL = 2, ALLOCATION = 3, SKIP = 77 };

static lockshm_t *segment;

static int pair(uint32_t key, int mode, int64_t ttl_ns, int64_t timeout_ns)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;

	request.key = &key;
	request.key_len = sizeof(key);
	request.mode = mode;
	request.ttl_ns = ttl_ns;
	request.timeout_ns = timeout_ns;
	return lockshm_acquire(segment, &request, &hold) || lockshm_release(&hold, 0);
}

static int exclusive(uint32_t i)
{
	(void)i;
	return pair(0, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(30), LOCKSHM_SECONDS(5));
}

static int shared(uint32_t i)
{
	(void)i;
	return pair(0, LOCKSHM_SHARED, LOCKSHM_SECONDS(30), LOCKSHM_SECONDS(5));
}

static int strict(uint32_t i)
{
	(void)i;
	return pair(0, LOCKSHM_EXCLUSIVE, LOCKSHM_FOREVER, LOCKSHM_FOREVER);
}

static int acquire_once(uint32_t i)
{
	(void)i;
	return pair(0, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(30), 0);
}

static int many_keys(uint32_t i)
{
	return pair(i * 2654435761u % KEYS, i & 1 ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(30), 0);
}

/* Keys that the segment has never seen, six times as many as it can know: insertion and the forgetting of idle keys. */
static int new_keys(uint32_t i)
{
	return pair(KEYS + i, LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(30), 0);
}

static int renewed(uint32_t i)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int64_t left;

	(void)i;
	request.key = "renewed";
	request.key_len = 7;
	request.tag = "with a tag";
	return lockshm_acquire(segment, &request, &hold) || lockshm_renew(&hold, LOCKSHM_SECONDS(9)) ||
	       lockshm_check(&hold, &left) || lockshm_release(&hold, 0);
}

static int lock_object(uint32_t i)
{
	struct lockshm_request request = LOCKSHM_REQUEST("object");
	static lockshm_lock_t lock;

	/* Each other time it is a new object. */
	if (!(i & 2) && lockshm_lock_init(&lock, segment, &request))
		return 1;
	return lockshm_lock(&lock, segment) || (i & 1 && !lockshm_token(lockshm_lock_hold(&lock))) || lockshm_unlock(&lock);
}

static int calls_kernel(uint32_t i)
{
	return i == WARM + PAIRS / 2 ? syscall(SYS_getppid) < 0 : 0;
}

static int allocates(uint32_t i)
{
	void *volatile block; /* volatile: or the compiler would see through it */

	if (i != WARM + PAIRS / 2)
		return 0;
	block = malloc(100);
	if (!block)
		return 1;
	free(block);
	return 0;
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "  trapped system call %d\n", info->si_syscall);

	(void)sig;
	(void)context;
	if (write(2, text, (size_t)n) != n)
		_exit(WRONG);
	_exit(SYSTEM_CALL);
}

static int forbid_system_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };
	struct sigaction act = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };

	if (sigaction(SIGSYS, &act, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static uint64_t *allocated_bytes(void)
{
	uint64_t *p = NULL;
	size_t size = sizeof(p);

	return !mallctl || mallctl("thread.allocatedp", &p, &size, NULL, 0) ? NULL : p;
}

/* In the child: the result is its exit status. */
static enum result watch(int (*step)(uint32_t))
{
	uint64_t *allocated = allocated_bytes(), before;

	for (uint32_t i = 0; i < WARM; i++)
		if (step(i))
			return WRONG;
	if (!allocated || forbid_system_calls())
		return SKIP;
	before = *allocated;
	for (uint32_t i = WARM; i < WARM + PAIRS; i++)
		if (step(i))
			return WRONG;
	return *allocated == before ? CLEAN : ALLOCATION;
}

static enum result run(int (*step)(uint32_t))
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(watch(step));
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return WRONG;
	return (enum result)WEXITSTATUS(status);
}

static const struct {
	const char *name;
	int (*step)(uint32_t);
	enum result expected;
} cases[] = {
	{ "control_system_call_is_caught", calls_kernel, SYSTEM_CALL },
	{ "control_allocation_is_caught", allocates, ALLOCATION },
	{ "exclusive_pair", exclusive, CLEAN },
	{ "shared_pair", shared, CLEAN },
	{ "strict_pair", strict, CLEAN },
	{ "try_pair", acquire_once, CLEAN },
	{ "pairs_of_many_keys", many_keys, CLEAN },
	{ "pairs_of_new_keys", new_keys, CLEAN },
	{ "renew_and_check", renewed, CLEAN },
	{ "pairs_of_a_lock_object", lock_object, CLEAN },
};

static int run_all(void)
{
	static const char *const words[] = { "clean", "an operation failed", "a system call", "an allocation" };
	int failed = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum result v = run(cases[i].step);

		if (v == SKIP) {
			printf("skipped: no seccomp filter, or no jemalloc, on this system\n");
			return SKIP;
		}
		printf("%s %s: %s\n", v == cases[i].expected ? "ok  " : "FAIL", cases[i].name,
		       v <= ALLOCATION ? words[v] : "ended strangely");
		failed |= v != cases[i].expected;
	}
	return failed;
}

int main(void)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_error error;
	char name[64];
	int rc;

#ifdef SANITIZED
	printf("skipped: built with a sanitizer\n");
	return SKIP;
#endif
	snprintf(name, sizeof(name), "/test-no-syscall-%d", (int)getpid());
	rc = lockshm_create(&segment, name, &options, &error);
	if (rc) {
		printf("FAIL create: %s\n", error.message);
		return 1;
	}
	rc = run_all();
	lockshm_close(segment);
	lockshm_destroy(name, NULL);
	return rc;
}
