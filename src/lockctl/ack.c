/* SPDX-License-Identifier: MIT */
/*
 * ack.c - lockctl ack: clear the damage marks that dead or overdue holders of robust keys left
 *
 * An operator confirms with it that what the locks protect is good.  No lock is taken.  The mark of one key is cleared
 * by the token that was read with it, so that a mark left since then stays.
 */
#include <stdlib.h>

#include "lockctl/lockctl.h"

enum { OPTION_ALL = 256, OPTION_PREFIX, OPTION_OLDER_THAN, OPTION_ESCAPED, OPTION_ANY_OWNER };

static const struct option options[] = {
	{ "all", no_argument, NULL, OPTION_ALL },
	{ "any-owner", no_argument, NULL, OPTION_ANY_OWNER },
	{ "escaped", no_argument, NULL, OPTION_ESCAPED },
	{ "help", no_argument, NULL, 'h' },
	{ "older-than", required_argument, NULL, OPTION_OLDER_THAN },
	{ "prefix", required_argument, NULL, OPTION_PREFIX },
	{ NULL, 0, NULL, 0 } /* end */
};

struct arguments {
	char *prefix;
	int64_t older_than_ns;
	bool all;
	bool older;
	bool escaped;
	bool any_owner;
};

static void parse(int argc, char **argv, struct arguments *args)
{
	for (int option; (option = args_option(argc, argv, ":h", options)) != -1;) {
		switch (option) {
		case OPTION_ALL:
			args->all = true;
			break;
		case OPTION_PREFIX:
			args->prefix = optarg;
			break;
		case OPTION_OLDER_THAN:
			args->older = true;
			args->older_than_ns = args_duration("--older-than", optarg, DURATION_FINITE);
			break;
		case OPTION_ESCAPED:
			args->escaped = true;
			break;
		case OPTION_ANY_OWNER:
			args->any_owner = true;
			break;
		}
	}
	if (args->all && (args->prefix || args->older))
		usage_error("--all goes with no other condition");
}

/** The operand KEY, or the conditions. */
static void select_marks(struct lockshm_marks *marks, struct arguments *args, int argc, char **argv)
{
	struct key key;

	if (!args->all && !args->prefix && !args->older) {
		key = args_key(args_operand(argc, argv, "KEY, --all, --prefix or --older-than"), args->escaped);
		marks->key = key.bytes;
		marks->key_len = key.len;
	} else if (args->prefix) {
		key = args_bytes("--prefix", args->prefix, args->escaped);
		if (key.len > LOCKSHM_KEY_SHOWN_MAX)
			usage_error("--prefix has %zu bytes; at most %d", key.len, LOCKSHM_KEY_SHOWN_MAX);
		marks->prefix = key.bytes;
		marks->prefix_len = key.len;
	}
	args_end(argc, argv);
	marks->older_than_ns = args->older_than_ns;
}

struct found {
	struct lockshm_previous previous;
	bool global;
};

static int get_mark(const struct lockshm_lock_info *lock, void *arg)
{
	*(struct found *)arg = (struct found){ lock->previous, lock->global };
	return 0;
}

/** Also in Redis, which may have it alone: a request may have made the key global.  Out of reach, that fails only where
 * the damage may be there. */
static int clear_one(lockshm_t *segment, struct lockshm_marks *marks, const char *name, bool any_owner)
{
	struct key key = { .bytes = marks->key, .len = marks->key_len };
	struct found found = { .global = false };
	int code = lockshm_show_lock(segment, marks->key, marks->key_len, get_mark, &found);
	size_t count = 0;
	int status;
	char *text;

	marks->token = found.previous.token;
	if (code >= 0 && found.previous.status)
		code = lockshm_acknowledge_marks(segment, marks, &count);
	if (code < 0)
		return failed(code, NULL);
	if (count) {
		text = format_previous(&found.previous);
		printf("cleared: %s\n", text);
		free(text);
	} else {
		puts(found.previous.status ? "the damage mark has changed meanwhile" : "no damage mark");
	}
	status = remote_ack(segment, name, key, any_owner);
	return count && !found.global ? EXIT_OK : status;
}

static int clear_all(lockshm_t *segment, const struct lockshm_marks *marks)
{
	size_t count;
	int code = lockshm_acknowledge_marks(segment, marks, &count);

	if (code < 0)
		return failed(code, NULL);
	printf("cleared: %zu\n", count);
	return EXIT_OK;
}

int lockctl_ack(int argc, char **argv)
{
	struct lockshm_marks marks = LOCKSHM_MARKS_INIT;
	struct arguments args = { .prefix = NULL };
	lockshm_t *segment;
	const char *name;
	int status;

	parse(argc, argv, &args);
	name = args_segment(argc, argv);
	select_marks(&marks, &args, argc, argv);
	status = open_to_act(&segment, name, args.any_owner);
	if (status)
		return status;
	status = marks.key ? clear_one(segment, &marks, name, args.any_owner) : clear_all(segment, &marks);
	lockshm_close(segment);
	return status;
}
