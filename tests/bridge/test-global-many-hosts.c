/* SPDX-License-Identifier: MIT */
/*
 * test-global-many-hosts.c - 64 hosts around one server, while bridges and holders are killed: exclusion, rising tokens,
 * no host starves, and the holder after one that was killed inside is told
 *
 * The referee is a board in shared memory that the library does not use.  A holder puts itself down for the key; who finds
 * another one there accuses it, and it is guilty if its hold is valid afterwards.  What it costs is printed.  SECONDS=N
 * in the environment: for so long at least.
 */
#define _GNU_SOURCE
#include "redis-support/hosts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOSTS 64
#define COMMON 3 /* keys that all hosts want */
#define LIVES 4096 /* processes that hold, one after the other on each host */
#define KILL_EVERY_NS LOCKSHM_MS(60)

struct board {
	uint32_t owner[COMMON]; /* a life, 0 = none is known */
	uint64_t token[COMMON]; /* the largest so far */
	uint32_t accused[LIVES]; /* by another holder of the key */
	uint8_t host[LIVES];
	uint8_t killed[LIVES];
	uint32_t guilty, falling; /* two valid holders; tokens that did not rise */
	uint32_t told, untold; /* of a holder that ended badly; not of one that was killed inside */
	uint32_t holds[HOSTS], own[HOSTS]; /* of common keys, of the host's own */
	uint32_t refused; /* neither held nor timed out */
	uint32_t ends;
};

static struct board *board;
static pid_t workers[HOSTS];
static unsigned lives, life_of[HOSTS];

/* ---------------------------------------------------------------- a holder */

static void rises(unsigned key, uint64_t token)
{
	uint64_t before = __atomic_load_n(&board->token[key], __ATOMIC_SEQ_CST);

	do {
		if (token <= before) {
			__atomic_fetch_add(&board->falling, 1, __ATOMIC_SEQ_CST);
			return;
		}
	} while (!__atomic_compare_exchange_n(&board->token[key], &before, token, false, __ATOMIC_SEQ_CST,
					      __ATOMIC_SEQ_CST));
}

/* A hold that is valid now was valid all the time. */
static void inside(unsigned key, uint32_t life, lockshm_hold_t *hold, int status)
{
	uint32_t other = __atomic_exchange_n(&board->owner[key], life, __ATOMIC_SEQ_CST);

	/* Killed here, as most of those that are, and long enough for another one to come. */
	pass(now_ns() + LOCKSHM_MS(1));
	if (other)
		__atomic_store_n(&board->accused[other], 1, __ATOMIC_SEQ_CST);
	/* It put itself down inside, and this is the next one. */
	if (status > 0)
		__atomic_fetch_add(&board->told, 1, __ATOMIC_SEQ_CST);
	else if (__atomic_load_n(&board->killed[other], __ATOMIC_SEQ_CST) && lockshm_check(hold, NULL) == 0)
		__atomic_fetch_add(&board->untold, 1, __ATOMIC_SEQ_CST);
	/* The token of a hold that was lost by now may be behind. */
	if (lockshm_check(hold, NULL) == 0)
		rises(key, lockshm_token(hold));
	if (lockshm_check(hold, NULL) == 0 && __atomic_load_n(&board->accused[life], __ATOMIC_SEQ_CST))
		__atomic_fetch_add(&board->guilty, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&board->accused[life], 0, __ATOMIC_SEQ_CST);
	__atomic_compare_exchange_n(&board->owner[key], &life, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void hold_one(lockshm_t *s, unsigned host, unsigned n, uint32_t life)
{
	char key[32];
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	unsigned common = n % (COMMON + 1);
	lockshm_hold_t hold;
	int code;

	snprintf(key, sizeof(key), common < COMMON ? "common %u" : "host %u", common < COMMON ? common : host);
	request.key = key;
	request.key_len = strlen(key);
	request.flags = LOCKSHM_GLOBAL | LOCKSHM_ROBUST;
	request.ttl_ns = LOCKSHM_SECONDS(30);
	request.timeout_ns = PATIENCE;
	code = acknowledge_told(lockshm_acquire(s, &request, &hold), &hold);
	if (code < 0) {
		if (code != LOCKSHM_TIMEOUT)
			__atomic_fetch_add(&board->refused, 1, __ATOMIC_SEQ_CST);
		return;
	}
	if (common < COMMON)
		inside(common, life, &hold, code);
	__atomic_fetch_add(common < COMMON ? &board->holds[host] : &board->own[host], 1, __ATOMIC_SEQ_CST);
	(void)lockshm_release(&hold, 0);
}

static void work(unsigned host, uint32_t life)
{
	lockshm_t *s;
	unsigned n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (lockshm_open(&s, hosts[host].name, 0, NULL) != 0)
		_exit(1);
	for (n = life; !__atomic_load_n(&board->ends, __ATOMIC_SEQ_CST); n++)
		hold_one(s, host, n, life);
	_exit(0);
}

static void worker_start(unsigned host)
{
	ck_assert_uint_lt(++lives, LIVES);
	board->host[lives] = (uint8_t)host;
	life_of[host] = lives;
	workers[host] = fork();
	ck_assert_int_ge(workers[host], 0);
	if (workers[host] == 0)
		work(host, lives);
}

static void worker_kill(unsigned host)
{
	__atomic_store_n(&board->killed[life_of[host]], 1, __ATOMIC_SEQ_CST);
	kill(workers[host], SIGKILL);
	ck_assert_int_eq(waitpid(workers[host], NULL, 0), workers[host]);
}

/* ---------------------------------------------------------------- all of them */

static bool all_had(void *unused)
{
	unsigned i;

	(void)unused;
	for (i = 0; i < HOSTS; i++)
		if (!__atomic_load_n(&board->holds[i], __ATOMIC_SEQ_CST) ||
		    !__atomic_load_n(&board->own[i], __ATOMIC_SEQ_CST))
			return false;
	return true;
}

/* The next host that has the key; @other if none is seen. */
static unsigned holder(unsigned key, unsigned other)
{
	int64_t end = now_ns() + LOCKSHM_MS(50);
	uint32_t life;

	while (!(life = __atomic_load_n(&board->owner[key], __ATOMIC_SEQ_CST)) && now_ns() < end)
		pass(now_ns() + LOCKSHM_MS(1) / 10);
	return life ? board->host[life] : other;
}

/* A bridge is back at once, as under a service manager. */
static unsigned kill_some(int64_t ns)
{
	unsigned kills = 0, dice = 1;
	int64_t end = now_ns() + ns;

	while (now_ns() < end) {
		unsigned host = (dice = dice * 1103515245 + 12345) >> 16 & (HOSTS - 1);

		if (kills++ % 2) {
			bridge_kill(host);
			hosts[host].bridge = bridge_spawn(host);
		} else {
			host = holder(kills / 2 % COMMON, host);
			worker_kill(host);
			worker_start(host);
		}
		pass(now_ns() + KILL_EVERY_NS);
	}
	return kills;
}

static long number_of(const char *section, const char *name)
{
	char command[64];
	const char *at;

	snprintf(command, sizeof(command), "INFO %s", section);
	at = strstr(redis_say(redis, "%s", command), name);
	return at ? atol(at + strlen(name)) : 0;
}

static long bridge_kib(unsigned host)
{
	char path[64], line[200];
	long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)hosts[host].bridge);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		(void)sscanf(line, "RssAnon: %ld kB", &kib);
	if (f)
		fclose(f);
	return kib;
}

static void print_costs(int64_t ns, unsigned kills, long commands)
{
	uint32_t n = 0, own = 0, least = UINT32_MAX, most = 0;
	long kib = 0;
	unsigned i;

	for (i = 0; i < HOSTS; i++) {
		n += board->holds[i];
		own += board->own[i];
		least = board->holds[i] < least ? board->holds[i] : least;
		most = board->holds[i] > most ? board->holds[i] : most;
		kib = bridge_kib(i) > kib ? bridge_kib(i) : kib;
	}
	printf("%d hosts, %.1f s, %u kills: %u holds of %d common keys (%u to %u a host), %u of own keys; %.0f holds a second, "
	       "%.1f scripts a hold; %u told of a bad end; the largest bridge has %ld KiB of its own, the server %ld KiB\n",
	       HOSTS, (double)ns / 1e9, kills, n, COMMON, least, most, own, (double)(n + own) * 1e9 / (double)ns,
	       (double)commands / (double)(n + own), board->told, kib, number_of("memory", "used_memory:") / 1024);
}

START_TEST(kills_around_one_server)
{
	const char *seconds = getenv("SECONDS");
	struct lockshm_create_options options = host_options();
	int64_t begun, ns = LOCKSHM_SECONDS(seconds ? atol(seconds) : 2);
	unsigned i, kills;
	long commands;

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(board, MAP_FAILED);
	own_server_with("maxclients 1000");
	strcpy(options.redis, redis->uri);
	options.redis_ttl_ns = LOCKSHM_SECONDS(10);
	options.redis_policy = LOCKSHM_REDIS_WAIT;
	options.owners = 16;
	options.requests = 64;
	for (i = 0; i < HOSTS; i++) {
		host_make_bare(i, &options);
		hosts[i].bridge = bridge_spawn(i);
	}
	for (i = 0; i < HOSTS; i++)
		leads(i, hosts[i].bridge);
	begun = now_ns();
	commands = number_of("commandstats", "cmdstat_evalsha:calls=");
	for (i = 0; i < HOSTS; i++)
		worker_start(i);
	kills = kill_some(ns);
	ck_assert(await(all_had, NULL));
	print_costs(now_ns() - begun, kills, number_of("commandstats", "cmdstat_evalsha:calls=") - commands);
	__atomic_store_n(&board->ends, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < HOSTS; i++)
		ck_assert_int_eq(waitpid(workers[i], NULL, 0), workers[i]);
	ck_assert_uint_eq(board->guilty, 0);
	ck_assert_uint_eq(board->falling, 0);
	ck_assert_uint_eq(board->untold, 0);
	ck_assert_uint_eq(board->refused, 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, kills_around_one_server);
}

int main(void)
{
	return hosts_main("global-many-hosts", add);
}
