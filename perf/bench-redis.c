/* SPDX-License-Identifier: MIT */
/*
 * bench-redis.c - the Redis server of the run, and plain connections to it
 *
 * It listens on a unix socket and on a free port of 127.0.0.1, and writes nothing to disk.  The simulated network
 * (bench-relay.c) runs only while it is needed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "bench-bridge.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REPLY_MAX 65536

static char path[128];
static int ports[REDIS_FAR + 1];
static pid_t network, networks[MAJORITY];
static int more[MAJORITY]; /* ports of further servers, from 1 */

static int free_port(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof(in)) || getsockname(fd, (struct sockaddr *)&in, &len))
		bench_fail("a port for redis-server");
	close(fd);
	return ntohs(in.sin_port);
}

const char *redis_socket(void)
{
	const char *program = path[0] ? "" : server_find("redis-server", NULL);
	char directory[80], number[16];
	const char *argv[] = { NULL,	 "--port", number,	   "--bind", "127.0.0.1", "--unixsocket", path,
			       "--save", "",	   "--appendonly", "no",     "--dir",	  directory,	  NULL };

	if (path[0])
		return path;
	if (!program || !server_dir())
		return NULL;
	argv[0] = strdup(program);
	ports[REDIS_TCP] = free_port();
	snprintf(number, sizeof(number), "%d", ports[REDIS_TCP]);
	snprintf(directory, sizeof(directory), "%s", server_dir());
	snprintf(path, sizeof(path), "%s/redis.sock", directory);
	if (argv[0] && !server_start(argv, path))
		return path;
	path[0] = 0;
	return NULL;
}

int redis_port(enum redis_way way)
{
	return ports[way];
}

void redis_far_begin(int64_t ns)
{
	network = relay_start(&ports[REDIS_FAR], ns, ports[REDIS_TCP]);
}

static bool start_more(int i)
{
	char directory[80], socket[128], number[16];
	const char *argv[] = { server_find("redis-server", NULL),
			       "--port", number, "--bind", "127.0.0.1", "--unixsocket", socket, "--save", "",
			       "--appendonly", "no", "--dir", directory, NULL };

	if (more[i])
		return true;
	more[i] = free_port();
	snprintf(number, sizeof(number), "%d", more[i]);
	snprintf(directory, sizeof(directory), "%s", server_dir());
	snprintf(socket, sizeof(socket), "%s/redis-%d.sock", directory, i);
	if (server_start(argv, socket))
		more[i] = 0;
	return more[i];
}

const char *redis_majority_begin(int64_t ns, int n)
{
	static char uris[MAJORITY * 40];
	int port, fd;

	redis_far_begin(ns);
	snprintf(uris, sizeof(uris), "redis://127.0.0.1:%d", ports[REDIS_FAR]);
	for (int i = 1; i < n; i++) {
		if (!start_more(i))
			return "";
		fd = redis_dial_port(more[i]);
		redis_ask(fd, "FLUSHALL");
		close(fd);
		networks[i] = relay_start(&port, ns, more[i]);
		snprintf(uris + strlen(uris), sizeof(uris) - strlen(uris), ",redis://127.0.0.1:%d", port);
	}
	return uris;
}

void redis_far_end(void)
{
	if (network)
		bench_kill(network);
	network = 0;
	for (int i = 1; i < MAJORITY; i++) {
		if (networks[i])
			bench_kill(networks[i]);
		networks[i] = 0;
	}
}

int redis_dial_port(int port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	in.sin_port = htons((uint16_t)port);
	if (fd < 0 || connect(fd, (struct sockaddr *)&in, sizeof(in)))
		bench_fail("connect to redis-server");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

int redis_dial(enum redis_way way)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd;

	if (way != REDIS_UNIX)
		return redis_dial_port(ports[way]);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%.100s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&un, sizeof(un)))
		bench_fail("connect to redis-server");
	return fd;
}

/* One line for all but bulk replies, which contain their length.  False = incomplete. */
static bool complete(const char *reply, size_t len)
{
	const char *end = memchr(reply, '\n', len);
	long bytes;

	if (!end || reply[0] != '$')
		return end;
	bytes = strtol(reply + 1, NULL, 10);
	return bytes < 0 || len >= (size_t)(end + 1 - reply) + (size_t)bytes + 2;
}

static void send_all(int fd, const char *bytes, size_t len)
{
	if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		bench_fail("send to redis-server");
}

const char *redis_ask(int fd, const char *format, ...)
{
	static char reply[REPLY_MAX];
	char command[512];
	size_t len = 0;
	va_list args;
	ssize_t n;
	int written;

	va_start(args, format);
	written = vsnprintf(command, sizeof(command) - 2, format, args);
	va_end(args);
	memcpy(command + written, "\r\n", 3);
	send_all(fd, command, (size_t)written + 2);
	do {
		n = recv(fd, reply + len, sizeof(reply) - 1 - len, 0);
		if (n <= 0)
			bench_fail("recv from redis-server");
		len += (size_t)n;
	} while (!complete(reply, len));
	reply[len] = 0;
	if (reply[0] == '-') {
		fprintf(stderr, "lockshm-bench: redis: %s: %s", command, reply + 1);
		errno = 0;
		bench_fail("redis");
	}
	if (reply[0] != '$') {
		reply[strcspn(reply, "\r")] = 0;
		return reply + 1;
	}
	if (reply[1] == '-')
		return "";
	reply[len - 2] = 0;
	return strchr(reply, '\n') + 1;
}

struct redis_count redis_counted(int fd, const char *names)
{
	struct redis_count sum = { 0 };
	const char *info = redis_ask(fd, "INFO commandstats");
	char all[128], *rest = all, what[64];

	snprintf(all, sizeof(all), "%s", names);
	for (char *one; (one = strsep(&rest, " "));) {
		const char *at;

		snprintf(what, sizeof(what), "cmdstat_%s:calls=", one);
		at = strstr(info, what);
		if (!at)
			continue;
		sum.calls += strtod(at + strlen(what), NULL);
		at = strstr(at, "usec=");
		sum.us += at ? strtod(at + 5, NULL) : 0;
	}
	return sum;
}
