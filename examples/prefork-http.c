/* SPDX-License-Identifier: MIT */
/* prefork-http.c - as much of HTTP/1.1 as the example needs: GET, one request per connection */
#include "prefork.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct reason {
	int status;
	const char *text;
} reasons[] = {
	{ 200, "OK" },
	{ 400, "Bad Request" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 409, "Conflict" },
	{ 431, "Request Header Fields Too Large" },
	{ 500, "Internal Server Error" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
};

static const char *reason_of(int status)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Unknown";
}

/* Read up to the empty line.  Return: 0, 431 (too long), or -1 (gone, or slower than the socket's time-out). */
static int read_head(int fd, char *head, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size - 1) {
		n = recv(fd, head + len, size - 1 - len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		len += (size_t)n;
		head[len] = '\0';
		if (strstr(head, "\r\n\r\n"))
			return 0;
	}
	return 431;
}

int http_read(int fd, struct request *request)
{
	char head[4096], *path, *query, *end;
	int status = read_head(fd, head, sizeof(head));

	if (status)
		return status;
	if (strncmp(head, "GET /", 5) != 0)
		return 405;
	path = head + 4;
	end = path + strcspn(path, " \r\n");
	if (strncmp(end, " HTTP/1.", 8) != 0)
		return 400;
	*end = '\0';
	query = path + strcspn(path, "?");
	if (*query)
		*query++ = '\0';
	if (strlen(path) >= sizeof(request->path) || strlen(query) >= sizeof(request->query))
		return 400;
	strcpy(request->path, path);
	strcpy(request->query, query);
	return 0;
}

void reply_printf(struct reply *reply, const char *format, ...)
{
	size_t room = sizeof(reply->body) - reply->len;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(reply->body + reply->len, room, format, args);
	va_end(args);
	if (n > 0)
		reply->len += (size_t)n < room ? (size_t)n : room - 1;
}

static void send_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* the client is gone */
		data += n;
		len -= (size_t)n;
	}
}

/* Status and report of the lock, as header lines. */
static size_t grant_lines(const struct grant *grant, char *out, size_t size)
{
	const struct lockshm_damage *damage = &grant->report.damage;
	size_t len;

	if (grant->granted_ns == 0)
		return 0;
	len = (size_t)snprintf(out, size, "Lock: %s\r\nToken: %llu\r\nWaited-Us: %lld\r\nGranted-Ns: %lld\r\n",
			       lockshm_code_name(grant->code), (unsigned long long)grant->report.token,
			       (long long)(grant->report.waited_ns / 1000), (long long)grant->granted_ns);
	if (grant->code > 0)
		len += (size_t)snprintf(out + len, size - len, "Previous: pid %d token %llu\r\n", (int)damage->pid,
					(unsigned long long)damage->token);
	return len;
}

void http_write(int fd, const struct reply *reply)
{
	char head[1024];
	size_t len;

	len = (size_t)snprintf(head, sizeof(head),
			       "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
			       "Connection: close\r\nWorker: %d\r\n",
			       reply->status, reason_of(reply->status), reply->len, (int)getpid());
	len += grant_lines(&reply->grant, head + len, sizeof(head) - len);
	if (reply->note)
		len += (size_t)snprintf(head + len, sizeof(head) - len, "Note: %s\r\n", reply->note);
	len += (size_t)snprintf(head + len, sizeof(head) - len, "\r\n");
	send_all(fd, head, len);
	send_all(fd, reply->body, reply->len);
}
