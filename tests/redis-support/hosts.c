/* SPDX-License-Identifier: MIT */
/* hosts.c - see hosts.h */
#define _GNU_SOURCE
#include "hosts.h"

#include <glob.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bridge/credentials.h"
#include "bridge/serve.h"
#include "hostlease/host-lease.h"
#include "hostlease/leader.h"
#include "sys/hash.h"

struct host hosts[HOSTS_MAX];

static pid_t runner;
static void (*add_cases)(TCase *tc);

static void prefix_of(char *out, size_t size)
{
	snprintf(out, size, "lockshm-hosts-%d-", (int)runner);
}

static void teardown(void)
{
	unsigned i;

	agents_end();
	for (i = 0; i < HOSTS_MAX; i++) {
		if (hosts[i].bridge)
			bridge_kill(i);
		if (!hosts[i].s)
			continue;
		lockshm_close(hosts[i].s);
		lockshm_destroy(hosts[i].name, NULL);
		hosts[i].s = NULL;
	}
}

/* Of tests that failed. */
static void remove_leftovers(void)
{
	char prefix[64], pattern[96];
	glob_t found;
	size_t i;

	prefix_of(prefix, sizeof(prefix));
	snprintf(pattern, sizeof(pattern), "/dev/shm/%s*", prefix);
	if (glob(pattern, 0, NULL, &found) != 0)
		return;
	for (i = 0; i < found.gl_pathc; i++)
		unlink(found.gl_pathv[i]);
	globfree(&found);
}

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, NULL, teardown);
	add_cases(tc);
}

int hosts_main(const char *name, void (*cases)(TCase *tc))
{
	int status;

	runner = getpid();
	add_cases = cases;
	status = redis_main(name, add);
	remove_leftovers();
	return status;
}

/* The runner has its own copy of this, and stops the server. */
static void take_server(struct redis *own)
{
	if (redis->say)
		fclose(redis->say);
	free(redis);
	redis = own;
}

void own_server_with(const char *config)
{
	take_server(redis_start(config, false));
}

void own_server(void)
{
	own_server_with(NULL);
}

void own_server_with_clock(void)
{
	take_server(redis_start_with_clock(NULL));
}

struct lockshm_create_options host_options(void)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;

	options.keys = 64;
	options.requests = 512;
	options.owners = 64;
	strcpy(options.redis, redis->uri);
	options.host_leases = 16;
	options.redis_ttl_ns = LOCKSHM_SECONDS(1);
	return options;
}

void host_make_bare(unsigned i, const struct lockshm_create_options *options)
{
	static unsigned n;
	struct lockshm_create_options own = *options;
	struct lockshm_error error = { 0 };
	char prefix[64], uris[1200];
	int code;

	hosts[i].credentials = login_split(own.redis, uris, sizeof(uris));
	strcpy(own.redis, uris);
	if (!hosts[i].credentials && *own.redis && strcmp(own.redis_prefix, "lk:") == 0)
		hosts[i].credentials = smallest_login();
	bridge_credentials = hosts[i].credentials;
	prefix_of(prefix, sizeof(prefix));
	snprintf(hosts[i].name, sizeof(hosts[i].name), "%s%d-%u", prefix, (int)getpid(), n++);
	code = lockshm_create(&hosts[i].s, hosts[i].name, &own, &error);
	ck_assert_msg(code == 0, "create: %s: %s", lockshm_code_name(code), error.message);
}

void host_make(unsigned i, const struct lockshm_create_options *options)
{
	host_make_bare(i, options);
	bridge_start(i);
}

void hosts_make(unsigned n)
{
	struct lockshm_create_options options = host_options();
	unsigned i;

	for (i = 0; i < n; i++)
		host_make(i, &options);
}

void hosts_on_three(unsigned n, int64_t ttl_ns)
{
	struct lockshm_create_options options = host_options();
	unsigned i;

	servers_start(SERVERS);
	proxies_start(SERVERS);
	strcpy(options.redis, proxies_uris());
	options.host_leases = 64;
	options.flags = LOCKSHM_CREATE_REDIS_QUORUM;
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	options.redis_ttl_ns = ttl_ns;
	for (i = 0; i < n; i++)
		host_make(i, &options);
}

/* ---------------------------------------------------------------- bridges */

/* With an empty name: the list of hosts would add keys and connections to those that the tests count. */
pid_t bridge_spawn(unsigned i)
{
	const char *program = getenv("BRIDGE_PROGRAM");
	const char *credentials = hosts[i].credentials ? hosts[i].credentials : "/";
	pid_t parent = getpid(), pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent)
		execl(program ? program : "./lockshm-bridge", "lockshm-bridge", "--credentials", credentials,
		      "--host-name", "", hosts[i].name, (char *)NULL);
	_exit(127);
}

struct expected_leader {
	unsigned host;
	pid_t pid;
};

static bool is_leader(void *arg)
{
	const struct expected_leader *w = arg;
	int32_t pid = bridge_of(w->host).pid;

	return w->pid ? pid == w->pid : pid != 0;
}

void leads(unsigned i, pid_t pid)
{
	struct expected_leader w = { i, pid };

	ck_assert_msg(await(is_leader, &w), "%d leads, not %d", (int)bridge_of(i).pid, (int)pid);
}

void bridge_start(unsigned i)
{
	hosts[i].bridge = bridge_spawn(i);
	leads(i, hosts[i].bridge);
}

static void reap(unsigned i)
{
	ck_assert_int_eq(waitpid(hosts[i].bridge, NULL, 0), hosts[i].bridge);
	hosts[i].bridge = 0;
}

void bridge_kill(unsigned i)
{
	kill(hosts[i].bridge, SIGKILL);
	reap(i);
}

void bridge_end(unsigned i)
{
	kill(hosts[i].bridge, SIGTERM);
	reap(i);
}

void bridge_freeze(unsigned i)
{
	kill(hosts[i].bridge, SIGSTOP);
	ck_assert_int_eq(waitpid(hosts[i].bridge, NULL, WUNTRACED), hosts[i].bridge);
}

void leadership_is_ended(unsigned i)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	uint64_t token = 0;
	int code;

	EACH_ROW(row, code, hosts[i].s, LOCKSHM_LIST_KEY, LEADER_KEY, LEADER_KEY_LEN)
		if (!token)
			token = row.request.token;
	ck_code(code, 0);
	ck_code(lockshm_end_hold(hosts[i].s, LEADER_KEY, LEADER_KEY_LEN, token), 0);
}

void bridge_thaw(unsigned i)
{
	kill(hosts[i].bridge, SIGCONT);
}

struct standby {
	unsigned host;
	pid_t pid;
	bool found;
};

static bool is_standing_by(void *arg)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	struct standby *w = arg;
	int code;

	EACH_ROW(row, code, hosts[w->host].s, LOCKSHM_LIST_KEY, LEADER_KEY, LEADER_KEY_LEN)
		if (row.request.state == LOCKSHM_WAITING && row.request.pid == w->pid)
			w->found = true;
	ck_code(code, 0);
	return w->found;
}

void stands_by(unsigned i, pid_t pid)
{
	struct standby w = { i, pid, false };

	ck_assert_msg(await(is_standing_by, &w), "%d does not stand by", (int)pid);
}

pid_t bridge_standby(unsigned i)
{
	pid_t pid = bridge_spawn(i);

	stands_by(i, pid);
	return pid;
}

pid_t bridge_succeeds(unsigned i, pid_t standby)
{
	pid_t before = hosts[i].bridge;

	leads(i, standby);
	hosts[i].bridge = standby;
	return before;
}

static void *bridge_service_main(void *arg)
{
	struct bridge_service *v = arg;

	v->code = bridge_serve(v->s, &v->canceller, NULL, NULL);
	return NULL;
}

void bridge_service_start(struct bridge_service *v, unsigned i)
{
	if (hosts[i].bridge)
		bridge_end(i);
	bridge_credentials = hosts[i].credentials;
	*v = (struct bridge_service){ .s = hosts[i].s, .canceller = LOCKSHM_CANCELLER_INIT };
	ck_assert_int_eq(pthread_create(&v->thread, NULL, bridge_service_main, v), 0);
	leads(i, getpid());
}

void bridge_service_stop(struct bridge_service *v)
{
	lockshm_cancel(&v->canceller);
	pthread_join(v->thread, NULL);
	ck_code(v->code, LOCKSHM_CANCELLED);
}

/* ---------------------------------------------------------------- processes */

struct agent *on_host(unsigned i)
{
	struct agent *a = agent_inherit();
	struct agent_command open = { .op = AGENT_OPEN };
	int code;

	snprintf(open.key, sizeof(open.key), "%s", hosts[i].name);
	code = agent_do(a, open);
	ck_assert_msg(code == 0, "agent: open: %s: %s", outcome_name(code), a->answer.report.error.message);
	return a;
}

void cast(const char *where, ...)
{
	unsigned n = 0;
	const char *at;
	va_list people;

	for (at = where; *at; at++)
		n = (unsigned)(*at - '0') >= n ? (unsigned)(*at - '0') + 1 : n;
	hosts_make(n);
	va_start(people, where);
	for (at = where; *at; at++)
		*va_arg(people, struct agent **) = on_host((unsigned)(*at - '0'));
	va_end(people);
}

int global_policy;

int segment_policy(int policy)
{
	global_policy = policy == LOCKSHM_REDIS_LOCAL_ONLY ? policy : 0;
	return global_policy ? LOCKSHM_REDIS_FAIL : policy;
}

struct agent_command global_command(const char *key, int mode)
{
	struct agent_command c = {
		.op = AGENT_ACQUIRE, .how = mode, .flags = LOCKSHM_GLOBAL, .ns = LOCKSHM_SECONDS(30),
		.policy = global_policy
	};

	snprintf(c.key, sizeof(c.key), "%s", key);
	return c;
}

int global_wait(struct agent *a, const char *key, int mode)
{
	return agent_do(a, global_command(key, mode));
}

int global_try(struct agent *a, const char *key, int mode)
{
	struct agent_command c = global_command(key, mode);

	c.timeout_ns = AGENT_TRY;
	return agent_do(a, c);
}

void global_send(struct agent *a, const char *key, int mode)
{
	agent_send(a, global_command(key, mode));
}

struct lockshm_host_lease lease_of(unsigned i, const char *key)
{
	struct lockshm_row row;

	ck_code(key_row(hosts[i].s, key, strlen(key), &row), 0);
	return row.lease;
}

struct lockshm_bridge_stat bridge_of(unsigned i)
{
	struct lockshm_bridge_stat stat = LOCKSHM_BRIDGE_STAT_INIT;

	ck_code(lockshm_bridge_stat(hosts[i].s, &stat), 0);
	return stat;
}

static uint32_t find_record(unsigned i, const char *key)
{
	struct identity id;

	hash_key(&id, hosts[i].s->hash_secret, key, strlen(key));
	return host_lease_look(hosts[i].s, &id);
}

uint32_t record_of(unsigned i, const char *key)
{
	uint32_t found = find_record(i, key);

	ck_assert_uint_lt(found, hosts[i].s->n_host_leases);
	return found;
}

void fence_becomes(unsigned i, const char *key, uint64_t next)
{
	store_release(&hosts[i].s->host_leases[record_of(i, key)].fence, next << FENCE_LEFT_BITS);
}

struct expected_lease {
	unsigned host;
	const char *key;
	int state;
};

static bool lease_is(void *arg)
{
	const struct expected_lease *w = arg;

	return lease_of(w->host, w->key).state == w->state;
}

void lease_becomes(unsigned i, const char *key, int state)
{
	struct expected_lease w = { i, key, state };

	ck_assert_msg(await(lease_is, &w), "the lease is in state %d, not %d; %s", lease_of(i, key).state, state,
		      lease_of(i, key).why);
}

struct expected_reply {
	const char *command, *answer;
};

static bool redis_says(void *arg)
{
	const struct expected_reply *w = arg;

	return strcmp(redis_say(redis, "%s", w->command), w->answer) == 0;
}

void redis_has(const char *command, const char *answer)
{
	struct expected_reply w = { command, answer };

	ck_assert_msg(await(redis_says, &w), "%s is %s, not %s", command, redis_say(redis, "%s", command), answer);
}

static bool is_lost(void *arg)
{
	return agent_call(arg, AGENT_CHECK) == LOCKSHM_LOST;
}

void lost_is_reported(struct agent *a)
{
	ck_assert_msg(await(is_lost, a), "check says %s", outcome_name(a->answer.code));
}

void waits_on_host(struct agent *a, unsigned i, const char *key)
{
	seg = hosts[i].s;
	while (!agent_waits(a, key))
		ck_assert_int_eq(agent_poll(a), AGENT_BLOCKED);
}

/* Requests for K on hosts[0] that wait for its lease. */
static unsigned wanting(void)
{
	const struct lockshm *s = hosts[0].s;
	uint32_t record = find_record(0, K);
	unsigned i, n = 0;

	/* The first request makes the record. */
	for (i = 1; record < s->n_host_leases && i <= s->n_requests; i++) {
		const struct shm_request *r = &s->requests[i];

		n += word_is(load_acquire(&r->word), REQUEST_GRANTED) &&
		     request_needs_lease(load_acquire32(&r->flags), record) && load_relaxed(&r->host_grant) == 0;
	}
	return n;
}

static bool so_many_want(void *n)
{
	return wanting() == *(const unsigned *)n;
}

void wanted_by(unsigned n)
{
	ck_assert_msg(await(so_many_want, &n), "%u, not %u, wait for the lease", wanting(), n);
}

struct proxy *hosts_by_proxy(int64_t ttl_ns)
{
	struct lockshm_create_options options = host_options();
	struct proxy *p;

	own_server();
	p = proxy_start(redis, false);
	strcpy(options.redis, p->uri);
	options.redis_ttl_ns = ttl_ns;
	host_make(0, &options);
	strcpy(options.redis, redis->uri);
	host_make(1, &options);
	return p;
}
