/* SPDX-License-Identifier: MIT */
/*
 * message.c - messages: "PROGRAM: COMMAND NAME: reason" on stderr
 *
 * A message is one write, so that lines of several programs on one terminal do not mix, and nothing in it drives a
 * terminal, since keys, tags and the words of servers come from other processes.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/cli.h"

static const char *command_name = "";
static const char *segment_name;

void subject_command(const char *command)
{
	command_name = command;
}

void subject_segment(const char *name)
{
	segment_name = name;
}

static void print_line(char *line)
{
	char *shown = visible_line(line);

	dprintf(STDERR_FILENO, "%s\n", shown);
	free(shown);
	free(line);
}

static void __attribute__((format(printf, 1, 0))) print_message(const char *format, va_list args, const char *tail)
{
	char *line = NULL;
	size_t size = 0;
	FILE *out = checked(open_memstream(&line, &size));

	fprintf(out, "%s: ", program_name);
	if (*command_name)
		fputs(command_name, out);
	if (segment_name)
		fprintf(out, "%s%s", *command_name ? " " : "", segment_name);
	if (*command_name || segment_name)
		fputs(": ", out);
	vfprintf(out, format, args);
	fputs(tail, out);
	fclose(out);
	print_line(line);
}

void message(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_message(format, args, "");
	va_end(args);
}

void usage_error(const char *format, ...)
{
	va_list args;
	char tail[64];

	snprintf(tail, sizeof(tail), " (see %s %s%s--help)", program_name, command_name, *command_name ? " " : "");
	va_start(args, format);
	print_message(format, args, tail);
	va_end(args);
	exit(EXIT_USAGE);
}

/** The lockctl command that helps, if the library's message @text does not say what to do. */
static const char *remedy(int code, const char *text)
{
	/* With the blank: no segment's name, which @text may quote, has one. */
	if (strstr(text, "lockctl rm ") || strstr(text, "remove the "))
		return "";
	switch (code) {
	case LOCKSHM_EXISTS:
		return "; lockctl rm removes it, create --or-open uses it";
	case LOCKSHM_NO_MEMORY:
		return strcmp(command_name, "create") == 0 ?
			       "; fewer --keys, --requests and --owners make it smaller" : "";
	case LOCKSHM_BAD_SEGMENT:
		return strcmp(command_name, "rm") == 0 ? "" : "; lockctl rm removes it if it was a segment";
	default:
		return "";
	}
}

static int exit_status(int code)
{
	switch (code) {
	case LOCKSHM_INVALID:
	case LOCKSHM_KEY_TOO_LONG:
		return EXIT_USAGE;
	case LOCKSHM_TIMEOUT:
	case LOCKSHM_BUSY:
		return EXIT_NOT_OBTAINED;
	default:
		return EXIT_FAILED;
	}
}

static bool memory_is_limited(void)
{
	struct rlimit memory;

	return getrlimit(RLIMIT_AS, &memory) == 0 && memory.rlim_cur != RLIM_INFINITY;
}

const char *limit_of(int cause)
{
	switch (cause) {
	case EMFILE:
		return " (ulimit -n)";
	case EAGAIN: /* a thread: also without room for its stack */
		return memory_is_limited() ? " (ulimit -u, or -v)" : " (ulimit -u)";
	case ENOMEM:
		return memory_is_limited() ? " (ulimit -v)" : "";
	default:
		return "";
	}
}

/** "; did you mean 'shop'?" where there is no segment of that name, to be freed. */
static char *nearest_segment(int code)
{
	const char *name = segment_name && *segment_name == '/' ? segment_name + 1 : segment_name;
	struct nearest nearest = nearest_to(name, name && code == LOCKSHM_NO_SEGMENT ? strlen(name) : 0);
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;

	if (nearest.len && lockshm_list_open(&list, NULL, LOCKSHM_LIST_SEGMENTS, NULL, 0) == 0) {
		while (lockshm_list_next(list, &row) == 1)
			nearest_offer(&nearest, row.segment + 1, strlen(row.segment + 1));
		lockshm_list_close(list);
	}
	return nearest_text(&nearest, "");
}

int failed(int code, const struct lockshm_error *error)
{
	bool filled = error && error->code == code && error->message[0];
	char *text = filled && segment_name ? format_refusal(segment_name, error) :
					      format_text("%s", filled ? error->message : lockshm_strerror(code));

	char *meant = nearest_segment(code);

	message("%s%s%s%s", text, filled && !strstr(text, "ulimit") ? limit_of(error->sys_errno) : "", remedy(code, text),
		meant);
	free(meant);
	free(text);
	return exit_status(code);
}

void message_no_watch(void)
{
	int fd = dup(STDERR_FILENO), cause = fd < 0 ? errno : EAGAIN;

	if (fd >= 0)
		close(fd);
	message("cannot %s the lock: %s%s", fd < 0 ? "watch" : "start a thread that watches", strerror(cause),
		limit_of(cause));
}
