/* SPDX-License-Identifier: MIT */
/*
 * flight.c - commands of leases under way; see bridge/flight.h
 *
 * Killed or stopped here: nothing of it is in the segment.  The next leader finds the words as they were decided, and
 * sends again; what a stopped leader does later is in bridge/lease-reply.c.
 */
#include "bridge/flight.h"

#include <string.h>

static void send_all(struct flight *f, struct bridge *b)
{
	size_t k;

	f->open = f->n;
	for (k = 0; k < f->n; k++) {
		f->cmd[k].owner = f;
		redis_client_add(b->client, &f->cmd[k]);
	}
}

/* The settings cannot be read, or memory is short: store that as the result. */
static void fail_without_client(struct flight *f, struct bridge *b)
{
	struct redis_command late[COMMANDS_PER_LEASE];
	size_t k;

	for (k = 0; k < f->n; k++) {
		f->cmd[k].code = b->client_error.code;
		f->cmd[k].unsent = true;
		f->cmd[k].sent_at = b->client_tried;
		memcpy(f->cmd[k].why, b->client_error.text, sizeof(f->cmd[k].why) - 1);
		(void)bridge_lease_apply_reply(b, f->lease, &f->cmd[k], late);
	}
}

bool flight_begin(struct flights *all, struct bridge *b, uint32_t i)
{
	struct flight *f = &all->of[i];

	f->lease = i;
	f->late = false;
	f->n = bridge_lease_decide(b, i, f->cmd);
	if (!f->n)
		return false;
	if (!b->client) {
		fail_without_client(f, b);
		return true;
	}
	all->n++;
	b->leases[i].under_way = true;
	send_all(f, b);
	return true;
}

/* Names and values are still those of the commands, also for the late ones. */
static void land(struct flights *all, struct bridge *b, struct flight *f)
{
	struct redis_command late[COMMANDS_PER_LEASE];
	size_t n = 0, k;

	for (k = 0; k < f->n && !f->late; k++)
		n += bridge_lease_apply_reply(b, f->lease, &f->cmd[k], late + n);
	if (n) {
		memcpy(f->cmd, late, n * sizeof(*late));
		f->n = n;
		f->late = true;
		send_all(f, b);
		return;
	}
	b->leases[f->lease].under_way = false;
	all->n--;
}

bool flights_land(struct flights *all, struct bridge *b)
{
	struct redis_command *cmd;
	bool any = false;

	while ((cmd = redis_client_next(b->client))) {
		struct flight *f = cmd->owner;

		if (--f->open > 0)
			continue;
		land(all, b, f);
		any = true;
	}
	return any;
}
