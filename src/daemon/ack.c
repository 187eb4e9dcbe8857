/* SPDX-License-Identifier: MIT */
/*
 * ack.c - lockshm-bridge ack: an operator acknowledges the damage of a robust key that Redis has
 *
 * Up to the token that was read: a lease that ends badly later stays damaged.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/daemon.h"

struct found {
	struct remote_damage all; /* of the servers together */
	size_t servers, replied;
	char *why; /* one did not reply */
};

static int add_server(const struct remote_info *info, void *arg)
{
	const struct remote_damage *one = &info->damage;
	struct found *found = arg;
	uint64_t good = found->all.good;

	found->servers++;
	if (info->code) {
		free(found->why);
		found->why = format_text("%s", info->reason);
		return 0;
	}
	found->replied++;
	/* Of the lease that goes on nothing: one server may have lost its lock, and have its note. */
	if (one->held == found->all.held ? one->last > found->all.last : one->held)
		found->all = *one;
	found->all.good = one->good > good ? one->good : good;
	return 0;
}

static int acknowledge(lockshm_t *segment, struct key key, const struct remote_damage *damage)
{
	struct lockshm_error error = { 0 };
	int code = remote_acknowledge(segment, key.bytes, key.len, damage->last, REMOTE_TIMEOUT, &error);
	char *text;

	if (code < 0)
		return failed(code, &error);
	text = format_damage(damage);
	printf("cleared in Redis: %s\n", text);
	free(text);
	return EXIT_OK;
}

/* A majority has to reply. */
static int look(lockshm_t *segment, struct key key, struct remote_damage *damage)
{
	struct lockshm_error error = { 0 };
	struct found found = { .servers = 0 };
	int status = EXIT_OK;
	int code = remote_inspect(segment, key.bytes, key.len, REMOTE_TIMEOUT, add_server, &found, &error);

	if (code < 0) {
		status = failed(code, &error);
	} else if (found.replied <= found.servers / 2) {
		message("%s", found.why ? found.why : "no server");
		status = EXIT_FAILED;
	}
	free(found.why);
	*damage = found.all;
	return status;
}

static int look_and_acknowledge(lockshm_t *segment, struct key key)
{
	struct remote_damage damage;
	int status = look(segment, key, &damage);

	if (status != EXIT_OK)
		return status;
	if (damage.last <= damage.good) {
		puts("no damage in Redis");
		return EXIT_OK;
	}
	status = acknowledge(segment, key, &damage);
	/* The bad end found by a lease that ended meanwhile is kept under its own, higher number. */
	if (status == EXIT_OK)
		status = look(segment, key, &damage);
	if (status != EXIT_OK || damage.last <= damage.good)
		return status;
	message("it is damaged still, or again: its lease ended meanwhile.  Look at it (show), and repeat");
	return EXIT_FAILED;
}

int daemon_ack(int argc, char **argv)
{
	struct key_command command = { .has_value = false };
	int status = key_command_begin(&command, argc, argv);

	if (status)
		return status;
	status = look_and_acknowledge(command.segment, command.key);
	lockshm_close(command.segment);
	return status;
}
