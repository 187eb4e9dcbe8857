/* SPDX-License-Identifier: MIT */
/*
 * killed-at-step.c - lockctl run, of which one process is killed at its n-th stop at a system call
 *
 * killed-at-step front|keeper N SLEEPER COMMAND...
 *
 * Runs COMMAND, a lockctl run of the program SLEEPER, under ptrace(2), and kills the process that was started or its
 * child, the keeper.  Then takes "key" of the segment LOCKSHM_TEST_SEGMENT, and at that moment no process of the name of
 * SLEEPER may be alive; if the keeper was killed some time may pass until none is.
 *
 * Exit status: 0 as it should be; 1 not so, after a message; 2 the process waits for the command's end and makes no N-th
 * stop; 3 it ended before.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lockshm.h"

enum { WAITS = 2, ENDED = 3, LOOKS = 60, LOOK_MS = 5, PATIENCE_MS = 20000 };

static const char *sleeper;
static pid_t front, target;
static bool kills_keeper;

static void sleep_ms(long ms)
{
	const struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

static void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

/** The first word of a line of /proc/PID/FILE that begins with @prefix. */
static bool read_word(const char *pid, const char *file, const char *prefix, char word[64])
{
	char path[300], line[256];
	bool found = false;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, file);
	in = fopen(path, "re");
	while (in && !found && fgets(line, sizeof(line), in))
		found = !strncmp(line, prefix, strlen(prefix)) && sscanf(line + strlen(prefix), " %63s", word) == 1;
	if (in)
		fclose(in);
	return found;
}

static bool sleeper_lives(void)
{
	DIR *proc = opendir("/proc");
	char word[64];
	bool found = false;

	for (struct dirent *entry; !found && (entry = readdir(proc));)
		found = *entry->d_name >= '1' && *entry->d_name <= '9' && read_word(entry->d_name, "comm", "", word) &&
			!strcmp(word, sleeper) && read_word(entry->d_name, "status", "State:", word) && *word != 'Z' &&
			*word != 'X';
	closedir(proc);
	return found;
}

/** It sleeps in the kernel, and the command runs. */
static bool target_waits(void)
{
	char pid[16], word[64];

	snprintf(pid, sizeof(pid), "%d", (int)target);
	for (int i = 0; i < LOOKS; i++) {
		/* A stop of the trace is state t. */
		if (!read_word(pid, "status", "State:", word) || *word != 'S' || !sleeper_lives())
			return false;
		sleep_ms(LOOK_MS);
	}
	return true;
}

static void go_on(pid_t pid, int sig)
{
	ptrace(pid == target ? PTRACE_SYSCALL : PTRACE_CONT, pid, NULL, (void *)(intptr_t)sig);
}

/** A stop that is none of the system calls that count. */
static void pass_stop(pid_t pid, int status)
{
	int event = status >> 16, sig = WSTOPSIG(status);

	if (kills_keeper && !target && pid != front)
		target = pid;
	go_on(pid, event || sig == SIGTRAP || (sig == SIGSTOP && pid != front) ? 0 : sig);
}

static int await_step(long n)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, __WALL | WNOHANG);

		if (pid == 0) {
			if (target && target_waits())
				return WAITS;
			sleep_ms(1);
		} else if (pid < 0 || !WIFSTOPPED(status)) {
			if (pid < 0 || pid == target || pid == front)
				return ENDED;
		} else if (pid == target && WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			if (--n == 0)
				return 0;
			go_on(pid, 0);
		} else {
			pass_stop(pid, status);
		}
	}
}

static void start(char **command)
{
	int options = PTRACE_O_TRACESYSGOOD | (kills_keeper ? PTRACE_O_TRACEFORK : 0);

	front = fork();
	if (front == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execv(command[0], command);
		_exit(127);
	}
	waitpid(front, NULL, WUNTRACED);
	ptrace(PTRACE_SETOPTIONS, front, NULL, (void *)(intptr_t)options);
	target = kills_keeper ? 0 : front;
	go_on(front, 0);
}

/** What is traced and not killed is let go. */
static void end_trace(void)
{
	int state;

	kill(target, SIGKILL);
	/* A stop from before that may be reported first; the front learns the death when it has been. */
	while (waitpid(target, &state, __WALL) < 0 ? errno == EINTR : WIFSTOPPED(state))
		;
	if (!kills_keeper)
		return;
	kill(front, SIGSTOP);
	for (int status;;) {
		if (waitpid(front, &status, __WALL) != front || !WIFSTOPPED(status))
			return;
		if (WSTOPSIG(status) == SIGSTOP)
			break;
		go_on(front, WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
	}
	ptrace(PTRACE_DETACH, front, NULL, NULL);
	kill(front, SIGCONT);
}

static void check(void)
{
	struct lockshm_request request = LOCKSHM_REQUEST("key");
	struct lockshm_error error;
	lockshm_t *segment;
	lockshm_hold_t hold;
	int waited = 0;

	if (lockshm_open(&segment, getenv("LOCKSHM_TEST_SEGMENT"), 0, &error) < 0)
		fail(error.message);
	request.timeout_ns = LOCKSHM_MS(PATIENCE_MS);
	if (lockshm_acquire(segment, &request, &hold) < 0)
		fail("the lock is not free");
	if (!kills_keeper && sleeper_lives())
		fail("the command runs without the lock");
	while (sleeper_lives() && waited++ < PATIENCE_MS / LOOK_MS)
		sleep_ms(LOOK_MS);
	if (sleeper_lives())
		fail("the command runs on");
	if (lockshm_release(&hold, 0) != 0)
		fail("lost");
	lockshm_close(segment);
}

int main(int argc, char **argv)
{
	int status;

	if (argc < 5)
		fail("usage: killed-at-step front|keeper N SLEEPER COMMAND...");
	kills_keeper = !strcmp(argv[1], "keeper");
	sleeper = argv[3];
	start(argv + 4);
	status = await_step(atol(argv[2]));
	if (status != ENDED)
		end_trace();
	check();
	return status;
}
