/* SPDX-License-Identifier: MIT */
/*
 * bridge.c - what lockctl has done by the program lockshm-bridge, so that it needs no Redis client itself
 *
 * The program is the one beside lockctl, or else the first in PATH.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockctl/lockctl.h"

#define PROGRAM "lockshm-bridge"
#define START_MS 5000 /* longest time that it is given to lead */
#define START_LOOK_MS 5

/* --- Processes --------------------------------------------------------------------------------------- */

/** The path to execute; without a slash it is looked for in PATH. */
static const char *find_program(char path[PATH_MAX + sizeof(PROGRAM)])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return PROGRAM;
	strcpy(slash + 1, PROGRAM);
	return access(path, X_OK) == 0 ? path : PROGRAM;
}

static void __attribute__((noreturn)) become_program(const char *path, const char *const *arguments)
{
	int cause;

	execvp(path, (char *const *)(uintptr_t)arguments);
	cause = errno;
	_exit(cause == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

static char *read_all(int fd)
{
	char *text = NULL, part[4096];
	size_t size = 0;
	FILE *out = checked(open_memstream(&text, &size));
	ssize_t n;

	while ((n = read(fd, part, sizeof(part))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			fwrite(part, 1, (size_t)n, out);
	fclose(out);
	return checked(text);
}

static int exit_status_of(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_OK; /* the caller ignores SIGCHLD: not known */
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BY_SIGNAL + WTERMSIG(status);
}

/** Run it; to be freed: its output, or NULL and why there is none. */
static char *output_of(const char *const *arguments, char **why)
{
	char path[PATH_MAX + sizeof(PROGRAM)];
	const char *program = find_program(path);
	int ends[2], status;
	char *text;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0) {
		*why = format_text("cannot make a pipe: %s%s", strerror(errno), limit_of(errno));
		return NULL;
	}
	pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		become_program(program, arguments);
	}
	close(ends[1]);
	text = pid > 0 ? read_all(ends[0]) : NULL;
	close(ends[0]);
	if (pid < 0) {
		*why = format_text("cannot start a process: %s%s", strerror(errno), limit_of(errno));
		return NULL;
	}
	status = exit_status_of(pid);
	if (status == EXIT_OK)
		return text;
	free(text);
	*why = status == EXIT_NOT_FOUND || status == EXIT_NOT_EXECUTABLE ?
		       format_text("not asked: the program " PROGRAM " is not installed") :
		       format_text(PROGRAM " ended with status %d, see its message", status);
	return NULL;
}

int bridge_execute(const char *const *arguments)
{
	char path[PATH_MAX + sizeof(PROGRAM)];
	int cause;

	execvp(find_program(path), (char *const *)(uintptr_t)arguments);
	cause = errno;
	message("cannot execute " PROGRAM ", which speaks to Redis: %s", strerror(cause));
	return cause == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/** Of the caller's nothing stays open in a process that outlives it; @keep becomes the only other descriptor. */
static int leave_descriptors(int keep)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (keep != STDERR_FILENO + 1)
		keep = dup3(keep, STDERR_FILENO + 1, O_CLOEXEC);
#ifdef SYS_close_range
	if (syscall(SYS_close_range, keep + 1, ~0U, 0) == 0)
		return keep;
#endif
	for (int fd = keep + 1; fd < 1024; fd++)
		close(fd);
	return keep;
}

/**
 * Nor its directory, which could not be unmounted, and its service manager, for which it is not the main process.  A
 * relative path in the environment is of that directory; so is one in PATH, for which the program stays there.
 */
static void leave_surroundings(const char *path)
{
	const char *credentials = getenv("LOCKSHM_CREDENTIALS");
	char *absolute = credentials && *credentials && *credentials != '/' ? realpath(credentials, NULL) : NULL;

	if (absolute)
		setenv("LOCKSHM_CREDENTIALS", absolute, 1);
	free(absolute);
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	if (*path == '/' && chdir("/") < 0) {
		/* Then it stays. */
	}
}

/** In a process of its own, which leaves at once: the program belongs to no session and has no parent here. */
static void __attribute__((noreturn)) detach(const char *path, const char *const *arguments, int failure)
{
	int cause;

	setsid();
	leave_surroundings(path);
	signals_default();
	failure = leave_descriptors(failure);
	if (fork() != 0)
		_exit(EXIT_OK);
	execvp(path, (char *const *)(uintptr_t)arguments);
	cause = errno;
	if (write(failure, &cause, sizeof(cause)) < 0) {
		/* Then the request says that there is no bridge. */
	}
	_exit(EXIT_NOT_FOUND);
}

/** Return: 0 = it runs, or an errno. */
static int start_detached(const char *const *arguments)
{
	char path[PATH_MAX + sizeof(PROGRAM)];
	const char *program = find_program(path);
	int ends[2], cause = 0;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return errno;
	pid = fork();
	if (pid == 0)
		detach(program, arguments, ends[1]);
	cause = pid < 0 ? errno : 0;
	close(ends[1]);
	if (pid > 0) {
		(void)exit_status_of(pid);
		/* Its end is the exec. */
		if (read(ends[0], &cause, sizeof(cause)) != sizeof(cause))
			cause = 0;
	}
	close(ends[0]);
	return cause;
}

/** A request that comes before it may find that there was none for long. */
static void await_bridge(lockshm_t *segment)
{
	struct lockshm_bridge_stat stat = LOCKSHM_BRIDGE_STAT_INIT;

	for (int waited_ms = 0; waited_ms < START_MS; waited_ms += START_LOOK_MS) {
		if (lockshm_bridge_stat(segment, &stat) < 0 || stat.pid || signals_caught())
			return;
		usleep(START_LOOK_MS * 1000);
	}
}

void bridge_start_if_none(lockshm_t *segment, const char *name, bool any_owner)
{
	const char *arguments[6] = { PROGRAM, "--while-used" };
	struct lockshm_bridge_stat stat = LOCKSHM_BRIDGE_STAT_INIT;
	size_t n = 2;
	int cause;

	if (lockshm_bridge_stat(segment, &stat) < 0 || !*stat.servers || stat.pid)
		return;
	if (any_owner)
		arguments[n++] = "--any-owner";
	arguments[n++] = "--";
	arguments[n] = name;
	cause = start_detached(arguments);
	if (cause)
		message("cannot start " PROGRAM ", which speaks to Redis: %s%s", strerror(cause), limit_of(cause));
	else
		await_bridge(segment);
}

/* --- One key in Redis -------------------------------------------------------------------------------- */

/** Output of @command about a key; to be freed; NULL and no reason = a segment without Redis. */
static char *ask_remote(lockshm_t *segment, const char *command, const char *option, const char *name, struct key key,
			char **why)
{
	struct lockshm_bridge_stat stat = LOCKSHM_BRIDGE_STAT_INIT;
	const char *arguments[8] = { PROGRAM, command, "--escaped" };
	char *escaped, *text;
	size_t n = 3;

	*why = NULL;
	if (!key.bytes || key.len > LOCKSHM_GLOBAL_KEY_MAX || lockshm_bridge_stat(segment, &stat) < 0 || !*stat.servers)
		return NULL;
	escaped = format_word(key.bytes, key.len);
	if (option)
		arguments[n++] = option;
	arguments[n++] = "--";
	arguments[n++] = name;
	arguments[n] = escaped;
	text = output_of(arguments, why);
	free(escaped);
	return text;
}

void remote_json(struct json *json, lockshm_t *segment, const char *name, struct key key)
{
	char *why, *text = ask_remote(segment, "show", "--json", name, key, &why);

	if (text)
		json_raw(json, "redis", text);
	if (why) {
		json_open(json, "redis", '[');
		json_open(json, NULL, '{');
		json_text(json, "server", "-");
		json_text(json, "error", why);
		json_close(json, '}');
		json_close(json, ']');
	}
	free(text);
	free(why);
}

void remote_porcelain(FILE *out, lockshm_t *segment, const char *name, struct key key)
{
	char *why, *text = ask_remote(segment, "show", "--porcelain", name, key, &why);

	if (text)
		fputs(text, out);
	if (why) {
		fputs("redis\t%2D\t-\t0\t0\t0\t", out);
		put_word(out, why, strlen(why));
		fputc('\n', out);
	}
	free(text);
	free(why);
}

void remote_human(FILE *out, lockshm_t *segment, const char *name, struct key key)
{
	char *why, *text = ask_remote(segment, "show", NULL, name, key, &why);

	if (text)
		fputs(text, out);
	if (why)
		fprintf(out, "redis    %s\n", why);
	free(text);
	free(why);
}

int remote_ack(lockshm_t *segment, const char *name, struct key key, bool any_owner)
{
	char *why, *text = ask_remote(segment, "ack", any_owner ? "--any-owner" : NULL, name, key, &why);
	int status = why ? EXIT_FAILED : EXIT_OK;

	if (text)
		fputs(text, stdout);
	if (why)
		message("not cleared in Redis: %s", why);
	free(text);
	free(why);
	return status;
}
