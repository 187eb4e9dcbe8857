/* SPDX-License-Identifier: MIT */
/*
 * bench.h - the parts of the benchmark: one generic body per scenario, one small adapter per lock
 *
 * A scenario-*.c file measures one thing and knows no lock; an adapter-*.c file knows one lock and measures nothing.
 * lockshm-bench.c runs every scenario at each of its points (mode, number of processes) with every lock, in interleaved
 * rounds: all locks once, then all again, so that phases of the machine affect all.  Figures are taken in processes
 * made for each, pinned, and kept in bench-result.c.  perf/README.md explains method and output.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------------- *
 * Locks
 */
enum bench_mode { BENCH_EXCLUSIVE = 0, BENCH_SHARED = 1, BENCH_MODES = 2 };

#define BENCH_KEY_LEN 16

#define LOCK_SHARED 1u /* shared holders hold together */
#define LOCK_MANY 2u /* more than one lock at a time: keyed, or an array in place of keys */
#define LOCK_FLOOR 4u /* no peer: the least code that could do the job */
#define LOCK_NONE 8u /* does not exclude: shows the cost of a body by itself, and that violations are found */
#define LOCK_SERVER 16u /* another process over a socket: fewer operations a figure */
#define LOCK_SPINS 32u /* never sleeps: useless where processes outnumber processors */
#define LOCK_LEASE 64u /* a stopped holder loses it */
#define LOCK_SOLO 128u /* a variant for the solo scenarios only */
#define LOCK_REMOTE 256u /* inside a server, which runs the solo body itself: see remote_ns() */
#define LOCK_TRIES 512u /* a waiter retries with sleeps in between: thousands of them choke */
#define LOCK_FEW 1024u /* slow with very many at once */
#define LOCK_STALLS 2048u /* waits of minutes, or for ever, with a thousand processes that want it all the time */

/* What a figure needs of a lock. */
struct bench_need {
	uint32_t keys; /* 0 .. keys-1 are used */
	uint32_t procs; /* processes that take part, in addition to the one that creates */
	int64_t lease_ns; /* how long a holder may hold; 0 = the lock's usual */
};

/* Errors inside an adapter end the figure's process with a message; a lock that does not work has no time. */
struct lock_adapter {
	const char *name;
	unsigned can;
	int (*create)(
		const struct bench_need *need); /* before the processes are made; -1 = not possible, see bench_why() */
	void (*attach)(void); /* in each process that takes locks */
	void (*lock)(uint32_t key, enum bench_mode mode);
	void (*unlock)(uint32_t key, enum bench_mode mode); /* of the latest lock() */
	void (*detach)(void); /* in each process, before a normal end */
	void (*destroy)(void); /* when no process is left; also after kills */
	void (*keep)(
		uint32_t key); /* exclusively, in addition to the others, until the process ends; NULL = lock() does */
	double (*bytes)(void); /* the lock's memory now, in all; NULL = unknown */
	double (*remote_ns)(enum bench_mode mode, int ms); /* LOCK_REMOTE: ns a pair */
	/* The rest is bare loops, made by bench-loop.h, and what they are made of; all but LOCK_REMOTE have pairs. */
	void (*pairs)(uint64_t *random, uint32_t keys, enum bench_mode mode, uint32_t n);
	/* One of several shared holds of key 0 that a process has at a time; NULL = it can have one only, by lock() */
	void (*hold)(uint32_t slot);
	void (*swaps)(const uint32_t *slots, uint32_t n);
	uint32_t (*tries)(uint32_t n); /* NULL = it cannot be tried */
};

#define BENCH_SLOTS_MAX 1024u

/* The locks of a run, in the order of its rows; adapters.c. */
struct lock_entry {
	const char *name;
	const struct lock_adapter *lock; /* NULL = not built in */
	const char *package; /* Debian package that it is built with */
};
extern const struct lock_entry bench_locks[]; /* ends with a name of NULL */
extern const struct lock_adapter adapter_apr_global, adapter_bdb, adapter_boost_sharable, adapter_cas, adapter_cas_lease,
	adapter_ck_pflock, adapter_ck_tflock, adapter_fcntl, adapter_fifo_barge, adapter_fifo_park, adapter_fifo_rw_park,
	adapter_fifo_rw_watch, adapter_flock, adapter_futex_wake, adapter_list_watch, adapter_lockshm,
	adapter_lockshm_barging, adapter_lockshm_object, adapter_lockshm_strict, adapter_none, adapter_ofd, adapter_posix_sem,
	adapter_postgres_advisory, adapter_pthread_mutex, adapter_pthread_robust, adapter_pthread_rwlock,
	adapter_pthread_rwlock_writer, adapter_redis, adapter_resty_lock, adapter_sysv_sem, adapter_tdb_mutex;
const char *lockshm_bench_segment(void); /* the name of the segment that adapter_lockshm created */

/* "key:0000" and eight letters, one for each four bits: made anew for every use, as a server makes its keys. */
static inline void bench_key(uint32_t key, char out[BENCH_KEY_LEN])
{
	uint64_t v = key;

	v = (v | v << 16) & UINT64_C(0x0000ffff0000ffff);
	v = (v | v << 8) & UINT64_C(0x00ff00ff00ff00ff);
	v = (v | v << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	v += UINT64_C(0x6161616161616161);
	__builtin_memcpy(out, "key:0000", 8);
	__builtin_memcpy(out + 8, &v, 8);
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Time: ticks of the processor's constant counter where there is one, else of CLOCK_MONOTONIC; bench-machine.c
 */
static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
#endif
}

extern double bench_ns_per_tick; /* set by bench_machine_init() */

static inline uint64_t bench_ticks_of_ns(double ns)
{
	return (uint64_t)(ns / bench_ns_per_tick);
}

static inline void bench_spin(uint64_t from, uint64_t ticks)
{
	while (bench_ticks() - from < ticks)
		;
}

static inline void bench_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* A small generator: each process its own, seeded, so that runs can be repeated. */
static inline uint32_t bench_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 32);
}

extern int bench_cpus; /* processors this run may use */
int bench_cpu(int n); /* the n-th of them, counted round and round */
/* just now, compared with the fastest of this run: another guest uses the other half of this core */
bool bench_is_slow(void);
void bench_machine_init(void); /* finds processors, measures the counter, leaves for a session of its own */
void bench_machine_line(char *out, size_t size); /* "<processor>, N CPUs | Linux ... | commit ..." */

/* ---------------------------------------------------------------------------------------------------------------- *
 * Processes, and the words that synchronize them; bench-process.c
 */
extern const char *bench_program; /* argv[0] */
void bench_fail(const char *what) __attribute__((noreturn)); /* prints what and errno, ends the process */
void bench_why(const char *format, ...) __attribute__((format(printf, 1, 2))); /* why create() gave up */
const char *bench_reason(void); /* the text of the last bench_why() */
void bench_process_init(void);
void bench_pin(int cpu);
void *bench_share(size_t size); /* zeroed memory, shared by processes made later */
void bench_unshare(void *p, size_t size);
pid_t bench_spawn(int cpu, void (*body)(void *), void *arg); /* a pinned process that runs body and ends */
void bench_reap(pid_t pid, const char *who); /* waits for it; any other end than status 0 is fatal */
void bench_kill(pid_t pid); /* SIGKILL, and waits for its end */
bool bench_wait(uint32_t *word, uint32_t value, int ms); /* until *word >= value; false = not in time */
bool bench_wait_asleep(pid_t pid, int ms); /* until the kernel reports it asleep */
void bench_set(uint32_t *word, uint32_t value); /* wakes its waiters */
void bench_add(uint32_t *word); /* one more, likewise */
/* The lock's create and destroy; a lock is destroyed also when the run fails or is aborted. */
int bench_create(const struct lock_adapter *lock, const struct bench_need *need);
void bench_destroy(const struct lock_adapter *lock);

/* ---------------------------------------------------------------------------------------------------------------- *
 * Servers that some adapters need: on unix sockets in a directory of the run, as an unprivileged user, until the end of
 * the run; bench-server.c
 */
const char *server_dir(void); /* NULL = it cannot be made, see bench_why() */
/* The program in PATH or in the other directory, which may be NULL; NULL = not installed, see bench_why(). */
const char *server_find(const char *program, const char *other_dir);
int server_run(const char *const argv[]); /* runs a command to its end; -1 = it failed */
/* Starts a server that lives until the run ends; 0 when it accepts at the socket, -1 = it does not. */
int server_start(const char *const argv[], const char *socket);
void server_stop_all(void);

/* ---------------------------------------------------------------------------------------------------------------- *
 * Figures; bench-stat.c
 */
#define BENCH_ROUNDS_MAX 64

/* One figure over the rounds.  "others" is the part of a processor that other processes used. */
struct series {
	int n;
	double value[BENCH_ROUNDS_MAX];
	double others[BENCH_ROUNDS_MAX];
};

struct summary {
	double median, min, max;
	double others; /* median of the rounds used */
	int used; /* rounds used: disturbed ones are left out where three quiet ones remain */
};

void series_add(struct series *s, double value, double others);
struct summary series_summary(const struct series *s);

/* Histogram of waits: 32 steps for every doubling, so a figure is right to 3 %. */
#define HIST_STEPS 32
#define HIST_BUCKETS (60 * HIST_STEPS)

struct hist {
	uint64_t n;
	uint64_t max;
	uint32_t count[HIST_BUCKETS];
};

void hist_add(struct hist *h, uint64_t ticks);
void hist_merge(struct hist *into, const struct hist *from);
double hist_ns(const struct hist *h, double quantile); /* 1.0 = the largest, exactly */

struct neighbours {
	uint64_t busy_us;
	uint64_t own_us;
	uint64_t at;
};

void neighbours_begin(struct neighbours *n);
double neighbours_end(const struct neighbours *n); /* part of one processor; all children must be reaped */

double median_of(double *v, size_t n); /* sorts in place */

/* ---------------------------------------------------------------------------------------------------------------- *
 * Scenarios and their results; scenario-*.c, bench-result.c, bench-goals.c, bench-growth.c
 */
enum bench_effort { BENCH_QUICK = 0, BENCH_NORMAL = 1, BENCH_FULL = 2, BENCH_EFFORTS = 3 };
extern enum bench_effort bench_effort;

enum metric { NS, OPS_PER_S, JAIN, US_P50, US_P99, US_P999, US_MAX, BYTES, COMMANDS, SHARE, US_CALL, METRICS };

/*
 * One thing to measure: a scenario in one mode (of the mixed ones: the writers' share), with a number of processes, or of
 * what it has many of: readers, keys, deaths.
 */
struct point {
	const struct scenario *scenario;
	enum bench_mode mode;
	int procs;
};

struct scenario {
	const char *name;
	const char *what; /* for humans */
	enum metric first; /* the metric that rows are compared by */
	bool (*fits)(const struct point *point, const struct lock_adapter *lock);
	void (*run)(const struct point *point, const struct lock_adapter *lock); /* one round of one lock */
	int arg; /* the scenario's own */
	int procs[BENCH_EFFORTS][8]; /* ends with 0 */
	bool shared; /* has points of shared mode too */
	const char *many; /* what procs counts, if not processes */
};
extern const struct scenario *const bench_scenarios[]; /* ends with NULL */
extern const struct scenario scenario_attach, scenario_bridge_foreign, scenario_bridge_handover,
	scenario_bridge_own_1ms, scenario_bridge_own_200us, scenario_bridge_own_three, scenario_bridge_pass,
	scenario_bridge_peers, scenario_bridge_pollers, scenario_bridge_pollers_10ms_held, scenario_bridge_pollers_400ms,
	scenario_bridge_pollers_50ms, scenario_bridge_pollers_alone, scenario_bridge_renew, scenario_bridge_rival,
	scenario_bridge_solo, scenario_bridge_solo_far, scenario_bridge_solo_tcp, scenario_contended,
	scenario_dead_open, scenario_dead_open_large, scenario_dead_waiters, scenario_fresh_open,
	scenario_fresh_open_large, scenario_handoff, scenario_handoff_spin, scenario_held_20k, scenario_held_many,
	scenario_lease_expiry, scenario_live_open, scenario_loop_crowd, scenario_loop_handoff, scenario_loop_pass,
	scenario_loop_solo, scenario_memory, scenario_mixed_50_50, scenario_mixed_95_5, scenario_readers_churn,
	scenario_readers_newest, scenario_readers_oldest, scenario_reading, scenario_recovery, scenario_recovery_1g,
	scenario_recovery_waiter, scenario_scale_procs, scenario_solo, scenario_solo_100k, scenario_solo_1m,
	scenario_spread_churn, scenario_spread_newest, scenario_spread_oldest, scenario_try_readers,
	scenario_wake_readers;

void result_add(const struct point *point, const char *lock, enum metric metric, double value, double others);
/* p50, p99, p99.9 and the largest */
void result_add_hist(const struct point *point, const char *lock, const struct hist *hist, double others);
/* a try that did not end in time; the figure is "never" if no try did */
void result_never(const struct point *point, const char *lock);
bool result_any(const char *scenario); /* was it run? */
bool result_tried(const struct point *point, const char *lock);
bool result_has(const struct point *point, const char *lock, enum metric metric);
bool result_median(const char *scenario, const char *lock, enum bench_mode mode, int procs, enum metric metric,
		   double *median);
const char *result_metric_name(enum metric metric);
void result_print_table(void);
void result_print_json(FILE *out);
bool result_read(FILE *in); /* the medians of what result_print_json() wrote; are there any? */
void goals_print(void);
bool growth_has(const struct scenario *scenario); /* does --growth run it? */
void growth_print(void);

#ifdef __cplusplus
}
#endif
#endif
