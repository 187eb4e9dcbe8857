/* SPDX-License-Identifier: MIT */
/*
 * test-global-note.c - the note of a robust key in the segment: which reply counts, what is told of it, and what leaders
 * and operators that come late change
 *
 * The first cases work on a record of their own; in the others the bridge is stopped, and the test plays its successor.
 */
#define _GNU_SOURCE
#include "support/asan.h"
#include "redis-support/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "bridge/admin.h"
#include "bridge/demand.h"
#include "hostlease/host-note.h"
#include "lock/table.h"
#include "sys/hash.h"

#define X LOCKSHM_EXCLUSIVE
#define ROBUST (LOCKSHM_GLOBAL | LOCKSHM_ROBUST)
#define HOST UINT64_C(0xabcdef0123456789)

static struct agent *a, *b;
static struct bridge late;

static int robust(struct agent *agent)
{
	struct agent_command args = global_command(K, X);

	args.flags = ROBUST;
	return agent_do(agent, args);
}

static struct shm_host_lease *record(unsigned i)
{
	return &hosts[i].s->host_leases[record_of(i, K)];
}

static uint64_t word_in(uint64_t epoch, enum host_lease_state state)
{
	return host_lease_make(epoch, HOST_LEASE_EXCLUSIVE, state);
}

/* ---------------------------------------------------------------- which reply counts */

static struct shm_host_lease r;

static void note_is(uint64_t epoch, unsigned bits, uint64_t last)
{
	uint64_t word = word_in(epoch, HOST_LEASE_HELD);

	ck_assert_uint_eq(host_note_bits(&r, word), bits);
	ck_assert_uint_eq(host_note_last(&r, word), last);
}

static void store(uint64_t epoch, enum host_lease_state state, unsigned bits, uint64_t last)
{
	struct host_note note = { .bits = bits, .last = last, .host = HOST, .pid = 4711 };

	host_note_store(&r, word_in(epoch, state), &note);
}

static void a_note_is_sent(void)
{
	memset(&r, 0, sizeof(r));
	host_note_store_sent(&r, word_in(7, HOST_LEASE_ACQUIRING));
	note_is(7, NOTE_SENT, 0);
}

/* The same value, before there is a holder: another lease may have ended badly in between. */
START_TEST(granted_again)
{
	a_note_is_sent();
	store(7, HOST_LEASE_ACQUIRING, 0, 0);
	note_is(7, NOTE_KNOWN, 0);
	store(7, HOST_LEASE_ACQUIRING, NOTE_TOLD | NOTE_DIED, 100);
	note_is(7, NOTE_KNOWN | NOTE_TOLD | NOTE_DIED, 100);
	store(7, HOST_LEASE_ACQUIRING, NOTE_TOLD, 200);
	note_is(7, NOTE_KNOWN | NOTE_TOLD, 200);
	/* Once told stays. */
	store(7, HOST_LEASE_ACQUIRING, NOTE_TOLD | NOTE_DIED, 150);
	store(7, HOST_LEASE_ACQUIRING, 0, 0);
	host_note_store_sent(&r, word_in(7, HOST_LEASE_ACQUIRING));
	note_is(7, NOTE_KNOWN | NOTE_TOLD, 200);
}
END_TEST

/* With holders: a leader that was stopped, and a renewal, change nothing of it. */
START_TEST(known_while_it_is_held)
{
	a_note_is_sent();
	store(7, HOST_LEASE_HELD, 0, 0);
	store(7, HOST_LEASE_HELD, NOTE_TOLD, 100);
	note_is(7, NOTE_KNOWN, 0);
}
END_TEST

/* A leader that was stopped in an epoch that is over. */
START_TEST(of_an_older_epoch)
{
	a_note_is_sent();
	store(8, HOST_LEASE_ACQUIRING, NOTE_TOLD, 100);
	store(7, HOST_LEASE_ACQUIRING, NOTE_TOLD | NOTE_DIED, 50);
	host_note_store_sent(&r, word_in(7, HOST_LEASE_ACQUIRING));
	ck_assert_uint_eq(host_note_bits(&r, word_in(8, HOST_LEASE_HELD)), NOTE_KNOWN | NOTE_TOLD);
	ck_assert_uint_eq(host_note_last(&r, word_in(8, HOST_LEASE_HELD)), 0); /* not that of another lease */
	note_is(7, 0, 50);
	/* In its turn it is nobody's. */
	note_is(9, 0, 0);
}
END_TEST

/* ---------------------------------------------------------------- what is told */

#define LAST 1000 /* token of the lease that ended badly */

/* Redis has that; the next holder on host 0 is told. */
static void redis_has_note(const char *why, int status)
{
	(void)redis_say(redis, "DEL {lk:" K "}:f");
	ck_redis("4", redis, "HSET {lk:" K "}:f open \"%d 0\" bad 0 good 0 why \"%s\"", LAST, why);
	ck_code(robust(a), status);
	ck_assert_uint_eq(a->answer.report.damage.token, LAST);
}

static void tells(const char *why, int status, const char *tag)
{
	redis_has_note(why, status);
	ck_assert_str_eq(a->answer.report.damage.tag, tag);
	ck_assert_int_eq(a->answer.report.damage.pid, 0); /* which is of this host */
	ck_code(agent_release(a), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
}

/* The host of a lease that was not given back has no pid; how a lease ended may be lost, and with it its host. */
START_TEST(who_it_was)
{
	cast("0", &a);
	tells("1000dabcdef01234567894711", LOCKSHM_OWNER_DIED, "4711@abcdef0123456789");
	tells("1000dabcdef0123456789", LOCKSHM_OWNER_DIED, "@abcdef0123456789");
	tells("1000labcdef0123456789", LOCKSHM_TOOK_OVER_EXPIRED, "@abcdef0123456789");
	tells("1000d", LOCKSHM_OWNER_DIED, "");
	tells("1000d4711", LOCKSHM_OWNER_DIED, "");
	tells("1000l", LOCKSHM_TOOK_OVER_EXPIRED, "");
	tells("", LOCKSHM_TOOK_OVER_EXPIRED, "");
}
END_TEST

static void operator_acknowledges(void)
{
	ck_code(remote_acknowledge(hosts[0].s, K, strlen(K), LAST, LOCKSHM_SECONDS(60), NULL), 0);
}

/* While the lease is being acquired the same value may be granted again, with a later end: the look is too old for it. */
START_TEST(acknowledged_while_it_is_acquired)
{
	uint64_t held;

	cast("0", &a);
	redis_has_note("1000dabcdef01234567894711", LOCKSHM_OWNER_DIED);
	bridge_freeze(0);
	held = load_acquire(&record(0)->word);
	store_release(&record(0)->word, host_lease_with_state(held, HOST_LEASE_ACQUIRING));
	operator_acknowledges();
	ck_assert_uint_eq(host_note_bits(record(0), held), NOTE_KNOWN | NOTE_TOLD | NOTE_DIED);
	store_release(&record(0)->word, held);
	operator_acknowledges();
	ck_assert_uint_eq(host_note_bits(record(0), held), NOTE_KNOWN | NOTE_TOLD | NOTE_DIED | NOTE_ACKED);
}
END_TEST

/* ---------------------------------------------------------------- leaders that were stopped */

static void late_make(void)
{
	late.s = hosts[0].s;
	late.leases = calloc(late.s->n_host_leases, sizeof(*late.leases));
	ck_assert_ptr_nonnull(late.leases);
	late.renew_until = INT64_MAX;
	ck_assert(snapshot_init(&late.snap));
}

static void late_free(void)
{
	bridge_lease_forget(&late.leases[record_of(0, K)]);
	free(late.leases);
	snapshot_free(&late.snap);
}

/* How it closes the note of what it removes. */
static const char *removes(struct redis_command *cmd)
{
	struct redis_command cmds[COMMANDS_PER_LEASE];
	size_t n;

	cmd->reply.status = REDIS_GRANTED;
	n = bridge_lease_apply_reply(&late, record_of(0, K), cmd, cmds);
	ck_assert_uint_ge(n, 1);
	ck_assert_int_eq(cmds[n - 1].script, REDIS_RELEASE);
	return cmds[n - 1].args.close;
}

/* Its acquire was granted, and it reads the reply late, when its successor has ended the lease: if that was held, the
 * release of the successor says how it ended. */
START_TEST(a_late_grant_of_a_lease_that_was_held)
{
	struct redis_command cmds[COMMANDS_PER_LEASE];
	bool held = _i;

	cast("00", &a, &b);
	ck_code(robust(b), 0);
	ck_code(agent_release(b), 0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	bridge_freeze(0);
	agent_send(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = K, .how = X, .flags = ROBUST });
	wanted_by(1);
	late_make();
	ck_assert_uint_eq(bridge_lease_decide(&late, record_of(0, K), cmds), 1);
	ck_assert_int_eq(cmds[0].script, REDIS_ACQUIRE_X);
	ck_assert_uint_eq(host_note_bits(record(0), load_acquire(&record(0)->word)), NOTE_SENT);
	if (held) {
		bridge_thaw(0);
		ck_code(agent_end(a), 0);
	}
	agent_kill(a);
	bridge_thaw(0);
	lease_becomes(0, K, LOCKSHM_HOST_LEASE_NONE);
	bridge_freeze(0);
	if (held)
		ck_assert_ptr_null(removes(&cmds[0]));
	else
		ck_assert_str_eq(removes(&cmds[0]), "u");
	late_free();
}
END_TEST

#ifndef OTHERS_MALLOC

static void (*at_next_realloc)(void);
void *__libc_realloc(void *p, size_t size);

void *realloc(void *p, size_t size)
{
	void (*now)(void) = at_next_realloc;

	at_next_realloc = NULL;
	if (now)
		now();
	return __libc_realloc(p, size);
}

static struct shm_request *newest(const char *key)
{
	struct lockshm *s = hosts[0].s;
	struct identity id;
	uint32_t entry;

	hash_key(&id, s->hash_secret, key, strlen(key));
	entry = table_lookup(s, &id);
	ck_assert_uint_ne(entry, ENTRY_NONE);
	return &s->requests[tail_index(load_acquire(&s->entries[entry].tail))];
}

/* As where a record was reused between two steps of a walk: the head of one queue leads to a dead holder of another. */
static void queues_are_mixed(void)
{
	struct shm_request *other = newest("other"), *waiter = newest(K);
	struct shm_request *head = &hosts[0].s->requests[word_prev(load_acquire(&waiter->word))];

	store_release(&other->word, word_with_state(load_acquire(&other->word), REQUEST_DEAD));
	store_release(&head->word,
		      word_with_prev(load_acquire(&head->word), (uint32_t)(other - hosts[0].s->requests)));
}

START_TEST(a_dead_holder_of_another_key)
{
	struct demand in;
	struct agent *c;

	cast("000", &a, &b, &c);
	ck_code(robust(a), 0);
	global_send(b, K, X);
	waits_on_host(b, 0, K);
	ck_code(agent_acquire(c, "other", X), 0);
	bridge_freeze(0);
	late_make();
	hash_key(&late.leases[record_of(0, K)].id, late.s->hash_secret, K, strlen(K));
	/* It needs more room, and walks again. */
	late.snap.cap = 1;
	at_next_realloc = queues_are_mixed;
	in = demand_scan(&late, record_of(0, K), host_lease_epoch(load_acquire(&record(0)->word)));
	ck_assert_ptr_null(at_next_realloc);
	ck_assert_uint_eq(late.snap.n, 3);
	ck_assert(in.robust && in.holders && !in.unsure);
	ck_assert(!in.torn);
	late_free();
}
END_TEST
#endif

static void add(TCase *tc)
{
	tcase_add_test(tc, granted_again);
	tcase_add_test(tc, known_while_it_is_held);
	tcase_add_test(tc, of_an_older_epoch);
	tcase_add_test(tc, who_it_was);
	tcase_add_test(tc, acknowledged_while_it_is_acquired);
	tcase_add_loop_test(tc, a_late_grant_of_a_lease_that_was_held, 0, 2);
#ifndef OTHERS_MALLOC
	tcase_add_test(tc, a_dead_holder_of_another_key);
#endif
}

int main(void)
{
	return hosts_main("global-note", add);
}
