/* SPDX-License-Identifier: MIT */
/*
 * bench-bridge.c - segments that play hosts, for the scenarios of the bridge
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity */
#endif

#include "bench-bridge.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define HOLD_NS LOCKSHM_SECONDS(600) /* longer than any run: no timeout, no end of a lease */
#define QUEUE_MS 20000
#define START_MS 20000
#define PROGRAM "lockshm-bridge"

static char names[BRIDGE_HOSTS][64];
static lockshm_t *creators[BRIDGE_HOSTS];
static pid_t bridges[BRIDGE_HOSTS];
static const struct bridge_options *wished;

static void __attribute__((noreturn)) fail(const char *what, int code, const struct lockshm_error *error)
{
	fprintf(stderr, "lockshm-bench: %s: %s\n", what,
		error && error->message[0] ? error->message : lockshm_strerror(code));
	errno = 0;
	bench_fail("bridge");
}

/* The program of this build: in the directory above the benchmark's. */
static void __attribute__((noreturn)) become_bridge(const char *name, pid_t parent)
{
	char path[PATH_MAX + sizeof("/../" PROGRAM)];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	bridge_unpin();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	path[n > 0 ? n : 0] = 0;
	slash = strrchr(path, '/');
	if (slash && getppid() == parent) {
		strcpy(slash, "/../" PROGRAM);
		if (!freopen("/dev/null", "w", stderr))
			_exit(126);
		execl(path, PROGRAM, name, (char *)NULL);
	}
	_exit(127);
}

static int start_bridge(int host)
{
	uint64_t from = bench_ticks(), limit = bench_ticks_of_ns(START_MS * 1e6);
	pid_t parent = getpid();

	bridges[host] = fork();
	if (bridges[host] < 0)
		bench_fail("fork");
	if (!bridges[host])
		become_bridge(names[host], parent);
	while (bridge_stat(creators[host]).pid != bridges[host]) {
		if (bench_ticks() - from > limit) {
			bench_why("no " PROGRAM " beside the benchmark, or it does not start");
			return -1;
		}
		usleep(1000);
	}
	return 0;
}

static int make_one(int host, const char *uri)
{
	struct lockshm_create_options o = LOCKSHM_CREATE_INIT;
	struct lockshm_error error;

	o.keys = 4096;
	o.requests = 8192;
	o.owners = 64;
	strcpy(o.redis, uri);
	strcpy(o.redis_prefix, REDIS_PREFIX);
	o.redis_policy = LOCKSHM_REDIS_WAIT;
	o.host_leases = 64;
	if (wished->leases)
		o.host_leases = wished->leases;
	if (wished->ttl_ns)
		o.redis_ttl_ns = wished->ttl_ns;
	o.redis_gap_ns = wished->gap_ns;
	if (wished->majority)
		o.flags |= LOCKSHM_CREATE_REDIS_QUORUM;
	snprintf(names[host], sizeof(names[host]), "/bench-host-%d-%d", (int)getpid(), host);
	if (!lockshm_create(&creators[host], names[host], &o, &error))
		return start_bridge(host);
	names[host][0] = 0;
	bench_why("%s", error.message);
	return -1;
}

static void destroy(void)
{
	for (int i = 0; i < BRIDGE_HOSTS; i++) {
		if (!names[i][0])
			continue;
		if (bridges[i] > 0)
			bench_kill(bridges[i]);
		bridges[i] = 0;
		lockshm_close(creators[i]);
		lockshm_destroy(names[i], NULL);
		names[i][0] = 0;
	}
}

static int create(const struct bench_need *need)
{
	const char *socket = redis_socket();
	char uri[160];
	int fd, err = 0;

	(void)need;
	if (!socket)
		return -1;
	fd = redis_dial(REDIS_UNIX);
	redis_ask(fd, "FLUSHALL");
	close(fd);
	if (wished->majority)
		snprintf(uri, sizeof(uri), "%s", wished->majority);
	else if (wished->way != REDIS_UNIX)
		snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", redis_port(wished->way));
	else
		snprintf(uri, sizeof(uri), "unix://%s", socket);
	for (int i = 0; i < wished->hosts && !err; i++)
		err = make_one(i, uri);
	if (err)
		destroy();
	return err;
}

/* Destroys the segments of an aborted run. */
static const struct lock_adapter hosts = { .name = "bridge", .create = create, .destroy = destroy };

bool bridge_make(const struct bridge_options *wish)
{
	const struct bench_need need = { .keys = 1, .procs = 1 };
	static bool said;

	wished = wish;
	if (!bench_create(&hosts, &need))
		return true;
	if (!said)
		fprintf(stderr, "# skipped: the bridge: %s\n", bench_reason());
	said = true;
	return false;
}

void bridge_unmake(void)
{
	bench_destroy(&hosts);
}

void bridge_unpin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < bench_cpus; i++)
		CPU_SET((size_t)bench_cpu(i), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		bench_fail("sched_setaffinity");
	prctl(PR_SET_TIMERSLACK, 1);
}

lockshm_t *bridge_open(int host)
{
	struct lockshm_error error;
	lockshm_t *s;
	int rc = lockshm_open(&s, names[host], 0, &error);

	if (rc)
		fail("open", rc, &error);
	return s;
}

void bridge_lock(lockshm_t *s, const char *key, unsigned flags, lockshm_hold_t *hold)
{
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	int rc;

	q.key = key;
	q.key_len = strlen(key);
	q.flags = flags;
	q.timeout_ns = HOLD_NS;
	q.ttl_ns = HOLD_NS;
	q.report = &report;
	rc = lockshm_acquire(s, &q, hold);
	if (rc < 0)
		fail("acquire", rc, &report.error);
}

void bridge_unlock(lockshm_hold_t *hold)
{
	int rc = lockshm_release(hold, 0);

	if (rc < 0)
		fail("release", rc, NULL);
}

struct lockshm_bridge_stat bridge_stat(lockshm_t *s)
{
	struct lockshm_bridge_stat stat = LOCKSHM_BRIDGE_STAT_INIT;
	int rc = lockshm_bridge_stat(s, &stat);

	if (rc)
		fail("stat", rc, NULL);
	return stat;
}

void bridge_await_queue(int fd, int n)
{
	uint64_t from = bench_ticks(), limit = bench_ticks_of_ns(QUEUE_MS * 1e6);

	while (atoi(redis_ask(fd, "ZCARD {" REDIS_PREFIX REDIS_KEY "}:q")) < n) {
		if (bench_ticks() - from > limit)
			bench_fail("a host is not queued");
		usleep(100);
	}
}

bool bridge_fits(const struct point *p, const struct lock_adapter *lock)
{
	(void)p;
	return lock == &adapter_lockshm;
}
