/* SPDX-License-Identifier: MIT */
/*
 * proxy.c - a process between clients and a Redis server that injects faults into connections; see redis.h
 *
 * The test sends it commands over a socket, one fault at a time, and gets a reply when the fault is in force: nothing
 * depends on time.
 */
#define _GNU_SOURCE
#include "redis.h"
#include "sockets.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PAIRS_MAX 64

struct command {
	enum proxy_fault fault; /* 0 = another target */
	char target[96];
	int admitted;
};

/* One client and its connection to the server; -1 = closed. */
struct pair {
	int client, server;
	char *held; /* replies */
	size_t n_held;
	bool gap; /* bytes were discarded */
};

static struct pair pairs[PAIRS_MAX];
static enum proxy_fault fault = PROXY_PASS;
static int admitted = -1; /* so many new connections; the next ones wait.  -1 = all */
static char target[TARGET_BYTES];
static long n_replied;

static void end_pair(struct pair *p)
{
	socket_shut(&p->client);
	socket_shut(&p->server);
	free(p->held);
	p->held = NULL;
	p->n_held = 0;
	p->gap = false;
}

static void reset(int *fd)
{
	struct linger rst = { .l_onoff = 1, .l_linger = 0 };

	if (*fd >= 0)
		setsockopt(*fd, SOL_SOCKET, SO_LINGER, &rst, sizeof(rst));
	socket_shut(fd);
}

static void take_client(int listener)
{
	int i, fd = socket_accept(listener);

	if (fd < 0)
		return;
	admitted -= admitted > 0;
	for (i = 0; i < PAIRS_MAX && pairs[i].client >= 0; i++)
		;
	if (fault == PROXY_REFUSE || i == PAIRS_MAX) {
		reset(&fd);
		return;
	}
	end_pair(&pairs[i]);
	pairs[i].client = fd;
	pairs[i].server = socket_dial(target);
	if (pairs[i].server < 0)
		reset(&pairs[i].client);
}

/* Byte by byte, but in larger pieces for the texts of all scripts, which are a hundred thousand bytes. */
static void pass_on(int to, const char *bytes, size_t n)
{
	size_t i, step = n > 2000 ? 61 : 1;

	if (fault != PROXY_SLICE) {
		(void)!send(to, bytes, n, MSG_NOSIGNAL);
		return;
	}
	for (i = 0; i < n; i += step)
		if (send(to, bytes + i, n - i < step ? n - i : step, MSG_NOSIGNAL) < 0)
			return;
}

static bool is_dropped(const char *bytes, size_t n)
{
	return fault == PROXY_BLACKHOLE || fault == PROXY_DROP_REQUESTS ||
	       (fault == PROXY_DROP_SUBSCRIBE && memmem(bytes, n, "SUBSCRIBE", 9));
}

static void from_client(struct pair *p)
{
	char bytes[65536];
	ssize_t n = recv(p->client, bytes, sizeof(bytes), 0);

	if (n <= 0)
		end_pair(p);
	else if (is_dropped(bytes, (size_t)n))
		p->gap = p->gap || fault != PROXY_DROP_SUBSCRIBE;
	else if (p->server >= 0)
		pass_on(p->server, bytes, (size_t)n);
}

static void from_server(struct pair *p)
{
	char bytes[65536];
	ssize_t n = recv(p->server, bytes, sizeof(bytes), 0);

	if (n <= 0) {
		end_pair(p);
		return;
	}
	n_replied += n;
	if (fault == PROXY_BLACKHOLE || fault == PROXY_DROP_REPLIES) {
		p->gap = true;
		return;
	}
	if (fault != PROXY_HOLD_REPLIES) {
		pass_on(p->client, bytes, (size_t)n);
		return;
	}
	p->held = realloc(p->held, p->n_held + (size_t)n);
	memcpy(p->held + p->n_held, bytes, (size_t)n);
	p->n_held += (size_t)n;
}

/* No network leaves a gap in a stream: the next reply would be taken for that of an earlier command. */
static void let_go(struct pair *p)
{
	if (p->gap)
		end_pair(p);
	if (p->n_held && p->client >= 0)
		pass_on(p->client, p->held, p->n_held);
	p->n_held = 0;
}

static void obey(int listener, int control)
{
	struct command cmd;
	long answer = 0;
	int i;

	if (recv(control, &cmd, sizeof(cmd), 0) != sizeof(cmd))
		_exit(0);
	if (cmd.fault == 0)
		memcpy(target, cmd.target, sizeof(target));
	else if (cmd.fault == PROXY_COUNT)
		answer = n_replied;
	else if (cmd.fault == PROXY_WAITING)
		answer = poll(&(struct pollfd){ .fd = listener, .events = POLLIN }, 1, 0);
	else
		admitted = cmd.admitted;
	for (i = 0; i < PAIRS_MAX; i++) {
		if (cmd.fault == PROXY_RESET || cmd.fault == PROXY_REFUSE) {
			reset(&pairs[i].client);
			end_pair(&pairs[i]);
		} else if (cmd.fault == PROXY_HALF_OPEN) {
			socket_shut(&pairs[i].server);
		} else if (cmd.fault == PROXY_PASS) {
			let_go(&pairs[i]);
		}
	}
	if (cmd.fault && cmd.fault != PROXY_RESET && cmd.fault != PROXY_HALF_OPEN && cmd.fault < PROXY_COUNT)
		fault = cmd.fault;
	send(control, &answer, sizeof(answer), MSG_NOSIGNAL);
}

static void serve(int listener, int control)
{
	struct pollfd fds[2 + 2 * PAIRS_MAX];
	int i;

	for (;;) {
		fds[0] = (struct pollfd){ .fd = control, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = admitted ? listener : -1, .events = POLLIN };
		for (i = 0; i < PAIRS_MAX; i++) {
			fds[2 + 2 * i] = (struct pollfd){ .fd = pairs[i].client, .events = POLLIN };
			fds[3 + 2 * i] = (struct pollfd){ .fd = pairs[i].server, .events = POLLIN };
		}
		if (poll(fds, 2 + 2 * PAIRS_MAX, -1) < 0)
			continue;
		for (i = 0; i < PAIRS_MAX; i++) {
			if (fds[2 + 2 * i].revents && pairs[i].client >= 0)
				from_client(&pairs[i]);
			if (fds[3 + 2 * i].revents && pairs[i].server >= 0)
				from_server(&pairs[i]);
		}
		if (fds[1].revents)
			take_client(listener);
		if (fds[0].revents)
			obey(listener, control);
	}
}

static int listen_unix(struct proxy *p)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(un.sun_path, p->socket, sizeof(p->socket));
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	strcpy(p->uri, "unix://");
	strcat(p->uri, p->socket);
	return fd;
}

static void name_target(char out[96], const struct redis *r)
{
	if (r->tls_port)
		snprintf(out, 96, "%d", r->tls_port);
	else
		memcpy(out, r->socket, sizeof(r->socket));
}

static int listen_tcp(struct proxy *p, const struct redis *r)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	getsockname(fd, (struct sockaddr *)&in, &len);
	if (r->tls_port)
		snprintf(p->uri, sizeof(p->uri), "rediss://127.0.0.1:%d?tls-ca=%s", ntohs(in.sin_port),
			 tls_file("ca.crt"));
	else
		snprintf(p->uri, sizeof(p->uri), "redis://127.0.0.1:%d", ntohs(in.sin_port));
	return fd;
}

struct proxy *proxy_start(struct redis *r, bool tcp)
{
	static struct proxy proxies[16];
	static int number;
	struct proxy *p = &proxies[number % 16];
	int sv[2], listener, i;

	snprintf(p->socket, sizeof(p->socket), "%.60s/p%d-%d.sock", r->dir, (int)getpid(), number++);
	listener = tcp ? listen_tcp(p, r) : listen_unix(p);
	ck_assert_int_eq(listen(listener, 64), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	p->pid = fork();
	if (p->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(sv[0]);
		for (i = 0; i < PAIRS_MAX; i++)
			pairs[i].client = pairs[i].server = -1;
		name_target(target, r);
		serve(listener, sv[1]);
	}
	close(sv[1]);
	close(listener);
	p->control = sv[0];
	return p;
}

static long command(struct proxy *p, struct command cmd)
{
	long answer = -1;

	ck_assert_int_eq(send(p->control, &cmd, sizeof(cmd), MSG_NOSIGNAL), sizeof(cmd));
	ck_assert_int_eq(recv(p->control, &answer, sizeof(answer), 0), sizeof(answer));
	return answer;
}

long proxy_set(struct proxy *p, enum proxy_fault f)
{
	return command(p, (struct command){ .fault = f, .admitted = -1 });
}

void proxy_admit(struct proxy *p, int n)
{
	(void)command(p, (struct command){ .fault = PROXY_PASS, .admitted = n });
}

void proxy_target(struct proxy *p, struct redis *r)
{
	struct command cmd = { 0 };

	name_target(cmd.target, r);
	(void)command(p, cmd);
}
