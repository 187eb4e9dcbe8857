/* SPDX-License-Identifier: MIT */
/*
 * supervisor.c - what a service manager is told: a datagram to the socket of NOTIFY_SOCKET, as sd_notify(3) describes
 *
 * Without that variable, or when the manager does not listen, nothing happens.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/daemon.h"

#define LONGEST_US (86400LL * 1000000)

void supervisor_tell(const char *format, ...)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char text[256];
	va_list args;
	int fd, len;

	if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof(to.sun_path))
		return;
	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	memcpy(to.sun_path, path, strlen(path));
	/* An abstract name begins with a zero byte. */
	if (*path == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)sendto(fd, text, (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT,
		     (const struct sockaddr *)(const void *)&to,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
	close(fd);
}

int64_t supervisor_interval(void)
{
	const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

	long long value;

	if (!us || (pid && atol(pid) != (long)getpid()))
		return 0;
	value = strtoll(us, NULL, 10);
	/* A longer one than a day makes no difference. */
	return value <= 0 ? 0 : (value < LONGEST_US ? value : LONGEST_US) * 1000 / 2;
}
