/* SPDX-License-Identifier: MIT */
/*
 * ack.c - lockctl ack: clear the damage marks that dead or overdue holders of robust keys left
 *
 * An operator confirms with it that what the locks protect is good.  No lock is taken.  The mark of one key is cleared
 * by the token that was read with it, so that a mark left since then stays.
 */
#include <stdlib.h>

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
	struct selected which; /**< one key, or none of it set */
	struct key beginning;  /**< of several: how they begin */
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
static void finish(struct arguments *args, int argc, char **argv)
{
	args->which.id = args->id;
	if (!args->all && !args->prefix && !args->older && !args->id)
		args->which.key =
			args_key(args_operand(argc, argv, "KEY, --id, --all, --prefix or --older-than"), args->escaped);
	else if (args->prefix)
		args->beginning = args_bytes("--prefix", args->prefix, args->escaped);
	if (args->beginning.len > LOCKSHM_KEY_SHOWN_MAX)
		usage_error("--prefix has %zu bytes; at most %d", args->beginning.len, LOCKSHM_KEY_SHOWN_MAX);
	args_end(argc, argv);
}

static void print_none(lockshm_t *segment, const struct selected *which, const struct lockshm_row *found)
{
	char *unknown = found->known ? NULL : format_unknown(segment, which->key);

	printf("%s%s%s\n", found->damage.status ? "the damage mark has changed meanwhile" : "no damage mark",
	       unknown ? ": " : "", unknown ? unknown : "");
	free(unknown);
}

/** Also in Redis, which may have it alone: a request may have made the key global. */
static int clear_remote(lockshm_t *segment, const struct arguments *args, const struct lockshm_row *found, const char *name)
{
	bool whole = found->key_shown == found->key_len;
	struct key key = args->which.id ? (struct key){ found->key, whole ? found->key_len : 0 } : args->which.key;

	if (key.len)
		return remote_ack(segment, name, key, args->any_owner);
	if (!found->global)
		return EXIT_OK;
	message("not cleared in Redis: that needs the whole KEY");
	return EXIT_FAILED;
}

static int clear_mark(lockshm_t *segment, const struct lockshm_row *row)
{
	return row->damage.status ? lockshm_acknowledge_of(segment, row->id, row->damage.token) : LOCKSHM_NOT_HELD;
}

static void print_cleared(const struct lockshm_row *found)
{
	char *text = format_mark(&found->damage);

	printf("cleared: %s\n", text);
	free(text);
}

/** If Redis is out of reach, that fails only where the damage may be there. */
static int clear_one(lockshm_t *segment, const struct arguments *args, const char *name)
{
	struct lock lock = LOCK_INIT;
	int code = find_lock(segment, &args->which, &lock), status;
	bool cleared;

	lock_free(&lock);
	if (code < 0)
		return code == LOCKSHM_NOT_HELD ? unknown_id(args->which.id) : failed(code, NULL);
	code = clear_mark(segment, &lock.row);
	cleared = code == 0;
	if (code < 0 && code != LOCKSHM_NOT_HELD)
		return failed(code, NULL);
	if (cleared)
		print_cleared(&lock.row);
	else
		print_none(segment, &args->which, &lock.row);
	status = clear_remote(segment, args, &lock.row, name);
	return cleared && !lock.row.global ? EXIT_OK : status;
}

static int clear_several(lockshm_t *segment, const struct arguments *args)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;
	size_t cleared = 0;
	int code = lockshm_list_open(&list, segment, LOCKSHM_LIST_BUSY, args->beginning.bytes, args->beginning.len);

	while (code >= 0 && (code = lockshm_list_next(list, &row)) == 1) {
		if (row.request.state || row.damage.age_ns < args->older_than_ns)
			continue;
		code = clear_mark(segment, &row);
		cleared += code == 0;
		if (code == LOCKSHM_NOT_HELD)
			code = 0;
	}
	lockshm_list_close(list);
	if (code < 0)
		return failed(code, NULL);
	printf("cleared: %zu\n", cleared);
	return EXIT_OK;
}

int lockctl_ack(int argc, char **argv)
{
	struct arguments args = { .prefix = NULL };
	lockshm_t *segment;
	const char *name;
	int status;

	parse(argc, argv, &args);
	name = args_segment(argc, argv);
	finish(&args, argc, argv);
	status = open_to_act(&segment, name, args.any_owner);
	if (status)
		return status;
	status = args.which.key.bytes || args.which.id ? clear_one(segment, &args, name) : clear_several(segment, &args);
	lockshm_close(segment);
	return status;
}
