/* SPDX-License-Identifier: MIT */
/*
 * soak-worker.c - one worker process of the soak: threads that call everything the library offers, and die in all ways
 *
 *   soak-worker NAME DESCRIPTOR PROCESS LIFE IMAGE       started by soak.c only
 *
 * The main thread manages: it joins threads that ended and starts new ones.  The others do random operations until the
 * round is over.  Threads end while they hold; the process forks children that use the handle at once, replaces itself
 * by exec, exits in the middle, closes and opens again.  Kills and stops come from the driver.
 */
#define _GNU_SOURCE
#include "soak-ops.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/asan.h"

enum { UNUSED, RUNNING, ENDED };

static struct soak_process process;
static struct history_writer manager;

static bool stopping(void)
{
	return __atomic_load_n(&process.history.header->stop, __ATOMIC_RELAXED) || history_is_full(&process.history);
}

static bool may_die(void)
{
	return !__atomic_load_n(&process.history.header->calm, __ATOMIC_RELAXED);
}

static _Noreturn void give_up(const char *what, int code, const struct lockshm_error *error)
{
	fprintf(stderr, "soak-worker: %s: %s: %s\n", what, lockshm_code_name(code), error ? error->message : "");
	_exit(EXIT_FAILURE);
}

/* ---------------------------------------------------------------- seats */

/* Process-lock held.  The first thread after a removal makes the segment anew. */
static struct seat *open_seat(void)
{
	struct lockshm_create_options options;
	struct lockshm_error error = { 0 };
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	struct seat *seat = calloc(1, sizeof(*seat));
	int code;

	soak_options(&options, &process.config);
	/* Like users that know that it exists. */
	code = lockshm_open(&seat->segment, process.name, 0, &error);
	if (code == LOCKSHM_NO_SEGMENT)
		code = lockshm_create(&seat->segment, process.name, &options, &error);
	if (code < 0)
		give_up("open", code, &error);
	if (lockshm_stat(seat->segment, &stat) < 0)
		give_up("stat", LOCKSHM_INVALID, NULL);
	seat->realm = history_realm(&process.history, stat.token_base);
	return seat;
}

static void take_seat(struct soak_thread *t)
{
	pthread_mutex_lock(&process.lock);
	if (!process.seat || seat_is_stale(process.seat))
		process.seat = open_seat();
	t->seat = process.seat;
	t->seat->users++;
	pthread_mutex_unlock(&process.lock);
}

static void close_seat(struct history_writer *w, struct seat *seat)
{
	struct history_record *r = history_new(w);
	int code;

	r->realm = seat->realm;
	history_enter(r, HISTORY_CLOSE);
	code = lockshm_close(seat->segment);
	history_leave(r, history_now(), code);
	free(seat);
}

/* The last one to leave a removed segment closes it. */
static void leave_seat(struct history_writer *w, struct seat *seat)
{
	bool last;

	pthread_mutex_lock(&process.lock);
	last = --seat->users == 0 && seat_is_stale(seat);
	if (last) {
		ops_forget_shelf(&process, seat);
		if (process.seat == seat)
			process.seat = NULL;
	}
	pthread_mutex_unlock(&process.lock);
	if (last)
		close_seat(w, seat);
}

static void change_seat(struct soak_thread *t)
{
	ops_loop_close(t, &t->writer);
	leave_seat(&t->writer, t->seat);
	t->seat = NULL;
	ops_forget(t);
	take_seat(t);
}

/* ---------------------------------------------------------------- ways to end */

static _Noreturn void end_thread(struct soak_thread *t)
{
	history_note(&t->writer, HISTORY_THREAD_END, 0);
	pthread_mutex_lock(&process.lock);
	t->state = ENDED;
	pthread_cond_signal(&process.changed);
	pthread_mutex_unlock(&process.lock);
	pthread_exit(NULL);
}

static void exit_process(struct soak_thread *t)
{
	history_note(&t->writer, HISTORY_EXIT, 0);
	_exit(EXIT_SUCCESS);
}

static void exec_process(struct soak_thread *t)
{
	char fd[16], number[16], life[24], image[16];
	char *args[] = { (char[]){ "soak-worker" }, (char *)(uintptr_t)process.name, fd, number, life, image, NULL };
	struct history_record *r = history_new(&t->writer);

	snprintf(fd, sizeof(fd), "%d", process.history.fd);
	snprintf(number, sizeof(number), "%u", process.number);
	snprintf(life, sizeof(life), "%" PRIu64, process.life);
	snprintf(image, sizeof(image), "%u", process.image + 1);
	history_enter(r, HISTORY_EXEC);
	execv("/proc/self/exe", args);
	history_leave(r, history_now(), LOCKSHM_SYSTEM);
}

/* Close the handle while holding: only where no other thread can be inside. */
static void close_holding(struct soak_thread *t)
{
	if (process.n_threads > 1)
		return;
	__atomic_store_n(&t->seat->stale, true, __ATOMIC_RELAXED);
	change_seat(t);
}

/* ---------------------------------------------------------------- fork */

/* The child owns nothing, may use the handle at once, and dies with the thread that made it. */
static _Noreturn void child_main(struct soak_thread *t, uint32_t number, uint64_t life, uint32_t parent,
				 pid_t parent_pid)
{
	unsigned i, n = 1 + soak_below(&t->random, 30);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent_pid)
		_exit(EXIT_SUCCESS);
	process.number = number;
	process.life = life;
	process.image = 0;
	ops_end(t);
	t->forked = true;
	ops_begin(t, &process, parent);
	ops_loop_forget(t);
	ops_forget(t);
	for (i = 0; i < n && !stopping(); i++)
		ops_step(t);
	if (soak_one_in(&t->random, 2))
		ops_release_all(t);
	history_note(&t->writer, HISTORY_EXIT, 0);
	_exit(EXIT_SUCCESS);
}

static void fork_child(struct soak_thread *t)
{
	uint32_t number = history_new_process(&process.history), parent = t->writer.track;
	struct history_record *r;
	uint64_t life = soak_next(&t->random);
	pid_t pid, parent_pid = getpid();
	int status = 0;

	/* AddressSanitizer's allocator (of clang 14) takes no care of forks: a child may find it locked by a thread
	 * that only its parent has, for ever. */
	if (UNDER_ASAN)
		return;
	pid = fork();
	if (pid == 0)
		child_main(t, number, life, parent, parent_pid);
	if (pid < 0)
		return;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		give_up("forked child", LOCKSHM_SYSTEM, NULL);
	r = history_new(&t->writer);
	r->subject = number;
	history_enter(r, HISTORY_REAP);
	history_leave(r, history_now(), 0);
}

/* ---------------------------------------------------------------- threads */

static void perhaps_end(struct soak_thread *t)
{
	uint32_t dice;

	if (!may_die())
		return;
	dice = soak_below(&t->random, 60000);
	if (dice < 20)
		end_thread(t);
	else if (dice < 26)
		exit_process(t);
	else if (dice < 32)
		exec_process(t);
	else if (dice < 62)
		fork_child(t);
	else if (dice < 80)
		close_holding(t);
}

/* At the end of a round: each wait ends, or the loop is closed, here or by the manager. */
static void end_loop(struct soak_thread *t)
{
	if (soak_one_in(&t->random, 2))
		ops_loop_drain(t, LOCKSHM_SECONDS(8));
	if (soak_one_in(&t->random, 2))
		ops_loop_close(t, &t->writer);
}

static void *thread_main(void *arg)
{
	struct soak_thread *t = arg;

	ops_begin(t, &process, HISTORY_NO_TRACK);
	take_seat(t);
	while (!stopping()) {
		if (seat_is_stale(t->seat) && t->n_holds == 0)
			change_seat(t);
		ops_step(t);
		perhaps_end(t);
	}
	end_loop(t);
	if (!soak_one_in(&t->random, 3))
		ops_release_all(t);
	end_thread(t);
}

static void start_thread(struct soak_thread *t)
{
	unsigned number = (unsigned)(t - process.threads);
	struct lockshm_error error = { 0 };
	int err, tries;

	t->seat = NULL;
	t->n_holds = 0;
	t->loop = NULL;
	t->n_waits = 0;
	t->polled = 0;
	t->cancellable = 0;
	t->number = number;
	t->lives++;
	t->state = RUNNING;
	/* Some kernels refuse a thread now and then, though no limit is near. */
	for (tries = 0; (err = pthread_create(&t->id, NULL, thread_main, t)) == EAGAIN && tries < 500; tries++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	if (err) {
		snprintf(error.message, sizeof(error.message), "%s", strerror(err));
		give_up("pthread_create", LOCKSHM_SYSTEM, &error);
	}
}

/* What a thread left has died with it. */
static void join_thread(struct soak_thread *t)
{
	pthread_join(t->id, NULL);
	history_note(&manager, HISTORY_JOIN, t->writer.track);
	ops_end(t);
	ops_loop_close(t, &manager);
	ops_disown(t, &manager);
	leave_seat(&manager, t->seat);
	t->state = UNUSED;
}

/* Process-lock held. */
static struct soak_thread *next_ended(void)
{
	struct timespec ts;
	unsigned i;

	for (i = 0; i < process.n_threads; i++)
		if (process.threads[i].state == ENDED)
			return &process.threads[i];
	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += 1;
	(void)pthread_cond_timedwait(&process.changed, &process.lock, &ts);
	return NULL;
}

static bool any_running(void)
{
	unsigned i;

	for (i = 0; i < process.n_threads; i++)
		if (process.threads[i].state != UNUSED)
			return true;
	return false;
}

static void manage(void)
{
	struct soak_thread *ended;
	unsigned i;

	for (i = 0; i < process.n_threads; i++)
		start_thread(&process.threads[i]);
	while (any_running()) {
		pthread_mutex_lock(&process.lock);
		ended = next_ended();
		pthread_mutex_unlock(&process.lock);
		if (!ended)
			continue;
		join_thread(ended);
		if (!stopping())
			start_thread(ended);
	}
}

static void init(char **argv)
{
	const struct history_header *header;
	pthread_condattr_t attr;
	unsigned i;

	process.name = argv[1];
	if (history_open(&process.history, atoi(argv[2])) != 0)
		give_up("history", LOCKSHM_SYSTEM, NULL);
	process.number = (uint32_t)strtoul(argv[3], NULL, 10);
	process.life = strtoull(argv[4], NULL, 10);
	process.image = (uint32_t)strtoul(argv[5], NULL, 10);
	header = process.history.header;
	soak_config(&process.config, header->seed, header->round);
	process.n_threads = 1 + (unsigned)(process.life + process.image) % process.config.threads;
	process.n_loops = (unsigned)(process.life + process.image * 3) % 4;
	pthread_mutex_init(&process.lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&process.changed, &attr);
	for (i = 0; i < SOAK_THREADS; i++)
		pthread_mutex_init(&process.threads[i].cancel_lock, NULL);
}

int main(int argc, char **argv)
{
	if (argc != 6) {
		fputs("soak-worker: started by soak only\n", stderr);
		return 77;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	init(argv);
	history_track_begin(&manager, &process.history, process.number, process.image, HISTORY_NO_TRACK);
	manage();
	/* The handle stays open: what is left on the shelf dies with the process. */
	history_note(&manager, HISTORY_EXIT, 0);
	return EXIT_SUCCESS;
}
