/* SPDX-License-Identifier: MIT */
/*
 * test-global-liar.c - servers whose replies are lies: the bridge lives, stays small, names server and cause, and obtains
 * the leases of other servers
 */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include "redis-support/liar.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "redis/names.h"
#include "redis/nodes.h"

#define MEMORY_MAX_KIB (64 * 1024)
#define AGAIN 3 /* connections that get the lie before a test ends */

#define PONG "+PONG\r\n"
/* A reply to a script that is one, up to the number of hosts in the queue. */
#define QUEUED "*9\r\n$6\r\nqueued\r\n:1700000000000\r\n"
#define BUSY_REST "$4\r\nhost\r\n$4\r\nhost\r\n"
#define MESSAGE "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"

static const struct lie lies[] = {
	/* Counts and sizes. */
	{ "array of 2^31-1", IN_PLACE_OF_SCRIPTS, "*2147483647\r\n", NULL, 0, .cause = "an array of 2147483647" },
	{ "array of 10^8, seven deep", IN_PLACE_OF_SCRIPTS, "", "*100000000\r\n", 7, .cause = "an array of 100000000" },
	{ "array of 2^64", IN_PLACE_OF_SCRIPTS, "*18446744073709551616\r\n", NULL, 0, .cause = "no number" },
	{ "array of -7", IN_PLACE_OF_SCRIPTS, "*-7\r\n", NULL, 0, .cause = "-7" },
	{ "array that never ends", IN_PLACE_OF_SCRIPTS, "*16000\r\n", "$1\r\nx\r\n", 15000, .cause = "no reply in time" },
	{ "array of nothing useful", IN_PLACE_OF_SCRIPTS, "*16000\r\n", "$1\r\nx\r\n", 16000, .cause = "not understood" },
	{ "arrays in arrays", IN_PLACE_OF_SCRIPTS, "", "*1\r\n", LIE_FOR_EVER, .cause = "arrays in arrays" },
	{ "elements in many arrays", IN_PLACE_OF_SCRIPTS, "*16000\r\n", "*16000\r\n", LIE_FOR_EVER, .cause = "elements" },
	{ "text of 2 GiB", IN_PLACE_OF_SCRIPTS, "$2147483647\r\n", "x", LIE_FOR_EVER, .cause = "2147483647 bytes" },
	{ "text of 2^63-1", IN_PLACE_OF_SCRIPTS, "$9223372036854775807\r\n", "x", LIE_FOR_EVER,
	  .cause = "9223372036854775807 bytes" },
	{ "text of -2", IN_PLACE_OF_SCRIPTS, "$-2\r\n", NULL, 0, .cause = "-2" },
	{ "text longer than it says", IN_PLACE_OF_SCRIPTS, "$3\r\nabcdef\r\n", NULL, 0, .cause = "longer than its length" },
	{ "line without end", IN_PLACE_OF_SCRIPTS, "+", "x", LIE_FOR_EVER, .cause = "a line of more than" },
	{ "error without end", IN_PLACE_OF_SCRIPTS, "-ERR ", "x", LIE_FOR_EVER, .cause = "a line of more than" },
	{ "number without end", IN_PLACE_OF_SCRIPTS, ":", "1", LIE_FOR_EVER, .cause = "no number" },
	/* Types. */
	{ "integer", IN_PLACE_OF_SCRIPTS, ":1\r\n", NULL, 0, .cause = "not understood", .each = true },
	{ "status", IN_PLACE_OF_SCRIPTS, "+OK\r\n", NULL, 0, .cause = "not understood", .each = true },
	{ "nil", IN_PLACE_OF_SCRIPTS, "$-1\r\n", NULL, 0, .cause = "not understood", .each = true },
	{ "nil array", IN_PLACE_OF_SCRIPTS, "*-1\r\n", NULL, 0, .cause = "not understood", .each = true },
	{ "empty array", IN_PLACE_OF_SCRIPTS, "*0\r\n", NULL, 0, .cause = "not understood", .each = true },
	{ "nine integers", IN_PLACE_OF_SCRIPTS, "*9\r\n", ":7\r\n", 9, .cause = "not understood", .each = true },
	{ "two texts", IN_PLACE_OF_SCRIPTS, "*2\r\n", "$1\r\n1\r\n", 2, .cause = "not understood", .each = true },
	{ "no token", IN_PLACE_OF_SCRIPTS, "*2\r\n:1700000000000\r\n$-1\r\n", NULL, 0, .cause = "not understood", .each = true },
	{ "token beyond all bounds", IN_PLACE_OF_SCRIPTS, "*2\r\n:1700000000000\r\n:9007199254740992\r\n", NULL, 0,
	  .cause = "not understood", .each = true },
	{ "texts for numbers", IN_PLACE_OF_SCRIPTS, "*9\r\n$6\r\nqueued\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n"
	  BUSY_REST "$1\r\n1\r\n$1\r\n1\r\n", NULL, 0, .cause = "not understood", .each = true },
	{ "numbers beyond all bounds", IN_PLACE_OF_SCRIPTS, QUEUED ":9223372036854775807\r\n:9223372036854775807\r\n"
	  ":9223372036854775807\r\n" BUSY_REST ":9223372036854775807\r\n:1\r\n", NULL, 0, .cause = "not understood",
	  .each = true },
	{ "negative numbers", IN_PLACE_OF_SCRIPTS, QUEUED ":-9223372036854775808\r\n:-1\r\n:-9223372036854775808\r\n"
	  BUSY_REST ":-9223372036854775808\r\n:1\r\n", NULL, 0, .cause = "not understood", .each = true },
	{ "number that is none", IN_PLACE_OF_SCRIPTS, ":nan\r\n", NULL, 0, .cause = "no number", .each = true },
	{ "push of RESP3", IN_PLACE_OF_SCRIPTS, ">2\r\n+a\r\n+b\r\n", NULL, 0, .cause = "byte 0x3e", .each = true },
	{ "error of a megabyte", IN_PLACE_OF_SCRIPTS, "-ERR ", "x", 1000000, .cause = "a line of more than", .each = true },
	{ "map of RESP3", IN_PLACE_OF_SCRIPTS, "%1\r\n+a\r\n+b\r\n", NULL, 0, .cause = "byte 0x25" },
	{ "no Redis at all", IN_PLACE_OF_SCRIPTS, "HTTP/1.1 400 no\r\n\r\n", NULL, 0, .cause = "byte 0x48" },
	{ "blanks for ever", IN_PLACE_OF_SCRIPTS, "\r\n", " ", LIE_FOR_EVER, .cause = "byte 0x0d" },
	{ "error with lines and escapes", IN_PLACE_OF_SCRIPTS, "-ERR one\ntwo\r\x1b[2Jthree\r\n", NULL, 0,
	  .cause = "ERR one?two??[2Jthree", .each = true },
	{ "no such script, ever", IN_PLACE_OF_SCRIPTS, "-NOSCRIPT none\r\n", NULL, 0, .cause = "no reply in time", .each = true },
	{ "moved, but no cluster", IN_PLACE_OF_SCRIPTS, "-MOVED 7 127.0.0.1:1\r\n", NULL, 0, .cause = NULL, .each = true },
	/* Timing. */
	{ "byte a second", IN_PLACE_OF_SCRIPTS, QUEUED, NULL, 0, .cause = "no reply in time", .drips = true },
	{ "silence", IN_PLACE_OF_SCRIPTS, "", NULL, 0, .cause = "no reply in time" },
	{ "end in a reply", IN_PLACE_OF_SCRIPTS, "*9\r\n$7\r\ngra", NULL, 0, .cause = "closed by the server", .closes = true },
	{ "replies without commands", IN_PLACE_OF_SCRIPTS, "", "+OK\r\n", LIE_FOR_EVER, .cause = "not understood" },
	/* The handshake. */
	{ "array of 2^31-1 at once", IN_PLACE_OF_ALL, "*2147483647\r\n", NULL, 0, .cause = "an array of 2147483647" },
	{ "another pong", IN_PLACE_OF_ALL, "+PING\r\n", NULL, 0, .cause = "not PONG" },
	{ "information of 2 GiB", IN_PLACE_OF_ALL, PONG "$2147483647\r\n", "x", LIE_FOR_EVER, .cause = "2147483647 bytes" },
	{ "information that is a number", IN_PLACE_OF_ALL, PONG ":5\r\n", NULL, 0, .cause = "no text" },
	{ "information without an end", IN_PLACE_OF_ALL, PONG "$1000000\r\n", "run_id:x\r\n", 2000,
	  .cause = "no reply to the handshake in time" },
	{ "uptime beyond all bounds", IN_PLACE_OF_ALL,
	  PONG "$51\r\nrun_id:x\r\nuptime_in_seconds:9223372036854775807\r\n\r\n\r\n", NULL, 0, .cause = "uptime_in_seconds" },
	{ "negative uptime", IN_PLACE_OF_ALL, PONG "$50\r\nrun_id:x\r\nuptime_in_seconds:-9223372036854775807\r\n\r\n",
	  NULL, 0, .cause = "uptime_in_seconds" },
	{ "handshake of a byte a second", IN_PLACE_OF_ALL, PONG, "x", 1000, .cause = "no reply to the handshake in time",
	  .drips = true },
	/* The connection for hints; commands are answered. */
	{ "hint of 2^31-1 keys", AFTER_THE_SUBSCRIPTION, MESSAGE "*2147483647\r\n", NULL, 0,
	  .cause = "an array of 2147483647" },
	{ "hints for ever", AFTER_THE_SUBSCRIPTION, "", MESSAGE "*1\r\n$1\r\nk\r\n", LIE_FOR_EVER, .cause = NULL },
	{ "hints about everything", AFTER_THE_SUBSCRIPTION, "", MESSAGE "*-1\r\n", LIE_FOR_EVER, .cause = NULL },
	{ "messages that are none", AFTER_THE_SUBSCRIPTION, "", "+x\r\n", LIE_FOR_EVER, .cause = "no hint" },
	{ "empty messages", AFTER_THE_SUBSCRIPTION, "", "*0\r\n", LIE_FOR_EVER, .cause = "no hint" },
	{ "errors for ever", AFTER_THE_SUBSCRIPTION, "", "-ERR x\r\n", LIE_FOR_EVER, .cause = "no hint" },
	{ "pongs for ever", AFTER_THE_SUBSCRIPTION, "", "*2\r\n$4\r\npong\r\n$0\r\n\r\n", LIE_FOR_EVER,
	  .cause = "no hint" },
	{ "hint without keys", AFTER_THE_SUBSCRIPTION, "", MESSAGE "*0\r\n", LIE_FOR_EVER, .cause = "no hint" },
};
#define N_LIES ((int)(sizeof(lies) / sizeof(lies[0])))

static struct redis *good[2];
static struct agent *a, *b;
static struct liar *liar;
static char log_file[128];

/* LIE=TEXT in the environment: only lies with that in their names. */
static bool is_chosen(const struct lie *lie)
{
	const char *part = getenv("LIE");

	return !part || strstr(lie->name, part);
}

static void start_good(void)
{
	good[0] = redis_start(NULL, false);
	good[1] = redis_start(NULL, false);
}

/* ---------------------------------------------------------------- what is seen of the bridge */

/* What this test and the bridge that it starts print. */
static void keep_log(void)
{
	char dir[64];
	int fd;

	redis_dir(dir);
	snprintf(log_file, sizeof(log_file), "%s/log", dir);
	fd = open(log_file, O_CREAT | O_WRONLY | O_APPEND, 0600);
	ck_assert(fd >= 0 && dup2(fd, 2) == 2);
	close(fd);
}

static bool is_logged(void *cause)
{
	FILE *f = fopen(log_file, "r");
	bool found = false;
	char line[1000];

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, liar->uri) && strstr(line, cause);
	if (f)
		fclose(f);
	return found;
}

static long memory_kib(void)
{
	char path[64], line[200];
	long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)hosts[0].bridge);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		(void)sscanf(line, "VmHWM: %ld kB", &kib);
	if (f)
		fclose(f);
	return kib;
}

static void bridge_is_well(const struct lie *lie)
{
	long kib = memory_kib();

	ck_assert_msg(waitpid(hosts[0].bridge, NULL, WNOHANG) == 0, "%s: the bridge ended", lie->name);
	ck_assert_msg(kib > 0 && kib < MEMORY_MAX_KIB, "%s: the bridge has %ld KiB", lie->name, kib);
}

static bool is_told_again(void *arg)
{
	(void)arg;
	return liar_told(liar) >= AGAIN;
}

static void lie_is_logged(const struct lie *lie)
{
	char log[2000];
	size_t n;
	FILE *f;

	if (!lie->cause || await(is_logged, (void *)(uintptr_t)lie->cause))
		return;
	f = fopen(log_file, "r");
	n = f ? fread(log, 1, sizeof(log) - 1, f) : 0;
	log[n] = '\0';
	ck_abort_msg("%s: no line with %s and '%s' in: %s", lie->name, liar->uri, lie->cause, log);
}

/* ---------------------------------------------------------------- servers */

static void host_at(const char *uris, unsigned flags)
{
	struct lockshm_create_options options = host_options();

	keep_log();
	strcpy(options.redis, uris);
	/* No login: it would be one more reply of the handshake. */
	strcpy(options.redis_prefix, "liar:");
	options.flags = flags;
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
}

static void acquired_and_released(const struct lie *lie, struct agent *by, const char *key)
{
	int code = global_wait(by, key, LOCKSHM_EXCLUSIVE);

	ck_assert_msg(code == 0, "%s: %s: %s: %s", lie->name, key, outcome_name(code), by->answer.report.error.message);
	code = agent_release(by);
	ck_assert_msg(code >= 0, "%s: release of %s: %s", lie->name, key, outcome_name(code));
}

/* Until the lie was told again, and at least a few times. */
static void leases_come_meanwhile(const struct lie *lie, const char *const keys[4])
{
	int i;

	for (i = 0; i < 8 || (lie->place != AFTER_THE_SUBSCRIPTION && !is_told_again(NULL) && i < 2000); i++)
		acquired_and_released(lie, a, keys[i % 4]);
}

START_TEST(lie_to_a_majority)
{
	static const char *const keys[] = { "one", "two", "three", "four" };
	const struct lie *lie = &lies[_i];
	char uris[400];
	bool is_named;
	int i;

	/* A majority needs no hints. */
	if (lie->place == AFTER_THE_SUBSCRIPTION || !is_chosen(lie))
		return;
	liar = liar_start(redis, lie);
	snprintf(uris, sizeof(uris), "%s,%s,%s", liar->uri, good[0]->uri, good[1]->uri);
	host_at(uris, LOCKSHM_CREATE_REDIS_QUORUM);
	leases_come_meanwhile(lie, keys);
	/* A majority that is there waits for no other reply, and logs only a server that it has no connection to. */
	is_named = lie->cause && !strstr(lie->cause, "in time") && lie->bytes[0] != '-';
	for (i = 0; is_named && i < 1000 && !is_logged((void *)(uintptr_t)lie->cause); i++)
		acquired_and_released(lie, a, keys[i % 4]);
	if (is_named)
		lie_is_logged(lie);
	bridge_is_well(lie);
}
END_TEST

/* A whole handshake, and silence from then on. */
__attribute__((format(printf, 1, 2))) static const struct lie *lie_of_itself(const char *format, ...)
{
	static char text[300], reply[600];
	static struct lie lie;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(reply, sizeof(reply), PONG "$%zu\r\n%s\r\n$11\r\nrole:master\r\n", strlen(text), text);
	/* CLIENT SETNAME and the scripts. */
	lie = (struct lie){ .name = "of itself", .place = IN_PLACE_OF_ALL, .bytes = reply, .more = "+OK\r\n",
			    .times = 1 + REDIS_N_SCRIPTS };
	return &lie;
}

static void majority_obtains_leases(const struct lie *lie, const char *cause)
{
	char uris[400];
	int i;

	liar = liar_start(redis, lie);
	snprintf(uris, sizeof(uris), "%s,%s,%s", liar->uri, good[0]->uri, good[1]->uri);
	host_at(uris, LOCKSHM_CREATE_REDIS_QUORUM);
	for (i = 0; i < 8; i++)
		acquired_and_released(lie, a, i % 2 ? "one" : "two");
	ck_assert_msg(await(is_logged, (void *)(uintptr_t)cause), "no line with %s and '%s'", liar->uri, cause);
	ck_assert_uint_ge(liar_told(liar), 1);
	bridge_is_well(lie);
}

/* It takes no vote from the other, and gains none. */
START_TEST(a_majority_with_a_server_that_claims_to_be_another)
{
	majority_obtains_leases(lie_of_itself("run_id:%s\r\nuptime_in_seconds:7\r\n", run_id_of(good[0])),
				"one vote together");
}
END_TEST

START_TEST(a_majority_with_a_server_that_claims_to_be_a_cluster)
{
	majority_obtains_leases(lie_of_itself("run_id:%040d\r\nuptime_in_seconds:7\r\nredis_mode:cluster\r\n", 7),
				"is a node of a cluster");
}
END_TEST

/* Its tokens are the last that can be counted.  The other that grants is not raised to them: that would end the key. */
START_TEST(a_majority_with_a_server_that_grants_the_last_tokens)
{
	static const struct lie lie = { .name = "the last tokens", .place = IN_PLACE_OF_SCRIPTS, .each = true,
					.bytes = "*2\r\n:1700000000000\r\n:9007199254740991\r\n" };
	char uris[400];
	int i;

	liar = liar_start(redis, &lie);
	snprintf(uris, sizeof(uris), "%s,%s,%s", liar->uri, good[0]->uri, good[1]->uri);
	host_at(uris, LOCKSHM_CREATE_REDIS_QUORUM);
	redis_freeze(good[1]);
	global_send(a, "key", LOCKSHM_EXCLUSIVE);
	ck_assert(await(is_told_again, NULL));
	redis_thaw(good[1]);
	ck_code(agent_end(a), 0);
	ck_code(agent_release(a), 0);
	for (i = 0; i < 8; i++)
		acquired_and_released(&lie, a, "key");
	bridge_is_well(&lie);
}
END_TEST

/* Keys of server @at of two. */
static void choose_keys(char out[5][16], size_t at)
{
	struct redis_keys keys;
	int n = 0, i;

	for (i = 0; n < 5; i++) {
		snprintf(out[n], 16, "k%d", i);
		ck_code(redis_keys_make(&keys, REDIS_KEYS_SINGLE, "liar:", out[n], strlen(out[n]), NULL), 0);
		n += redis_server_of(&keys, 2) == at;
		redis_keys_free(&keys);
	}
}

START_TEST(lie_beside_another_server)
{
	char its[5][16], others[5][16], uris[400];
	const char *const keys[] = { others[0], others[1], others[2], others[3] };
	const struct lie *lie = &lies[_i];

	if (!is_chosen(lie))
		return;
	liar = liar_start(redis, lie);
	snprintf(uris, sizeof(uris), "%s,%s", liar->uri, good[0]->uri);
	choose_keys(its, 0);
	choose_keys(others, 1);
	host_at(uris, 0);
	global_send(b, its[0], LOCKSHM_EXCLUSIVE);
	leases_come_meanwhile(lie, keys);
	lie_is_logged(lie);
	bridge_is_well(lie);
}
END_TEST

/* Once the replies are true, the lease comes without a restart. */
START_TEST(lie_of_the_only_server)
{
	const struct lie *lie = &lies[_i];

	if (!is_chosen(lie))
		return;
	liar = liar_start(redis, lie);
	host_at(liar->uri, 0);
	global_send(a, "key", LOCKSHM_EXCLUSIVE);
	lie_is_logged(lie);
	bridge_is_well(lie);
	liar_repents(liar);
	(void)agent_end(a);
	while (a->answer.code == LOCKSHM_BRIDGE)
		(void)global_wait(a, "key", LOCKSHM_EXCLUSIVE);
	ck_code(a->answer.code, 0);
	ck_redis(lease_of(0, "key").value, redis, "GET liar:key");
	bridge_is_well(lie);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_unchecked_fixture(tc, start_good, NULL);
	tcase_add_test(tc, a_majority_with_a_server_that_claims_to_be_another);
	tcase_add_test(tc, a_majority_with_a_server_that_claims_to_be_a_cluster);
	tcase_add_test(tc, a_majority_with_a_server_that_grants_the_last_tokens);
	tcase_add_loop_test(tc, lie_to_a_majority, 0, N_LIES);
	tcase_add_loop_test(tc, lie_beside_another_server, 0, N_LIES);
	tcase_add_loop_test(tc, lie_of_the_only_server, 0, N_LIES);
}

int main(void)
{
	return hosts_main("global-liar", add);
}
