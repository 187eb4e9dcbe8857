/* SPDX-License-Identifier: MIT */
/*
 * bench-relay.c - a simulated network between the hosts and the Redis server: a process that forwards every byte after
 * a delay
 *
 * The delay is the same for each direction and each chunk of bytes, whatever is under way before it.  The process
 * sleeps until a chunk is due, so a round trip takes somewhat more than two delays; "two-pings" measures how much.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "bench-bridge.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAYS_MAX 80 /* two for each connection */
#define CHUNKS 256 /* pipelined commands: many under way at once */
#define CHUNK_BYTES 4096

struct chunk {
	uint64_t due; /* ticks */
	size_t len;
	char bytes[CHUNK_BYTES];
};

/* One direction of a connection: path i and i ^ 1 belong together. */
struct way {
	int from, to; /* -1 = none */
	unsigned first, n; /* chunks under way */
	struct chunk chunk[CHUNKS];
};

static struct way ways[WAYS_MAX];
static uint64_t delay; /* ticks, in each direction */
static int server; /* port */

static void hang_up(size_t i)
{
	if (ways[i].from >= 0) {
		close(ways[i].from);
		close(ways[i].to);
	}
	ways[i].from = ways[i].to = ways[i ^ 1].from = ways[i ^ 1].to = -1;
	ways[i].n = ways[i ^ 1].n = 0;
}

static void resume(int listener)
{
	int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC), one = 1;
	size_t i;

	for (i = 0; i < WAYS_MAX && ways[i].from >= 0; i += 2)
		;
	if (client < 0 || i == WAYS_MAX)
		bench_fail("a connection by way of the network");
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	ways[i].from = ways[i + 1].to = client;
	ways[i].to = ways[i + 1].from = redis_dial_port(server);
}

static void take_in(size_t i)
{
	struct way *w = &ways[i];
	struct chunk *c = &w->chunk[(w->first + w->n) % CHUNKS];
	ssize_t n = recv(w->from, c->bytes, sizeof(c->bytes), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		hang_up(i);
		return;
	}
	c->len = (size_t)n;
	c->due = bench_ticks() + delay;
	w->n++;
}

/* Forwards what is due; returns when the next is. */
static uint64_t pass_on(size_t i, uint64_t next)
{
	struct way *w = &ways[i];

	while (w->n) {
		struct chunk *c = &w->chunk[w->first];

		if (bench_ticks() < c->due)
			return c->due < next ? c->due : next;
		if (send(w->to, c->bytes, c->len, MSG_NOSIGNAL) != (ssize_t)c->len) {
			hang_up(i);
			return next;
		}
		w->first = (w->first + 1) % CHUNKS;
		w->n--;
	}
	return next;
}

static void wait_for_more(struct pollfd *fds, size_t n, uint64_t next)
{
	uint64_t now = bench_ticks();
	struct timespec left = { 0 };

	if (next > now && next != UINT64_MAX)
		left.tv_nsec = (long)((double)(next - now) * bench_ns_per_tick);
	if (ppoll(fds, n, next == UINT64_MAX ? NULL : &left, NULL) < 0 && errno != EINTR)
		bench_fail("poll");
}

static void relay(void *arg)
{
	int listener = *(int *)arg;

	bridge_unpin();
	/* Else a sleep of 100 us would take 150. */
	prctl(PR_SET_TIMERSLACK, 1);
	for (size_t i = 0; i < WAYS_MAX; i++)
		ways[i].from = -1;
	for (;;) {
		struct pollfd fds[WAYS_MAX + 1];
		uint64_t next = UINT64_MAX;

		for (size_t i = 0; i < WAYS_MAX; i++) {
			next = pass_on(i, next);
			fds[i] = (struct pollfd){ .fd = ways[i].n < CHUNKS ? ways[i].from : -1, .events = POLLIN };
		}
		fds[WAYS_MAX] = (struct pollfd){ .fd = listener, .events = POLLIN };
		wait_for_more(fds, WAYS_MAX + 1, next);
		for (size_t i = 0; i < WAYS_MAX; i++)
			if (fds[i].revents && ways[i].from >= 0)
				take_in(i);
		if (fds[WAYS_MAX].revents)
			resume(listener);
	}
}

pid_t relay_start(int *port, int64_t ns, int to)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(in);
	pid_t pid;

	if (listener < 0 || bind(listener, (struct sockaddr *)&in, sizeof(in)) || listen(listener, WAYS_MAX) ||
	    getsockname(listener, (struct sockaddr *)&in, &len))
		bench_fail("a port for the network");
	*port = ntohs(in.sin_port);
	delay = bench_ticks_of_ns((double)ns);
	server = to;
	pid = bench_spawn(bench_cpu(0), relay, &listener);
	close(listener);
	return pid;
}
