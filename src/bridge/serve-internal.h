/* SPDX-License-Identifier: MIT */
/* serve-internal.h - the leader of a segment as bridge/serve.c and bridge/serve-due.c share it */
#ifndef LOCKSHM_BRIDGE_SERVE_INTERNAL_H
#define LOCKSHM_BRIDGE_SERVE_INTERNAL_H

#include "bridge/flight.h"
#include "bridge/listener.h"
#include "bridge/log.h"
#include "bridge/serve.h"

struct leader {
	struct bridge b;
	struct lockshm *s;
	lockshm_canceller_t *canceller;
	lockshm_hold_t leadership;
	int64_t lead_ttl, lead_renewed;
	int64_t first_ttl; /* what leadership is acquired with */
	int64_t scan_at, client_at;
	struct listener listener;
	struct flights flights;
	struct server_logs logs;
	struct bridge_pulse *pulse;
};

/* What is to be looked at: rung, by time, by hints of Redis.  The last returns true if there is any, or may be more. */
void serve_take_rings(struct leader *v);
void serve_scan(struct leader *v, int64_t now);
bool serve_take_hints(struct leader *v);
/* Decides about all that is due.  Returns when something is due next. */
int64_t serve_decide(struct leader *v, bool *sent);

#endif
