/* SPDX-License-Identifier: MIT */
/* test-global-cluster.c - keys in a Redis Cluster: the node of a key, slots that move, nodes that change roles, key
 * names */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "redis/nodes.h"

#define MASTERS 3
#define NODES 4
#define TTL_NS LOCKSHM_SECONDS(2) /* nodes change roles at the pace of their own timer, ten times a second */

static struct redis *nodes[NODES]; /* the last one is a replica of the first, in cases that want one */
static struct agent *a, *b;

/* ---------------------------------------------------------------- a cluster */

struct knows {
	struct redis *r;
	int n;
};

static bool knows_all(void *arg)
{
	const struct knows *k = arg;
	char known[32];

	snprintf(known, sizeof(known), "cluster_known_nodes:%d\r", k->n);
	return strstr(redis_say(k->r, "CLUSTER INFO"), "cluster_state:ok") &&
	       strstr(redis_say(k->r, "CLUSTER INFO"), known);
}

/* Each of the masters has a third of the slots. */
static void cluster_start(int n)
{
	int i;

	for (i = 0; i < n; i++)
		nodes[i] = redis_start("cluster-enabled yes\ncluster-node-timeout 5000\nrepl-diskless-sync-delay 0\n"
				       "cluster-allow-replica-migration no", true);
	for (i = 0; i < MASTERS; i++) {
		ck_redis("OK", nodes[i], "CLUSTER ADDSLOTSRANGE %d %d", i * 16384 / MASTERS,
			 (i + 1) * 16384 / MASTERS - 1);
		ck_redis("OK", nodes[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
	}
	for (i = 1; i < n; i++)
		ck_redis("OK", nodes[0], "CLUSTER MEET 127.0.0.1 %d", nodes[i]->port);
	for (i = 0; i < n; i++)
		ck_assert(await(knows_all, &(struct knows){ nodes[i], n }));
}

static const char *id_of(const struct redis *r)
{
	static char ids[NODES][48];
	int i;

	for (i = 0; nodes[i] != r; i++)
		;
	snprintf(ids[i], sizeof(ids[i]), "%s", redis_say(nodes[i], "CLUSTER MYID"));
	return ids[i];
}

static struct redis *owner_of(const char *name)
{
	int i;

	for (i = 0; i < NODES && nodes[i]; i++)
		if (!strstr(redis_say(nodes[i], "EXISTS %s", name), "MOVED"))
			return nodes[i];
	ck_abort_msg("no node has %s", name);
	return NULL;
}

/* As redis_has(), of a node. */
static void node_has(struct redis *node, const char *command, const char *reply)
{
	struct redis *shared = redis;

	redis = node;
	redis_has(command, reply);
	redis = shared;
}

/* The host's only address in the cluster is that node. */
static void host_at(unsigned i, const struct redis *r)
{
	struct lockshm_create_options options = host_options();

	strcpy(options.redis, r->tcp_uri);
	options.redis_ttl_ns = TTL_NS;
	host_make(i, &options);
}

/* Two hosts that know two nodes. */
static void two_hosts(int n)
{
	cluster_start(n);
	host_at(0, nodes[0]);
	host_at(1, nodes[1]);
	a = on_host(0);
	b = on_host(1);
}

/* As `redis-cli --cluster reshard` does it; the names are those in the slot. */
static void slot_leaves(int slot, struct redis *from, struct redis *to)
{
	ck_redis("OK", to, "CLUSTER SETSLOT %d IMPORTING %s", slot, id_of(from));
	ck_redis("OK", from, "CLUSTER SETSLOT %d MIGRATING %s", slot, id_of(to));
}

static void slot_arrives(int slot, struct redis *from, struct redis *to)
{
	char names[1024], *name, *save = NULL;
	int i;

	snprintf(names, sizeof(names), "%s", redis_say(from, "CLUSTER GETKEYSINSLOT %d 20", slot));
	for (name = strtok_r(names, "[ ]", &save); name; name = strtok_r(NULL, "[ ]", &save))
		ck_redis("OK", from, "MIGRATE 127.0.0.1 %d %s 0 5000", to->port, name);
	ck_redis("OK", to, "CLUSTER SETSLOT %d NODE %s", slot, id_of(to));
	ck_redis("OK", from, "CLUSTER SETSLOT %d NODE %s", slot, id_of(to));
	for (i = 0; i < MASTERS; i++)
		if (nodes[i] != from && nodes[i] != to)
			ck_redis("OK", nodes[i], "CLUSTER SETSLOT %d NODE %s", slot, id_of(to));
}

/* For longer than a lease lasts without renewal. */
static void stays_held(struct agent *agent)
{
	int64_t end = now_ns() + TTL_NS * 9 / 5;

	while (now_ns() < end) {
		ck_code(agent_call(agent, AGENT_CHECK), 0);
		pass(now_ns() + LOCKSHM_MS(20));
	}
}

/* ---------------------------------------------------------------- keys */

START_TEST(any_key_at_its_node)
{
	int i, n[MASTERS] = { 0 };
	char key[16], name[32];

	two_hosts(MASTERS);
	for (i = 0; i < 12; i++) {
		struct redis *owner;
		int k;

		snprintf(key, sizeof(key), "key%d", i);
		snprintf(name, sizeof(name), "lk:%s", key);
		/* The very first one, too: before it the library does not know of a cluster. */
		ck_code(global_wait(a, key, LOCKSHM_EXCLUSIVE), 0);
		owner = owner_of(name);
		ck_redis(lease_of(0, key).value, owner, "GET %s", name);
		ck_code(global_try(b, key, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
		ck_code(agent_release(a), 0);
		ck_code(global_wait(b, key, LOCKSHM_SHARED), 0);
		ck_code(global_wait(a, key, LOCKSHM_SHARED), 0);
		ck_redis("2", owner, "SCARD %s", name);
		ck_code(agent_release(a), 0);
		ck_code(agent_release(b), 0);
		for (k = 0; k < MASTERS; k++)
			n[k] += nodes[k] == owner;
	}
	for (i = 0; i < MASTERS; i++)
		ck_assert_int_gt(n[i], 0);
}
END_TEST

START_TEST(keys_with_a_tag)
{
	two_hosts(MASTERS);
	ck_code(global_wait(a, "{t}one", LOCKSHM_EXCLUSIVE), 0);
	ck_code(global_wait(b, "two{t}", LOCKSHM_EXCLUSIVE), 0);
	ck_assert_ptr_eq(owner_of("lk:{t}one"), owner_of("lk:two{t}"));
	ck_redis("1", owner_of("lk:{t}one"), "EXISTS lk:{t}one");
	ck_code(agent_release(b), 0);
	ck_code(global_try(b, "{t}one", LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
}
END_TEST

/* Hosts are queued as anywhere: the queue is where the lock is. */
START_TEST(in_order)
{
	two_hosts(MASTERS);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	global_send(b, K, LOCKSHM_EXCLUSIVE);
	node_has(owner_of("lk:" K), "ZCARD {lk:" K "}:q", "1");
	ck_code(agent_release(a), 0);
	ck_code(agent_end(b), 0);
	ck_assert_uint_gt(b->answer.token, a->answer.token);
}
END_TEST

/* More of them than there is room for: a refused name leaves nothing behind. */
START_TEST(names_that_no_cluster_can_have)
{
	static const char *const broken[] = { "{}m", "a}b", "x{}{y}", "}", "{}" };
	struct redis *owner;
	char key[16];
	int i;

	two_hosts(MASTERS);
	for (i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "%s%c", broken[i % 5], 'a' + i);
		ck_code(i % 3 ? global_wait(a, key, LOCKSHM_EXCLUSIVE) : global_try(a, key, LOCKSHM_SHARED),
			LOCKSHM_BRIDGE);
		ck_contains(a->answer.report.error.message, key);
		ck_contains(a->answer.report.error.message, "braces");
		lease_becomes(0, key, LOCKSHM_HOST_LEASE_NONE);
	}
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	owner = owner_of("lk:" K);
	for (i = 0; i < MASTERS; i++)
		ck_redis(nodes[i] == owner ? "2" : "0", nodes[i], "DBSIZE");
}
END_TEST

/* ---------------------------------------------------------------- changes */

static int slot_of(const char *name)
{
	return atoi(redis_say(nodes[0], "CLUSTER KEYSLOT %s", name));
}

START_TEST(a_slot_that_moved)
{
	struct redis *from, *to;
	char value[40];

	two_hosts(MASTERS);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	strcpy(value, lease_of(0, K).value);
	from = owner_of("lk:" K);
	to = from == nodes[2] ? nodes[1] : nodes[2];
	slot_leaves(slot_of("lk:" K), from, to);
	slot_arrives(slot_of("lk:" K), from, to);
	ck_assert_ptr_eq(owner_of("lk:" K), to);
	stays_held(a);
	ck_redis(value, to, "GET lk:" K);
	ck_code(global_try(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(agent_release(a), 0);
	node_has(to, "EXISTS lk:" K, "0");
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* On its way it can be had from neither node; afterwards from the new one. */
START_TEST(a_slot_on_its_way)
{
	struct redis *from, *to;
	int slot;

	two_hosts(MASTERS);
	ck_code(global_wait(a, "other", LOCKSHM_EXCLUSIVE), 0);
	from = owner_of("lk:" K);
	to = from == nodes[0] ? nodes[1] : nodes[0];
	slot = slot_of("lk:" K);
	slot_leaves(slot, from, to);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_assert_msg(strstr(b->answer.report.error.message, "ASK ") ||
			      strstr(b->answer.report.error.message, "TRYAGAIN"),
		      "%s", b->answer.report.error.message);
	ck_contains(b->answer.report.error.message, from->tcp_uri);
	slot_arrives(slot, from, to);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis(lease_of(1, K).value, to, "GET lk:" K);
}
END_TEST

/* Its master reports it in step, and the voters know it as a replica. */
static bool is_replica_in_step(void *arg)
{
	struct redis *replica = arg;
	const char *id = id_of(replica), *of = id_of(nodes[0]);
	int i;

	for (i = 0; i < MASTERS; i++)
		if (!strstr(redis_say(nodes[i], "CLUSTER REPLICAS %s", of), id))
			return false;
	return strstr(redis_say(replica, "INFO replication"), "master_link_status:up") != NULL;
}

static bool is_master(void *arg)
{
	return strstr(redis_say(arg, "INFO replication"), "role:master") != NULL;
}

/* The replica takes the master's place; that one was the only address. */
START_TEST(a_master_that_became_a_replica)
{
	char key[16], name[32];
	int i = 0;

	two_hosts(NODES);
	ck_redis("OK", nodes[3], "CLUSTER REPLICATE %s", id_of(nodes[0]));
	ck_assert(await(is_replica_in_step, nodes[3]));
	do
		snprintf(name, sizeof(name), "lk:key%d", i++);
	while (owner_of(name) != nodes[0]);
	strcpy(key, name + 3);
	ck_code(global_wait(a, key, LOCKSHM_EXCLUSIVE), 0);
	ck_redis("OK", nodes[3], "CLUSTER FAILOVER");
	ck_assert(await(is_master, nodes[3]));
	stays_held(a);
	ck_assert_ptr_eq(owner_of(name), nodes[3]);
	ck_redis(lease_of(0, key).value, nodes[3], "GET %s", name);
	/* No node in the old place: a new process finds the cluster as long as one node that it knows is left. */
	redis_kill(nodes[0]);
	stays_held(a);
	ck_code(global_try(b, key, LOCKSHM_EXCLUSIVE), LOCKSHM_BUSY);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(b, key, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* What a master has not replicated is lost with it. */
static bool has_names(void *arg)
{
	return strcmp(redis_say(arg, "DBSIZE"), "0") != 0;
}

/* Killed, without any other command meanwhile: another node is asked for the replacement. */
START_TEST(a_master_that_died)
{
	char key[16], name[32];
	int i = 0;

	two_hosts(NODES);
	ck_redis("OK", nodes[3], "CLUSTER REPLICATE %s", id_of(nodes[0]));
	ck_assert(await(is_replica_in_step, nodes[3]));
	do
		snprintf(name, sizeof(name), "lk:key%d", i++);
	while (owner_of(name) != nodes[0]);
	strcpy(key, name + 3);
	/* From the host with another address. */
	ck_code(global_wait(b, key, LOCKSHM_EXCLUSIVE), 0);
	ck_assert(await(has_names, nodes[3]));
	redis_kill(nodes[0]);
	ck_redis("OK", nodes[3], "CLUSTER FAILOVER TAKEOVER");
	stays_held(b);
	ck_redis(lease_of(1, key).value, nodes[3], "GET %s", name);
	ck_code(agent_release(b), 0);
	ck_assert_uint_eq(bridge_of(1).lost, 0);
}
END_TEST

/* A node that was moved out of the cluster knows no slots, nor their nodes. */
START_TEST(a_node_that_left)
{
	struct redis *bucket;
	char id[48];
	int slot, i;

	two_hosts(NODES);
	slot = slot_of("lk:" K);
	bucket = owner_of("lk:" K);
	slot_leaves(slot, bucket, nodes[3]);
	slot_arrives(slot, bucket, nodes[3]);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	ck_redis(lease_of(0, K).value, nodes[3], "GET lk:" K);
	strcpy(id, id_of(nodes[3]));
	slot_leaves(slot, nodes[3], bucket);
	slot_arrives(slot, nodes[3], bucket);
	for (i = 0; i < MASTERS; i++)
		ck_redis("OK", nodes[i], "CLUSTER FORGET %s", id);
	ck_redis("OK", nodes[3], "CLUSTER RESET HARD");
	stays_held(a);
	ck_redis(lease_of(0, K).value, bucket, "GET lk:" K);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* The next leader has to find out by itself, with a held lease. */
START_TEST(the_next_bridge)
{
	two_hosts(MASTERS);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), 0);
	bridge_kill(0);
	bridge_start(0);
	stays_held(a);
	ck_code(agent_release(a), 0);
	ck_code(global_wait(b, K, LOCKSHM_EXCLUSIVE), 0);
	ck_assert_uint_eq(bridge_of(0).lost, 0);
}
END_TEST

/* Each node has a part of the keys: no two of them can agree about one. */
START_TEST(no_majority_of_a_cluster)
{
	struct lockshm_create_options options = host_options();
	char uris[200];

	cluster_start(MASTERS);
	snprintf(uris, sizeof(uris), "%s,%s,%s", nodes[0]->tcp_uri, nodes[1]->tcp_uri, nodes[2]->tcp_uri);
	strcpy(options.redis, uris);
	options.flags = LOCKSHM_CREATE_REDIS_QUORUM;
	host_make(0, &options);
	a = on_host(0);
	ck_code(global_wait(a, K, LOCKSHM_EXCLUSIVE), LOCKSHM_BRIDGE);
	ck_contains(a->answer.report.error.message, "node of a cluster");
}
END_TEST

/* A key of server @at of two, whose slot is that of @tag. */
static void choose_key(char out[16], const char *tag, size_t at)
{
	struct redis_keys keys;
	size_t found = 2;
	int i;

	for (i = 0; found != at; i++) {
		snprintf(out, 16, "{%s}%d", tag, i);
		ck_code(redis_keys_make(&keys, REDIS_KEYS_SINGLE, "lk:", out, strlen(out), NULL), 0);
		found = redis_server_of(&keys, 2);
		redis_keys_free(&keys);
	}
}

/* That redirects a slot: not the keys of a server that belongs to no cluster. */
START_TEST(beside_a_server_that_is_in_no_cluster)
{
	struct lockshm_create_options options = host_options();
	char uris[200], its[16], other[16], command[40];
	int code;

	cluster_start(MASTERS);
	snprintf(uris, sizeof(uris), "%s,%s", owner_of("{t}") == nodes[0] ? nodes[1]->tcp_uri : nodes[0]->tcp_uri,
		 redis->uri);
	choose_key(its, "t", 0);
	choose_key(other, "t", 1);
	snprintf(command, sizeof(command), "EXISTS lk:%s", other);
	strcpy(options.redis, uris);
	host_make(0, &options);
	a = on_host(0);
	b = on_host(0);
	ck_code(global_wait(a, other, LOCKSHM_EXCLUSIVE), 0);
	code = global_wait(b, its, LOCKSHM_EXCLUSIVE);
	ck_code(agent_release(a), 0);
	redis_has(command, "0");
	ck_code(global_wait(a, other, LOCKSHM_EXCLUSIVE), 0);
	ck_redis("1", redis, "EXISTS lk:%s", other);
	ck_code(code, LOCKSHM_BRIDGE);
	ck_contains(b->answer.report.error.message, "is a node of a cluster, and another server is none");
}
END_TEST

/* ---------------------------------------------------------------- parsing of redirections */

static const char *named(struct redis_nodes *known, const char *text)
{
	const struct redis_node *node = redis_nodes_moved(known, &known->node[0], text);

	return node ? redis_conn_label(node->conn) : "none";
}

START_TEST(addresses_of_all_kinds)
{
	static const char *const cases[][2] = {
		{ "redis://10.0.0.1:7000: MOVED 3999 127.0.0.1:6381", "redis://127.0.0.1:6381" },
		{ "MOVED 0 ::1:6381", "redis://[::1]:6381" },
		{ "MOVED 16383 node-3.example.com:6381", "redis://node-3.example.com:6381" },
		{ "MOVED 3999 :6381", "redis://10.0.0.1:6381" },
		{ "MOVED 3999 10.0.0.1:7000", "redis://10.0.0.1:7000" },
		{ "MOVED 3999 ?:6381", "none" },
		{ "MOVED 16384 127.0.0.1:6381", "none" },
		{ "MOVED -1 127.0.0.1:6381", "none" },
		{ "MOVED 3999 127.0.0.1", "none" },
		{ "MOVED 3999 127.0.0.1:", "none" },
		{ "MOVED 3999 127.0.0.1:123456", "none" },
		{ "MOVED 3999", "none" },
		{ "MOVED ", "none" },
		{ "ERR unknown", "none" },
	};
	struct redis_nodes *known = calloc(1, sizeof(*known));
	struct redis_server server = server_of("redis://10.0.0.1:7000");
	struct redis_node *twice;
	char text[64];
	size_t i;

	ck_assert_int_eq(redis_nodes_add(known, &server, NULL), 0);
	known->n_given = 1;
	/* Others have no nodes to name. */
	ck_assert_str_eq(named(known, cases[0][0]), "none");
	known->cluster = true;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_str_eq(named(known, cases[i][0]), cases[i][1]);
	/* Each of them once, and no more than there is room for. */
	twice = redis_nodes_moved(known, &known->node[0], "MOVED 1 127.0.0.1:6381");
	ck_assert_ptr_eq(twice, redis_nodes_moved(known, &known->node[0], "MOVED 2 127.0.0.1:6381"));
	for (i = known->n; i < REDIS_CONNS_MAX; i++) {
		snprintf(text, sizeof(text), "MOVED 3 127.0.0.1:%zu", i);
		ck_assert_str_ne(named(known, text), "none");
	}
	ck_assert_str_eq(named(known, "MOVED 3 127.0.0.1:9999"), "none");
	ck_assert_str_eq(named(known, "MOVED 3 127.0.0.1:6381"), "redis://127.0.0.1:6381");
	redis_nodes_end(known);
	free(known);
}
END_TEST

/* A node that knows no cluster any more is not asked again, even if the key's name maps to it. */
START_TEST(forgotten_for_the_next)
{
	struct redis_nodes *known = calloc(1, sizeof(*known));
	struct redis_node *first, *node;
	struct redis_keys keys;
	char text[64];
	size_t i;

	for (i = 0; i < MASTERS; i++) {
		struct redis_server server;

		snprintf(text, sizeof(text), "redis://10.0.0.%zu:7000", i + 1);
		server = server_of(text);
		ck_assert_int_eq(redis_nodes_add(known, &server, NULL), 0);
	}
	known->n_given = MASTERS;
	known->cluster = true;
	ck_assert_int_eq(redis_keys_make(&keys, REDIS_KEYS_CLUSTER, "lk:", K, strlen(K), NULL), 0);
	first = node = redis_nodes_of(known, &keys);
	for (i = 0; i < MASTERS; i++) {
		struct redis_node *before = node;

		redis_nodes_forget(known, &keys, before);
		node = redis_nodes_of(known, &keys);
		ck_assert_ptr_ne(node, before);
	}
	ck_assert_ptr_eq(node, first);
	redis_keys_free(&keys);
	redis_nodes_end(known);
	free(known);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, any_key_at_its_node);
	tcase_add_test(tc, keys_with_a_tag);
	tcase_add_test(tc, in_order);
	tcase_add_test(tc, names_that_no_cluster_can_have);
	tcase_add_test(tc, a_slot_that_moved);
	tcase_add_test(tc, a_slot_on_its_way);
	tcase_add_test(tc, a_master_that_became_a_replica);
	tcase_add_test(tc, a_master_that_died);
	tcase_add_test(tc, a_node_that_left);
	tcase_add_test(tc, the_next_bridge);
	tcase_add_test(tc, no_majority_of_a_cluster);
	tcase_add_test(tc, beside_a_server_that_is_in_no_cluster);
	tcase_add_test(tc, addresses_of_all_kinds);
	tcase_add_test(tc, forgotten_for_the_next);
}

int main(void)
{
	return hosts_main("global-cluster", add);
}
