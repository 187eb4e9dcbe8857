/* SPDX-License-Identifier: MIT */
/* create.c - lockctl create: make a segment */
#include <grp.h>
#include <stdlib.h>
#include <string.h>

#include "lockctl/lockctl.h"

enum {
	OPTION_LOCKS = 256,
	OPTION_REQUESTS,
	OPTION_OWNERS,
	OPTION_PERMISSIONS,
	OPTION_GLOBAL_KEYS,
	OPTION_GROUP,
	OPTION_TOKEN_FLOOR,
	OPTION_OR_OPEN,
	OPTION_REDIS,
	OPTION_REDIS_GAP,
	OPTION_HOST_LEASES,
	OPTION_REDIS_RETAIN,
	OPTION_REDIS_POLICY,
	OPTION_REDIS_PREFIX,
	OPTION_REDIS_QUORUM,
	OPTION_REDIS_TTL,
	OPTION_REDIS_WAIT
};

static const struct option options[] = {
	{ "global-keys", required_argument, NULL, OPTION_GLOBAL_KEYS },
	{ "group", required_argument, NULL, OPTION_GROUP },
	{ "help", no_argument, NULL, 'h' },
	{ "host-leases", required_argument, NULL, OPTION_HOST_LEASES },
	{ "locks", required_argument, NULL, OPTION_LOCKS },
	{ "or-open", no_argument, NULL, OPTION_OR_OPEN },
	{ "owners", required_argument, NULL, OPTION_OWNERS },
	{ "permissions", required_argument, NULL, OPTION_PERMISSIONS },
	{ "redis", required_argument, NULL, OPTION_REDIS },
	{ "redis-gap", required_argument, NULL, OPTION_REDIS_GAP },
	{ "redis-retain", required_argument, NULL, OPTION_REDIS_RETAIN },
	{ "redis-policy", required_argument, NULL, OPTION_REDIS_POLICY },
	{ "redis-prefix", required_argument, NULL, OPTION_REDIS_PREFIX },
	{ "redis-quorum", no_argument, NULL, OPTION_REDIS_QUORUM },
	{ "redis-ttl", required_argument, NULL, OPTION_REDIS_TTL },
	{ "redis-wait", required_argument, NULL, OPTION_REDIS_WAIT },
	{ "requests", required_argument, NULL, OPTION_REQUESTS },
	{ "token-floor", required_argument, NULL, OPTION_TOKEN_FLOOR },
	{ NULL, 0, NULL, 0 } /* end */
};

static uint32_t capacity(const char *option, const char *text)
{
	return (uint32_t)args_number(option, text, 1, UINT32_MAX);
}

static mode_t parse_permissions(const char *text)
{
	size_t digits = strspn(text, "01234567");
	mode_t permissions = 0;

	if (!digits || digits > 4 || text[digits])
		usage_error("--permissions: '%s' are not octal permissions such as 0660", text);
	for (const char *digit = text; *digit; digit++)
		permissions = permissions << 3 | (mode_t)(*digit - '0');
	return permissions;
}

static gid_t parse_group(const char *text)
{
	const struct group *group = getgrnam(text);

	if (group)
		return group->gr_gid;
	if (!*text || text[strspn(text, "0123456789")])
		usage_error("--group: there is no group '%s'", text);
	/* (gid_t)-1 would mean "unchanged". */
	return (gid_t)args_number("--group", text, 0, UINT32_MAX - 1);
}

/** --redis, and the options that need it. */
static void set_redis(int option, struct lockshm_create_options *settings)
{
	switch (option) {
	case OPTION_REDIS:
		settings->redis = optarg;
		break;
	case OPTION_GLOBAL_KEYS:
		settings->global_keys = optarg;
		break;
	case OPTION_HOST_LEASES:
		settings->host_leases = capacity("--host-leases", optarg);
		break;
	case OPTION_REDIS_RETAIN:
		settings->redis_retain_ns = args_duration("--redis-retain", optarg, DURATION_FINITE);
		break;
	case OPTION_REDIS_GAP:
		settings->redis_gap_ns = args_duration("--redis-gap", optarg, DURATION_FINITE);
		break;
	case OPTION_REDIS_POLICY:
		settings->redis_policy = args_policy("--redis-policy", optarg);
		break;
	case OPTION_REDIS_PREFIX:
		settings->redis_prefix = optarg;
		break;
	case OPTION_REDIS_QUORUM:
		settings->flags |= LOCKSHM_CREATE_REDIS_QUORUM;
		break;
	case OPTION_REDIS_WAIT:
		settings->redis_wait = (uint32_t)args_number("--redis-wait", optarg, 0, 15);
		break;
	case OPTION_REDIS_TTL:
		settings->redis_ttl_ns = args_duration("--redis-ttl", optarg, DURATION_FINITE);
		break;
	}
}

static void parse(int argc, char **argv, struct lockshm_create_options *settings)
{
	bool redis_options = false;

	for (int option; (option = args_option(argc, argv, ":h", options)) != -1;) {
		switch (option) {
		case OPTION_LOCKS:
			settings->locks = capacity("--locks", optarg);
			break;
		case OPTION_REQUESTS:
			settings->requests = capacity("--requests", optarg);
			break;
		case OPTION_OWNERS:
			settings->owners = capacity("--owners", optarg);
			break;
		case OPTION_PERMISSIONS:
			settings->permissions = parse_permissions(optarg);
			break;
		case OPTION_GROUP:
			settings->group = parse_group(optarg);
			break;
		case OPTION_TOKEN_FLOOR:
			settings->token_floor = args_number("--token-floor", optarg, 1, UINT64_MAX);
			break;
		case OPTION_OR_OPEN:
			settings->flags |= LOCKSHM_CREATE_OR_OPEN;
			break;
		default:
			redis_options |= option != OPTION_REDIS;
			set_redis(option, settings);
			break;
		}
	}
	if (redis_options && !settings->redis)
		usage_error("Redis options are given, but --redis names no server");
}

/** Something has the name, but no segment that create --or-open could use: why not, since rm may not help either. */
static bool is_in_the_way(const char *name, struct lockshm_error *error)
{
	lockshm_t *segment;
	int code = lockshm_open(&segment, name, LOCKSHM_OPEN_READ_ONLY | LOCKSHM_OPEN_ANY_OWNER, error);

	if (code >= 0)
		lockshm_close(segment);
	return code < 0 && code != LOCKSHM_NO_SEGMENT;
}

static int create_failed(int code, const struct lockshm_error *error, const char *name)
{
	struct lockshm_error reason;
	char *text;

	if (code != LOCKSHM_EXISTS || !is_in_the_way(name, &reason))
		return failed(code, error);
	text = format_refusal(name, &reason);
	message("a file of that name exists already: %s", text);
	free(text);
	return EXIT_FAILED;
}

int lockctl_create(int argc, char **argv)
{
	struct lockshm_create_options settings = LOCKSHM_CREATE_INIT;
	struct lockshm_error error;
	const char *name;
	int code;

	parse(argc, argv, &settings);
	name = args_segment(argc, argv);
	args_end(argc, argv);
	code = lockshm_create(NULL, name, &settings, &error);
	return code < 0 ? create_failed(code, &error, name) : EXIT_OK;
}
