/* SPDX-License-Identifier: MIT */
/*
 * turns.c - commands in turns: `turns ROUNDS <ROWS` prints a table of what each takes, beside the first of its group
 *
 * A row is a line of fields with a tab between: group, name, how, and the words of the command.
 *
 *   wall      from the start of the process to its end
 *   wall*N    N of them started at once, to the end of the last
 *   prints    the command prints its figure, in microseconds
 *
 * Every round runs each row once, every other one backwards, so that a slow phase of the machine hits all.  A figure is the
 * median of the rounds, a ratio the median of the rounds' ratios.  A command that fails ends the run.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROWS 100
#define WORDS 64
#define AT_ONCE 1000
#define ROUNDS 1000
#define WARM_UP 2 /* rounds that do not count: caches, compiled modules, a segment that is made */

static struct row {
	char *group, *name, *words[WORDS];
	bool prints;
	int at_once;
	double us[ROUNDS];
} rows[ROWS];
static int row_count;

static void fail(const struct row *row, const char *what)
{
	fprintf(stderr, "turns: %s: %s\n", row->name, what);
	exit(1);
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* ---------------------------------------------------------------- rows */

static void parse_how(struct row *row, const char *how)
{
	row->at_once = 1;
	row->prints = !strcmp(how, "prints");
	if (row->prints || !strcmp(how, "wall"))
		return;
	if (strncmp(how, "wall*", 5) || (row->at_once = atoi(how + 5)) < 1 || row->at_once > AT_ONCE)
		fail(row, "how?");
}

static void parse(struct row *row, char *line)
{
	char *how;
	int n = 0;

	row->group = strsep(&line, "\t");
	row->name = line ? strsep(&line, "\t") : row->group;
	how = line ? strsep(&line, "\t") : NULL;
	while (line && n < WORDS - 1)
		row->words[n++] = strsep(&line, "\t");
	if (!n || line)
		fail(row, "not: group, name, how, words of a command, with tabs between");
	parse_how(row, how);
}

static void read_rows(void)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t len;

	while ((len = getline(&line, &size, stdin)) > 0 && row_count < ROWS) {
		if (line[len - 1] == '\n')
			line[len - 1] = 0;
		parse(&rows[row_count++], line);
		line = NULL; /* the row has its words in it */
		size = 0;
	}
	free(line);
}

/* ---------------------------------------------------------------- runs */

static pid_t start(const struct row *row, int out)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int error;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	error = posix_spawnp(&pid, row->words[0], &actions, NULL, row->words, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (error)
		fail(row, strerror(error));
	return pid;
}

static void await(const struct row *row, pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status)
		fail(row, "the command failed");
}

static double wall_us(const struct row *row, int null)
{
	pid_t pids[AT_ONCE];
	double from = now_us();

	for (int i = 0; i < row->at_once; i++)
		pids[i] = start(row, null);
	for (int i = 0; i < row->at_once; i++)
		await(row, pids[i]);
	return now_us() - from;
}

static double printed_us(const struct row *row)
{
	char text[64] = "", *end = text;
	size_t len = 0;
	int pipe_of[2];
	double us;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipe_of, O_CLOEXEC))
		fail(row, "pipe");
	pid = start(row, pipe_of[1]);
	close(pipe_of[1]);
	while ((n = read(pipe_of[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	close(pipe_of[0]);
	await(row, pid);
	us = strtod(text, &end);
	if (end == text)
		fail(row, "printed no figure");
	return us;
}

static void run_round(int r, int null)
{
	for (int i = 0; i < row_count; i++) {
		struct row *row = &rows[r % 2 ? row_count - 1 - i : i];
		double us = row->prints ? printed_us(row) : wall_us(row, null);

		if (r >= 0)
			row->us[r] = us;
	}
}

/* ---------------------------------------------------------------- table */

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median(const double *figures, int n)
{
	double sorted[ROUNDS];

	memcpy(sorted, figures, (size_t)n * sizeof(*figures));
	qsort(sorted, (size_t)n, sizeof(*sorted), by_size);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static double median_ratio(const struct row *row, const struct row *first, int rounds)
{
	double ratios[ROUNDS];

	for (int r = 0; r < rounds; r++)
		ratios[r] = row->us[r] / first->us[r];
	return median(ratios, rounds);
}

static void print_us(double us)
{
	if (us < 1000)
		printf("%.3g us", us);
	else
		printf("%.3g ms", us / 1000);
}

static void print_rows(int rounds)
{
	const struct row *first = NULL;

	for (struct row *row = rows; row < rows + row_count; row++) {
		if (!first || strcmp(row->group, first->group)) {
			first = row;
			printf("\n| %s | median | beside the first |\n|---|---|---|\n", row->group);
		}
		printf("| %s | ", row->name);
		print_us(median(row->us, rounds));
		printf(" | %.2f x |\n", median_ratio(row, first, rounds));
	}
}

int main(int argc, char **argv)
{
	int rounds = argc == 2 ? atoi(argv[1]) : 0, null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (rounds < 1 || rounds > ROUNDS) {
		fprintf(stderr, "usage: %s ROUNDS <ROWS   (at most %d)\n", argv[0], ROUNDS);
		return 2;
	}
	read_rows();
	for (int r = -WARM_UP; r < rounds; r++)
		run_round(r, null);
	print_rows(rounds);
	return 0;
}
