/* SPDX-License-Identifier: MIT */
/*
 * chaos-global.c - processes of two hosts want one global key and are killed and stopped at random
 *
 * Two segments play hosts; one real redis-server is between them.  Each worker takes the key, notes the time, notes it again,
 * and releases.  The runner kills and stops workers, and with them whoever is the bridge.  Afterwards, from the notes:
 *
 *   - of two exclusive holds that ended well the later one began after the earlier one had ended;
 *   - tokens rise in the order in which holds began, on both hosts together;
 *   - both hosts had their turn.
 *
 * Usage: chaos-global [SECONDS [SEED [quiet]]]   quiet: nobody is killed or stopped; prints how fast it was
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lockshm.h"

#define HOSTS 2
#define PER_HOST 4
#define WORKERS (HOSTS * PER_HOST)
#define NOTES 200000

struct note {
	int64_t begin, end; /* 0 = not ended: killed inside */
	uint64_t token;
	int32_t code; /* of the release */
	int32_t host;
};

/* One for each worker's place; those who come after a killed one go on behind its notes. */
struct place {
	uint32_t n;
	uint32_t bad; /* an outcome that may not be */
	struct note notes[NOTES];
};

static struct place *places;
static char dir[] = "/tmp/lockshm-chaos-XXXXXX";
static char names[HOSTS][64], uri[128];
static pid_t workers[WORKERS], server;

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void nap_ms(long ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

/* ---------------------------------------------------------------- worker */

static void one_hold(lockshm_t *s, struct place *p, int host)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	struct lockshm_report report;
	struct note *note = &p->notes[p->n];
	int code;

	q.key = "contended";
	q.key_len = 9;
	q.flags = LOCKSHM_GLOBAL | LOCKSHM_ACKNOWLEDGE;
	q.timeout_ns = LOCKSHM_SECONDS(20);
	q.report = &report;
	code = lockshm_acquire(s, &q, &hold);
	if (code == LOCKSHM_BRIDGE)
		return; /* a slow machine: Redis did not answer in time */
	if (code < 0) {
		fprintf(stderr, "acquire: %s: %s\n", lockshm_code_name(code), report.error.message);
		p->bad++;
		return;
	}
	note->host = host;
	note->token = lockshm_token(&hold);
	note->begin = now_ns();
	__atomic_store_n(&p->n, p->n + 1, __ATOMIC_RELEASE);
	note->end = now_ns();
	code = lockshm_release(&hold, 0);
	note->code = code;
	if (code != 0 && code != LOCKSHM_LOST)
		p->bad++;
}

static void work(int place)
{
	struct place *p = &places[place];
	lockshm_t *s;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (lockshm_open(&s, names[place / PER_HOST], 0, NULL) != 0)
		_exit(3);
	while (p->n < NOTES)
		one_hold(s, p, place / PER_HOST);
	pause();
	_exit(0);
}

static void start_worker(int place)
{
	workers[place] = fork();
	if (workers[place] == 0)
		work(place);
}

static void torment(int place, unsigned what)
{
	if (what % 2) {
		kill(workers[place], SIGKILL);
		waitpid(workers[place], NULL, 0);
		start_worker(place);
	} else {
		/* Shorter than a lease has left at least: nobody loses it by that. */
		kill(workers[place], SIGSTOP);
		nap_ms(20 + what / 2 % 200);
		kill(workers[place], SIGCONT);
	}
}

/* ---------------------------------------------------------------- judging */

static int by_begin(const void *a, const void *b)
{
	int64_t x = (*(const struct note *const *)a)->begin, y = (*(const struct note *const *)b)->begin;

	return (x > y) - (x < y);
}

static unsigned judge(const struct note **notes, size_t n, size_t per_host[HOSTS], size_t *lost)
{
	const struct note *last = NULL;
	unsigned problems = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		const struct note *x = notes[i];

		per_host[x->host]++;
		*lost += x->code == LOCKSHM_LOST;
		if (x->code == LOCKSHM_LOST)
			continue;
		if (last && x->token <= last->token) {
			fprintf(stderr, "token %llu was given out after %llu\n", (unsigned long long)x->token,
				(unsigned long long)last->token);
			problems++;
		}
		/* Killed inside: it held until then, which is not known. */
		if (last && last->end && last->code == 0 && x->begin < last->end) {
			fprintf(stderr, "held twice for %lld ns, by hosts %d and %d\n", (long long)(last->end - x->begin),
				last->host, x->host);
			problems++;
		}
		last = x;
	}
	return problems;
}

static unsigned check_all(double seconds)
{
	const struct note **all = calloc((size_t)WORKERS * NOTES, sizeof(*all));
	size_t n = 0, per_host[HOSTS] = { 0 }, lost = 0;
	unsigned problems = 0;
	uint32_t i, k;

	for (i = 0; i < WORKERS; i++) {
		problems += places[i].bad;
		for (k = 0; k < places[i].n; k++)
			all[n++] = &places[i].notes[k];
	}
	qsort(all, n, sizeof(*all), by_begin);
	problems += judge(all, n, per_host, &lost);
	printf("%zu holds, %.0f a second; of them host 0 %zu, host 1 %zu; lost %zu\n", n, (double)n / seconds, per_host[0],
	       per_host[1], lost);
	if (per_host[0] < 10 || per_host[1] < 10) {
		fprintf(stderr, "one host hardly had a turn\n");
		problems++;
	}
	free(all);
	return problems;
}

static void print_bridges(void)
{
	struct lockshm_bridge_stat stat;
	lockshm_t *s;
	int i;

	for (i = 0; i < HOSTS; i++) {
		if (lockshm_open(&s, names[i], LOCKSHM_OPEN_READ_ONLY, NULL) != 0)
			continue;
		(void)lockshm_bridge_stat(s, &stat);
		printf("host %d: %llu leases for %llu holds, %llu renewals, %llu scripts, %llu errors, %llu lost\n", i,
		       (unsigned long long)stat.acquired, (unsigned long long)stat.grants,
		       (unsigned long long)stat.renewed, (unsigned long long)stat.commands,
		       (unsigned long long)stat.errors, (unsigned long long)stat.lost);
		lockshm_close(s);
	}
}

/* ---------------------------------------------------------------- around it */

static void start_server(void)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/redis.sock", dir);
	snprintf(uri, sizeof(uri), "unix://%s", path);
	server = fork();
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", dir,
		       "--logfile", "log", (char *)NULL);
		_exit(127);
	}
	while (access(path, F_OK) != 0) {
		if (waitpid(server, NULL, WNOHANG) == server) {
			puts("skipped: there is no redis-server");
			rmdir(dir);
			exit(77);
		}
		nap_ms(5);
	}
}

static void make_hosts(void)
{
	struct lockshm_create_options o = LOCKSHM_CREATE_INIT;
	struct lockshm_error error;
	int i, code;

	o.locks = 64;
	o.requests = 1024;
	o.owners = 128;
	o.redis = uri;
	o.redis_ttl_ns = LOCKSHM_SECONDS(2);
	o.redis_policy = LOCKSHM_REDIS_WAIT;
	for (i = 0; i < HOSTS; i++) {
		snprintf(names[i], sizeof(names[i]), "lockshm-chaos-%d-%d", (int)getpid(), i);
		code = lockshm_create(NULL, names[i], &o, &error);
		if (code == LOCKSHM_BRIDGE) {
			puts("skipped: built without the bridge");
			exit(77);
		}
		if (code != 0) {
			fprintf(stderr, "create: %s\n", error.message);
			exit(99);
		}
	}
}

static void clean_up(void)
{
	char path[96];
	int i;

	for (i = 0; i < WORKERS; i++)
		if (workers[i] > 0) {
			kill(workers[i], SIGKILL);
			waitpid(workers[i], NULL, 0);
		}
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	for (i = 0; i < HOSTS; i++)
		lockshm_destroy(names[i], NULL);
	snprintf(path, sizeof(path), "%s/redis.sock", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/log", dir);
	unlink(path);
	rmdir(dir);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 4;
	unsigned seed = argc > 2 && atoi(argv[2]) ? (unsigned)atoi(argv[2]) : (unsigned)getpid(), problems;
	bool quiet = argc > 3;
	int64_t begun, end;
	int i;

	printf("chaos-global: %d workers, %.0f s, seed %u\n", WORKERS, seconds, seed);
	fflush(stdout);
	srand(seed);
	places = mmap(NULL, sizeof(*places) * WORKERS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (places == MAP_FAILED || !mkdtemp(dir))
		return 99;
	start_server();
	make_hosts();
	for (i = 0; i < WORKERS; i++)
		start_worker(i);
	begun = now_ns();
	end = begun + (int64_t)(seconds * 1e9);
	while (now_ns() < end) {
		nap_ms(quiet ? 100 : 5 + rand() % 60);
		if (!quiet)
			torment(rand() % WORKERS, (unsigned)rand());
	}
	for (i = 0; i < WORKERS; i++)
		kill(workers[i], SIGSTOP);
	seconds = (double)(now_ns() - begun) / 1e9;
	print_bridges();
	clean_up();
	problems = check_all(seconds);
	return problems ? 1 : 0;
}
