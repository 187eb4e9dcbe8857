/* SPDX-License-Identifier: MIT */
/*
 * release.c - lockctl release: an operator ends one hold, here or in Redis
 *
 * The token, or the value in Redis, identifies the hold that the operator saw: a later one is not ended.
 */
#include <stdlib.h>

#include "lockctl/lockctl.h"

enum { OPTION_TOKEN = 256, OPTION_REMOTE, OPTION_ESCAPED, OPTION_ANY_OWNER };

static const struct option options[] = {
	{ "any-owner", no_argument, NULL, OPTION_ANY_OWNER },
	{ "escaped", no_argument, NULL, OPTION_ESCAPED },
	{ "help", no_argument, NULL, 'h' },
	{ "remote", required_argument, NULL, OPTION_REMOTE },
	{ "token", required_argument, NULL, OPTION_TOKEN },
	{ NULL, 0, NULL, 0 } /* end */
};

struct arguments {
	uint64_t token;
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
		case OPTION_ANY_OWNER:
			args->any_owner = true;
			break;
		}
	}
	if (!args->token && !args->remote)
		usage_error("--token is missing, or --remote: one of them selects the hold to end; lockctl show prints both");
	if (args->token && args->remote)
		usage_error("--token ends a hold on this host, --remote a hold in Redis: give only one of them");
}

static int end_hold(lockshm_t *segment, struct key key, uint64_t token)
{
	int code = lockshm_end_hold(segment, key.bytes, key.len, token);
	char *shown;

	if (code != LOCKSHM_NOT_HELD)
		return code < 0 ? failed(code, NULL) : EXIT_OK;
	shown = format_key(key.bytes, key.len < LOCKSHM_KEY_SHOWN_MAX ? key.len : LOCKSHM_KEY_SHOWN_MAX, key.len);
	message("no hold of '%s' has token %llu: it has ended, or was never granted; lockctl show prints the holds",
		shown, (unsigned long long)token);
	free(shown);
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
	struct key key;
	char *text;
	int status;

	parse(argc, argv, &args);
	name = args_segment(argc, argv);
	text = args_operand(argc, argv, "KEY");
	args_end(argc, argv);
	if (args.remote)
		return end_remote(&args, name, text);
	key = args_key(text, args.escaped);
	status = open_to_act(&segment, name, args.any_owner);
	if (status)
		return status;
	status = end_hold(segment, key, args.token);
	lockshm_close(segment);
	return status;
}
