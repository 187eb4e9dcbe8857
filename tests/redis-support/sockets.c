/* SPDX-License-Identifier: MIT */
/* sockets.c - see redis-support/sockets.h */
#define _GNU_SOURCE
#include "sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void socket_shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int dial(int family, const void *address, socklen_t len)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, address, len) != 0)
		socket_shut(&fd);
	return fd;
}

static void send_at_once(int fd)
{
	int one = 1;

	/* No error of a unix socket matters, which has no such option. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int socket_dial(const char target[TARGET_BYTES])
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd;

	if (target[0] == '/') {
		memcpy(un.sun_path, target, TARGET_BYTES);
		return dial(AF_UNIX, &un, sizeof(un));
	}
	in.sin_port = htons((uint16_t)atoi(target));
	fd = dial(AF_INET, &in, sizeof(in));
	send_at_once(fd);
	return fd;
}

int socket_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	send_at_once(fd);
	return fd;
}

bool localhost_is_known(void)
{
	struct addrinfo *found;

	if (getaddrinfo("localhost", NULL, NULL, &found) != 0) {
		puts("left out: localhost has no address (no /etc/hosts)");
		return false;
	}
	freeaddrinfo(found);
	return true;
}
