/* SPDX-License-Identifier: MIT */
/*
 * create.c - lockctl create: make a segment
 *
 * Its options are those of lockshm_create_option(): "redis_ttl" there is --redis-ttl here.
 */
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>

#include "lockctl/lockctl.h"

enum { OPTION_FROM = 256, OPTION_OR_OPEN, OPTION_FIRST };
enum { OPTIONS_MAX = 64, NAME_BYTES = 40 };

/** The option at @index; false = there are no more. */
static bool row_at(size_t index, struct lockshm_option *row)
{
	*row = (struct lockshm_option)LOCKSHM_OPTION_INIT;
	return lockshm_create_option_at(index, row) == 0;
}

static const char *dashed(const char *name, char out[NAME_BYTES])
{
	size_t i;

	for (i = 0; name[i] && i < NAME_BYTES - 1; i++)
		out[i] = name[i] == '_' ? '-' : name[i];
	out[i] = '\0';
	return out;
}

static const char *value_name(int kind)
{
	static const char *const names[] = {
		[LOCKSHM_OPTION_NUMBER] = " N",		 [LOCKSHM_OPTION_DURATION] = " DUR",
		[LOCKSHM_OPTION_FLAG] = "",		 [LOCKSHM_OPTION_TEXT] = " TEXT",
		[LOCKSHM_OPTION_LIST] = " A[,B...]",	 [LOCKSHM_OPTION_POLICY] = " POLICY",
		[LOCKSHM_OPTION_PERMISSIONS] = " OCTAL", [LOCKSHM_OPTION_GROUP] = " GROUP",
	};

	return names[kind];
}

/** A line for each option of a segment: its meaning, default and range. */
void create_help(void)
{
	char name[NAME_BYTES], option[2 * NAME_BYTES];
	struct lockshm_option row;

	for (size_t i = 0; row_at(i, &row); i++) {
		snprintf(option, sizeof(option), "--%s%s", dashed(row.name, name), value_name(row.kind));
		printf("  %-24s %s", option, row.help);
		if (row.kind != LOCKSHM_OPTION_FLAG)
			printf("%s%s%s; %s", *row.initial ? " (" : "", row.initial, *row.initial ? ")" : "",
			       row.kind == LOCKSHM_OPTION_GROUP ? "a name or a number" : row.range);
		putchar('\n');
	}
}

/** For getopt_long(); lasts as long as the program. */
static const struct option *long_options(void)
{
	static char names[OPTIONS_MAX][NAME_BYTES];
	static struct option longs[OPTIONS_MAX + 4] = {
		{ "from", required_argument, NULL, OPTION_FROM },
		{ "help", no_argument, NULL, 'h' },
		{ "or-open", no_argument, NULL, OPTION_OR_OPEN },
	};
	struct lockshm_option row;

	for (int i = 0; i < OPTIONS_MAX && row_at((size_t)i, &row); i++)
		longs[i + 3] = (struct option){ dashed(row.name, names[i]),
						row.kind == LOCKSHM_OPTION_FLAG ? no_argument : required_argument, NULL,
						OPTION_FIRST + i };
	return longs;
}

/** The number of a group, to be freed: the library knows numbers only. */
static char *group_number(const char *text)
{
	const struct group *group = getgrnam(text);

	if (!group && (!*text || text[strspn(text, "0123456789")]))
		usage_error("--group: there is no group '%s'", text);
	return group ? format_text("%lu", (unsigned long)group->gr_gid) : format_text("%s", text);
}

static void set_row(struct lockshm_create_options *settings, size_t index, const char *text)
{
	char name[NAME_BYTES];
	struct lockshm_option row;
	struct lockshm_error error;
	char *number = NULL;

	if (!row_at(index, &row))
		abort();
	if (row.kind == LOCKSHM_OPTION_GROUP)
		text = number = group_number(text);
	if (lockshm_create_option(settings, row.name, row.kind == LOCKSHM_OPTION_FLAG ? "yes" : text, &error) < 0)
		usage_error("--%s: %s", dashed(row.name, name), error.message);
	free(number);
}

/** Lines name=value, as of lockshm_create_option(); empty ones and those that begin with '#' are left out. */
static void read_file(struct lockshm_create_options *settings, const char *path)
{
	FILE *file = fopen(path, "re");
	struct lockshm_error error;
	char *line = NULL;
	size_t size = 0;

	if (!file)
		usage_error("--from: %s: %s", path, strerror(errno));
	for (int number = 1; getline(&line, &size, file) > 0; number++) {
		line[strcspn(line, "\n")] = '\0';
		if (*line && *line != '#' && lockshm_create_option(settings, line, NULL, &error) < 0)
			usage_error("--from: line %d of %s: %s", number, path, error.message);
	}
	if (ferror(file))
		usage_error("--from: %s: %s", path, strerror(errno));
	free(line);
	fclose(file);
}

static void parse(int argc, char **argv, struct lockshm_create_options *settings)
{
	const struct option *longs = long_options();

	for (int option; (option = args_option(argc, argv, ":h", longs)) != -1;) {
		if (option == OPTION_FROM)
			read_file(settings, optarg);
		else if (option == OPTION_OR_OPEN)
			settings->flags |= LOCKSHM_CREATE_OR_OPEN;
		else
			set_row(settings, (size_t)(option - OPTION_FIRST), optarg);
	}
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
