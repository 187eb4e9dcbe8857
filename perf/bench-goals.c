/* SPDX-License-Identifier: MIT */
/*
 * bench-goals.c - the ratios that lockshm aims at, and whether this run reached them
 *
 * A goal compares one median of lockshm with a peer's in the same run, or with a figure.  The sum of two modes is used
 * where the total rate of the processes is meant.  This is a report: no exit status depends on it.
 */
#include "bench.h"

#include <stdio.h>
#include <string.h>

/* One side of a goal: a median. */
struct side {
	const char *lock, *scenario;
	enum bench_mode mode;
	int procs;
	enum metric metric;
};

struct goal {
	const char *text;
	struct side ours;
	bool at_least; /* else at most */
	double factor;
	struct side peer; /* lock NULL = the factor is the figure itself */
	bool both_modes; /* the sum of exclusive and shared, on both sides */
};

/* clang-format off */
#define SOLO(l, s) { l, s, BENCH_EXCLUSIVE, 1, NS }
#define SOLO_SHARED(l) { l, "solo", BENCH_SHARED, 1, NS }
#define EX(l, s, p, m) { l, s, BENCH_EXCLUSIVE, p, m }
#define SH(l, s, p, m) { l, s, BENCH_SHARED, p, m }
#define AMONG_READERS(text, s) \
	{ text, EX("lockshm", s, 1000, NS), AT_MOST, 5, SOLO_SHARED("lockshm"), 0 }, \
	{ "  flat", EX("lockshm", s, 1000, NS), AT_MOST, 2, EX("lockshm", s, 1, NS), 0 }
#define OWN_KEYS(text, s, n) \
	{ text, EX("lockshm", s, n, US_P50), AT_MOST, 1.25, EX("redis", s, n, US_P50), 0 }, \
	{ "  keys a second", EX("lockshm", s, n, OPS_PER_S), AT_LEAST, 0.9, EX("redis", s, n, OPS_PER_S), 0 }
#define MAJORITY(text, l) \
	{ text, EX(l, "bridge-own-three", 32, US_P50), AT_MOST, 1.5, EX("lockshm", "bridge-own-three", 32, US_P50), 0 }, \
	{ "  keys a second", EX(l, "bridge-own-three", 32, OPS_PER_S), AT_LEAST, 0.5, \
	  EX("lockshm", "bridge-own-three", 32, OPS_PER_S), 0 }
#define FIGURE { NULL, NULL, BENCH_EXCLUSIVE, 0, NS }
/* clang-format on */
#define AT_MOST false
#define AT_LEAST true

static const struct goal goals[] = {
	{ "solo, one hot key", SOLO("lockshm", "solo"), AT_MOST, 2.2, SOLO("pthread-robust", "solo"), 0 },
	{ "", SOLO("lockshm", "solo"), AT_MOST, 0.5, SOLO("tdb-mutex", "solo"), 0 },
	{ "", SOLO("lockshm", "solo"), AT_MOST, 1.0 / 7, SOLO("bdb", "solo"), 0 },
	{ "", SOLO("lockshm", "solo"), AT_MOST, 0.2, SOLO("resty-lock", "solo"), 0 },
	{ "solo, shared", SOLO_SHARED("lockshm"), AT_MOST, 2.2, SOLO_SHARED("pthread-rwlock"), 0 },
	{ "solo, by a lock object", SOLO("lockshm-object", "solo"), AT_MOST, 1.6, SOLO("pthread-robust", "solo"), 0 },
	{ " shared", SOLO_SHARED("lockshm-object"), AT_MOST, 2.4, SOLO_SHARED("pthread-rwlock"), 0 },
	{ "a reader beside a reader", EX("lockshm", "readers-newest", 1, NS), AT_MOST, 2.5, SOLO_SHARED("lockshm"), 0 },
	{ " of another process", EX("lockshm", "spread-newest", 1, NS), AT_MOST, 2.5, SOLO_SHARED("lockshm"), 0 },
	AMONG_READERS("1,000 readers: the newest", "readers-newest"),
	AMONG_READERS(" the oldest", "readers-oldest"),
	AMONG_READERS(" any one", "readers-churn"),
	AMONG_READERS("1,000 of 100 processes: the newest", "spread-newest"),
	AMONG_READERS(" the oldest", "spread-oldest"),
	AMONG_READERS(" any one", "spread-churn"),
	{ "try against 1,000 readers", EX("lockshm", "try-readers", 1000, NS), AT_MOST, 2,
	  EX("lockshm", "try-readers", 1, NS), 0 },
	{ "2 processes only read: rate", EX("lockshm", "reading", 2, OPS_PER_S), AT_LEAST, 1.0 / 3,
	  EX("pthread-rwlock", "reading", 2, OPS_PER_S), 0 },
	{ "100,000 random keys", SOLO("lockshm", "solo-100k"), AT_MOST, 0.45, SOLO("bdb", "solo-100k"), 0 },
	{ "", SOLO("lockshm", "solo-100k"), AT_MOST, 0.45, SOLO("resty-lock", "solo-100k"), 0 },
	{ "1,000,000 random keys", SOLO("lockshm", "solo-1m"), AT_MOST, 0.45, SOLO("bdb", "solo-1m"), 0 },
	{ "", SOLO("lockshm", "solo-1m"), AT_MOST, 0.45, SOLO("resty-lock", "solo-1m"), 0 },
	{ "", SOLO("lockshm", "solo-1m"), AT_MOST, 1.5, SOLO("lockshm", "solo-100k"), 0 },
	{ "20,000 other keys held", SOLO("lockshm", "held-20k"), AT_MOST, 1.2, SOLO("lockshm", "solo"), 0 },
	{ "2 processes, exclusive: rate", EX("lockshm", "contended", 2, OPS_PER_S), AT_LEAST, 0.9,
	  EX("pthread-robust", "contended", 2, OPS_PER_S), 0 },
	{ " fairness", EX("lockshm", "contended", 2, JAIN), AT_LEAST, 0.98, FIGURE, 0 },
	{ " wait", EX("lockshm", "contended", 2, US_P999), AT_MOST, 1.0, EX("pthread-robust", "contended", 2, US_P999),
	  0 },
	{ "16 processes, exclusive: rate", EX("lockshm", "contended", 16, OPS_PER_S), AT_LEAST, 1.0,
	  EX("sysv-sem", "contended", 16, OPS_PER_S), 0 },
	{ "", EX("lockshm", "contended", 16, OPS_PER_S), AT_LEAST, 1.0, EX("bdb", "contended", 16, OPS_PER_S), 0 },
	{ " fairness", EX("lockshm", "contended", 16, JAIN), AT_LEAST, 0.99, FIGURE, 0 },
	{ " longest wait", EX("lockshm", "contended", 16, US_MAX), AT_MOST, 1.5,
	  EX("sysv-sem", "contended", 16, US_MAX), 0 },
	{ " rate, barging", EX("lockshm-barging", "contended", 16, OPS_PER_S), AT_LEAST, 0.8,
	  EX("pthread-robust", "contended", 16, OPS_PER_S), 0 },
	{ "64 processes, exclusive: rate", EX("lockshm", "contended", 64, OPS_PER_S), AT_LEAST, 1.0,
	  EX("sysv-sem", "contended", 64, OPS_PER_S), 0 },
	{ "", EX("lockshm", "contended", 64, OPS_PER_S), AT_LEAST, 1.0, EX("bdb", "contended", 64, OPS_PER_S), 0 },
	{ " fairness", EX("lockshm", "contended", 64, JAIN), AT_LEAST, 0.99, FIGURE, 0 },
	{ " longest wait", EX("lockshm", "contended", 64, US_MAX), AT_MOST, 2,
	  EX("sysv-sem", "contended", 64, US_MAX), 0 },
	{ " rate, barging", EX("lockshm-barging", "contended", 64, OPS_PER_S), AT_LEAST, 0.8,
	  EX("pthread-robust", "contended", 64, OPS_PER_S), 0 },
	{ "256 processes, exclusive: rate", EX("lockshm", "contended", 256, OPS_PER_S), AT_LEAST, 1.0,
	  EX("sysv-sem", "contended", 256, OPS_PER_S), 0 },
	{ " fairness", EX("lockshm", "contended", 256, JAIN), AT_LEAST, 0.99, FIGURE, 0 },
	{ " longest wait", EX("lockshm", "contended", 256, US_MAX), AT_MOST, 2,
	  EX("sysv-sem", "contended", 256, US_MAX), 0 },
	{ "95 % shared, 16 processes: rate", EX("lockshm", "mixed-95-5", 16, OPS_PER_S), AT_LEAST, 0.8,
	  EX("pthread-rwlock-writer", "mixed-95-5", 16, OPS_PER_S), 1 },
	{ "", EX("lockshm", "mixed-95-5", 16, OPS_PER_S), AT_LEAST, 2.5, EX("bdb", "mixed-95-5", 16, OPS_PER_S), 1 },
	{ " writer's wait", EX("lockshm", "mixed-95-5", 16, US_P99), AT_MOST, 3.0,
	  EX("pthread-rwlock-writer", "mixed-95-5", 16, US_P99), 0 },
	{ "50 % shared, 16 processes: rate", EX("lockshm", "mixed-50-50", 16, OPS_PER_S), AT_LEAST, 0.5,
	  EX("pthread-rwlock-writer", "mixed-50-50", 16, OPS_PER_S), 1 },
	{ "", EX("lockshm", "mixed-50-50", 16, OPS_PER_S), AT_LEAST, 1.0, EX("bdb", "mixed-50-50", 16, OPS_PER_S), 1 },
	{ "hand-over to a sleeper", EX("lockshm", "handoff", 2, US_P50), AT_MOST, 1.05,
	  EX("futex-wake", "handoff", 2, US_P50), 0 },
	{ "", EX("lockshm", "handoff", 2, US_P99), AT_MOST, 1.5, EX("futex-wake", "handoff", 2, US_P99), 0 },
	{ "hand-over within the spin", EX("lockshm", "handoff-spin", 2, US_P50), AT_MOST, 0.35, FIGURE, 0 },
	{ "holder killed", EX("lockshm", "recovery", 2, US_P50), AT_MOST, 1.15,
	  EX("pthread-robust", "recovery", 2, US_P50), 0 },
	{ "reader killed", SH("lockshm", "recovery", 2, US_P50), AT_MOST, 1.15,
	  EX("pthread-robust", "recovery", 2, US_P50), 0 },
	{ "holder of 1 GiB killed", EX("lockshm", "recovery-1g", 2, US_P50), AT_MOST, 1.15,
	  EX("pthread-robust", "recovery-1g", 2, US_P50), 0 },
	{ "reader of 1 GiB killed", SH("lockshm", "recovery-1g", 2, US_P50), AT_MOST, 1.15,
	  EX("pthread-robust", "recovery-1g", 2, US_P50), 0 },
	{ "lease ends", EX("lockshm", "lease-expiry", 2, US_P50), AT_MOST, 1.5,
	  EX("futex-wake", "lease-expiry", 2, US_P50), 0 },
	{ "bytes for each key held", EX("lockshm", "memory", 1, BYTES), AT_MOST, 330, FIGURE, 0 },
	{ "attach of a process", EX("lockshm", "attach", 1, US_P50), AT_MOST, 1.5,
	  EX("attach-calls", "attach", 1, US_P50), 0 },
	{ "attach beside 1,000 holders", EX("lockshm", "live-open", 1000, US_P50), AT_MOST, 2,
	  EX("lockshm", "live-open", 1, US_P50), 0 },
	{ "attach after 1,000 deaths", EX("lockshm", "dead-open", 1000, US_P50), AT_MOST, 20,
	  EX("lockshm", "fresh-open", 1, US_P50), 0 },
	{ " largest table", EX("lockshm", "dead-open-large", 1000, US_P50), AT_MOST, 20,
	  EX("lockshm", "fresh-open-large", 1, US_P50), 0 },
	{ "acquire after 1,000 dead waiters", EX("lockshm", "dead-waiters", 1000, US_P50), AT_MOST, 1000, FIGURE, 0 },
	{ "lockctl ls of 100,000 held locks", EX("lockctl-ls", "attach", 1, US_P50), AT_MOST, 300000, FIGURE, 0 },
	{ "global key, free, unix socket", EX("lockshm", "bridge-solo", 1, US_P50), AT_MOST, 1.3,
	  EX("two-pings", "bridge-solo", 1, US_P50), 0 },
	{ " as its caller sees it", EX("lockshm-returns", "bridge-solo", 1, US_P50), AT_MOST, 1.3,
	  EX("two-pings", "bridge-solo", 1, US_P50), 0 },
	{ " again and again", EX("lockshm-again", "bridge-solo", 1, US_P50), AT_MOST, 1.3,
	  EX("two-pings", "bridge-solo", 1, US_P50), 0 },
	{ "global key, free, TCP", EX("lockshm", "bridge-solo-tcp", 1, US_P50), AT_MOST, 1.3,
	  EX("two-pings", "bridge-solo-tcp", 1, US_P50), 0 },
	{ " as its caller sees it", EX("lockshm-returns", "bridge-solo-tcp", 1, US_P50), AT_MOST, 1.3,
	  EX("two-pings", "bridge-solo-tcp", 1, US_P50), 0 },
	{ " again and again", EX("lockshm-again", "bridge-solo-tcp", 1, US_P50), AT_MOST, 1.3,
	  EX("two-pings", "bridge-solo-tcp", 1, US_P50), 0 },
	{ "global key, free, a network of 0.1 ms", EX("lockshm", "bridge-solo-far", 1, US_P50), AT_MOST, 1.3,
	  EX("two-pings", "bridge-solo-far", 1, US_P50), 0 },
	{ " as its caller sees it", EX("lockshm-returns", "bridge-solo-far", 1, US_P50), AT_MOST, 1.3,
	  EX("two-pings", "bridge-solo-far", 1, US_P50), 0 },
	{ " again and again", EX("lockshm-again", "bridge-solo-far", 1, US_P50), AT_MOST, 1.3,
	  EX("two-pings", "bridge-solo-far", 1, US_P50), 0 },
	OWN_KEYS("keys of their own, 0.2 ms: wait of 1", "bridge-own-200us", 1),
	OWN_KEYS(" wait of 8", "bridge-own-200us", 8),
	OWN_KEYS(" wait of 32", "bridge-own-200us", 32),
	OWN_KEYS("keys of their own, 1 ms: wait of 1", "bridge-own-1ms", 1),
	OWN_KEYS(" wait of 8", "bridge-own-1ms", 8),
	OWN_KEYS(" wait of 32", "bridge-own-1ms", 32),
	MAJORITY("three servers, 1 ms: wait of 32", "lockshm-three"),
	MAJORITY("five servers, 1 ms: wait of 32", "lockshm-five"),
	{ "passed on under a lease, 2 processes", EX("lockshm", "bridge-pass", 2, NS), AT_MOST, 3.0,
	  EX("lockshm-local", "bridge-pass", 2, NS), 0 },
	{ " 4 processes", EX("lockshm", "bridge-pass", 4, NS), AT_MOST, 3.0, EX("lockshm-local", "bridge-pass", 4, NS), 0 },
	{ "8 processes, two hosts: rate", EX("lockshm", "bridge-rival", 8, OPS_PER_S), AT_LEAST, 20,
	  EX("redis", "bridge-rival", 8, OPS_PER_S), 0 },
	{ " rate, barging", EX("lockshm-barging", "bridge-rival", 8, OPS_PER_S), AT_LEAST, 20,
	  EX("redis", "bridge-rival", 8, OPS_PER_S), 0 },
	{ " Redis commands for each lock", EX("lockshm", "bridge-rival", 8, COMMANDS), AT_MOST, 0.1, FIGURE, 0 },
	{ " one host's share by the other's", EX("lockshm", "bridge-rival", 8, SHARE), AT_MOST, 1.2, FIGURE, 0 },
	{ "from host to host", EX("lockshm", "bridge-handover", 2, US_P50), AT_MOST, 3.0,
	  EX("ping", "bridge-handover", 2, US_P50), 0 },
	{ " round trips", EX("lockshm", "bridge-handover", 2, COMMANDS), AT_MOST, 3.0, FIGURE, 0 },
	{ "deleted by a foreign program", EX("lockshm", "bridge-foreign", 2, US_P50), AT_MOST, 2000, FIGURE, 0 },
	{ "Redis' time for 1,000 renewals, us", EX("lockshm", "bridge-renew", 1, US_P50), AT_MOST, 5000, FIGURE, 0 },
	{ "a release to 1,000 readers", EX("lockshm", "wake-readers", 1000, US_CALL), AT_MOST, 10,
	  EX("futex-wake", "handoff", 2, US_P50), 0 },
	{ "1,000 waiters: one hand-over", EX("lockshm", "scale-procs", 1000, NS), AT_MOST, 1.3,
	  EX("lockshm", "scale-procs", 10, NS), 0 },
};

static bool value_of(const struct side *side, bool both_modes, double *value)
{
	double other;

	if (!result_median(side->scenario, side->lock, side->mode, side->procs, side->metric, value))
		return false;
	if (both_modes && result_median(side->scenario, side->lock, BENCH_SHARED, side->procs, side->metric, &other))
		*value += other;
	return true;
}

/* Of a goal against itself: the other scenario, or how many there were. */
static const char *than_what(const struct goal *g)
{
	static char text[32];

	if (!g->peer.lock || strcmp(g->peer.lock, g->ours.lock))
		return g->peer.lock ? g->peer.lock : "";
	if (strcmp(g->peer.scenario, g->ours.scenario))
		return g->peer.scenario;
	snprintf(text, sizeof(text), "with %d", g->peer.procs);
	return text;
}

enum goal_result { MET, MISSED, UNKNOWN };

/* "solo, one hot key    ns    2.31 x pthread-robust    at most 1.7: MISSED" */
static enum goal_result print_goal(const struct goal *g)
{
	const char *than = than_what(g), *sign = g->at_least ? "at least" : "at most";
	double value, base = 1;
	bool met;

	printf("%-34s %-9s ", g->text, result_metric_name(g->ours.metric));
	if (!value_of(&g->ours, g->both_modes, &value) || (g->peer.lock && !value_of(&g->peer, g->both_modes, &base)) ||
	    base <= 0) {
		printf("%10s %-2s %-22s %s %.3g: not measured\n", "-", than[0] ? "x" : "", than, sign, g->factor);
		return UNKNOWN;
	}
	value /= base;
	met = g->at_least ? value >= g->factor : value <= g->factor;
	printf("%10.3g %-2s %-22s %s %.3g: %s\n", value, than[0] ? "x" : "", than, sign, g->factor,
	       met ? "met" : "MISSED");
	return met ? MET : MISSED;
}

void goals_print(void)
{
	unsigned count[3] = { 0 };

	printf("\n== goals, by medians of this run: what of ours, how many times whose\n");
	for (size_t i = 0; i < sizeof(goals) / sizeof(goals[0]); i++)
		if (result_any(goals[i].ours.scenario))
			count[print_goal(&goals[i])]++;
	printf("%u met, %u missed, %u not measured\n", count[MET], count[MISSED], count[UNKNOWN]);
}
