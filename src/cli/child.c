/* SPDX-License-Identifier: MIT */
/*
 * child.c - a command to run: start it, relay signals, collect its exit status
 *
 * All relayed signals are blocked before the fork and taken one at a time by sigtimedwait(), so that none is handled
 * between two instructions and none is lost: a signal that arrives before the command exists stays pending until it
 * does.  The signalfd only makes pending signals pollable, together with the notification that the lock is lost.
 *
 * The command stays in the process group of its parent, as without that.  So a signal of the terminal (control C and
 * the like) has reached it already and is not relayed; a signal to the parent alone is.  When the terminal stops the
 * command, the parent stops too, because the shell waits for the parent.
 *
 * The command dies with its parent: PR_SET_PDEATHSIG.  Its own children do not, see lockctl(1).
 *
 * The last descendant has ended when the pipe that all of them inherit has no writer left.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

/** Longest delay between the two SIGCONT of one continuation. */
#define CONTINUED_MS 100

/** Signal state at the start of the program, restored for the command. */
struct inherited {
	sigset_t mask;
	struct sigaction on_child;
	struct sigaction on_pipe;
};

struct child {
	pid_t pid;
	sigset_t awaited; /**< relayed signals and SIGCHLD */
	int signals; /**< signalfd: readable while one of them is pending */
	int exec_pipe[2]; /**< carries errno if the exec fails, closed by the exec if not */
	int keep_pipe[2]; /**< inherited by all descendants; -1 = none */
	bool terminated;
	bool continued; /**< it was continued, and the parent may get a SIGCONT, too */
	struct inherited inherited;
};

/* --- Start ------------------------------------------------------------------------------------------- */

static void take_signals(struct child *child)
{
	struct sigaction plain;

	signals_relayed(&child->awaited);
	sigaddset(&child->awaited, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child->awaited, &child->inherited.mask);
	memset(&plain, 0, sizeof(plain));
	plain.sa_handler = SIG_DFL;
	/* If the caller ignores SIGCHLD the kernel reaps the command, and its status is lost. */
	sigaction(SIGCHLD, &plain, &child->inherited.on_child);
	plain.sa_handler = SIG_IGN;
	/* A message to a closed pipe must not end the program, and the command with it. */
	sigaction(SIGPIPE, &plain, &child->inherited.on_pipe);
}

/** In the new process.  Async-signal-safe calls only, since the program may have a second thread. */
static void __attribute__((noreturn)) become_command(const struct child *child, char **argv, char **envp, pid_t parent)
{
	int code;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* If the parent died before that call, no signal comes. */
	if (getppid() != parent)
		_exit(EXIT_FAILED);
	signals_default();
	sigaction(SIGCHLD, &child->inherited.on_child, NULL);
	sigaction(SIGPIPE, &child->inherited.on_pipe, NULL);
	sigprocmask(SIG_SETMASK, &child->inherited.mask, NULL);
	environ = envp;
	execvp(argv[0], argv);
	code = errno;
	if (write(child->exec_pipe[1], &code, sizeof(code)) < 0) {
		/* The exit status remains. */
	}
	_exit(code == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

static int make_pipes(struct child *child, bool keep)
{
	if (pipe2(child->exec_pipe, O_CLOEXEC) < 0)
		return -1;
	if (!keep)
		return 0;
	if (pipe2(child->keep_pipe, O_CLOEXEC) == 0) {
		fcntl(child->keep_pipe[1], F_SETFD, 0);
		return 0;
	}
	child->keep_pipe[0] = child->keep_pipe[1] = -1;
	close(child->exec_pipe[0]);
	close(child->exec_pipe[1]);
	return -1;
}

static int start(struct child *child, char **argv, char **envp, bool keep)
{
	pid_t parent = getpid();
	int cause;

	if (make_pipes(child, keep) < 0)
		return -1;
	child->pid = fork();
	if (child->pid == 0)
		become_command(child, argv, envp, parent);
	cause = errno;
	close(child->exec_pipe[1]);
	if (keep)
		close(child->keep_pipe[1]);
	if (child->pid > 0)
		return 0;
	close(child->exec_pipe[0]);
	if (keep)
		close(child->keep_pipe[0]);
	errno = cause;
	return -1;
}

/* --- Signals ----------------------------------------------------------------------------------------- */

/** Did the terminal send this to the whole foreground group? */
static bool from_terminal(int sig, const siginfo_t *info)
{
	if (info->si_code != SI_KERNEL)
		return false;
	switch (sig) {
	case SIGHUP:
	case SIGCONT:
		/* A hang-up is sent to the leader of the session alone. */
		return getsid(0) != getpid();
	case SIGINT:
	case SIGQUIT:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
	case SIGWINCH:
		return true;
	default:
		return false;
	}
}

static void relay(struct child *child, int sig, const siginfo_t *info)
{
	if (sig == SIGCHLD || from_terminal(sig, info))
		return;
	if (sig == SIGCONT && child->continued) {
		child->continued = false;
		return;
	}
	/* A signal from the command to its own group must not come back to the command. */
	if ((info->si_code == SI_USER || info->si_code == SI_QUEUE) && info->si_pid == child->pid)
		return;
	/* The pid cannot belong to another process: it stays in use until reap() below. */
	if (info->si_code == SI_QUEUE)
		sigqueue(child->pid, sig, info->si_value);
	else
		kill(child->pid, sig);
}

static bool command_moved_on(const struct child *child)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WCONTINUED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/** The command was stopped: stop as well, unless by SIGSTOP, which is for the command alone. */
static void stop_too(const struct child *child, int sig)
{
	const struct timespec now = { 0, 0 };
	sigset_t one;

	if (sig != SIGTSTP && sig != SIGTTIN && sig != SIGTTOU)
		return;
	sigemptyset(&one);
	sigaddset(&one, sig);
	/* Blocked, so pending; a SIGCONT from now on discards it.  An earlier one shows in command_moved_on(). */
	raise(sig);
	if (command_moved_on(child)) {
		sigtimedwait(&one, NULL, &now);
		return;
	}
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	sigprocmask(SIG_BLOCK, &one, NULL);
}

/* --- End --------------------------------------------------------------------------------------------- */

/** Process all state changes of the command.  Return: it has ended. */
static bool reap(struct child *child, struct child_end *end)
{
	for (;;) {
		siginfo_t info = { .si_pid = 0 };

		if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) < 0 ||
		    !info.si_pid)
			return false;
		switch (info.si_code) {
		case CLD_EXITED:
			end->exit_status = info.si_status;
			return true;
		case CLD_KILLED:
		case CLD_DUMPED:
			end->exit_status = EXIT_BY_SIGNAL + info.si_status;
			return true;
		case CLD_CONTINUED:
			child->continued = true;
			break;
		case CLD_STOPPED:
			child->continued = false;
			stop_too(child, info.si_status);
			break;
		}
	}
}

static void watch_over(struct child *child, const struct child_watch *watch)
{
	uint64_t notices;

	if (read(watch->fd, &notices, sizeof(notices)) < 0 || !watch->must_stop(watch->arg, true))
		return;
	child->terminated = true;
	kill(child->pid, SIGTERM);
	/* A stopped command cannot handle it. */
	kill(child->pid, SIGCONT);
}

static void supervise(struct child *child, const struct child_watch *watch, struct child_end *end)
{
	const struct timespec now = { 0, 0 };

	for (;;) {
		struct pollfd fds[] = { { child->signals, POLLIN, 0 },
					{ child->terminated ? -1 : watch->fd, POLLIN, 0 } };
		int ready = poll(fds, 2, child->continued ? CONTINUED_MS : -1);
		siginfo_t info;
		int sig = sigtimedwait(&child->awaited, &info, &now);

		if (reap(child, end))
			return;
		if (sig > 0)
			relay(child, sig, &info);
		else if (ready == 0)
			child->continued = false;
		if (ready > 0 && fds[1].revents)
			watch_over(child, watch);
	}
}

/** The command has ended: wait for its descendants, until the lock is lost or a signal ends the wait. */
static void await_descendants(const struct child *child, const struct child_watch *watch, struct child_end *end)
{
	const struct timespec now = { 0, 0 };

	for (;;) {
		struct pollfd fds[] = { { child->signals, POLLIN, 0 }, { watch->fd, POLLIN, 0 }, { child->keep_pipe[0], 0, 0 } };
		uint64_t notices;
		int sig;

		if (poll(fds, 3, -1) < 0)
			continue;
		sig = sigtimedwait(&child->awaited, NULL, &now);
		if (sig > 0 && signals_ends(sig)) {
			end->signal = sig;
			return;
		}
		if (fds[2].revents)
			return;
		if (fds[1].revents && read(watch->fd, &notices, sizeof(notices)) > 0 && watch->must_stop(watch->arg, false))
			return;
	}
}

int child_run(char **argv, char **envp, const struct child_watch *watch, struct child_end *end)
{
	struct child child = { .pid = 0, .keep_pipe = { -1, -1 } };
	int cause;

	memset(end, 0, sizeof(*end));
	take_signals(&child);
	if (signals_caught()) {
		end->exit_status = EXIT_BY_SIGNAL + signals_caught();
		return 0;
	}
	child.signals = signalfd(-1, &child.awaited, SFD_CLOEXEC | SFD_NONBLOCK);
	if (child.signals < 0)
		return -1;
	if (start(&child, argv, envp, watch->keep) < 0) {
		cause = errno;
		close(child.signals);
		errno = cause;
		return -1;
	}
	supervise(&child, watch, end);
	if (watch->keep && !child.terminated)
		await_descendants(&child, watch, end);
	close(child.signals);
	if (watch->keep)
		close(child.keep_pipe[0]);
	if (read(child.exec_pipe[0], &end->exec_errno, sizeof(end->exec_errno)) != sizeof(end->exec_errno))
		end->exec_errno = 0;
	end->started = !end->exec_errno;
	close(child.exec_pipe[0]);
	return 0;
}
