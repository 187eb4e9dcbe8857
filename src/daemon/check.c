/* SPDX-License-Identifier: MIT */
/*
 * check.c - lockshm-bridge --check: can a bridge with these options serve the segment?  One line for each thing
 *
 * It looks at everything, also after a failure, and leaves nothing: the lock that it takes in Redis has a name of its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/daemon.h"

#define CHECK_TIMEOUT LOCKSHM_SECONDS(2) /* for connecting, and then for each server */

static void print_line(enum check_result result, const char *subject, const char *text, void *failed)
{
	static const char *const words[] = { [CHECK_OK] = "ok", [CHECK_NOTE] = "note", [CHECK_FAIL] = "FAIL" };
	char *shown_subject = visible_line(subject), *shown = visible_line(text);

	printf("%-4s  %s: %s\n", words[result], shown_subject, shown);
	free(shown_subject);
	free(shown);
	*(bool *)failed = *(bool *)failed || result == CHECK_FAIL;
}

static void print_own(enum check_result result, const char *subject, char *text, void *failed)
{
	print_line(result, subject, text, failed);
	free(text);
}

/** The directory that was named is there. */
static void check_directory(bool *failed)
{
	if (access(bridge_credentials, R_OK | X_OK) == 0)
		print_own(CHECK_OK, "credentials", format_text("are in %s", bridge_credentials), failed);
	else if (errno == ENOENT)
		print_own(CHECK_OK, "credentials", format_text("none: there is no %s", bridge_credentials), failed);
	else
		print_own(CHECK_FAIL, "credentials",
			  format_text("%s: %s: give the bridge's user read permission, best as a member of its group",
				      bridge_credentials, strerror(errno)), failed);
}

static void check_leader(const char *name, const struct lockshm_bridge_stat *stat, bool *failed)
{
	if (stat->pid)
		print_own(CHECK_OK, "bridge", format_text("pid %d leads", (int)stat->pid), failed);
	else
		print_own(CHECK_NOTE, "bridge",
			  format_text("none runs now: start one with \"lockshm-bridge %s\"", name), failed);
}

/** Opened as by a bridge; NULL = it cannot. */
static lockshm_t *check_segment(const char *name, bool any_owner, bool *failed)
{
	struct lockshm_error error = { 0 };
	lockshm_t *segment = NULL;
	int code = lockshm_open(&segment, name, any_owner ? LOCKSHM_OPEN_ANY_OWNER : 0, &error);

	if (code == 0)
		return segment;
	/* Of an open it is the name. */
	if (code == LOCKSHM_INVALID)
		usage_error("%s", error.message);
	if (code == LOCKSHM_NO_SEGMENT)
		print_own(CHECK_FAIL, "segment",
			  format_text("there is none of this name: lockctl create %s --redis URI makes it", name), failed);
	else
		print_own(CHECK_FAIL, "segment", open_reason(name, any_owner, &error), failed);
	return NULL;
}

/* --- Other hosts ------------------------------------------------------------------------------------- */

#define OTHERS_MAX 1000

struct others {
	struct host_self self;
	bool *failed;
	size_t n;
	char id[OTHERS_MAX][REDIS_HOST_BYTES + 1];
};

/** Other servers may have it, too. */
static void take_host(const struct host_entry *entry, void *arg)
{
	struct others *others = arg;
	char text[600], *subject;
	bool differs = false;

	for (size_t i = 0; i < others->n; i++)
		if (!strcmp(others->id[i], entry->id))
			return;
	if (others->n == OTHERS_MAX)
		return;
	subject = format_text("host %s", entry->name);
	for (enum host_setting which = 0; which < HOST_SETTINGS; which++)
		if (host_differs(&others->self, entry, which, text, sizeof(text))) {
			print_line(CHECK_FAIL, subject, text, others->failed);
			differs = true;
		}
	if (differs)
		strcpy(others->id[others->n++], entry->id);
	free(subject);
}

static void check_hosts(lockshm_t *segment, const char *host_name, bool *failed)
{
	struct others *others = checked(calloc(1, sizeof(*others)));
	bool refused = false;

	others->failed = failed;
	host_self_make(&others->self, segment, host_name);
	if (hosts_visit(&others->self, false, CHECK_TIMEOUT, take_host, others, &refused) == 0)
		print_line(CHECK_NOTE, "hosts", "their settings cannot be read, so they were not compared", failed);
	else if (others->n == 0)
		print_line(CHECK_OK, "hosts", "none with other settings", failed);
	if (refused)
		print_line(CHECK_NOTE, "hosts", "one with another prefix is not seen: ACL SETUSER ... ~lockshm:hosts", failed);
	free(others);
}

static void check_redis(lockshm_t *segment, const char *name, const char *host_name, bool *failed)
{
	struct lockshm_bridge_stat stat = LOCKSHM_BRIDGE_STAT_INIT;
	char *ttl;

	if (lockshm_bridge_stat(segment, &stat) < 0 || !*stat.servers) {
		print_own(CHECK_FAIL, "segment",
			  format_text("is without Redis: lockctl rm %s, then lockctl create %s --redis URI", name, name),
			  failed);
		return;
	}
	ttl = format_duration(stat.ttl_ns);
	print_own(CHECK_OK, "segment", format_text("prefix \"%s\", ttl %s, servers %s", stat.prefix, ttl, stat.servers),
		  failed);
	free(ttl);
	check_leader(name, &stat, failed);
	check_directory(failed);
	bridge_check_credentials(segment, print_line, failed);
	bridge_check_servers(segment, CHECK_TIMEOUT, print_line, failed);
	check_hosts(segment, host_name, failed);
}

int daemon_check(const char *name, bool any_owner, const char *host_name)
{
	bool failed = false;
	lockshm_t *segment = check_segment(name, any_owner, &failed);

	if (segment) {
		check_redis(segment, name, host_name, &failed);
		lockshm_close(segment);
	}
	return failed ? EXIT_FAILED : EXIT_OK;
}
