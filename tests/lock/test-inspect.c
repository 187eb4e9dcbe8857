/* SPDX-License-Identifier: MIT */
/* test-inspect.c - inspection shows the state as it is and changes nothing */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/agent.h"
#include "support/fixture.h"

START_TEST(lock_shows_holders_and_waiters_in_order)
{
	struct agent *h = agent_start(), *w1 = agent_start(), *w2 = agent_thread(w1);
	struct seen seen;

	ck_code(agent_do(h, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "key", .how = LOCKSHM_EXCLUSIVE,
						    .ns = LOCKSHM_SECONDS(60), .tag = "nightly report" }),
		0);
	ck_code(agent_acquire(w1, "key", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(agent_begin(w2, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "key", .how = LOCKSHM_SHARED,
							.tag = "reader", .hold = 1 }),
		AGENT_BLOCKED);
	look("key", &seen);
	ck_assert_int_eq(seen.mode, LOCKSHM_EXCLUSIVE);
	ck_assert_int_eq(seen.damaged, 0);
	ck_assert_uint_eq(seen.key_len, 3);
	ck_assert_uint_eq(seen.holders, 1);
	ck_assert_uint_eq(seen.waiters, 2);
	ck_assert_int_eq(seen.requests[0].state, LOCKSHM_HOLDING);
	ck_assert_int_eq(seen.requests[0].pid, h->pid);
	ck_assert_str_eq(seen.requests[0].tag, "nightly report");
	ck_assert_uint_eq(seen.requests[0].token, h->answer.token);
	ck_assert_int_gt(seen.requests[0].expires_in_ns, LOCKSHM_SECONDS(50));
	ck_assert_int_le(seen.requests[0].expires_in_ns, LOCKSHM_SECONDS(61));
	ck_assert_int_eq(seen.alive[0], 1);
	ck_assert_int_eq(seen.requests[1].state, LOCKSHM_WAITING);
	ck_assert_int_eq(seen.requests[1].mode, LOCKSHM_EXCLUSIVE);
	ck_assert_int_eq(seen.requests[1].expires_in_ns, LOCKSHM_FOREVER);
	ck_assert_str_eq(seen.requests[1].tag, "");
	ck_assert_int_eq(seen.requests[2].pid, w1->pid);
	ck_assert_int_eq(seen.requests[2].tid, w2->tid);
	ck_assert_int_eq(seen.requests[2].mode, LOCKSHM_SHARED);
	ck_assert_str_eq(seen.requests[2].tag, "reader");
	ck_assert_uint_gt(seen.requests[2].ticket, seen.requests[1].ticket);
	ck_assert_uint_eq(seen.requests[0].ticket, h->answer.token);
	ck_assert_uint_eq(seen.requests[1].token, 0); /* a wait has none */
	ck_code(agent_release(h), 0);
	ck_code(agent_end(w1), 0);
	look("key", &seen);
	ck_assert_str_eq(seen.requests[0].tag, ""); /* the record's old label is not the new hold's */
}
END_TEST

START_TEST(ages_and_ends_move)
{
	struct agent *h = agent_start();
	struct seen one, two;

	ck_code(agent_do(h, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "key", .how = LOCKSHM_SHARED,
						    .ns = LOCKSHM_MS(40) }),
		0);
	look("key", &one);
	pass(h->answer.at_ns + LOCKSHM_MS(80));
	look("key", &two);
	ck_assert_int_ge(two.requests[0].age_ns, one.requests[0].age_ns + LOCKSHM_MS(20));
	ck_assert_int_lt(two.requests[0].expires_in_ns, 0); /* overdue, and still there: inspection expires nothing */
	ck_code(agent_call(h, AGENT_CHECK), LOCKSHM_LATE);
}
END_TEST

START_TEST(dead_holder_is_shown_dead_and_left_alone)
{
	struct agent *h = agent_start();
	struct seen seen;
	int i;

	ck_code(agent_acquire(h, "key", LOCKSHM_EXCLUSIVE), 0);
	agent_kill(h);
	for (i = 0; i < 2; i++) {
		look("key", &seen);
		ck_assert_uint_eq(seen.holders, 1);
		ck_assert_int_eq(seen.alive[0], 0);
		ck_assert_int_eq(seen.requests[0].pid, h->pid);
		ck_assert_int_eq(seen.damaged, 0); /* not yet reaped */
	}
	ck_assert_uint_eq(stat_now().owners_dead, 1);
	ck_assert_uint_eq(stat_now().recovered, 0);
}
END_TEST

START_TEST(unknown_and_idle_locks_are_shown_empty)
{
	lockshm_hold_t hold;
	struct seen seen;

	look("never seen", &seen);
	ck_assert_uint_eq(seen.holders + seen.waiters, 0);
	ck_assert_int_eq(seen.mode, 0);
	ck_assert_uint_eq(seen.key_len, 10);
	ck_assert_uint_eq(stat_now().keys_known, 0); /* inspection creates no entry */
	ck_code(take(&hold, "idle", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	look("idle", &seen);
	ck_assert_uint_eq(seen.holders + seen.waiters, 0);
}
END_TEST

struct visit {
	unsigned n;
	char keys[16][LOCKSHM_KEY_SHOWN_MAX + 1];
	size_t shown[16];
	size_t len[16];
};

static void visit(struct visit *v, int what, const char *beginning)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int code;

	*v = (struct visit){ 0 };
	EACH_ROW(row, code, seg, what, beginning, beginning ? strlen(beginning) : 0)
	{
		if (row.request.state)
			continue;
		memcpy(v->keys[v->n], row.key, row.key_shown);
		v->shown[v->n] = row.key_shown;
		v->len[v->n++] = row.key_len;
	}
	ck_code(code, 0);
}

static bool visited(const struct visit *v, const char *key)
{
	unsigned i;

	for (i = 0; i < v->n; i++)
		if (strcmp(v->keys[i], key) == 0)
			return true;
	return false;
}

START_TEST(a_list_leaves_out_what_is_idle)
{
	struct agent *a = agent_start(), *dies = agent_start();
	struct visit v = { 0 };
	lockshm_hold_t held, idle, cooling;

	ck_code(take(&held, "held", LOCKSHM_EXCLUSIVE), 0);
	ck_code(take(&idle, "idle", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_release(&idle, 0), 0);
	ck_code(take(&cooling, "cooling", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_release(&cooling, LOCKSHM_SECONDS(60)), 0);
	ck_code(agent_acquire(dies, "damaged", LOCKSHM_EXCLUSIVE), 0);
	agent_kill(dies);
	ck_code(agent_try(a, "damaged", LOCKSHM_EXCLUSIVE), LOCKSHM_OWNER_DIED);
	ck_code(agent_release(a), 0);
	visit(&v, LOCKSHM_LIST_BUSY, NULL);
	ck_assert_uint_eq(v.n, 3);
	ck_assert(visited(&v, "held") && visited(&v, "cooling") && visited(&v, "damaged"));
	visit(&v, LOCKSHM_LIST_BUSY, "h");
	ck_assert_uint_eq(v.n, 1);
	ck_assert(visited(&v, "held"));
	visit(&v, LOCKSHM_LIST_KNOWN, "id");
	ck_assert_uint_eq(v.n, 1);
	ck_assert(visited(&v, "idle"));
	visit(&v, LOCKSHM_LIST_KNOWN, "held and longer");
	ck_assert_uint_eq(v.n, 0);
}
END_TEST

START_TEST(a_list_ends_at_any_row)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;
	lockshm_hold_t hold;

	ck_code(take(&hold, "key", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_list_open(&list, seg, LOCKSHM_LIST_BUSY, NULL, 0), 0);
	lockshm_list_close(list);
	ck_code(lockshm_list_open(&list, seg, LOCKSHM_LIST_BUSY, NULL, 0), 0);
	ck_assert_int_eq(lockshm_list_next(list, &row), 1);
	lockshm_list_close(list);
	ck_code(lockshm_list_open(&list, seg, LOCKSHM_LIST_KEY, "key", 3), 0);
	ck_assert_int_eq(lockshm_list_next(list, &row), 1);
	ck_assert_int_eq(row.request.state, 0);
	ck_assert_int_eq(lockshm_list_next(list, &row), 1);
	ck_assert_uint_eq(row.request.token, lockshm_token(&hold));
	ck_assert_uint_eq(row.key_len, 3); /* as in the row of the key */
	ck_assert_int_eq(lockshm_list_next(list, &row), 0);
	ck_assert_int_eq(lockshm_list_next(list, &row), 0);
	lockshm_list_close(list);
	lockshm_list_close(NULL);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

/* What changes after the row of the key shows in no row of its requests. */
START_TEST(the_rows_of_a_key_are_of_one_instant)
{
	struct agent *a = agent_start(), *w = agent_start();
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;

	ck_code(agent_acquire(a, "key", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(w, "key", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(lockshm_list_open(&list, seg, LOCKSHM_LIST_BUSY, NULL, 0), 0);
	ck_assert_int_eq(lockshm_list_next(list, &row), 1);
	ck_assert_uint_eq(row.holders, 1);
	ck_assert_uint_eq(row.waiters, 1);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(w), 0);
	ck_code(agent_release(w), 0);
	ck_assert_int_eq(lockshm_list_next(list, &row), 1);
	ck_assert_int_eq(row.request.state, LOCKSHM_HOLDING);
	ck_assert_int_eq(row.request.pid, a->pid);
	ck_assert_int_eq(lockshm_list_next(list, &row), 1);
	ck_assert_int_eq(row.request.state, LOCKSHM_WAITING);
	ck_assert_int_eq(row.request.pid, w->pid);
	ck_assert_int_eq(lockshm_list_next(list, &row), 0);
	lockshm_list_close(list);
}
END_TEST

/* And goes on in a child. */
START_TEST(a_list_outlives_the_handle)
{
	struct agent *a = agent_start();
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	lockshm_list_t *list;
	lockshm_t *reader;
	int status;
	pid_t pid;

	ck_code(agent_acquire(a, "key", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_open(&reader, seg_name, LOCKSHM_OPEN_READ_ONLY, NULL), 0);
	ck_code(lockshm_list_open(&list, reader, LOCKSHM_LIST_BUSY, NULL, 0), 0);
	ck_code(lockshm_close(reader), 0);
	pid = fork();
	if (pid == 0) {
		status = lockshm_list_next(list, &row);
		lockshm_list_close(list);
		_exit(status == 1 && row.holders == 1 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(lockshm_list_next(list, &row), 1);
	ck_assert_uint_eq(row.holders, 1);
	lockshm_list_close(list);
}
END_TEST

START_TEST(long_and_binary_keys_are_shown_by_their_beginning)
{
	struct lockshm_request request = request_for("", LOCKSHM_EXCLUSIVE);
	unsigned char key[200];
	struct visit v = { 0 };
	lockshm_hold_t hold;
	size_t i;

	for (i = 0; i < sizeof(key); i++)
		key[i] = (unsigned char)(i * 7);
	request.key = key;
	request.key_len = sizeof(key);
	ck_code(lockshm_acquire(seg, &request, &hold), 0);
	visit(&v, LOCKSHM_LIST_BUSY, NULL);
	ck_assert_uint_eq(v.len[0], sizeof(key));
	ck_assert_uint_eq(v.shown[0], LOCKSHM_KEY_SHOWN_MAX);
	ck_assert_mem_eq(v.keys[0], key, LOCKSHM_KEY_SHOWN_MAX);
}
END_TEST

struct owners {
	unsigned n;
	struct lockshm_row list[8];
};

static void list_owners(struct owners *o)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int code;

	o->n = 0;
	EACH_ROW(row, code, seg, LOCKSHM_LIST_OWNERS, NULL, 0)
		o->list[o->n++] = row;
	ck_code(code, 0);
}

START_TEST(each_owner_shows_the_threads_that_take_part)
{
	struct agent *a = agent_start(), *b = agent_thread(a), *idle = agent_start();
	struct owners o = { 0 };
	struct seen seen;
	unsigned i, looks = 0;

	(void)idle; /* has it open and takes no part */
	ck_code(agent_acquire(a, "key", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_begin(b, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "key", .how = LOCKSHM_EXCLUSIVE,
						       .hold = 1 }),
		AGENT_BLOCKED);
	look("key", &seen);
	/* The ticket of the wait is stored a moment after the request was appended. */
	do {
		list_owners(&o);
		ck_assert_uint_eq(o.n, 2);
	} while (o.list[0].request.ticket == 0 && o.list[1].request.ticket == 0 && ++looks < 100000);
	for (i = 0; i < 2; i++) {
		ck_assert_int_eq(o.list[i].request.pid, a->pid);
		ck_assert_int_eq(o.list[i].alive, 1);
		ck_assert_uint_gt(o.list[i].start_time, 0);
		if (o.list[i].request.tid == a->tid)
			ck_assert_uint_eq(o.list[i].request.ticket, 0);
		else
			ck_assert_uint_eq(o.list[i].request.ticket, seen.requests[1].ticket);
	}
	ck_assert_int_eq(o.list[0].request.tid + o.list[1].request.tid, a->tid + b->tid);
	agent_kill(a);
	list_owners(&o);
	ck_assert_uint_eq(o.n, 2);
	ck_assert_int_eq(o.list[0].alive + o.list[1].alive, 0);
}
END_TEST

START_TEST(stat_counts_what_happened)
{
	struct agent *a = agent_start(), *b = agent_start();
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;

	ck_code(agent_acquire(a, "one", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_try(b, "one", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(agent_do(b, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "one", .how = LOCKSHM_SHARED,
						    .timeout_ns = LOCKSHM_MS(5) }),
		LOCKSHM_TIMEOUT);
	ck_code(agent_acquire(b, "one", LOCKSHM_SHARED), AGENT_BLOCKED);
	stat = stat_now();
	ck_assert_uint_eq(stat.keys_known, 1);
	ck_assert_uint_eq(stat.keys_busy, 1);
	ck_assert_uint_eq(stat.keys_damaged, 0);
	ck_assert_uint_eq(stat.requests_used, 2);
	ck_assert_uint_ge(stat.requests_reserved, 2);
	ck_assert_uint_eq(stat.owners_used, 2);
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_code(agent_release(b), 0);
	stat = stat_now();
	ck_assert_uint_eq(stat.acquires, 2);
	ck_assert_uint_eq(stat.timeouts, 1);
	ck_assert_uint_eq(stat.tries_failed, 1);
	ck_assert_uint_ge(stat.waits, 1);
	ck_assert_uint_eq(stat.requests_used, 0);
	ck_assert_uint_eq(stat.keys_known, 1);
	ck_code(agent_call(b, AGENT_CLOSE), 0); /* counts outlive their processes */
	ck_assert_uint_eq(stat_now().acquires, 2);
	ck_assert_uint_eq(stat_now().timeouts, 1);
	ck_assert_uint_eq(stat_now().tries_failed, 1);
	ck_assert_uint_eq(stat_now().owners_used, 1);
}
END_TEST

/* Refused at once, but not a try. */
START_TEST(stat_counts_a_request_that_need_not_wait_as_failed_at_once)
{
	struct agent *a = agent_start();
	struct lockshm_request request = request_for("one", LOCKSHM_EXCLUSIVE);
	lockshm_hold_t hold;

	ck_code(agent_acquire(a, "one", LOCKSHM_EXCLUSIVE), 0);
	request.flags = LOCKSHM_ONLY_IF_FREE_IN_TIME;
	request.timeout_ns = LOCKSHM_SECONDS(1);
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_BUSY);
	ck_assert_uint_eq(stat_now().tries_failed, 1);
	ck_assert_uint_eq(stat_now().timeouts, 0);
}
END_TEST

START_TEST(stat_counts_deadlocks)
{
	struct agent *a = agent_start();

	ck_code(agent_acquire(a, "one", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_do(a, (struct agent_command){ .op = AGENT_ACQUIRE, .key = "one", .how = LOCKSHM_EXCLUSIVE, .hold = 1 }),
		LOCKSHM_DEADLOCK);
	ck_assert_uint_eq(stat_now().deadlocks, 1);
	ck_code(agent_call(a, AGENT_CLOSE), 0);
	ck_assert_uint_eq(stat_now().deadlocks, 1);
}
END_TEST

static void check_busy(unsigned busy, unsigned left)
{
	struct lockshm_stat stat = stat_now();

	ck_assert_uint_eq(stat.keys_busy, busy);
	ck_assert_uint_eq(stat.keys_left, left);
}

START_TEST(stat_tells_the_locks_of_the_living_from_those_of_the_dead)
{
	struct agent *a = agent_start(), *b = agent_start(), *w = agent_start();
	lockshm_hold_t hold;

	ck_code(agent_acquire(a, "read", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(b, "read", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(w, "read", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	check_busy(1, 0);
	agent_kill(w);
	agent_kill(b);
	check_busy(1, 0);
	agent_kill(a);
	check_busy(0, 1);
	ck_code(take(&hold, "write", LOCKSHM_EXCLUSIVE), 0);
	check_busy(1, 0); /* a thread that joins sweeps */
	ck_code(lockshm_release(&hold, LOCKSHM_SECONDS(100)), 0); /* cools down */
	check_busy(1, 0);
}
END_TEST

/* lockshm_end_hold() */
START_TEST(end_hold_ends_exactly_that_hold)
{
	struct agent *a = agent_start(), *b = agent_start(), *w = agent_start();

	ck_code(agent_acquire(a, "key", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(b, "key", LOCKSHM_SHARED), 0);
	ck_code(agent_acquire(w, "key", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ck_code(lockshm_end_hold(seg, "key", 3, a->answer.token + 1000), LOCKSHM_NOT_HELD);
	ck_code(lockshm_end_hold(seg, "yek", 3, a->answer.token), LOCKSHM_NOT_HELD);
	ck_code(lockshm_end_hold(seg, "key", 3, a->answer.token), 0);
	ck_code(lockshm_end_hold(seg, "key", 3, a->answer.token), LOCKSHM_NOT_HELD);
	ck_assert(agent_waits(w, "key"));
	ck_code(agent_call(a, AGENT_CHECK), LOCKSHM_LOST);
	ck_code(agent_call(b, AGENT_CHECK), 0);
	ck_code(agent_release(b), 0);
	ck_code(agent_end(w), 0);
	ck_code(agent_release(a), LOCKSHM_LOST);
	verify_clean();
}
END_TEST

struct ids {
	uint64_t ids[4];
	uint64_t known;
	size_t n, shown;
};

static void list_ids(struct ids *ids, int what, const char *key)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	int code;

	*ids = (struct ids){ .n = 0 };
	EACH_ROW(row, code, seg, what, key, key ? strlen(key) : 0)
	{
		ids->shown = row.key_shown;
		ids->known = (uint64_t)row.known;
		if (!row.request.state && ids->n < 4)
			ids->ids[ids->n++] = row.id;
	}
	ck_code(code, 0);
}

static uint64_t token_of_mark(const char *key)
{
	struct lockshm_row row;

	ck_code(key_row(seg, key, strlen(key), &row), 0);
	return row.damage.token;
}

/* Two keys with equal first bytes, the last of which is half a letter. */
START_TEST(an_id_names_a_key_that_is_cut)
{
	struct agent *agents[2] = { agent_start(), agent_start() };
	struct ids ids = { .n = 0 }, one;
	char keys[2][80];
	size_t i;

	for (i = 0; i < 2; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%063d\xc3\xa4%zu", 0, i);
		ck_code(agent_acquire(agents[i], keys[i], LOCKSHM_EXCLUSIVE), 0);
		list_ids(&one, LOCKSHM_LIST_KEY, keys[i]);
		ids.ids[i] = one.ids[0];
		ck_assert_uint_eq(one.shown, 63);
		ck_assert_uint_eq(one.known, 1);
	}
	ck_assert(ids.ids[0] != ids.ids[1]);
	list_ids(&one, LOCKSHM_LIST_BUSY, NULL);
	ck_assert_uint_eq(one.n, 2);
	ck_assert(one.ids[0] + one.ids[1] == ids.ids[0] + ids.ids[1]);
	ck_code(lockshm_end_hold_of(seg, 0, agents[0]->answer.token), LOCKSHM_INVALID);
	ck_code(lockshm_end_hold_of(seg, ids.ids[0] + 1, agents[0]->answer.token), LOCKSHM_NOT_HELD);
	ck_code(lockshm_end_hold_of(seg, ids.ids[0], agents[0]->answer.token + 1000), LOCKSHM_NOT_HELD);
	ck_code(lockshm_end_hold_of(seg, ids.ids[0], agents[0]->answer.token), 0);
	ck_code(agent_call(agents[0], AGENT_CHECK), LOCKSHM_LOST);
	ck_code(agent_call(agents[1], AGENT_CHECK), 0);
	/* Of the marks that both leave, only that of the id is cleared. */
	ck_code(lockshm_end_hold_of(seg, ids.ids[1], agents[1]->answer.token), 0);
	ck_assert_uint_eq(stat_now().keys_damaged, 2);
	ck_code(lockshm_acknowledge_of(seg, ids.ids[1], token_of_mark(keys[1]) + 1), LOCKSHM_NOT_HELD);
	ck_code(lockshm_acknowledge_of(seg, ids.ids[1] + 1, token_of_mark(keys[1])), LOCKSHM_NOT_HELD);
	ck_code(lockshm_acknowledge_of(seg, ids.ids[1], token_of_mark(keys[1])), 0);
	ck_assert_uint_eq(stat_now().keys_damaged, 1);
	ck_assert_uint_eq(token_of_mark(keys[1]), 0);
	ck_code(lockshm_acknowledge_of(seg, ids.ids[0], token_of_mark(keys[0])), 0);
	ck_assert_uint_eq(stat_now().keys_damaged, 0);
	verify_clean();
}
END_TEST

START_TEST(each_key_has_the_idle_ones_too)
{
	struct ids all, one;
	lockshm_hold_t hold;

	list_ids(&one, LOCKSHM_LIST_KEY, "never");
	ck_assert_uint_eq(one.n, 1);
	ck_assert_uint_eq(one.known, 0);
	list_ids(&all, LOCKSHM_LIST_KNOWN, NULL);
	ck_assert_uint_eq(all.n, 0);
	ck_code(take(&hold, "idle", LOCKSHM_EXCLUSIVE), 0);
	ck_code(lockshm_release(&hold, 0), 0);
	ck_code(take(&hold, "held", LOCKSHM_EXCLUSIVE), 0);
	list_ids(&all, LOCKSHM_LIST_KNOWN, NULL);
	ck_assert_uint_eq(all.n, 2);
	ck_assert_uint_eq(all.known, 1);
	ck_code(lockshm_release(&hold, 0), 0);
}
END_TEST

START_TEST(end_hold_of_a_waiter_is_refused)
{
	struct agent *a = agent_start(), *w = agent_start();
	struct seen seen;

	ck_code(agent_acquire(a, "key", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(w, "key", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	look("key", &seen);
	ck_code(lockshm_end_hold(seg, "key", 3, seen.requests[1].ticket), LOCKSHM_NOT_HELD);
	ck_assert(agent_waits(w, "key"));
}
END_TEST

START_TEST(end_hold_wakes_the_next_at_once)
{
	struct agent *a = agent_start(), *w = agent_start();
	int64_t ended;

	ck_code(agent_acquire(a, "key", LOCKSHM_EXCLUSIVE), 0);
	ck_code(agent_acquire(w, "key", LOCKSHM_EXCLUSIVE), AGENT_BLOCKED);
	ended = now_ns();
	ck_code(lockshm_end_hold(seg, "key", 3, a->answer.token), 0);
	ck_code(agent_end(w), LOCKSHM_TOOK_OVER_EXPIRED);
	ck_assert_int_lt(w->answer.at_ns - ended, LOCKSHM_SECONDS(1));
	ck_assert_uint_eq(w->answer.report.damage.token, a->answer.token);
}
END_TEST

static uint64_t renewed_token;
static int renewing;

static void *renew_and_renew(void *unused)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int err;

	(void)unused;
	ck_code(take_for(&hold, "key", LOCKSHM_EXCLUSIVE, LOCKSHM_SECONDS(60)), 0);
	renewed_token = lockshm_token(&hold);
	__atomic_store_n(&renewing, 1, __ATOMIC_RELEASE);
	do
		err = lockshm_renew(&hold, LOCKSHM_SECONDS(60));
	while (err == 0);
	ck_code(err, LOCKSHM_LOST);
	ck_code(lockshm_release(&hold, 0), LOCKSHM_LOST);
	return NULL;
}

START_TEST(end_hold_ends_one_that_is_being_renewed)
{
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	pthread_t thread;
	int round;

	for (round = 0; round < 60; round++) {
		__atomic_store_n(&renewing, 0, __ATOMIC_RELAXED);
		ck_assert_int_eq(pthread_create(&thread, NULL, renew_and_renew, NULL), 0);
		while (!__atomic_load_n(&renewing, __ATOMIC_ACQUIRE))
			sched_yield();
		ck_code(lockshm_end_hold(seg, "key", 3, renewed_token), 0);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		ck_code(take_robust(&hold, "key", LOCKSHM_EXCLUSIVE), round ? LOCKSHM_TOOK_OVER_EXPIRED : 0);
		ck_code(lockshm_acknowledge(&hold), 0);
		ck_code(lockshm_release(&hold, 0), 0);
	}
	verify_clean();
}
END_TEST

START_TEST(sweep_gives_back_what_the_dead_left)
{
	struct agent *a[6];
	size_t freed;
	char key[8];
	int i;

	for (i = 0; i < 6; i++) {
		a[i] = agent_start();
		snprintf(key, sizeof(key), "k%d", i < 4 ? i / 2 : i);
		ck_code(agent_acquire(a[i], key, i < 4 ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE), 0);
	}
	for (i = 0; i < 6; i++)
		agent_kill(a[i]);
	ck_assert_uint_eq(stat_now().owners_dead, 6);
	ck_code(lockshm_sweep(seg, &freed), 0);
	ck_assert_uint_eq(freed, 6);
	ck_code(lockshm_sweep(seg, &freed), 0);
	ck_assert_uint_eq(freed, 0);
	ck_assert_uint_eq(stat_now().owners_dead, 0);
	ck_assert_uint_eq(stat_now().requests_used, 0);
	ck_assert_uint_eq(stat_now().keys_busy, 0);
	ck_assert_uint_eq(stat_now().keys_damaged, 2);
	ck_assert_uint_eq(stat_now().recovered, 6);
	verify_clean();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, lock_shows_holders_and_waiters_in_order);
	tcase_add_test(tc, ages_and_ends_move);
	tcase_add_test(tc, dead_holder_is_shown_dead_and_left_alone);
	tcase_add_test(tc, unknown_and_idle_locks_are_shown_empty);
	tcase_add_test(tc, a_list_leaves_out_what_is_idle);
	tcase_add_test(tc, a_list_ends_at_any_row);
	tcase_add_test(tc, the_rows_of_a_key_are_of_one_instant);
	tcase_add_test(tc, a_list_outlives_the_handle);
	tcase_add_test(tc, long_and_binary_keys_are_shown_by_their_beginning);
	tcase_add_test(tc, each_owner_shows_the_threads_that_take_part);
	tcase_add_test(tc, stat_counts_what_happened);
	tcase_add_test(tc, stat_counts_a_request_that_need_not_wait_as_failed_at_once);
	tcase_add_test(tc, stat_counts_deadlocks);
	tcase_add_test(tc, stat_tells_the_locks_of_the_living_from_those_of_the_dead);
	tcase_add_test(tc, end_hold_ends_exactly_that_hold);
	tcase_add_test(tc, an_id_names_a_key_that_is_cut);
	tcase_add_test(tc, each_key_has_the_idle_ones_too);
	tcase_add_test(tc, end_hold_of_a_waiter_is_refused);
	tcase_add_test(tc, end_hold_wakes_the_next_at_once);
	tcase_add_test(tc, end_hold_ends_one_that_is_being_renewed);
	tcase_add_test(tc, sweep_gives_back_what_the_dead_left);
}

int main(void)
{
	return fixture_main("inspect", add);
}
