/* SPDX-License-Identifier: MIT */
/* lease-log.c - one line for each lost lease, with its cause; see bridge/lease-internal.h */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "bridge/hosts.h"
#include "bridge/lease-internal.h"
#include "bridge/log.h"
#include "redis/redis-error.h"

#define SHOWN 100 /* bytes of a key or value */

/* Percent-escaped, as in porcelain. */
static void show(char out[3 * SHOWN + 4], const unsigned char *bytes, size_t len)
{
	size_t i, n = 0;

	for (i = 0; i < len && i < SHOWN; i++)
		if (bytes[i] > ' ' && bytes[i] < 0x7f && bytes[i] != '%')
			out[n++] = (char)bytes[i];
		else
			n += (size_t)sprintf(out + n, "%%%02X", bytes[i]);
	strcpy(out + n, i < len ? "..." : "");
}

static void log_lost(struct bridge *b, uint32_t i, const char *cause)
{
	unsigned char key[LOCKSHM_GLOBAL_KEY_MAX];
	char shown[3 * SHOWN + 4];

	show(shown, key, host_lease_key(&b->s->host_leases[i], key));
	b->leases[i].loss_logged = true;
	bridge_log("key %s: lease lost: %s", shown, cause);
}

static const char *cause_of_absence(const struct redis_command *cmd)
{
	switch (cmd->reply.fence) {
	case REDIS_ABSENT_ALL:
		return "the server has lost its data";
	case REDIS_ABSENT_TAKEN:
		return cmd->exclusive ? "another holder took it in Redis, and has released it" :
					"it was removed in Redis by force";
	default:
		return "it was removed in Redis by force";
	}
}

void bridge_lease_log_loss(struct bridge *b, uint32_t i, const struct redis_command *cmd)
{
	const struct script_reply *a = &cmd->reply;
	char cause[3 * SHOWN + 100 + HOST_NAME_LONGEST], value[3 * SHOWN + 4], host[HOST_NAME_LONGEST + 1] = "";

	if (a->status == REDIS_ABSENT) {
		log_lost(b, i, cause_of_absence(cmd));
		return;
	}
	show(value, (const unsigned char *)a->holder, a->holder_len);
	if (a->kind == REDIS_KIND_HOST && a->holder_len >= REDIS_HOST_BYTES)
		(void)host_name(a->holder, host);
	snprintf(cause, sizeof(cause), "another holder has it in Redis%s%s%s%s",
		 a->kind == REDIS_KIND_READERS ? ": readers" : *value ? ", with the value " : "",
		 a->kind == REDIS_KIND_READERS ? "" : value, *host ? ", host " : "", host);
	log_lost(b, i, cause);
}

void bridge_lease_log_expiry(struct bridge *b, uint32_t i)
{
	const struct bridge_lease *l = &b->leases[i];
	int64_t now = host_now(b->s), until = (int64_t)load_acquire(&b->s->host_leases[i].valid_until);
	/* The end of a lease counts from its last renewal; a refusal from the first one. */
	double renewed = (double)(now - until) / 1e9 + (double)b->s->redis.ttl_ms / 1e3;
	char cause[100 + sizeof(l->failed_why)];

	if (l->loss_logged)
		return;
	if (!l->failing_since)
		snprintf(cause, sizeof(cause), "it expired: no bridge ran, or this one was stopped");
	else if (redis_error_passes(l->failed_code))
		snprintf(cause, sizeof(cause), "it expired: no renewal succeeded for %.1f s: %s", renewed, l->failed_why);
	else
		snprintf(cause, sizeof(cause), "it expired: renewals have been refused for %.1f s: %s",
			 (double)(now - l->failing_since) / 1e9, l->failed_why);
	log_lost(b, i, cause);
}
