/* SPDX-License-Identifier: MIT */
/*
 * guard-args.c - the arguments that run, seat, once and hold have in common
 *
 * The first operand that is neither NAME nor KEY begins the command, and what follows it belongs to the command.  "--"
 * before it is needed only where it begins with '-'.
 */
#include <stdlib.h>
#include <string.h>

#include "lockctl/lockctl.h"

static void set_ttl(struct guard *guard, const char *text)
{
	int64_t ns = args_duration("-t", text, DURATION_INF | DURATION_NONE);

	if (ns < LOCKSHM_AUTO_RENEW_TTL_MIN)
		usage_error("-t: a lease of '%s' is too short; at least 200ms, or none for a strict hold", text);
	guard->request.ttl_ns = ns;
}

static void set_max_hold(struct guard *guard, const char *text)
{
	int64_t ns = args_duration("--max-hold", text, DURATION_FINITE);

	if (ns < LOCKSHM_TTL_MIN)
		usage_error("--max-hold: '%s' is too short; at least 1ms", text);
	guard->max_hold_ns = ns;
}

static void set_tag(struct guard *guard, const char *text)
{
	if (strlen(text) > LOCKSHM_TAG_MAX)
		usage_error("--tag: '%s' has more than %d bytes", text, LOCKSHM_TAG_MAX);
	strcpy(guard->tag, text);
	guard->request.tag = guard->tag;
}

static void set_shell(struct guard *guard, char *text)
{
	static char shell[] = "/bin/sh", option[] = "-c";

	if (!*text)
		usage_error("-c: the command is empty");
	guard->shell[0] = shell;
	guard->shell[1] = option;
	guard->shell[2] = text;
	guard->command = guard->shell;
}

static bool set_flag(struct guard *guard, int option)
{
	switch (option) {
	case 's':
		guard->request.mode = LOCKSHM_SHARED;
		return true;
	case GUARD_ACKNOWLEDGE:
		guard->acknowledge = true;
		return true;
	case GUARD_ANY_OWNER:
		guard->any_owner = true;
		return true;
	case GUARD_ESCAPED:
		guard->escaped = true;
		return true;
	case GUARD_GLOBAL:
		guard->request.flags |= LOCKSHM_GLOBAL;
		return true;
	case GUARD_KEEP:
		guard->keep = true;
		return true;
	case GUARD_NO_CREATE:
		guard->no_create = true;
		return true;
	case GUARD_ROBUST:
		guard->request.flags |= LOCKSHM_ROBUST;
		return true;
	default:
		return false;
	}
}

static void add_key(struct guard *guard, char *text)
{
	if (guard->n_also == LOCKSHM_MANY_MAX - 1)
		usage_error("--also: more than %d keys", LOCKSHM_MANY_MAX);
	guard->keys[++guard->n_also].text = text;
}

bool guard_option(struct guard *guard, int option)
{
	switch (option) {
	case GUARD_ALSO:
		add_key(guard, optarg);
		return true;
	case 'c':
		set_shell(guard, optarg);
		return true;
	case 'w':
		guard->request.timeout_ns = args_duration("-w", optarg, DURATION_INF);
		return true;
	case 't':
		set_ttl(guard, optarg);
		return true;
	case 'E':
		guard->conflict_status = (int)args_number("-E", optarg, 0, 255);
		return true;
	case GUARD_COOLDOWN:
		guard->cooldown_ns = args_duration("--cooldown", optarg, DURATION_FINITE);
		return true;
	case GUARD_MAX_HOLD:
		set_max_hold(guard, optarg);
		return true;
	case GUARD_REDIS_POLICY:
		guard->request.redis_policy = args_policy("--redis-policy", optarg);
		return true;
	case GUARD_TAG:
		set_tag(guard, optarg);
		return true;
	default:
		return set_flag(guard, option);
	}
}

/** NAME, then KEY.  Return: false = both are known already. */
static bool set_operand(struct guard *guard, char *text)
{
	if (!guard->name) {
		guard->name = text;
		if (!*text)
			usage_error("NAME is empty");
		subject_segment(text);
	} else if (!guard->keys[0].text) {
		guard->keys[0].text = text;
	} else {
		return false;
	}
	return true;
}

static void begin_command(struct guard *guard, char **words)
{
	if (guard->command)
		usage_error("unexpected argument '%s': -c has the command", *words);
	guard->command = words;
}

bool guard_operand(struct guard *guard, char **argv)
{
	if (set_operand(guard, optarg))
		return false;
	begin_command(guard, argv + optind - 1);
	return true;
}

static void set_key(struct guard *guard, struct guarded *key)
{
	char *before = guard->shown;

	key->copy = strdup(key->text);
	if (!key->copy) {
		message("out of memory");
		exit(EXIT_FAILED);
	}
	key->key = args_key(key->copy, guard->escaped);
	key->shown = format_given_key(key->key);
	guard->shown = before ? format_text("%s', '%s", before, key->shown) : format_text("%s", key->shown);
	free(before);
	/* The library leaves the hold of a second one empty. */
	for (const struct guarded *other = guard->keys; other < key; other++)
		if (other->key.len == key->key.len && !memcmp(other->key.bytes, key->key.bytes, key->key.len))
			usage_error("--also: '%s' is given twice", key->shown);
}

static void set_keys(struct guard *guard)
{
	for (size_t i = 0; i <= guard->n_also; i++)
		set_key(guard, &guard->keys[i]);
	guard->request.key = guard->keys[0].key.bytes;
	guard->request.key_len = guard->keys[0].key.len;
}

void guard_free(struct guard *guard)
{
	for (size_t i = 0; i <= guard->n_also; i++) {
		free(guard->keys[i].copy);
		free(guard->keys[i].shown);
	}
	free(guard->shown);
}

static void check_together(const struct guard *guard)
{
	const struct lockshm_request *request = &guard->request;

	if (guard->cooldown_ns && request->mode == LOCKSHM_SHARED)
		usage_error("--cooldown needs an exclusive lock: leave out -s");
	if (guard->acknowledge && !(request->flags & LOCKSHM_ROBUST))
		usage_error("--acknowledge needs --robust");
	if (guard->max_hold_ns && request->ttl_ns == LOCKSHM_FOREVER)
		usage_error("--max-hold needs a lease: leave out -t none");
}

void guard_finish(struct guard *guard, int argc, char **argv)
{
	if (!guard->command || guard->command == guard->shell) {
		/* A KEY that begins with '-': lockctl run -- NAME -KEY -- CMD */
		while (optind < argc && set_operand(guard, argv[optind]))
			if (++optind < argc && guard->keys[0].text && !strcmp(argv[optind], "--"))
				optind++;
		if (optind < argc)
			begin_command(guard, argv + optind);
	}
	if (!guard->keys[0].text)
		usage_error("%s is missing", guard->name ? "KEY" : "NAME");
	set_keys(guard);
	check_together(guard);
	guard->request.canceller = &guard->canceller;
	guard->request.report = &guard->report;
}

void guard_need_command(struct guard *guard)
{
	if (!guard->command || !*guard->command[0])
		usage_error("CMD is missing: the command to run comes last, or as -c 'CMD'");
	guard_default_tag(guard, guard->command[0]);
}

int guard_main(struct guard *guard, int argc, char **argv, const char *shorts, const struct option *options)
{
	for (int option; (option = args_option(argc, argv, shorts, options)) != -1;)
		if (option != 1)
			guard_option(guard, option);
		else if (guard_operand(guard, argv))
			break;
	guard_finish(guard, argc, argv);
	guard_need_command(guard);
	return guard_run(guard);
}

void guard_default_tag(struct guard *guard, const char *path)
{
	const char *slash = strrchr(path, '/');

	if (guard->request.tag)
		return;
	snprintf(guard->tag, sizeof(guard->tag), "%s", slash ? slash + 1 : path);
	guard->request.tag = guard->tag;
}
