/* SPDX-License-Identifier: MIT */
/* soak-driver.c - starting, killing, stopping and reaping workers, see soak-driver.h */
#define _GNU_SOURCE
#include "soak-driver.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PRINT_MAX 12 /* violations of a round */
#define END_S 20 /* a worker that takes longer to end is stuck */
#define HEARTBEAT_NS 1000000
#define STARVED_NS 8000000

void soak_problem(struct soak_driver *d, const char *property, const char *format, ...)
{
	va_list args;

	d->problems++;
	if (d->printed++ >= PRINT_MAX)
		return;
	printf("VIOLATION %s: ", property);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

static void note(struct soak_driver *d, enum history_op op, uint32_t process)
{
	history_note(&d->writer, op, process);
}

void driver_spawn(struct soak_driver *d, struct soak_worker *w)
{
	char fd[16], number[16], life[24];

	w->process = history_new_process(&d->history);
	w->resume_at = 0;
	snprintf(fd, sizeof(fd), "%d", d->history.fd);
	snprintf(number, sizeof(number), "%u", w->process);
	snprintf(life, sizeof(life), "%u", (unsigned)(w - d->workers) << 24 | w->lives++);
	fflush(stdout);
	w->pid = fork();
	if (w->pid == 0) {
		execl(d->program, "soak-worker", d->name, fd, number, life, "0", (char *)NULL);
		_exit(99);
	}
	if (w->pid < 0)
		w->pid = 0;
}

void driver_kill(struct soak_driver *d, struct soak_worker *w)
{
	struct history_record *r;

	if (!w->pid)
		return;
	r = history_new(&d->writer);
	r->subject = w->process;
	history_enter(r, HISTORY_KILL);
	kill(w->pid, SIGKILL);
	history_leave(r, history_now(), 0);
	d->kills++;
	d->kills_stopped += w->resume_at != 0;
}

void driver_stop(struct soak_driver *d, struct soak_worker *w, int64_t ns)
{
	if (!w->pid || w->resume_at)
		return;
	note(d, HISTORY_STOP, w->process);
	kill(w->pid, SIGSTOP);
	w->resume_at = history_now() + ns;
	d->stops++;
}

void driver_resume(struct soak_driver *d, int64_t now)
{
	struct soak_worker *w;

	for (w = d->workers; w < d->workers + SOAK_WORKERS; w++) {
		struct history_record *r;

		if (!w->pid || !w->resume_at || w->resume_at > now)
			continue;
		r = history_new(&d->writer);
		r->subject = w->process;
		history_enter(r, HISTORY_CONTINUE);
		kill(w->pid, SIGCONT);
		history_leave(r, history_now(), 0);
		w->resume_at = 0;
	}
}

/* ---------------------------------------------------------------- burying */

static struct soak_worker *worker_of(struct soak_driver *d, pid_t pid)
{
	struct soak_worker *w;

	for (w = d->workers; w < d->workers + SOAK_WORKERS; w++)
		if (w->pid == pid)
			return w;
	return NULL;
}

static void look_at_status(struct soak_driver *d, pid_t pid, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) != EXIT_SUCCESS)
		soak_problem(d, "crash", "process %d ended with status %d", (int)pid, WEXITSTATUS(status));
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		soak_problem(d, "crash", "process %d was ended by signal %d", (int)pid, WTERMSIG(status));
}

static void bury(struct soak_driver *d, pid_t pid, int status, bool respawn)
{
	struct soak_worker *w = worker_of(d, pid);
	struct history_record *r = history_new(&d->writer);

	look_at_status(d, pid, status);
	/* A grandchild whose parent was killed is reaped here with its pid only. */
	r->subject = w ? w->process : 0;
	r->other = (uint64_t)pid;
	history_enter(r, HISTORY_REAP);
	history_leave(r, history_now(), 0);
	d->ends++;
	if (!w)
		return;
	w->pid = 0;
	if (respawn)
		driver_spawn(d, w);
}

void driver_reap(struct soak_driver *d, bool respawn)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		bury(d, pid, status, respawn);
}

static bool any_child(void)
{
	siginfo_t info = { 0 };

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

static void kill_stuck(struct soak_driver *d)
{
	struct soak_worker *w;

	for (w = d->workers; w < d->workers + SOAK_WORKERS; w++) {
		if (!w->pid)
			continue;
		soak_problem(d, "overdue", "process %u (pid %d) does not come to its end", w->process, (int)w->pid);
		driver_kill(d, w);
	}
}

void driver_finish(struct soak_driver *d)
{
	int64_t now, last = history_now(), end = last + LOCKSHM_SECONDS(END_S);
	bool killed = false;

	driver_resume(d, INT64_MAX);
	for (; driver_reap(d, false), any_child(); last = now) {
		nanosleep(&(struct timespec){ .tv_nsec = HEARTBEAT_NS }, NULL);
		now = history_now();
		/* Time in which no worker could run does not count. */
		if (now - last > STARVED_NS)
			end += now - last;
		if (now < end)
			continue;
		if (killed) {
			soak_problem(d, "overdue", "a forked child does not come to its end");
			return;
		}
		kill_stuck(d);
		killed = true;
		end += LOCKSHM_SECONDS(END_S);
	}
}

/* ---------------------------------------------------------------- heartbeat */

/* How long no process could run, at the least: lateness in that time is no fault of the locks. */
static void *heart_main(void *arg)
{
	struct soak_driver *d = arg;
	struct history_writer w;
	int64_t last, now;

	history_track_begin(&w, &d->history, d->process, 0, HISTORY_NO_TRACK);
	for (last = d->heart_since; !__atomic_load_n(&d->heart_stops, __ATOMIC_RELAXED); last = now) {
		struct history_record *r;

		nanosleep(&(struct timespec){ .tv_nsec = HEARTBEAT_NS }, NULL);
		now = history_now();
		if (now - last < STARVED_NS || history_is_full(&d->history))
			continue;
		r = history_new(&w);
		r->enter = last;
		r->leave = now;
		__atomic_store_n(&r->op, HISTORY_STARVED, __ATOMIC_RELEASE);
	}
	return NULL;
}

void driver_heart_begin(struct soak_driver *d)
{
	d->heart_stops = false;
	d->heart_since = history_now();
	if (pthread_create(&d->heart, NULL, heart_main, d) != 0)
		abort();
}

void driver_heart_end(struct soak_driver *d)
{
	__atomic_store_n(&d->heart_stops, true, __ATOMIC_RELAXED);
	pthread_join(d->heart, NULL);
}
