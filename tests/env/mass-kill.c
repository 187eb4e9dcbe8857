/* SPDX-License-Identifier: MIT */
/*
 * mass-kill.c - every process is killed at once, and those that start then find a good segment
 *
 *   env-mass-kill [ROUNDS]       8 if not given, 3 if emulated
 *
 * Processes take and leave locks as fast as they can, exclusive and shared, robust and plain, with renewal, cooldown, time-outs and
 * moves, until all of them get SIGKILL.  Then no request waits for the dead: each key is free at once, a sweep leaves
 * nothing in use, verify finds nothing, and the tokens of each key are above those of the dead.
 */
#define _GNU_SOURCE
#include "env.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES_MAX 48
#define KEYS 24
#define CALLS 100 /* of each, on average, until they are killed */
#define LEASE LOCKSHM_SECONDS(120) /* longer than any wait for a lock of the dead */

#define TAG "to be killed"
/* A thread that is not scheduled in the middle of such a release for longer than the cooldown is expired by it. */
#define TAG_COOLED "to be cooled"

/* The largest token of each key; written while the key is held. */
static _Atomic uint64_t *tokens;
static _Atomic uint64_t *calls;
static int64_t longest_wait_ns;
static unsigned processes = PROCESSES_MAX;

static void key_name(char out[16], unsigned key)
{
	snprintf(out, 16, "key-%u", key);
}

static void note(unsigned key, uint64_t token)
{
	uint64_t seen = tokens[key];

	while (seen < token && !atomic_compare_exchange_weak(&tokens[key], &seen, token))
		;
}

static void end_somehow(lockshm_hold_t *hold, unsigned how, bool cooled)
{
	if (how % 5 == 0)
		lockshm_renew(hold, LEASE);
	if (how % 7 == 0)
		lockshm_move(hold, LOCKSHM_TO_PROCESS);
	if (how % 3 == 0)
		(void)!lockshm_upgrade(hold);
	/* A shared hold cannot be cooled. */
	if (lockshm_release(hold, cooled ? LOCKSHM_MS(1) : 0) == LOCKSHM_INVALID)
		lockshm_release(hold, 0);
}

static _Noreturn void live(unsigned seed)
{
	lockshm_hold_t holds[2] = { LOCKSHM_HOLD_INIT, LOCKSHM_HOLD_INIT };
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	bool cooled[2] = { false };
	lockshm_t *segment;
	char name[16];
	unsigned i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (lockshm_open(&segment, env_name, 0, NULL) != 0)
		_exit(1);
	for (i = 0;; i ^= 1) {
		unsigned key = (unsigned)rand_r(&seed) % KEYS, how = (unsigned)rand_r(&seed);

		if (lockshm_token(&holds[i]))
			end_somehow(&holds[i], how, cooled[i]);
		key_name(name, key);
		request.key = name;
		request.key_len = strlen(name);
		request.mode = how % 4 ? LOCKSHM_EXCLUSIVE : LOCKSHM_SHARED;
		request.ttl_ns = how % 2 ? LEASE : LOCKSHM_FOREVER;
		request.timeout_ns = how % 2000000;
		cooled[i] = how / 64 % 64 == 0;
		request.flags = how / 4096 % 2 ? LOCKSHM_ROBUST : 0;
		request.tag = cooled[i] ? TAG_COOLED : TAG;
		if (lockshm_acquire(segment, &request, &holds[i]) >= 0)
			note(key, lockshm_token(&holds[i]));
		(*calls)++;
	}
}

static bool called_enough(void *until)
{
	return *calls >= *(uint64_t *)until;
}

static void let_live_and_kill(unsigned round)
{
	uint64_t enough;
	pid_t group = 0;
	int status;
	unsigned i;

	fflush(NULL);
	for (i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			env_broken("fork");
		if (pid == 0) {
			setpgid(0, group);
			live(round * processes + i);
		}
		setpgid(pid, group);
		group = group ? group : pid;
	}
	enough = *calls + CALLS * processes;
	env_await(called_enough, &enough, "traffic");
	CHECK(kill(-group, SIGKILL) == 0);
	for (i = 0; i < processes; i++) {
		if (waitpid(-1, &status, 0) < 0)
			env_broken("waitpid");
		/* No process has ended before, by another signal or for lack of a segment. */
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
			env_fail(__FILE__, __LINE__, "a worker ended with %#x", (unsigned)status);
	}
}

static bool begins(const char *tag, const char *whole)
{
	return strncmp(tag, whole, strlen(tag)) == 0;
}

/* A helper that was killed while it stored damage may have left out a part of the label, never stored another one. */
static bool has_sound_report(int code, const char *tag)
{
	return code == 0 || begins(tag, TAG_COOLED) || (code == LOCKSHM_OWNER_DIED && begins(tag, TAG));
}

/* Like new workers: no key waits for dead holders or waiters. */
static void take_over(unsigned *died)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	char name[16];
	unsigned key;

	for (key = 0; key < KEYS; key++) {
		int code;

		key_name(name, key);
		request.key = name;
		request.key_len = strlen(name);
		request.flags = LOCKSHM_ROBUST;
		request.timeout_ns = ENV_PATIENCE_MS * INT64_C(1000000); /* a cooldown may be on */
		request.report = &report;
		code = acknowledge_told(lockshm_acquire(env_segment, &request, &hold), &hold);
		if (code < 0)
			env_fail(__FILE__, __LINE__, "%s: %s", name, report.error.message);
		if (!has_sound_report(code, report.damage.tag))
			env_fail(__FILE__, __LINE__, "%s: %s by \"%s\"", name, lockshm_code_name(code),
				 report.damage.tag);
		CHECK(lockshm_token(&hold) > tokens[key]);
		longest_wait_ns = report.waited_ns > longest_wait_ns ? report.waited_ns : longest_wait_ns;
		*died += code == LOCKSHM_OWNER_DIED;
		note(key, lockshm_token(&hold));
		CHECK_CODE(lockshm_release(&hold, 0), 0);
	}
}

int main(int argc, char **argv)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	unsigned round, died = 0, rounds = argc > 1 ? (unsigned)atoi(argv[1]) : env_emulated() ? 3 : 8;

	tokens = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tokens == MAP_FAILED)
		env_broken("mmap");
	calls = &tokens[KEYS];
	if (env_emulated())
		processes = 6;
	options.keys = 64;
	options.requests = 1024;
	options.owners = 4 * processes; /* with service threads, and the dead of two rounds */
	env_create(&options);
	for (round = 0; round < rounds; round++) {
		let_live_and_kill(round);
		if (round % 2)
			env_nothing_left(1);
		take_over(&died);
		env_nothing_left(1);
	}
	printf("%u rounds of %u processes, %llu calls; %u holds of the dead taken over, the longest wait %.1f ms\n",
	       rounds, processes, (unsigned long long)*calls, died, (double)longest_wait_ns / 1e6);
	CHECK(died > 0);
	return 0;
}
