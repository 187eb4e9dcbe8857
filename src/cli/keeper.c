/* SPDX-License-Identifier: MIT */
/*
 * keeper.c - a process that holds a lock for the one that the caller started
 *
 *	shell -> front -> keeper -> command
 *
 * SIGKILL ends the process that the caller started, the front, and no process can prevent it.  So the front holds
 * nothing: the keeper has the lock and is the parent of the command, and learns the front's death from the kernel
 * (PR_SET_PDEATHSIG).  It then ends the command and what that has started before it releases the lock; what it may not
 * signal keeps the lock until it ends.  If the keeper is killed the lock is free, and the front ends the same processes
 * at once.  Both are subreapers, so neither loses a process that has changed its user or lost its parent.
 *
 * The front relays signals.  All three are in one process group.  A keeper in one of its own would be the only process
 * that keeps the group from being orphaned: at the command's end the kernel would then send SIGHUP to the whole group if
 * a process of it is stopped.  What the terminal sends has reached the command already, unless it comes before the
 * command is there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

struct front *keeper_front(void)
{
	struct front *front = mmap(NULL, sizeof(*front), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (front == MAP_FAILED) {
		message("out of memory%s", limit_of(errno));
		exit(EXIT_FAILED);
	}
	front->pid = getpid();
	return front;
}

/* --- The keeper -------------------------------------------------------------------------------------- */

bool keeper_is_alone(const struct front *front)
{
	return !front->left && getppid() != front->pid;
}

void keeper_tell(const struct front *front)
{
	if (!keeper_is_alone(front))
		kill(front->pid, SIGCHLD);
}

bool keeper_leave(struct front *front)
{
	prctl(PR_SET_PDEATHSIG, 0);
	if (keeper_is_alone(front))
		return false;
	front->left = 1;
	kill(front->pid, SIGCHLD);
	return true;
}

void keeper_leave_streams(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct stat st;

	if (null < 0)
		return;
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	if (fstat(STDERR_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		dup2(null, STDERR_FILENO);
	close(null);
}

static void __attribute__((noreturn)) become_keeper(struct front *front, int (*keep)(void *arg), void *arg)
{
	int status;

	prctl(PR_SET_NAME, KEEPER_NAME);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	/* If the front died before that call, no signal comes. */
	if (keeper_is_alone(front))
		_exit(EXIT_FAILED);
	status = keep(arg);
	front->over = 1;
	_exit(status);
}

/* --- The front --------------------------------------------------------------------------------------- */

/** What the process had started before it executed this program. */
static struct descendants others = { .all = true };

static bool is_stopped(const void *arg)
{
	const struct front *front = arg;

	return front->stopped != 0;
}

static bool always(const void *arg)
{
	(void)arg;
	return true;
}

/** The keeper sends SIGCONT when the command goes on. */
static void stop_with_command(const struct front *front)
{
	int sig = front->stopped;

	if (sig)
		signals_stop_self(sig, is_stopped, front);
}

/** A stop while the keeper waits for the lock. */
static void stop_with_keeper(const struct front *front, int sig)
{
	kill(front->keeper, SIGSTOP);
	signals_stop_self(sig, always, NULL);
	kill(front->keeper, SIGCONT);
}

/** While the keeper waits for the lock. */
static void end_wait(struct front *front, int sig)
{
	if (signals_ignored(sig))
		return;
	if (!front->caught)
		front->caught = sig;
	kill(front->keeper, SIGTERM);
}

static void relay(struct front *front, int sig, const siginfo_t *info, bool joined)
{
	bool from_process = info->si_code == SI_USER || info->si_code == SI_QUEUE;

	/* The keeper's own, and one from the command to its group, which must not come back to the command. */
	if (from_process && (info->si_pid == front->keeper || info->si_pid == front->command))
		return;
	if (joined && signals_of_terminal(sig, info))
		return;
	if (!front->command && signals_stop(sig))
		stop_with_keeper(front, sig);
	else if (!front->command && signals_ends(sig))
		end_wait(front, sig);
	else
		signals_pass(front->keeper, sig, info);
}

/** The keeper has ended early, so the lock is free.  Return: the status. */
static int end_descendants(const struct front *front, const siginfo_t *end)
{
	/* The kernel has killed the command as well: which of the others had it as their parent is not known any more. */
	struct descendants group = { .command = front->command, .all = true, .others = &others };

	/* Before the look at /proc; only while it is a child, as its number may be used again after that. */
	if (front->command && waitid(P_PID, (id_t)front->command, NULL, WEXITED | WNOHANG | WNOWAIT) == 0)
		kill(front->command, SIGKILL);
	while (descendants_signal(&group, SIGKILL) > 0)
		while (waitid(P_ALL, 0, NULL, WEXITED) < 0 && errno == EINTR)
			;
	descendants_forget(&group);
	if (end->si_code == CLD_EXITED) {
		/* After a message of its own: the segment was truncated. */
		return end->si_status;
	}
	message(front->command ? "the process that held the lock was ended by signal %d; the command was killed" :
				 "the process that waits for the lock was ended by signal %d", end->si_status);
	return front->command ? EXIT_LOST : EXIT_FAILED;
}

/** Return: it has ended. */
static bool keeper_has_ended(const struct front *front, int *status)
{
	siginfo_t info = { .si_pid = 0 };

	/* It is reaped: a signal to its number would be lost, and its command is the front's child now. */
	if (waitid(P_PID, (id_t)front->keeper, &info, WEXITED | WNOHANG) < 0 || !info.si_pid)
		return false;
	*status = front->over && info.si_code == CLD_EXITED ? info.si_status : end_descendants(front, &info);
	return true;
}

static int stand_in(struct front *front, const sigset_t *awaited)
{
	bool joined = false;
	int status = EXIT_OK;

	while (!front->left && !keeper_has_ended(front, &status)) {
		/* What arrives after the command is there, and after no signal was left, has reached it. */
		bool has_joined = front->command != 0;
		siginfo_t info;
		int sig = signals_next(awaited, &info);

		if (sig < 0) {
			joined = has_joined;
			sig = sigwaitinfo(awaited, &info);
		}
		if (sig == SIGCHLD)
			stop_with_command(front);
		else if (sig > 0)
			relay(front, sig, &info, joined);
	}
	return status;
}

int keeper_run(struct front *front, int (*keep)(void *arg), void *arg)
{
	sigset_t awaited;
	pid_t keeper;

	signals_await(&awaited);
	descendants_signal(&others, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	keeper = fork();
	if (keeper == 0)
		become_keeper(front, keep, arg);
	front->keeper = keeper;
	if (keeper > 0)
		return stand_in(front, &awaited);
	message("cannot start a process: %s%s", strerror(errno), limit_of(errno));
	return EXIT_FAILED;
}
