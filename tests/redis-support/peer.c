/* SPDX-License-Identifier: MIT */
/* peer.c - see redis-support/peer.h */
#define _GNU_SOURCE
#include "peer.h"

#include <stdlib.h>
#include <string.h>

static struct peer peers[8];
static size_t n_peers;
static struct bridge_keys keys;

struct peer *peer_at(const char *uri)
{
	struct bridge_conn_options options = { .scripts = bridge_scripts, .n_scripts = BRIDGE_N_SCRIPTS };
	struct peer *p = &peers[n_peers++];

	ck_assert_uint_le(n_peers, 8);
	if (!keys.bytes)
		ck_code(bridge_keys_make(&keys, BRIDGE_KEYS_SINGLE, "", "lock", 4, NULL), 0);
	memset(p, 0, sizeof(*p));
	ck_assert(bridge_host_make(&p->host));
	ck_assert(bridge_token(p->token, &p->host));
	p->conn = conn_to(uri, &options);
	p->keys = &keys;
	p->wish.host = p->host.id;
	p->wish.token = p->token;
	p->wish.ttl_ms = LONG_MS;
	p->wish.stride = 1024;
	p->wish.waiter_ttl_ms = LONG_MS;
	p->wish.turn = 1;
	p->wish.flags = "";
	return p;
}

struct peer *peer_new(void)
{
	return peer_at(redis->uri);
}

void peers_end(void)
{
	while (n_peers) {
		n_peers--;
		bridge_op_end(&peers[n_peers].op);
		bridge_conn_free(peers[n_peers].conn);
	}
	bridge_keys_free(&keys);
}

int peer_do(struct peer *p, enum bridge_script script)
{
	struct bridge_wish wish = p->wish;
	int code;

	/* Each new lease begins with no turn. */
	if (bridge_is_acquire(script))
		wish.turn = 0;
	bridge_op_end(&p->op);
	code = bridge_op_call(&p->op, p->conn, script, p->keys, &wish, soon());
	return code ? code : script == BRIDGE_INSPECT ? BRIDGE_DONE : (int)p->op.answer.status;
}

static int with_flags(struct peer *p, enum bridge_script script, const char *flags)
{
	p->wish.flags = flags;
	return peer_do(p, script);
}

int acquire_x(struct peer *p)
{
	return with_flags(p, BRIDGE_ACQUIRE_X, "");
}

int acquire_s(struct peer *p)
{
	return with_flags(p, BRIDGE_ACQUIRE_S, "");
}

int try_x(struct peer *p)
{
	return with_flags(p, BRIDGE_ACQUIRE_X, "t");
}

int try_s(struct peer *p)
{
	return with_flags(p, BRIDGE_ACQUIRE_S, "t");
}

int renew(struct peer *p)
{
	return peer_do(p, BRIDGE_RENEW);
}

int release(struct peer *p)
{
	return peer_do(p, BRIDGE_RELEASE);
}

int leave(struct peer *p, const char *modes)
{
	return with_flags(p, BRIDGE_LEAVE, modes);
}

void new_token(struct peer *p)
{
	ck_assert(bridge_token(p->token, &p->host));
}

const char *status_name(int status)
{
	static const char *const names[] = {
		[BRIDGE_GRANTED] = "granted", [BRIDGE_QUEUED] = "queued",   [BRIDGE_BUSY] = "busy",
		[BRIDGE_DONE] = "done",	      [BRIDGE_LATE] = "late",	    [BRIDGE_LOST] = "lost",
		[BRIDGE_ABSENT] = "absent",   [BRIDGE_CHANGED] = "changed",
	};

	return status >= BRIDGE_GRANTED && status <= BRIDGE_CHANGED ? names[status] : bridge_code_name(status);
}
