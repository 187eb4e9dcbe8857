/* SPDX-License-Identifier: MIT */
/* admin-internal.h - one call of an operator, for bridge/admin.c and bridge/admin-report.c */
#ifndef LOCKSHM_BRIDGE_ADMIN_INTERNAL_H
#define LOCKSHM_BRIDGE_ADMIN_INTERNAL_H

#include "bridge/admin.h"
#include "redis/nodes.h"
#include "redis/script.h"
#include "segment/segment.h"

struct admin_op {
	struct lockshm *s;
	const void *key;
	size_t key_len;
	int64_t deadline;
	struct lockshm_error *error;
	size_t n; /* servers that have the key */
	struct node {
		struct redis_conn *conn;
		struct redis_keys keys;
		struct redis_op op;
		bool sent;
		int code;
		const char *why;
	} nodes[REDIS_SERVERS_MAX];
	struct remote_party *parties;
	const struct remote_party **list; /* of @parties */
	size_t room;
};

/* Call @fn with the reply of @node to inspect.lua, or with the reason why there is none.  Returns what @fn returns, or
 * LOCKSHM_NO_MEMORY. */
int admin_report(struct admin_op *q, const struct node *node, remote_fn fn, void *arg);

#endif
