/* SPDX-License-Identifier: MIT */
/*
 * uses.c - the commonest uses of a lock between processes, each in a few lines
 *
 *   uses SEGMENT    runs each once, in several processes at the same time, and checks what they did
 */
#include <lockshm.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the processes share beside the locks: here it is only counted what they did. */
struct config {
	int version, copy_of_version;
};
static struct shared {
	int reports, renderings, refreshes;
	int schedulers, seats; /* at this moment; in all */
	int served[2]; /* clients with the key "a", and "b" */
	char cached[16];
	struct config config;
} *shared;

static void make_report(void)
{
	shared->reports++;
}

static void refresh(void)
{
	shared->refreshes++;
}

static const char *cache_get(const char *key)
{
	(void)key;
	return shared->cached[0] ? shared->cached : NULL;
}

static const char *cache_put(const char *key, const char *text)
{
	(void)key;
	return strcpy(shared->cached, text);
}

static const char *render(const char *key)
{
	shared->renderings++;
	usleep(20000);
	return key;
}

/* A client of an event loop, and the code that goes on with it when its lock is held. */
struct client {
	const char *key;
	lockshm_hold_t hold;
	int served;
};

static void serve(struct client *client, int status)
{
	if (status < 0)
		return;
	shared->served[client->key[0] == 'b']++;
	client->served = lockshm_release(&client->hold, 0) == 0;
}

/* BEGIN */
/* Cron guard: one process does the job, the others skip it.  Strict: only its end ends the lock. */
static int nightly(lockshm_t *locks)
{
	struct lockshm_request job = LOCKSHM_REQUEST("nightly");
	lockshm_hold_t hold;

	job.timeout_ns = 0;
	job.ttl_ns = LOCKSHM_FOREVER;
	if (lockshm_acquire(locks, &job, &hold) < 0)
		return 0;
	make_report();
	return lockshm_release(&hold, 0);
}

/* At most once in five minutes, whichever process comes first.  One that is killed inside leaves no cooldown. */
static int once(lockshm_t *locks)
{
	struct lockshm_request job = LOCKSHM_REQUEST("refresh");
	lockshm_hold_t hold;

	job.timeout_ns = 0;
	job.flags = LOCKSHM_AUTO_RENEW;
	if (lockshm_acquire(locks, &job, &hold) < 0)
		return 0;
	refresh();
	return lockshm_release(&hold, LOCKSHM_SECONDS(300));
}

/* A seat: returns in one process of all, which keeps the hold as long as it lives; then in the next. */
static int take_seat(lockshm_t *locks, lockshm_hold_t *seat)
{
	struct lockshm_request request = LOCKSHM_REQUEST("scheduler");

	request.ttl_ns = LOCKSHM_FOREVER;
	request.timeout_ns = LOCKSHM_FOREVER;
	return lockshm_acquire(locks, &request, seat);
}

/* Single flight: of many requests for one page one renders it, the others wait and find it. */
static const char *page(lockshm_t *locks, const char *key)
{
	struct lockshm_request flight = LOCKSHM_REQUEST(key);
	const char *text = cache_get(key);
	lockshm_hold_t hold;

	if (text || lockshm_acquire(locks, &flight, &hold) < 0)
		return text;
	if (!(text = cache_get(key)))
		text = cache_put(key, render(key));
	lockshm_release(&hold, 0);
	return text;
}

/* A configuration that is read by all and seldom written: readers do not exclude each other. */
static int read_config(lockshm_t *locks, struct config *copy)
{
	struct lockshm_request read = LOCKSHM_REQUEST("config");
	lockshm_hold_t hold;

	read.mode = LOCKSHM_SHARED;
	if (lockshm_acquire(locks, &read, &hold) < 0)
		return -1;
	*copy = shared->config;
	return lockshm_release(&hold, 0);
}

/* An event loop waits without a thread: the request has its place in the queue, and the program serves other clients. */
static void on_request(lockshm_loop_t *loop, struct client *client)
{
	struct lockshm_request request = LOCKSHM_REQUEST(client->key);
	int status;

	status = lockshm_loop_acquire(loop, &request, &client->hold, client);
	if (status != LOCKSHM_PENDING)
		serve(client, status);
}

/* lockshm_loop_fd() is readable, says epoll or whatever the loop is made of: go on with the clients whose turn it is. */
static void on_locks(lockshm_loop_t *loop)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	while (lockshm_loop_next(loop, &outcome) == 1)
		serve(outcome.user, outcome.status);
}
/* END */

/* Three clients in one thread; those of other processes ask for the same keys. */
static int serve_clients(lockshm_t *locks)
{
	struct client clients[] = { { .key = "a" }, { .key = "b" }, { .key = "a" } };
	struct pollfd readable = { .events = POLLIN };
	lockshm_loop_t *loop;
	int i;

	if (lockshm_loop_open(&loop, locks, -1, NULL) != 0)
		return 1;
	readable.fd = lockshm_loop_fd(loop);
	for (i = 0; i < 3; i++)
		on_request(loop, &clients[i]);
	while (clients[0].served + clients[1].served + clients[2].served < 3 && poll(&readable, 1, 10000) == 1)
		on_locks(loop);
	return clients[0].served + clients[1].served + clients[2].served != 3 || lockshm_loop_close(loop) != 0;
}

/* The end of the process frees the seat. */
static int schedule(lockshm_t *locks)
{
	static lockshm_hold_t seat;

	if (take_seat(locks, &seat) < 0 || shared->schedulers++ != 0)
		return 1;
	usleep(1000);
	shared->schedulers--;
	shared->seats++;
	return 0;
}

static int use_all(lockshm_t *locks, int writes)
{
	struct lockshm_request write = LOCKSHM_REQUEST("config");
	struct config copy = { 0, 0 };
	const char *text = page(locks, "/index");
	lockshm_hold_t hold;
	int i;

	for (i = 0; i < 1000; i++) {
		if (writes && lockshm_acquire(locks, &write, &hold) >= 0) {
			shared->config.version++;
			shared->config.copy_of_version++;
			lockshm_release(&hold, 0);
		}
		if (read_config(locks, &copy) != 0 || copy.version != copy.copy_of_version)
			return 1;
	}
	return nightly(locks) != 0 || once(locks) != 0 || serve_clients(locks) != 0 || !text ||
	       strcmp(text, "/index") != 0 || schedule(locks) != 0;
}

int main(int argc, char **argv)
{
	struct lockshm_error error;
	lockshm_t *locks;
	int i, status, bad = 0;

	if (argc != 2)
		return fputs("usage: uses SEGMENT\n", stderr), 2;
	if (lockshm_create_or_open(&locks, argv[1], &error) != 0)
		return fprintf(stderr, "%s\n", error.message), 1;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	for (i = 0; i < 4; i++)
		if (fork() == 0)
			_exit(use_all(locks, i == 0));
	for (i = 0; i < 4; i++)
		bad |= wait(&status) < 0 || status != 0;
	bad |= shared->served[0] != 8 || shared->served[1] != 4 || shared->refreshes > 1 || shared->seats != 4;
	printf("%d processes, %d rendering, 1 to 4 reports, %d refreshes, %d clients, %d seats in turn\n", i, shared->renderings,
	       shared->refreshes, shared->served[0] + shared->served[1], shared->seats);
	return bad || shared->renderings != 1 || shared->reports < 1 || shared->reports > 4;
}
