/* SPDX-License-Identifier: MIT */
/*
 * libc-peer.c - one side of a meeting between two builds of the library; driven by cross-musl.sh
 *
 *   libc-peer create SEGMENT       make it
 *   libc-peer hold SEGMENT KEY     take KEY, print "held TOKEN", give it back at end of input
 *   libc-peer try SEGMENT KEY      try KEY once, print the outcome's name
 *   libc-peer wait SEGMENT KEY     wait for KEY, print "OUTCOME TOKEN TIME PID": of the grant; pid of its report
 *   libc-peer waiters SEGMENT KEY  print how many wait for KEY
 *   libc-peer kill PID             SIGKILL, print TIME just before
 *   libc-peer verify SEGMENT       status 0 if every invariant holds
 *   libc-peer rm SEGMENT
 *
 * TIME is CLOCK_MONOTONIC in nanoseconds.  Holds are strict: nothing but release or death ends them.
 */
#include <lockshm.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int complain(const char *what, int code, const char *message)
{
	fprintf(stderr, "libc-peer: %s: %s: %s\n", what, lockshm_code_name(code), message);
	return 1;
}

static struct lockshm_request request_for(const char *key, int64_t timeout_ns, struct lockshm_report *report)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;

	request.key = key;
	request.key_len = strlen(key);
	request.ttl_ns = LOCKSHM_FOREVER;
	request.timeout_ns = timeout_ns;
	request.flags = LOCKSHM_ROBUST;
	request.report = report;
	return request;
}

static int hold_until_eof(lockshm_t *segment, const char *key)
{
	struct lockshm_request request = request_for(key, LOCKSHM_SECONDS(20), NULL);
	lockshm_hold_t hold;
	int code = lockshm_acquire(segment, &request, &hold);

	if (code < 0)
		return complain("acquire", code, lockshm_strerror(code));
	printf("held %" PRIu64 "\n", lockshm_token(&hold));
	fflush(stdout);
	while (getchar() != EOF)
		;
	code = lockshm_release(&hold, 0);
	return code ? complain("release", code, lockshm_strerror(code)) : 0;
}

static int acquire_once(lockshm_t *segment, const char *key)
{
	struct lockshm_request request = request_for(key, 0, NULL);
	lockshm_hold_t hold;
	int code = lockshm_acquire(segment, &request, &hold);

	puts(lockshm_code_name(code));
	return code >= 0 && lockshm_release(&hold, 0) != 0;
}

static int wait_for(lockshm_t *segment, const char *key)
{
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	struct lockshm_request request = request_for(key, LOCKSHM_SECONDS(60), &report);
	lockshm_hold_t hold;
	int code = lockshm_acquire(segment, &request, &hold);
	int64_t at = now_ns();

	if (code < 0)
		return complain("acquire", code, report.error.message);
	printf("%s %" PRIu64 " %" PRId64 " %d\n", lockshm_code_name(code), report.token, at, (int)report.damage.pid);
	code = lockshm_acknowledge(&hold);
	if (code == 0)
		code = lockshm_release(&hold, 0);
	return code ? complain("release", code, lockshm_strerror(code)) : 0;
}

static int waiters(lockshm_t *segment, const char *key)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;
	int code = lockshm_list_open(&list, segment, LOCKSHM_LIST_KEY, key, strlen(key));

	if (code == 0)
		code = lockshm_list_next(list, &row);
	lockshm_list_close(list);
	if (code != 1)
		return complain("list", code, lockshm_strerror(code));
	printf("%u\n", (unsigned)row.waiters);
	return 0;
}

static void print_problem(const char *invariant, const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "libc-peer: %s: %s\n", invariant, text);
}

static int kill_it(const char *pid)
{
	int64_t at = now_ns();

	if (kill((pid_t)atol(pid), SIGKILL) != 0) {
		perror("libc-peer: kill");
		return 1;
	}
	printf("%" PRId64 "\n", at);
	return 0;
}

static int with_segment(const char *command, const char *name, const char *key)
{
	struct lockshm_error error;
	lockshm_t *segment;
	int code = lockshm_open(&segment, name, 0, &error);

	if (code)
		return complain("open", code, error.message);
	if (strcmp(command, "verify") == 0)
		return lockshm_verify(segment, print_problem, NULL, NULL) != 0;
	if (strcmp(command, "hold") == 0 && key)
		return hold_until_eof(segment, key);
	if (strcmp(command, "try") == 0 && key)
		return acquire_once(segment, key);
	if (strcmp(command, "wait") == 0 && key)
		return wait_for(segment, key);
	if (strcmp(command, "waiters") == 0 && key)
		return waiters(segment, key);
	fprintf(stderr, "libc-peer: no such command: %s\n", command);
	return 2;
}

int main(int argc, char **argv)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_error error;
	lockshm_t *segment;
	int code;

	if (argc < 3) {
		fprintf(stderr, "usage: libc-peer COMMAND SEGMENT|PID [KEY]\n");
		return 2;
	}
	if (strcmp(argv[1], "kill") == 0)
		return kill_it(argv[2]);
	if (strcmp(argv[1], "create") == 0)
		code = lockshm_create(&segment, argv[2], &options, &error);
	else if (strcmp(argv[1], "rm") == 0)
		code = lockshm_destroy(argv[2], &error);
	else
		return with_segment(argv[1], argv[2], argv[3]);
	return code ? complain(argv[1], code, error.message) : 0;
}
