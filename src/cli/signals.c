/* SPDX-License-Identifier: MIT */
/*
 * signals.c - the signals of a tool, and their effect while it waits for a lock
 *
 * A waiter killed by a signal would leave its request to be reaped, and might be granted at that very moment, so that
 * the next holder would get OWNER_DIED.  Therefore a signal cancels the wait, and the program exits normally.  Signals
 * that the caller had ignored stay ignored.
 *
 * Truncation of a mapped segment raises SIGBUS at the next access, as for any file.  The tools read segments of other
 * users, too, so they end with a message instead of a crash.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

static lockshm_canceller_t *wait_canceller;
static const struct front *wait_front;
static volatile sig_atomic_t caught;
static bool term_ignored;

/** Those by which a job is ended cancel a wait; the front sends SIGTERM for any other one. */
static const int cancelling[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, 0 /* end */ };

/** Signals whose default is to end the program; real-time signals come in addition. */
static const int ending[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGPOLL,
			      SIGPWR, 0 /* end */ };
/** Signals that stop, continue or inform. */
static const int others[] = { SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH, SIGURG, 0 /* end */ };

static void on_signal(int sig)
{
	/* SIGTERM is also how the front ends a wait, and how its death shows. */
	if (sig == SIGTERM && term_ignored && !wait_front->caught && !keeper_is_alone(wait_front))
		return;
	if (!caught)
		caught = sig;
	lockshm_cancel(wait_canceller);
}

void signals_cancel(lockshm_canceller_t *canceller, const struct front *front)
{
	struct sigaction action, before;

	wait_canceller = canceller;
	wait_front = front;
	memset(&action, 0, sizeof(action));
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	sigfillset(&action.sa_mask);
	for (const int *sig = cancelling; *sig; sig++)
		if (sigaction(*sig, &action, &before) == 0 && before.sa_handler == SIG_IGN) {
			if (*sig == SIGTERM)
				term_ignored = true;
			else
				sigaction(*sig, &before, NULL);
		}
}

void signals_default(void)
{
	struct sigaction action;

	for (const int *sig = cancelling; *sig; sig++)
		if (sigaction(*sig, NULL, &action) == 0 && action.sa_handler == on_signal)
			signal(*sig, *sig == SIGTERM && term_ignored ? SIG_IGN : SIG_DFL);
}

int signals_caught(void)
{
	return caught && wait_front && wait_front->caught ? wait_front->caught : caught;
}

bool signals_ignored(int sig)
{
	struct sigaction action;

	return sigaction(sig, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void relayed(sigset_t *set)
{
	sigemptyset(set);
	for (const int *sig = ending; *sig; sig++)
		sigaddset(set, *sig);
	for (const int *sig = others; *sig; sig++)
		sigaddset(set, *sig);
	for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
		sigaddset(set, sig);
}

/* --- Of a program that has a command run ------------------------------------------------------------- */

/** Signal state at the start of the program, restored for the command. */
static struct {
	bool known;
	sigset_t mask;
	struct sigaction on_child, on_pipe;
} inherited;

void signals_await(sigset_t *awaited)
{
	struct sigaction plain;

	relayed(awaited);
	sigaddset(awaited, SIGCHLD);
	if (inherited.known) {
		sigprocmask(SIG_BLOCK, awaited, NULL);
		return;
	}
	inherited.known = true;
	sigprocmask(SIG_BLOCK, awaited, &inherited.mask);
	memset(&plain, 0, sizeof(plain));
	plain.sa_handler = SIG_DFL;
	/* If the caller ignores SIGCHLD the kernel reaps the command, and its status is lost. */
	sigaction(SIGCHLD, &plain, &inherited.on_child);
	plain.sa_handler = SIG_IGN;
	/* A message to a closed pipe must not end the program, and the command with it. */
	sigaction(SIGPIPE, &plain, &inherited.on_pipe);
}

void signals_unblock(void)
{
	sigset_t mask = inherited.mask;

	/* A message at a terminal where the background may not write stops no process that holds a lock. */
	sigaddset(&mask, SIGTTOU);
	/* The front's signal, see on_signal(). */
	sigdelset(&mask, SIGTERM);
	sigprocmask(SIG_SETMASK, &mask, NULL);
}

void signals_restore(void)
{
	signals_default();
	sigaction(SIGCHLD, &inherited.on_child, NULL);
	sigaction(SIGPIPE, &inherited.on_pipe, NULL);
	sigprocmask(SIG_SETMASK, &inherited.mask, NULL);
}

int signals_next(const sigset_t *awaited, siginfo_t *info)
{
	const struct timespec now = { 0, 0 };

	return sigtimedwait(awaited, info, &now);
}

/** Did the terminal send this to the whole foreground group? */
bool signals_of_terminal(int sig, const siginfo_t *info)
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

bool signals_stop(int sig)
{
	return sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
}

void signals_stop_self(int sig, bool (*wanted)(const void *arg), const void *arg)
{
	sigset_t one;
	siginfo_t info;

	sigemptyset(&one);
	sigaddset(&one, sig);
	/* Blocked, so pending; a SIGCONT from now on discards it.  An earlier one shows in @wanted. */
	raise(sig);
	if (!wanted(arg)) {
		signals_next(&one, &info);
		return;
	}
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	sigprocmask(SIG_BLOCK, &one, NULL);
}

void signals_pass(pid_t pid, int sig, const siginfo_t *info)
{
	if (info->si_code == SI_QUEUE)
		sigqueue(pid, sig, info->si_value);
	else
		kill(pid, sig);
}

bool signals_ends(int sig)
{
	for (const int *other = others; *other; other++)
		if (*other == sig)
			return false;
	return sig != SIGCHLD;
}

static void on_bus_error(int sig, siginfo_t *info, void *context)
{
	static const char text[] = ": a segment was truncated while it was in use; lockctl rm removes it\n";

	(void)context;
	/* Any cause but a missing page is a bug of the tool: crash. */
	if (info->si_code != BUS_ADRERR) {
		signal(sig, SIG_DFL);
		return;
	}
	if (write(STDERR_FILENO, program_name, strlen(program_name)) < 0 ||
	    write(STDERR_FILENO, text, sizeof(text) - 1) < 0) {
		/* There is no other output. */
	}
	_exit(EXIT_FAILED);
}

void signals_contain_truncation(void)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_sigaction = on_bus_error;
	action.sa_flags = SA_SIGINFO;
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}
