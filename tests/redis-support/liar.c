/* SPDX-License-Identifier: MIT */
/* liar.c - see redis-support/liar.h */
#define _GNU_SOURCE
#include "liar.h"
#include "sockets.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PAIRS_MAX 64

struct liar_state {
	_Atomic unsigned told;
	_Atomic bool repents;
};

/* One client and its connection to the server; -1 = closed. */
struct pair {
	int client, server;
	bool lies;
	size_t at; /* bytes of the lie that were sent */
	int64_t next; /* when, if it drips */
};

static struct pair pairs[PAIRS_MAX];
static const struct lie *lie;
static struct liar_state *state;
static char target[TARGET_BYTES];

static void end_pair(struct pair *p)
{
	socket_shut(&p->client);
	socket_shut(&p->server);
	*p = (struct pair){ .client = -1, .server = -1 };
}

static void take_client(int listener)
{
	int i, fd = socket_accept(listener);

	for (i = 0; i < PAIRS_MAX && pairs[i].client >= 0; i++)
		;
	if (fd < 0 || i == PAIRS_MAX) {
		socket_shut(&fd);
		return;
	}
	pairs[i] = (struct pair){ .client = fd, .server = socket_dial(target) };
	if (pairs[i].server < 0)
		end_pair(&pairs[i]);
}

/* ---------------------------------------------------------------- the lie */

static size_t length(void)
{
	size_t unit = lie->more ? strlen(lie->more) : 0;

	return lie->times == LIE_FOR_EVER ? LIE_FOR_EVER : strlen(lie->bytes) + unit * lie->times;
}

/* The next bytes, at most @size. */
static size_t compose(const struct pair *p, char *out, size_t size)
{
	size_t first = strlen(lie->bytes), unit = lie->more ? strlen(lie->more) : 1, n = 0, at;

	for (at = p->at; n < size && at < length(); at++)
		out[n++] = at < first ? lie->bytes[at] : lie->more[(at - first) % unit];
	return n;
}

static void begin_lie(struct pair *p)
{
	atomic_fetch_add(&state->told, 1);
	p->lies = true;
	p->at = 0;
	p->next = redis_now();
}

static bool has_more(const struct pair *p)
{
	return p->lies && p->at < length() && (!lie->drips || redis_now() >= p->next);
}

static void lie_on(struct pair *p)
{
	char bytes[16384];
	size_t n = compose(p, bytes, lie->drips ? 1 : sizeof(bytes));
	ssize_t sent = send(p->client, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent < 0 && errno != EAGAIN) {
		end_pair(p);
		return;
	}
	p->at += sent > 0 ? (size_t)sent : 0;
	p->next = redis_now() + REDIS_MS(1000);
	if (lie->closes && p->at == length())
		end_pair(p);
}

/* ---------------------------------------------------------------- connections */

static bool has(const char *bytes, size_t n, const char *text)
{
	return memmem(bytes, n, text, strlen(text)) != NULL;
}

static bool begins_here(const char *bytes, size_t n)
{
	if (atomic_load(&state->repents))
		return false;
	return lie->place == IN_PLACE_OF_ALL || (lie->place == IN_PLACE_OF_SCRIPTS && has(bytes, n, "\r\nEVALSHA\r\n"));
}

static void from_client(struct pair *p)
{
	char bytes[65536];
	ssize_t n = recv(p->client, bytes, sizeof(bytes), 0);

	if (n <= 0)
		end_pair(p);
	else if (p->lies && lie->each && has(bytes, (size_t)n, "\r\nEVAL"))
		begin_lie(p);
	else if (!p->lies && begins_here(bytes, (size_t)n))
		begin_lie(p);
	else if (!p->lies)
		(void)!send(p->server, bytes, (size_t)n, MSG_NOSIGNAL);
}

#define RUN_ID "\r\nrun_id:"

static void claim_run_id(char *bytes, size_t n)
{
	char *at = memmem(bytes, n, RUN_ID, strlen(RUN_ID));

	if (!at || (size_t)(bytes + n - at) < strlen(RUN_ID) + strlen(lie->bytes))
		return;
	memcpy(at + strlen(RUN_ID), lie->bytes, strlen(lie->bytes));
	atomic_fetch_add(&state->told, 1);
}

static void from_server(struct pair *p)
{
	char bytes[65536];
	ssize_t n = recv(p->server, bytes, sizeof(bytes), 0);

	if (n <= 0) {
		end_pair(p);
		return;
	}
	if (p->lies)
		return;
	if (lie->place == ABOUT_ITS_RUN_ID)
		claim_run_id(bytes, (size_t)n);
	(void)!send(p->client, bytes, (size_t)n, MSG_NOSIGNAL);
	if (lie->place == AFTER_THE_SUBSCRIPTION && !atomic_load(&state->repents) && has(bytes, (size_t)n, "\r\nlockshm:"))
		begin_lie(p);
}

static void serve(int listener)
{
	struct pollfd fds[1 + 2 * PAIRS_MAX];
	int i;

	for (;;) {
		fds[0] = (struct pollfd){ .fd = listener, .events = POLLIN };
		for (i = 0; i < PAIRS_MAX; i++) {
			if (pairs[i].lies && atomic_load(&state->repents))
				end_pair(&pairs[i]);
			fds[1 + 2 * i] = (struct pollfd){ .fd = pairs[i].client, .events = POLLIN };
			fds[1 + 2 * i].events |= has_more(&pairs[i]) ? POLLOUT : 0;
			fds[2 + 2 * i] = (struct pollfd){ .fd = pairs[i].server, .events = POLLIN };
		}
		if (poll(fds, 1 + 2 * PAIRS_MAX, 20) < 0)
			continue;
		for (i = 0; i < PAIRS_MAX; i++) {
			if (fds[1 + 2 * i].revents & ~POLLOUT && pairs[i].client >= 0)
				from_client(&pairs[i]);
			if (fds[2 + 2 * i].revents && pairs[i].server >= 0)
				from_server(&pairs[i]);
			if (pairs[i].client >= 0 && has_more(&pairs[i]))
				lie_on(&pairs[i]);
		}
		if (fds[0].revents)
			take_client(listener);
	}
}

struct liar *liar_start(struct redis *r, const struct lie *what)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int i, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct liar *l = calloc(1, sizeof(*l));
	socklen_t len = sizeof(in);

	ck_assert(l && bind(listener, (struct sockaddr *)&in, sizeof(in)) == 0 && listen(listener, 64) == 0);
	getsockname(listener, (struct sockaddr *)&in, &len);
	snprintf(l->uri, sizeof(l->uri), "redis://127.0.0.1:%d", ntohs(in.sin_port));
	l->state = mmap(NULL, sizeof(*l->state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(l->state != MAP_FAILED);
	l->pid = fork();
	if (l->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		state = l->state;
		lie = what;
		memcpy(target, r->socket, sizeof(target));
		for (i = 0; i < PAIRS_MAX; i++)
			pairs[i].client = pairs[i].server = -1;
		serve(listener);
	}
	close(listener);
	return l;
}

const char *run_id_of(struct redis *r)
{
	static char run_id[41];
	const char *at = strstr(redis_say(r, "INFO server"), "run_id:");

	ck_assert(at && sscanf(at, "run_id:%40[0-9a-f]", run_id) == 1);
	return run_id;
}

unsigned liar_told(const struct liar *l)
{
	return atomic_load(&l->state->told);
}

void liar_repents(struct liar *l)
{
	atomic_store(&l->state->repents, true);
}
