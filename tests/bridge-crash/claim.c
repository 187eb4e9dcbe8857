/* SPDX-License-Identifier: MIT */
/*
 * claim.c - a requester is killed between the claim of a lease record and its use, and at the writes around
 *
 * Each record has a key that this host holds without a lease, so that the claimer takes one in its last pass
 * (claim_any() in hostlease/host-lease.c).  It is stepped by instructions, and killed after one that has changed records, requests,
 * or the doorbell.  Then the same key and another one are granted at once, under both records of the segment.
 *
 *   claim        some of these points
 *   claim all    each
 */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostlease/host-lease.h"
#include "sys/hash.h"

#define LEASES 2
#define SOME 10
#define VICTIM "victim"

static struct agent *owner, *a, *b;
static bool all;

/* What the segment has in memory that a claim, or the use of what was claimed, changes. */
struct picture {
	struct shm_host_lease leases[LEASES];
	struct shm_request requests[64];
	uint64_t pending;
	uint32_t doorbell;
};

static void take_picture(struct picture *p)
{
	const struct lockshm *s = hosts[0].s;

	memset(p, 0, sizeof(*p));
	memcpy(p->leases, s->host_leases, sizeof(p->leases));
	memcpy(p->requests, s->requests, sizeof(p->requests));
	p->pending = s->bridge->pending[0];
	p->doorbell = s->bridge->doorbell;
}

static void __attribute__((noreturn)) victim(void)
{
	struct lockshm_request q = LOCKSHM_REQUEST(VICTIM);
	lockshm_hold_t hold;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	q.flags = LOCKSHM_GLOBAL;
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	_exit(lockshm_acquire(hosts[0].s, &q, &hold) == 0 && lockshm_release(&hold, 0) == 0 ? 0 : 1);
}

static bool is_claimed(void)
{
	struct identity id;

	hash_key(&id, hosts[0].s->hash_secret, VICTIM, strlen(VICTIM));
	return host_lease_look(hosts[0].s, &id) < LEASES;
}

/* Kills it after @point changes; how many it made.  @claimed: has its key a record then? */
static unsigned kill_at(unsigned point, bool *claimed)
{
	struct picture before, now;
	unsigned n = 0;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		victim();
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSTOPPED(status));
	take_picture(&before);
	for (;;) {
		ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		if (!WIFSTOPPED(status))
			break;
		take_picture(&now);
		if (memcmp(&now, &before, sizeof(now)) == 0)
			continue;
		before = now;
		if (n++ < point)
			continue;
		kill(pid, SIGKILL);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		break;
	}
	ck_assert_msg(point != UINT_MAX || (WIFEXITED(status) && WEXITSTATUS(status) == 0), "status %x",
		      (unsigned)status);
	*claimed = is_claimed();
	return n;
}

/* Both records have keys that are held on this host alone. */
static void keep_records(void)
{
	static const char *const keys[LEASES] = { "one", "two" };
	int i;

	for (i = 0; i < LEASES; i++) {
		struct agent_command c = global_command(keys[i], LOCKSHM_EXCLUSIVE);

		c.hold = i;
		ck_code(agent_do(owner, c), 0);
	}
	for (i = 0; i < LEASES; i++) {
		ck_code(agent_do(owner, (struct agent_command){ .op = AGENT_RELEASE, .hold = i }), 0);
		lease_becomes(0, keys[i], LOCKSHM_HOST_LEASE_NONE);
	}
	for (i = 0; i < LEASES; i++) {
		struct agent_command c = global_command(keys[i], LOCKSHM_EXCLUSIVE);

		c.hold = i;
		c.flags = AGENT_PLAIN;
		ck_code(agent_do(owner, c), 0);
	}
}

static bool all_are_free(void *unused)
{
	int i, n = 0;

	(void)unused;
	for (i = 0; i < LEASES; i++)
		n += host_lease_state(load_acquire(&hosts[0].s->host_leases[i].word)) == HOST_LEASE_NONE;
	return n == LEASES;
}

static void records_are_of_use(void)
{
	int i;

	ck_assert_int_ge(global_wait(a, VICTIM, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_int_ge(global_wait(b, "other", LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_eq(bridge_of(0).host_leases_held, LEASES);
	ck_code(agent_release(a), 0);
	ck_code(agent_release(b), 0);
	for (i = 0; i < LEASES; i++)
		ck_code(agent_do(owner, (struct agent_command){ .op = AGENT_RELEASE, .hold = i }), 0);
	ck_assert(await(all_are_free, NULL));
	redis_has("KEYS lk:*", "[]");
}

static unsigned round_at(unsigned point, unsigned *claimed)
{
	bool one;
	unsigned n;

	keep_records();
	n = kill_at(point, &one);
	*claimed += one;
	records_are_of_use();
	return n;
}

START_TEST(a_claimer_is_killed)
{
	struct lockshm_create_options options = host_options();
	unsigned n, i, claimed = 0;

	options.keys = 16;
	options.requests = 64;
	options.host_leases = LEASES;
	host_make(0, &options);
	owner = on_host(0);
	a = on_host(0);
	b = on_host(0);
	n = round_at(UINT_MAX, &claimed);
	for (i = 0, claimed = 0; i < n; i += all ? 1 : 1 + n / SOME)
		(void)round_at(i, &claimed);
	printf("%u points, killed at each %u, %u of them with a claimed record\n", n, all ? 1 : 1 + n / SOME, claimed);
	ck_assert_uint_gt(claimed, 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_set_timeout(tc, 240);
	tcase_add_native(tc, a_claimer_is_killed);
}

int main(int argc, char **argv)
{
	all = argc > 1 && strcmp(argv[1], "all") == 0;
	return hosts_main("bridge-claim", add);
}
