/* SPDX-License-Identifier: MIT */
/*
 * child.c - a command to run: start it, relay signals, collect its exit status
 *
 * All relayed signals are blocked before the fork and taken one at a time by sigtimedwait(), so that none is handled
 * between two instructions and none is lost: a signal that arrives before the command exists stays pending until it
 * does.  The signalfd only makes pending signals pollable, together with the notification that the lock is lost.
 *
 * The command is in the process group of the program that the caller started, as without that.  So a signal of the
 * terminal (control C and the like) has reached it already and is not relayed; a signal to the program alone is.  When
 * the terminal stops the command, the program stops too, because the shell waits for the program.
 *
 * The command dies with its parent: PR_SET_PDEATHSIG, which the kernel forgets when a process changes its user or its
 * rights.  What the parent's own parent does then is in keeper.c.  If that one was killed the command is ended, with
 * all that it has started.
 *
 * The last descendant has ended when the pipe that all of them inherit has no writer left.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

/** Longest delay between the two SIGCONT of one continuation. */
#define CONTINUED_MS 1000

struct child {
	struct child_watch *watch;
	struct child_end *end;
	pid_t parent;
	pid_t pid;
	sigset_t awaited; /**< relayed signals and SIGCHLD */
	int signals;      /**< signalfd: readable while one of them is pending */
	int keep_pipe[2]; /**< inherited by all descendants; -1 = none */
	volatile int exec_errno;
	int look_ms;      /**< until the next call of watch->look() */
	bool ended;
	bool let_go;      /**< no wait for descendants */
	bool continued;   /**< it was continued, and the parent may get a SIGCONT, too */
	int ending;       /**< what all descendants get: SIGKILL when the front is dead, 0 when a signal has told them to end,
			   *   -1 = they are not waited for */
	struct descendants group;
};

/* --- Start ------------------------------------------------------------------------------------------- */

/**
 * In the new process, which shares the parent's memory until the exec (vfork()): so nothing is changed in it that the
 * parent uses, but for @child's exec_errno.
 */
static void __attribute__((noreturn)) become_command(struct child *child, char **argv, char **envp)
{
	struct front *front = child->watch->front;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* If the parent died before that call, no signal comes. */
	if (getppid() != child->parent)
		_exit(EXIT_FAILED);
	if (front)
		front->command = getpid();
	if (child->watch->keep)
		fcntl(child->keep_pipe[1], F_SETFD, 0);
	signals_restore();
	execvpe(argv[0], argv, envp);
	child->exec_errno = errno;
	_exit(child->exec_errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

static int start(struct child *child, char **argv, char **envp)
{
	int cause;

	if (child->watch->keep && pipe2(child->keep_pipe, O_CLOEXEC) < 0)
		return -1;
	child->parent = getpid();
	child->pid = vfork();
	if (child->pid == 0)
		become_command(child, argv, envp);
	cause = errno;
	if (child->watch->keep)
		close(child->keep_pipe[1]);
	if (child->pid > 0) {
		child->group.command = child->pid;
		if (child->watch->front)
			keeper_tell(child->watch->front);
		return 0;
	}
	if (child->watch->keep)
		close(child->keep_pipe[0]);
	errno = cause;
	return -1;
}

/* --- Signals ----------------------------------------------------------------------------------------- */

/** Signals by which a job is ended. */
static bool ends_job(int sig)
{
	return sig == SIGHUP || sig == SIGINT || sig == SIGQUIT || sig == SIGTERM;
}

/** To the command; with watch->group to all that it has started, which is then waited for. */
static void send_to_command(struct child *child, int sig, const siginfo_t *info)
{
	if (child->watch->group && ends_job(sig)) {
		descendants_signal(&child->group, sig);
		if (child->ending < 0)
			child->ending = 0;
	} else if (child->ended) {
		/* Its number may be another process's. */
	} else if (info) {
		signals_pass(child->pid, sig, info);
	} else {
		kill(child->pid, sig);
	}
}

static void relay(struct child *child, int sig, const siginfo_t *info)
{
	if (sig == SIGCHLD || signals_of_terminal(sig, info))
		return;
	if (sig == SIGCONT && child->continued)
		return;
	/* A signal from the command to its own group must not come back to the command. */
	if ((info->si_code == SI_USER || info->si_code == SI_QUEUE) && info->si_pid == child->pid)
		return;
	send_to_command(child, sig, info);
}

/** The command has ended, and its descendants are waited for. */
static void end_wait(struct child *child, int sig)
{
	if (!signals_ends(sig))
		return;
	child->end->signal = sig;
	child->let_go = true;
}

/** The front is dead. */
static void end_all(struct child *child)
{
	child->ending = SIGKILL;
	descendants_signal(&child->group, SIGKILL);
	/* Where /proc cannot be read.  Not before: the others are found by their parents. */
	if (!child->ended)
		kill(child->pid, SIGKILL);
	keeper_leave_streams();
}

static void take_signals(struct child *child)
{
	siginfo_t info;
	int sig;

	while ((sig = signals_next(&child->awaited, &info)) > 0) {
		if (child->ending != SIGKILL && child->watch->front && keeper_is_alone(child->watch->front)) {
			/* SIGTERM is that news. */
			end_all(child);
		} else if (!child->ended || !child->watch->keep) {
			relay(child, sig, &info);
		} else {
			end_wait(child, sig);
		}
	}
}

static bool still_stopped(const void *arg)
{
	const struct child *child = arg;
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WCONTINUED | WNOHANG | WNOWAIT) < 0 || !info.si_pid;
}

/** The command was stopped: stop as well, unless by SIGSTOP, which is for the command alone.  A keeper goes on. */
static void stop_too(struct child *child, int sig)
{
	struct front *front = child->watch->front;

	if (!signals_stop(sig))
		return;
	if (!front) {
		signals_stop_self(sig, still_stopped, child);
		return;
	}
	front->stopped = sig;
	keeper_tell(front);
}

static void go_on(struct child *child)
{
	struct front *front = child->watch->front;

	child->continued = true;
	if (!front || !front->stopped)
		return;
	front->stopped = 0;
	if (!keeper_is_alone(front))
		kill(front->pid, SIGCONT);
}

/* --- End --------------------------------------------------------------------------------------------- */

static void note_change(struct child *child, const siginfo_t *info)
{
	switch (info->si_code) {
	case CLD_EXITED:
		child->end->exit_status = info->si_status;
		child->ended = true;
		break;
	case CLD_KILLED:
	case CLD_DUMPED:
		child->end->exit_status = EXIT_BY_SIGNAL + info->si_status;
		child->ended = true;
		break;
	case CLD_CONTINUED:
		go_on(child);
		break;
	case CLD_STOPPED:
		child->continued = false;
		stop_too(child, info->si_status);
		break;
	}
}

/** Process all state changes of the command, and the ends of what it left behind. */
static void reap(struct child *child)
{
	for (;;) {
		siginfo_t info = { .si_pid = 0 };

		if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) < 0 || !info.si_pid)
			return;
		if (info.si_pid == child->pid && !child->ended)
			note_change(child, &info);
	}
}

static void end_early(struct child *child)
{
	const siginfo_t info = { .si_code = SI_USER };

	child->let_go = true;
	child->look_ms = CHILD_LOOK_NEVER;
	if (child->ended)
		return;
	send_to_command(child, SIGTERM, &info);
	/* A stopped process cannot handle it. */
	if (child->watch->group)
		descendants_signal(&child->group, SIGCONT);
	kill(child->pid, SIGCONT);
}

static void look_at_lock(struct child *child)
{
	if (!child->watch->look || child->let_go)
		return;
	child->look_ms = child->watch->look(child->watch->arg, !child->ended);
	if (child->look_ms == CHILD_LOST)
		end_early(child);
}

/** With watch->keep: has any process the pipe open? */
static bool pipe_is_open(const struct child *child)
{
	struct pollfd end = { child->keep_pipe[0], 0, 0 };

	return child->watch->keep && !child->let_go && poll(&end, 1, 0) == 0;
}

static bool is_over(struct child *child)
{
	bool waits = child->ending >= 0 && descendants_signal(&child->group, child->ending) > 0;

	return child->ended && !waits && !pipe_is_open(child);
}

/** Return: the time of look_ms is over. */
static bool await_event(struct child *child)
{
	struct pollfd fds[] = { { child->signals, POLLIN, 0 },
				{ child->let_go ? -1 : child->watch->fd, POLLIN, 0 },
				{ child->ended && !child->let_go ? child->keep_pipe[0] : -1, 0, 0 } };
	bool short_wait = child->continued && (child->look_ms < 0 || child->look_ms > CONTINUED_MS);
	int ready = poll(fds, 3, short_wait ? CONTINUED_MS : child->look_ms);

	if (ready == 0 && child->continued)
		child->continued = false;
	return ready == 0 ? !short_wait : ready > 0 && fds[1].revents;
}

static void supervise(struct child *child)
{
	look_at_lock(child);
	while (!is_over(child)) {
		bool must_look = await_event(child);

		/* Before: a SIGCONT of both is known by the command's; after: the SIGCHLD of an end is taken. */
		reap(child);
		take_signals(child);
		reap(child);
		if (must_look)
			look_at_lock(child);
	}
	descendants_forget(&child->group);
}

static void set_end(const struct child *child)
{
	child->end->exec_errno = child->exec_errno;
	child->end->started = !child->exec_errno;
}

int child_run(char **argv, char **envp, struct child_watch *watch, struct child_end *end)
{
	struct child child = { .watch = watch, .end = end, .keep_pipe = { -1, -1 }, .look_ms = CHILD_LOOK_NEVER,
			       .ending = -1 };
	int cause;

	memset(end, 0, sizeof(*end));
	signals_await(&child.awaited);
	if (signals_caught()) {
		end->exit_status = EXIT_BY_SIGNAL + signals_caught();
		return 0;
	}
	child.signals = signalfd(-1, &child.awaited, SFD_CLOEXEC | SFD_NONBLOCK);
	if (child.signals < 0)
		return -1;
	if (start(&child, argv, envp) < 0) {
		cause = errno;
		close(child.signals);
		errno = cause;
		return -1;
	}
	supervise(&child);
	set_end(&child);
	close(child.signals);
	if (watch->keep)
		close(child.keep_pipe[0]);
	return 0;
}
