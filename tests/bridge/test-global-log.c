/* SPDX-License-Identifier: MIT */
/* test-global-log.c - what an operator reads: one line for each lost lease with its cause, one for each refusal */
#define _GNU_SOURCE
#include "bridge/log.h"
#include "redis-support/hosts.h"

#include <stdlib.h>
#include <string.h>

static struct agent *a;
static struct bridge_service bridge;

/* ---------------------------------------------------------------- lines */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[100][700];
static unsigned n_lines;

static void keep_line(const char *line)
{
	pthread_mutex_lock(&lock);
	if (n_lines < 100)
		snprintf(lines[n_lines++], sizeof(lines[0]), "%s", line);
	pthread_mutex_unlock(&lock);
}

static unsigned count(const char *part)
{
	unsigned i, n = 0;

	pthread_mutex_lock(&lock);
	for (i = 0; i < n_lines; i++)
		n += strstr(lines[i], part) != NULL;
	pthread_mutex_unlock(&lock);
	return n;
}

/* The first line with @part. */
static const char *line_with(const char *part)
{
	unsigned i;

	for (i = 0; i < n_lines; i++)
		if (strstr(lines[i], part))
			return lines[i];
	return "";
}

static bool is_logged(void *part)
{
	return count(part) > 0;
}

static void logged(const char *part)
{
	unsigned i;

	if (await(is_logged, (void *)(uintptr_t)part))
		return;
	for (i = 0; i < n_lines; i++)
		printf("%s\n", lines[i]);
	ck_abort_msg("no line with: %s", part);
}

/* hosts[0] is served by this process, which gets the lines. */
static void serve_host(const struct lockshm_create_options *options)
{
	bridge_log_to = keep_line;
	host_make_bare(0, options);
	bridge_service_start(&bridge, 0);
	a = on_host(0);
}

static void begin(void)
{
	struct lockshm_create_options options = host_options();

	serve_host(&options);
}

static void end(void)
{
	bridge_service_stop(&bridge);
}

/* ---------------------------------------------------------------- lost leases */

/* The key has a blank, which a line must not. */
#define KEY "a key"
#define LOST "key a%20key: lease lost: "

static void hold(int mode)
{
	begin();
	ck_code(global_wait(a, KEY, mode), 0);
}

static void lost_because(const char *cause)
{
	lost_is_reported(a);
	logged(cause);
	ck_assert_uint_eq(count("lease lost"), 1);
	ck_assert_uint_eq(count(LOST), 1);
	end();
}

static bool redis_executes(const char *command, const char *key)
{
	const char *argv[] = { command, key };
	struct redis_conn *c = conn_to(redis->uri, NULL);
	struct redis_reply *reply = NULL;
	int code = redis_conn_call(c, soon(), &reply, key ? 2 : 1, argv, NULL);

	redis_reply_free(reply);
	redis_conn_free(c);
	return code == 0;
}

START_TEST(removed)
{
	hold(LOCKSHM_EXCLUSIVE);
	ck_assert(redis_executes("DEL", "lk:" KEY));
	lost_because(LOST "it was removed in Redis by force");
}
END_TEST

START_TEST(a_reader_removed)
{
	hold(LOCKSHM_SHARED);
	ck_assert(redis_executes("DEL", "lk:" KEY));
	lost_because(LOST "it was removed in Redis by force");
}
END_TEST

START_TEST(data_lost)
{
	hold(LOCKSHM_EXCLUSIVE);
	ck_assert(redis_executes("FLUSHALL", NULL));
	lost_because(LOST "the server has lost its data");
}
END_TEST

START_TEST(taken_by_another)
{
	const char *argv[] = { "SET", ("lk:" KEY), "a thief" };
	struct redis_conn *c = conn_to(redis->uri, NULL);
	struct redis_reply *reply = NULL;

	hold(LOCKSHM_EXCLUSIVE);
	ck_code(redis_conn_call(c, soon(), &reply, 3, argv, NULL), 0);
	redis_reply_free(reply);
	lost_because(LOST "another holder has it in Redis, with the value a%20thief");
}
END_TEST

/* The number behind @part. */
static double seconds_logged(const char *part)
{
	unsigned i;

	for (i = 0; i < n_lines; i++)
		if (strstr(lines[i], part))
			return atof(strstr(lines[i], part) + strlen(part));
	return 0;
}

START_TEST(no_reply)
{
	struct lockshm_create_options options = host_options();
	struct proxy *p = proxy_start(redis, false);

	strcpy(options.redis, p->uri);
	serve_host(&options);
	ck_code(global_wait(a, KEY, LOCKSHM_EXCLUSIVE), 0);
	proxy_set(p, PROXY_BLACKHOLE);
	lost_because(LOST "it expired: no renewal succeeded for ");
	/* Since the last that did, not since the first that did not. */
	ck_assert(seconds_logged(LOST "it expired: no renewal succeeded for ") >= 0.9);
}
END_TEST

START_TEST(renewals_refused)
{
	struct lockshm_create_options options = host_options();
	char uri[200];

	ck_redis("OK", redis, "ACL SETUSER poor reset on >pw ~* &* +@all");
	snprintf(uri, sizeof(uri), "unix://poor:pw@%s", redis->socket);
	strcpy(options.redis, uri);
	serve_host(&options);
	ck_code(global_wait(a, KEY, LOCKSHM_EXCLUSIVE), 0);
	ck_redis("OK", redis, "ACL SETUSER poor -pexpire");
	lost_because(LOST "it expired: renewals have been refused for ");
	/* When they began to be refused, and with the loss. */
	ck_assert_uint_eq(count("can't run this command"), 2);
}
END_TEST

START_TEST(no_bridge_ran)
{
	struct lockshm_create_options options = host_options();

	bridge_log_to = keep_line;
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, KEY, LOCKSHM_EXCLUSIVE), 0);
	bridge_kill(0);
	while (lease_of(0, KEY).remaining_ns > 0)
		pass(now_ns() + LOCKSHM_MS(10));
	bridge_service_start(&bridge, 0);
	lost_because(LOST "it expired: no bridge ran, or this one was stopped");
}
END_TEST

/* ---------------------------------------------------------------- refusals */

START_TEST(not_a_lock)
{
	int i;

	begin();
	ck_redis("1", redis, "HSET lk:" K " user data");
	for (i = 0; i < 5; i++)
		ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	logged("not a lock");
	ck_assert_uint_eq(count("not a lock"), 1);
	end();
}
END_TEST

START_TEST(a_wrong_password)
{
	struct lockshm_create_options options = host_options();
	char uri[200];
	int i;

	ck_redis("OK", redis, "ACL SETUSER poor reset on >pw ~* &* +@all");
	snprintf(uri, sizeof(uri), "unix://poor:wrong@%s", redis->socket);
	strcpy(options.redis, uri);
	serve_host(&options);
	for (i = 0; i < 5; i++)
		ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	logged("WRONGPASS");
	ck_assert_uint_eq(count("WRONGPASS"), 1);
	/* Out of reach for another reason is another line, and the return one more. */
	ck_redis("OK", redis, "ACL SETUSER poor >wrong");
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	logged("is back");
	end();
}
END_TEST

/* A server that comes and goes: a line each time. */
START_TEST(lost_and_back_again)
{
	struct lockshm_create_options options = host_options();
	struct proxy *p = proxy_start(redis, false);
	unsigned i;

	strcpy(options.redis, p->uri);
	serve_host(&options);
	for (i = 1; i <= 2; i++) {
		proxy_set(p, PROXY_REFUSE);
		ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
		proxy_set(p, PROXY_PASS);
		while (global_wait(a, K, LOCKSHM_EXCLUSIVE) != 0)
			ck_code(a->answer.code, LOCKSHM_BRIDGE);
		ck_code(agent_release(a), 0);
		ck_assert_uint_eq(count("is back"), i);
		/* Else the next wait is granted under the lease that is there. */
		redis_has("EXISTS lk:" K, "0");
	}
	end();
}
END_TEST

/* ---------------------------------------------------------------- refusals that pass */

/* What a server replies, and whatever its cause is: one line, and one more when it is over. */
static const struct refusal {
	const char *config, *cause, *words, *end;
} passing[] = {
	{ NULL, "CONFIG SET maxmemory 1", ": OOM command not allowed", "CONFIG SET maxmemory 0" },
	{ NULL, "CONFIG SET min-replicas-to-write 1", ": NOREPLICAS ", "CONFIG SET min-replicas-to-write 0" },
	{ "cluster-enabled yes\ncluster-require-full-coverage yes", "CLUSTER DELSLOTSRANGE 0 1", ": CLUSTERDOWN ",
	  "CLUSTER ADDSLOTSRANGE 0 1" },
};
#define N_PASSING ((int)(sizeof(passing) / sizeof(passing[0])))

static void serve_own(const char *config)
{
	struct lockshm_create_options options;

	own_server_with(config);
	if (config)
		ck_redis("OK", redis, "CLUSTER ADDSLOTSRANGE 0 16383");
	options = host_options();
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	options.redis_retain_ns = 0;
	serve_host(&options);
}

/* Another key each time, for a shorter time than any refusal that is worth a line. */
static bool brief_requests(void *part)
{
	static int n;
	struct agent_command c;
	char key[20];

	snprintf(key, sizeof(key), "brief%d", n++);
	c = global_command(key, LOCKSHM_EXCLUSIVE);
	c.timeout_ns = LOCKSHM_MS(50);
	if (agent_do(a, c) == 0)
		ck_code(agent_release(a), 0);
	return count(part) > 0;
}

START_TEST(refused_for_a_while)
{
	const struct refusal *r = &passing[_i];

	serve_own(r->config);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_redis("OK", redis, "%s", r->cause);
	ck_assert_msg(await(brief_requests, (void *)(uintptr_t)r->words), "not logged: %s", r->words);
	ck_redis("OK", redis, "%s", r->end);
	ck_assert(await(brief_requests, (void *)(uintptr_t)" is back"));
	ck_assert_uint_eq(count(r->words), 1);
	/* Not once in some minutes: each time. */
	ck_redis("OK", redis, "%s", r->cause);
	while (count(r->words) < 2)
		(void)brief_requests((void *)(uintptr_t)r->words);
	end();
}
END_TEST

/* The lease has its cause in the server's words. */
START_TEST(renewals_refused_for_a_while)
{
	serve_own(NULL);
	ck_code(global_wait(a, KEY, LOCKSHM_EXCLUSIVE), 0);
	ck_redis("OK", redis, "CONFIG SET min-replicas-to-write 1");
	lost_is_reported(a);
	logged(LOST "it expired: no renewal succeeded for ");
	ck_assert_uint_eq(count(LOST), 1);
	ck_assert_ptr_nonnull(strstr(line_with(LOST), ": NOREPLICAS "));
	end();
}
END_TEST

/* Two of three grant: no command fails. */
START_TEST(refused_by_one_of_three)
{
	struct lockshm_create_options options = host_options();
	struct redis *three[3];
	char uris[600];
	int i;

	for (i = 0; i < 3; i++)
		three[i] = redis_start(NULL, false);
	snprintf(uris, sizeof(uris), "%s,%s,%s", three[0]->uri, three[1]->uri, three[2]->uri);
	strcpy(options.redis, uris);
	options.flags = LOCKSHM_CREATE_REDIS_QUORUM;
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	options.redis_retain_ns = 0;
	serve_host(&options);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_redis("OK", three[1], "CONFIG SET maxmemory 1");
	ck_assert(await(brief_requests, (void *)(uintptr_t)"OOM"));
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_release(a), 0);
	ck_redis("OK", three[1], "CONFIG SET maxmemory 0");
	ck_assert(await(brief_requests, (void *)(uintptr_t)" is back"));
	ck_assert_uint_eq(count("OOM"), 1);
	end();
	for (i = 0; i < 3; i++)
		redis_stop(three[i]);
}
END_TEST

/* The same text for many keys, or again and again, is one line. */
START_TEST(refusals_are_not_repeated)
{
	char text[40];
	int i;

	bridge_log_to = keep_line;
	for (i = 0; i < 1000; i++)
		bridge_log_refusal("the same");
	ck_assert_uint_eq(count("the same"), 1);
	for (i = 0; i < 5; i++) {
		snprintf(text, sizeof(text), "another %d", i);
		bridge_log_refusal(text);
	}
	ck_assert_uint_eq(count("another"), 5);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, removed);
	tcase_add_test(tc, a_reader_removed);
	tcase_add_test(tc, data_lost);
	tcase_add_test(tc, taken_by_another);
	tcase_add_test(tc, no_reply);
	tcase_add_test(tc, renewals_refused);
	tcase_add_test(tc, no_bridge_ran);
	tcase_add_test(tc, not_a_lock);
	tcase_add_test(tc, a_wrong_password);
	tcase_add_test(tc, lost_and_back_again);
	tcase_add_test(tc, refusals_are_not_repeated);
	tcase_add_loop_test(tc, refused_for_a_while, 0, N_PASSING);
	tcase_add_test(tc, renewals_refused_for_a_while);
	tcase_add_test(tc, refused_by_one_of_three);
}

int main(void)
{
	return hosts_main("global-log", add);
}
