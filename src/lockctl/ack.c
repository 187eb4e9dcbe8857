/* SPDX-License-Identifier: MIT */
/*
 * ack.c - lockctl ack: clear the damage marks that dead or overdue holders of robust keys left
 *
 * An operator confirms with it that what the locks protect is good.  No lock is taken.  The mark of one key is cleared
 * by the token that was read with it, so that a mark left since then stays.
 */
#include <stdlib.h>
#include <string.h>

#include "lockctl/lockctl.h"

enum { OPTION_ALL = 256, OPTION_PREFIX, OPTION_OLDER_THAN, OPTION_ESCAPED, OPTION_ID, OPTION_ANY_OWNER };

static const struct option options[] = {
	{ "all", no_argument, NULL, OPTION_ALL },
	{ "any-owner", no_argument, NULL, OPTION_ANY_OWNER },
	{ "escaped", no_argument, NULL, OPTION_ESCAPED },
	{ "help", no_argument, NULL, 'h' },
	{ "id", required_argument, NULL, OPTION_ID },
	{ "older-than", required_argument, NULL, OPTION_OLDER_THAN },
	{ "prefix", required_argument, NULL, OPTION_PREFIX },
	{ NULL, 0, NULL, 0 } /* end */
};

struct arguments {
	char *prefix;
	uint64_t id;
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
		case OPTION_ID:
			args->id = args_id(optarg);
			break;
		case OPTION_ANY_OWNER:
			args->any_owner = true;
			break;
		}
	}
	if (args->all && (args->prefix || args->older || args->id))
		usage_error("--all goes with no other condition");
	if (args->id && (args->prefix || args->older))
		usage_error("--id is that of one key: leave out --prefix and --older-than");
}

/** The operand KEY, or the conditions. */
static void select_marks(struct lockshm_marks *marks, struct arguments *args, int argc, char **argv)
{
	struct key key;

	marks->id = args->id;
	if (!args->all && !args->prefix && !args->older && !args->id) {
		key = args_key(args_operand(argc, argv, "KEY, --id, --all, --prefix or --older-than"), args->escaped);
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
	bool global, known;
	unsigned char key[LOCKSHM_KEY_SHOWN_MAX];
	size_t key_len; /**< 0 = @key is not all of it */
};

static int get_mark(const struct lockshm_lock_info *lock, void *arg)
{
	struct found *found = arg;

	found->previous = lock->previous;
	found->global = lock->global;
	found->known = lock->known;
	found->key_len = lock->key_shown == lock->key_len ? lock->key_len : 0;
	memcpy(found->key, lock->key, lock->key_shown);
	return 0;
}

static void print_none(lockshm_t *segment, const struct selected *which, const struct found *found)
{
	char *unknown = found->known ? NULL : format_unknown(segment, which->key);

	printf("%s%s%s\n", found->previous.status ? "the damage mark has changed meanwhile" : "no damage mark",
	       unknown ? ": " : "", unknown ? unknown : "");
	free(unknown);
}

/** Also in Redis, which may have it alone: a request may have made the key global. */
static int clear_remote(lockshm_t *segment, const struct selected *which, const struct found *found, const char *name,
			bool any_owner)
{
	struct key key = which->id ? (struct key){ found->key, found->key_len } : which->key;

	if (key.len)
		return remote_ack(segment, name, key, any_owner);
	if (!found->global)
		return EXIT_OK;
	message("not cleared in Redis: that needs the whole KEY");
	return EXIT_FAILED;
}

/** If Redis is out of reach, that fails only where the damage may be there. */
static int clear_one(lockshm_t *segment, struct lockshm_marks *marks, const char *name, bool any_owner)
{
	struct selected which = { { marks->key, marks->key_len }, marks->id };
	struct found found = { .global = false };
	int code = find_lock(segment, &which, get_mark, &found);
	size_t count = 0;
	int status;
	char *text;

	if (code == LOCKSHM_NOT_HELD)
		return unknown_id(which.id);
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
		print_none(segment, &which, &found);
	}
	status = clear_remote(segment, &which, &found, name, any_owner);
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
	status = marks.key || marks.id ? clear_one(segment, &marks, name, args.any_owner) : clear_all(segment, &marks);
	lockshm_close(segment);
	return status;
}
