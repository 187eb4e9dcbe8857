/* SPDX-License-Identifier: MIT */
/*
 * release.c - lockctl release: an operator ends one hold, here or in Redis
 *
 * The token, or the value in Redis, identifies the hold that the operator saw: a later one is not ended.
 */
#include <stdlib.h>

#include "lockctl/lockctl.h"

enum { OPTION_TOKEN = 256, OPTION_REMOTE, OPTION_ESCAPED, OPTION_ID, OPTION_ANY_OWNER };

static const struct option options[] = {
	{ "any-owner", no_argument, NULL, OPTION_ANY_OWNER },
	{ "escaped", no_argument, NULL, OPTION_ESCAPED },
	{ "help", no_argument, NULL, 'h' },
	{ "id", required_argument, NULL, OPTION_ID },
	{ "remote", required_argument, NULL, OPTION_REMOTE },
	{ "token", required_argument, NULL, OPTION_TOKEN },
	{ NULL, 0, NULL, 0 } /* end */
};

struct arguments {
	uint64_t token;
	uint64_t id; /**< of the key; 0 = KEY is given */
	char *remote; /**< the value in Redis, or NULL */
	bool escaped;
	bool any_owner;
};

static void parse(int argc, char **argv, struct arguments *args)
{
	for (int option; (option = args_option(argc, argv, ":h", options)) != -1;) {
		switch (option) {
		case OPTION_TOKEN:
			args->token = args_number("--token", optarg, 1, UINT64_MAX);
			break;
		case OPTION_REMOTE:
			args->remote = optarg;
			break;
		case OPTION_ESCAPED:
			args->escaped = true;
			break;
		case OPTION_ID:
			args->id = args_id(optarg);
			break;
		case OPTION_ANY_OWNER:
			args->any_owner = true;
			break;
		}
	}
	if (!args->token && !args->remote)
		usage_error("--token is missing, or --remote: one of them selects the hold to end; lockctl show prints both");
	if (args->token && args->remote)
		usage_error("--token ends a hold on this host, --remote a hold in Redis: give only one of them");
	if (args->remote && args->id)
		usage_error("--remote needs KEY: Redis knows keys, and not their ids on this host");
}

/** No hold has the token. */
static void message_not_held(lockshm_t *segment, const struct selected *which, uint64_t token)
{
	static const char reason[] = "it has ended, or was never granted; lockctl show prints the holds";
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	char *key = which->id ? format_id(which->id) : format_given_key(which->key);
	char *unknown = NULL;

	if (!which->id && find_key(segment, which->key, &row) == 0 && !row.known)
		unknown = format_unknown(segment, which->key);
	message("no hold of %s%s%s has token %llu: %s", which->id ? "id " : "'", key, which->id ? "" : "'",
		(unsigned long long)token, unknown ? unknown : reason);
	free(unknown);
	free(key);
}

static int end_hold(lockshm_t *segment, const struct selected *which, uint64_t token)
{
	int code = which->id ? lockshm_end_hold_of(segment, which->id, token) :
			       lockshm_end_hold(segment, which->key.bytes, which->key.len, token);

	if (code != LOCKSHM_NOT_HELD)
		return code < 0 ? failed(code, NULL) : EXIT_OK;
	message_not_held(segment, which, token);
	return EXIT_FAILED;
}

static int end_remote(const struct arguments *args, const char *name, const char *key)
{
	const char *arguments[9] = { "lockshm-bridge", "release" };
	size_t n = 2;

	if (args->any_owner)
		arguments[n++] = "--any-owner";
	if (args->escaped)
		arguments[n++] = "--escaped";
	arguments[n++] = "--";
	arguments[n++] = name;
	arguments[n++] = key;
	arguments[n] = args->remote;
	return bridge_execute(arguments);
}

int lockctl_release(int argc, char **argv)
{
	struct arguments args = { .token = 0 };
	lockshm_t *segment;
	const char *name;
	struct selected which = { .id = 0 };
	char *text = NULL;
	int status;

	parse(argc, argv, &args);
	name = args_segment(argc, argv);
	which.id = args.id;
	if (!args.id)
		text = args_operand(argc, argv, "KEY, or --id,");
	args_end(argc, argv);
	if (args.remote)
		return end_remote(&args, name, text);
	if (text)
		which.key = args_key(text, args.escaped);
	status = open_to_act(&segment, name, args.any_owner);
	if (status)
		return status;
	status = end_hold(segment, &which, args.token);
	lockshm_close(segment);
	return status;
}
