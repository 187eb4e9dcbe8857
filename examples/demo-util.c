/* SPDX-License-Identifier: MIT */
/* demo-util.c - HTTP from the client's side, clock, processes */
#include "demo.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void fail(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("FAILED: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

int compare_i64(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* ---- processes ---- */

char process_state(pid_t pid, pid_t *parent)
{
	char path[32], line[512] = "", state = '?';
	const char *after_name;
	FILE *f;

	*parent = 0;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return '?';
	if (fgets(line, sizeof(line), f)) {
		after_name = strrchr(line, ')'); /* the name may contain anything */
		if (after_name)
			sscanf(after_name, ") %c %d", &state, parent);
	}
	fclose(f);
	return state;
}

int64_t kill_worker(pid_t pid, pid_t master)
{
	int fd = pidfd_open(pid, 0);
	int64_t sent = 0;
	pid_t parent;

	if (fd < 0)
		return 0;
	process_state(pid, &parent);
	if (parent == master) {
		sent = now_ns();
		if (pidfd_send_signal(fd, SIGKILL, NULL, 0) < 0)
			sent = 0;
	}
	close(fd);
	return sent;
}

/* ---- HTTP ---- */

static int connect_to(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	const struct timeval patience = { .tv_sec = 30 }; /* longer than any lock is held */
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Return: length, or -1 if the connection broke. */
static ssize_t read_to_end(int fd, char *text, size_t size)
{
	size_t len = 0;
	ssize_t n;

	do {
		n = recv(fd, text + len, size - 1 - len, 0);
		if (n > 0)
			len += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	text[len] = '\0';
	return n < 0 ? -1 : (ssize_t)len;
}

static void parse_line(const char *line, struct response *r, size_t *body_len)
{
	if (sscanf(line, "HTTP/1.1 %d", &r->status) == 1 || sscanf(line, "Content-Length: %zu", body_len) == 1 ||
	    sscanf(line, "Worker: %d", &r->worker) == 1 || sscanf(line, "Lock: %23s", r->lock) == 1 ||
	    sscanf(line, "Note: %23s", r->note) == 1 || sscanf(line, "Token: %" SCNu64, &r->token) == 1 ||
	    sscanf(line, "Waited-Us: %" SCNd64, &r->waited_us) == 1 ||
	    sscanf(line, "Granted-Ns: %" SCNd64, &r->granted_ns) == 1)
		return;
	sscanf(line, "Previous: pid %d token %" SCNu64, &r->previous_pid, &r->previous_token);
}

/* Return: 0, or -1 if it is not all there. */
static int parse(char *text, struct response *r)
{
	char *body = strstr(text, "\r\n\r\n"), *line, *rest = text;
	size_t body_len = 0;

	if (!body)
		return -1;
	*body = '\0';
	body += 4;
	while ((line = strsep(&rest, "\n")))
		parse_line(line, r, &body_len);
	if (strlen(body) != body_len || body_len >= sizeof(r->body))
		return -1;
	memcpy(r->body, body, body_len + 1);
	return 0;
}

int http_get(int port, const char *path, struct response *response)
{
	char text[sizeof(response->body) + 2048];
	int64_t start = now_ns();
	int fd = connect_to(port);
	int rc = -1;
	int len;

	memset(response, 0, sizeof(*response));
	if (fd < 0)
		return -1;
	len = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
	if (send(fd, text, (size_t)len, MSG_NOSIGNAL) == len && read_to_end(fd, text, sizeof(text)) > 0)
		rc = parse(text, response);
	close(fd);
	response->took_ns = now_ns() - start;
	return rc;
}

char *get_stat(int port, const char *name, struct response *response)
{
	for (int i = 0; i < 10; i++) { /* the worker that takes it may be one that is being killed */
		if (http_get(port, "/stats", response) == 0 && response->status == 200) {
			char *line = strstr(response->body, name);

			if (line)
				return line + strlen(name);
		}
	}
	fail("GET /stats: no answer");
}

int64_t stat_number(int port, const char *name)
{
	struct response r;

	return strtoll(get_stat(port, name, &r), NULL, 10);
}
