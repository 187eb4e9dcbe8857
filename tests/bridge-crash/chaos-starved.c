/* SPDX-License-Identifier: MIT */
/*
 * chaos-starved.c - did the processes that keep a lease get a processor?  A starved machine is no fault of the bridge
 *
 * A renewal takes the bridge, the proxy before the server, and the server: a chain, in which each has to run.  The
 * kernel counts how long a thread was ready and did not run.  That is summed up over the chain of each host, and
 * compared with the time that a renewal has at least, from when it is due to the end of the lease.
 */
#define _GNU_SOURCE
#include "chaos.h"

#include <dirent.h>

#define LATE_NS LOCKSHM_MS(100) /* the driver itself */
#define LOOK_EVERY_NS LOCKSHM_MS(50)
#define WINDOW_NS (TTL_NS * 2 / 3)
#define LOOKS 64 /* more than a window has */

/* One link: a process, and how long its threads have waited so far. */
struct link {
	pid_t pid;
	int64_t waited_ns;
};

struct chain {
	struct link bridge, standby, proxy, server;
	struct {
		int64_t at, waited_ns;
	} looks[LOOKS];
	unsigned n;
};

static struct chain chains[CHAOS_HOSTS];
static int64_t worst_ns;

static int64_t waited_by(pid_t pid, const char *tid)
{
	long long ns = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/schedstat", (int)pid, tid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%*d %lld", &ns) != 1)
		ns = 0;
	fclose(f);
	return ns;
}

static int64_t waited(pid_t pid)
{
	char path[64];
	struct dirent *d;
	int64_t ns = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && (d = readdir(dir)))
		if (d->d_name[0] != '.')
			ns += waited_by(pid, d->d_name);
	if (dir)
		closedir(dir);
	return ns;
}

/* Since the last look at it, if it is still the same.  Threads may have ended meanwhile. */
static int64_t more(struct link *link, pid_t pid)
{
	int64_t now = pid > 0 ? waited(pid) : 0, ns = now - link->waited_ns;

	if (pid != link->pid || ns < 0)
		ns = 0;
	link->pid = pid;
	link->waited_ns = now;
	return ns;
}

static void note(int64_t from, int64_t to)
{
	struct history_record *r = history_new(&driver);

	r->enter = from;
	__atomic_store_n(&r->op, HISTORY_STARVED, __ATOMIC_RELEASE);
	history_leave(r, to, 0);
}

static void look_at(unsigned host)
{
	struct chain *c = &chains[host];
	int64_t now = history_now(), sum = 0;
	unsigned i;

	c->looks[c->n % LOOKS].waited_ns = more(&c->bridge, hosts[host].bridge) +
					   more(&c->standby, chaos_standbys[host]) +
					   more(&c->proxy, chaos_proxies[host]->pid) +
					   more(&c->server, chaos_redis->pid);
	c->looks[c->n++ % LOOKS].at = now;
	for (i = 0; i < LOOKS; i++)
		if (c->looks[i].at > now - WINDOW_NS)
			sum += c->looks[i].waited_ns;
	if (sum > worst_ns)
		worst_ns = sum;
	if (sum >= STARVED_NS)
		note(now - WINDOW_NS, now);
}

void chaos_nap(int64_t ns)
{
	int64_t from = history_now(), end = from + ns, to, left;
	unsigned host;

	while ((left = end - history_now()) > 0) {
		struct timespec ts = { .tv_nsec = left < LOOK_EVERY_NS ? left : LOOK_EVERY_NS };

		nanosleep(&ts, NULL);
		for (host = 0; host < CHAOS_HOSTS; host++)
			look_at(host);
	}
	to = history_now();
	if (to - end >= LATE_NS)
		note(from, to);
}

int64_t starved_worst(void)
{
	int64_t ns = worst_ns;

	worst_ns = 0;
	return ns;
}
