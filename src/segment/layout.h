/* SPDX-License-Identifier: MIT */
/*
 * layout.h - every byte of the segment; segment/words.h has the bits within its words
 *
 *   header | owners | lives | buckets | tags | entries | details | damages | requests [| bridge | host leases]
 *
 * Little-endian, 64-bit, fixed-width types, no pointers, no libc types: builds against different C libraries share a
 * segment.  All-zero memory is a valid empty table, so creation writes the header only.  A request index is 1-based,
 * 0 = none; every other index is 0-based.  doc/internals/shm-format.md is the same in prose.
 *
 * The comment of a field begins with its writer:
 *   owner    the thread that owns the record; before others can reach the record, or by release
 *   cas      any thread, by a CAS that carries the generation it decided on
 *   add, or  any thread, by an atomic add or or
 *   hint     any thread, by a plain store; readers validate the value
 *   claimer  the thread whose claim the entry's tail (or the record's claimer field) names
 *   bridge   the leader
 * A field has one meaning.  Where a state selects what its bits hold, the state is in the same word: deadline and
 * owner.control.
 */
#ifndef LOCKSHM_SEGMENT_LAYOUT_H
#define LOCKSHM_SEGMENT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || __SIZEOF_POINTER__ != 8
#error "liblockshm needs a little-endian 64-bit machine"
#endif

#define ASSERT_SIZE(type, n) _Static_assert(sizeof(type) == (n), #type " must be " #n " bytes")
#define ASSERT_OFFSET(type, field, n)                                                                                  \
	_Static_assert(offsetof(type, field) == (n), #type "." #field " must be at byte " #n)

#define SHM_MAGIC UINT64_C(0x314d48534b434f4c) /* "LOCKSHM1" */
#define SHM_FORMAT 16u
#define SHM_CANARY UINT32_C(0x01020304)

/* ---------------------------------------------------------------------------------------------------------------- *
 * Request: 128 bytes.
 */
enum request_state {
	REQUEST_FREE = 0,
	REQUEST_WAITING = 1,   /* live */
	REQUEST_GRANTED = 2,   /* live: the lock is its owner's, which has not learnt of it yet, or needs more than that */
	REQUEST_ENTERED = 3,   /* live: the call of its owner has returned, or is about to: a hold */
	REQUEST_COOLING = 4,   /* live, without an owner */
	REQUEST_BARGEABLE = 5, /* live, without an owner: its thread may resume it, its successor may end it */
	REQUEST_CLAIM = 6,     /* holds a table entry while its identity is written; never in a queue */
	REQUEST_RELEASED = 8,  /* dead, from here on; prev is frozen */
	REQUEST_ABANDONED = 9,
	REQUEST_EXPIRED = 10, /* a hold, whose lease ended or which an operator ended */
	REQUEST_DEAD = 11     /* a hold, whose owner died */
};

#define TAG_WORDS 4

struct shm_request {
	uint64_t word;		 /*   0 owner before the append, then cas; low half: the futex its owner sleeps on */
	uint64_t deadline;	 /*   8 owner; cas once, at the grant, from "unset for this generation" */
	uint64_t next;		 /*  16 hint: [gen | index] of its successor */
	uint64_t ticket;	 /*  24 owner; cas by an upgrade */
	uint64_t owner;		 /*  32 owner: owner_ref() */
	int64_t ttl_ns;		 /*  40 owner; INT64_MAX = strict */
	int64_t since_ns;	 /*  48 owner: when the request was made */
	uint32_t entry;		 /*  56 owner: the lock it is for */
	uint32_t sleeping;	 /*  60 owner: [number of the sleep | SLEEPS_...]; 0 = awake.  cas, of a wait at the doorbell */
	uint64_t tag[TAG_WORDS]; /*  64 owner: readable label, NUL-padded */
	int64_t granted_ns;	 /*  96 owner: when it learnt of its grant; before since_ns = at once, or not yet */
	uint32_t bucket;	 /* 104 owner, in state CLAIM: bucket of the key that the claim is for */
	uint32_t flags;		 /* 108 owner; REQUEST_WATCHED: or.  [host lease + 1:16 | REQUEST_...:16] */
	uint64_t chunk;		 /* 112 cas, in the first record of a chunk: owner_ref() of the thread that has it */
	uint64_t host_grant;	 /* 120 owner, with REQUEST_GLOBAL: host_grant_make(); 0 = waits for its host lease */
};
#define SLEEPS 1u	      /* its owner may sleep in the kernel */
#define SLEEPS_ON_ONE_WORD 2u /* on its own word only, not on its predecessor's */
#define SLEEPS_AT_DOORBELL 4u     /* no thread sleeps for it: ring the doorbell of its owner's slot, see lock/doorbell.h */
#define SLEEP_NUMBER 8u
#define REQUEST_HAS_TAG 1u
#define REQUEST_GLOBAL 2u   /* granted locally; also needs the host lease in the upper bits of the flags */
#define REQUEST_TRY 4u	    /* waits for the host lease only as long as one command takes */
#define REQUEST_BARGES 8u   /* may become BARGEABLE: its successor watches its word as well */
#define REQUEST_WATCHED 16u /* the thread that expires or ends the hold wakes the sleepers on its word */
#define REQUEST_TELLS 256u  /* and rings the doorbell of its owner's slot: a hint, see lock/tend.h */
ASSERT_SIZE(struct shm_request, 128);
ASSERT_OFFSET(struct shm_request, word, 0);
ASSERT_OFFSET(struct shm_request, deadline, 8);
ASSERT_OFFSET(struct shm_request, next, 16);
ASSERT_OFFSET(struct shm_request, ticket, 24);
ASSERT_OFFSET(struct shm_request, owner, 32);
ASSERT_OFFSET(struct shm_request, ttl_ns, 40);
ASSERT_OFFSET(struct shm_request, since_ns, 48);
ASSERT_OFFSET(struct shm_request, entry, 56);
ASSERT_OFFSET(struct shm_request, sleeping, 60);
ASSERT_OFFSET(struct shm_request, tag, 64);
ASSERT_OFFSET(struct shm_request, granted_ns, 96);
ASSERT_OFFSET(struct shm_request, bucket, 104);
ASSERT_OFFSET(struct shm_request, flags, 108);
ASSERT_OFFSET(struct shm_request, chunk, 112);
ASSERT_OFFSET(struct shm_request, host_grant, 120);

/* ---------------------------------------------------------------------------------------------------------------- *
 * Entry: one lock: 64 bytes that every acquire reads, and 64 bytes of details.
 */
#define KEY_SHOWN_WORDS 8

struct shm_entry {
	uint64_t tail;	       /*  0 cas */
	uint64_t id[2];	       /*  8 claimer: keyed 128-bit hash of the key */
	uint64_t key_len;      /* 24 claimer; 0 = an empty slot */
	uint64_t first_ticket; /* 32 claimer: the ticket the slot is opened with */
	uint64_t damage_word;  /* 40 cas; claimer: damage_make() */
	uint64_t damage_time;  /* 48 cas: [low ticket bits:20 | ms of the segment's clock:44] */
	uint64_t reserved;     /* 56 zero */
};
ASSERT_SIZE(struct shm_entry, 64);
ASSERT_OFFSET(struct shm_entry, tail, 0);
ASSERT_OFFSET(struct shm_entry, id, 8);
ASSERT_OFFSET(struct shm_entry, key_len, 24);
ASSERT_OFFSET(struct shm_entry, first_ticket, 32);
ASSERT_OFFSET(struct shm_entry, damage_word, 40);
ASSERT_OFFSET(struct shm_entry, damage_time, 48);
ASSERT_OFFSET(struct shm_entry, reserved, 56);

struct shm_detail {
	uint64_t key[KEY_SHOWN_WORDS]; /* 0 claimer: first bytes of the key, human-readable output only */
};
ASSERT_SIZE(struct shm_detail, 64);
ASSERT_OFFSET(struct shm_detail, key, 0);

/* ---------------------------------------------------------------------------------------------------------------- *
 * The holder that left a damage mark: a pool for all locks.  The mark itself is in the entry; see lock/damage-details.c.
 */
#define DAMAGE_TAG_WORDS 5

struct shm_damage {
	uint64_t whose;			/*  0 cas: damage_whose(); 0 = free */
	uint64_t holder;		/*  8 cas: [check:20 | tid:22 | pid:22] */
	uint64_t tag[DAMAGE_TAG_WORDS]; /* 16 cas: [check:16 | 6 characters] */
	uint64_t reserved;		/* 56 zero */
};
ASSERT_SIZE(struct shm_damage, 64);
ASSERT_OFFSET(struct shm_damage, whose, 0);
ASSERT_OFFSET(struct shm_damage, holder, 8);
ASSERT_OFFSET(struct shm_damage, tag, 16);
ASSERT_OFFSET(struct shm_damage, reserved, 56);

/* ---------------------------------------------------------------------------------------------------------------- *
 * Bucket: serialises the insertions of keys whose window starts here.
 */
#define WINDOW 32u     /* entries a key may live in, from its bucket on */
#define BUCKET_SPAN 8u /* entries per bucket */

struct shm_bucket {
	uint64_t word;	     /* 0 cas: bucket_make(); 0 = no announcement yet */
	uint64_t high_water; /* 8 cas, only upwards: every later key of this bucket starts above this ticket */
};
ASSERT_SIZE(struct shm_bucket, 16);
ASSERT_OFFSET(struct shm_bucket, word, 0);
ASSERT_OFFSET(struct shm_bucket, high_water, 8);

/* ---------------------------------------------------------------------------------------------------------------- *
 * Owner: one thread that takes locks: 128 bytes, and a page of its own for its life word (see owner.c).
 */
enum owner_state { OWNER_FREE = 0, OWNER_CLAIMED = 1, OWNER_ACTIVE = 2, OWNER_GONE = 3 };

/* Events each thread counts in its own slot.  Deadlocks, which are rare, the header counts. */
enum owner_count {
	COUNT_ACQUIRES,
	COUNT_WAITS,
	COUNT_TIMEOUTS,
	COUNT_TRIES_FAILED,
	COUNT_LOST,
	COUNT_RECOVERED,
	COUNT_EXPIRED,
	COUNT_GLOBAL, /* holds under a host lease */
	OWNER_COUNTERS
};

#define LIFE_BYTES 4096u /* per owner */

struct shm_owner {
	uint64_t control;    /*  0 cas: control_make() */
	uint64_t start_time; /*  8 owner: of the thread, clock ticks since boot */
	uint64_t pid_ns;     /* 16 owner: inode of its pid namespace */
	uint64_t waiting;    /* 24 owner: [gen | index] of the request it waits with, or 0 */
	uint32_t tid;	     /* 32 owner, in its own namespace */
	uint32_t life_off;   /* 36 owner: offset of the life word in its page */
	uint32_t flags;	     /* 40 owner, its process: [reach + 1:24 | 0:3 | OWNER_...:5], see owner_reach() */
	uint32_t doorbell;   /* 44 add: the service thread sleeps on it while requests of its process wait at the doorbell */
	uint64_t name[2];    /* 48 owner: the kernel's name of the thread when it joined, NUL-padded */
	uint64_t counts[OWNER_COUNTERS]; /* 64 owner: events, by enum owner_count */
};
#define OWNER_EXACT 1u	 /* the kernel flags the life word */
#define OWNER_PROCESS 2u /* stands for the whole process: its service thread */
#define OWNER_ENDED 8u	 /* left in good order, and through with its life word */
#define OWNER_ADOPTED 4u /* may own requests in other threads' chunks */
#define OWNER_UNREGISTERED 16u /* with PROCESS: expedited membarriers do not reach the process yet */
ASSERT_SIZE(struct shm_owner, 128);
ASSERT_OFFSET(struct shm_owner, control, 0);
ASSERT_OFFSET(struct shm_owner, start_time, 8);
ASSERT_OFFSET(struct shm_owner, pid_ns, 16);
ASSERT_OFFSET(struct shm_owner, waiting, 24);
ASSERT_OFFSET(struct shm_owner, tid, 32);
ASSERT_OFFSET(struct shm_owner, life_off, 36);
ASSERT_OFFSET(struct shm_owner, flags, 40);
ASSERT_OFFSET(struct shm_owner, doorbell, 44);
ASSERT_OFFSET(struct shm_owner, name, 48);
ASSERT_OFFSET(struct shm_owner, counts, 64);

/* The doorbell of a slot that stands for a process, in its life page: which of its waits to look at, see lock/doorbell.h. */
#define DOORBELL_OFFSET 512u
#define DOORBELL_WORDS 64u

struct shm_doorbell {
	uint64_t rung[DOORBELL_WORDS]; /*   0 or: bit i of word w = the records whose index is 64 w + i, modulo 4096; owner: 0 */
	uint64_t rung_words;	   /* 512 or: bit w = rung[w] has bits; owner: 0 */
	uint32_t asleep;	   /* 520 owner: 1 = a ringer has to wake it */
	uint32_t reserved;	   /* 524 zero */
};
ASSERT_SIZE(struct shm_doorbell, 528);
ASSERT_OFFSET(struct shm_doorbell, rung, 0);
ASSERT_OFFSET(struct shm_doorbell, rung_words, 512);
ASSERT_OFFSET(struct shm_doorbell, asleep, 520);
ASSERT_OFFSET(struct shm_doorbell, reserved, 524);

/* The loops of such a slot count their acquires each for itself, in its life page; a cache line each. */
#define LOOP_COUNTS_OFFSET 2048u
#define LOOP_COUNTS 16u

struct shm_loop_count {
	uint64_t acquires;    /* 0 owner, the loop's thread: beside counts[COUNT_ACQUIRES] */
	uint64_t reserved[7]; /* 8 zero */
};
ASSERT_SIZE(struct shm_loop_count, 64);
ASSERT_OFFSET(struct shm_loop_count, acquires, 0);
ASSERT_OFFSET(struct shm_loop_count, reserved, 8);

/* ---------------------------------------------------------------------------------------------------------------- *
 * Host lease: the one lock in Redis that this host holds, or requests, for all its processes; see
 * hostlease/host-lease.h.
 */
enum host_lease_state {
	HOST_LEASE_NONE = 0,	  /* nothing in Redis; key_len 0 = a free record */
	HOST_LEASE_CLAIM = 1,	  /* its claimer writes key and identity */
	HOST_LEASE_ACQUIRING = 2, /* the value may be in Redis, or a queue position there */
	HOST_LEASE_HELD = 3,	  /* until valid_until */
	HOST_LEASE_CLOSING = 4,	  /* HELD, but closed to new holds */
	HOST_LEASE_RELEASING = 5, /* no holds; the value may still be in Redis */
	HOST_LEASE_LOST = 6	  /* its holds are lost */
};

#define HOST_LEASE_KEY_WORDS 80
#define HOST_LEASE_REASON_WORDS 28

struct shm_host_lease {
	uint64_t word;		      /*   0 cas */
	uint64_t valid_until;	      /*   8 cas, only upwards: host time (CLOCK_BOOTTIME) at which a held lease ends */
	uint64_t fence;		      /*  16 cas: [next:53 | left:11]; next only upwards */
	uint64_t acquired;	      /*  24 bridge: host time at which the lease was obtained */
	uint64_t local_grants;	      /*  32 add: holds under it since then; bridge: 0 */
	uint64_t other_hosts_waiting; /*  40 bridge: how many, as last known */
	uint64_t last_result;	      /*  48 cas: [sent:62 | code:2] why the last command got no lease; claimer: 0 */
	uint64_t blocked;	      /*  56 bridge: [ms:32 | sent:32] for how long after that; claimer: 0 */
	uint64_t id[2];		      /*  64 claimer: identity of the key */
	uint64_t key_len;	      /*  80 claimer; 0 = free */
	uint64_t claimer;	      /*  88 cas: owner_ref() of the thread that gives the record a key; 0 = none */
	uint32_t waiters_seq;	      /*  96 add: the futex of waiters; grows with every change they wait for */
	uint32_t reserved0;	      /* 100 zero */
	uint64_t sent;		      /* 104 cas, only upwards: host time of the last acquire or renew */
	uint64_t reason_seal;	      /* 112 bridge: hash of `reason` and of its command's time */
	uint64_t suppress_until;      /* 120 bridge: host time until which releases need not ring; 0 = they must */
	uint64_t key[HOST_LEASE_KEY_WORDS];	  /* 128 claimer: the whole key */
	uint64_t reason[HOST_LEASE_REASON_WORDS]; /* 768 bridge: the last result in words; claimer: 0 */
	uint64_t note;	    /* 992 cas: host_note_make(): what Redis has of an earlier bad end of a robust key */
	uint64_t note_last; /* 1000 cas: no token of that lease is higher; host_note_last() */
	uint64_t note_host; /* 1008 bridge: the id of its host */
	uint64_t note_pid;  /* 1016 bridge: of its holder, there; 0 = not known */
};
ASSERT_SIZE(struct shm_host_lease, 1024);
ASSERT_OFFSET(struct shm_host_lease, word, 0);
ASSERT_OFFSET(struct shm_host_lease, valid_until, 8);
ASSERT_OFFSET(struct shm_host_lease, fence, 16);
ASSERT_OFFSET(struct shm_host_lease, acquired, 24);
ASSERT_OFFSET(struct shm_host_lease, local_grants, 32);
ASSERT_OFFSET(struct shm_host_lease, other_hosts_waiting, 40);
ASSERT_OFFSET(struct shm_host_lease, last_result, 48);
ASSERT_OFFSET(struct shm_host_lease, blocked, 56);
ASSERT_OFFSET(struct shm_host_lease, id, 64);
ASSERT_OFFSET(struct shm_host_lease, key_len, 80);
ASSERT_OFFSET(struct shm_host_lease, claimer, 88);
ASSERT_OFFSET(struct shm_host_lease, waiters_seq, 96);
ASSERT_OFFSET(struct shm_host_lease, reserved0, 100);
ASSERT_OFFSET(struct shm_host_lease, sent, 104);
ASSERT_OFFSET(struct shm_host_lease, reason_seal, 112);
ASSERT_OFFSET(struct shm_host_lease, suppress_until, 120);
ASSERT_OFFSET(struct shm_host_lease, key, 128);
ASSERT_OFFSET(struct shm_host_lease, reason, 768);
ASSERT_OFFSET(struct shm_host_lease, note, 992);
ASSERT_OFFSET(struct shm_host_lease, note_last, 1000);
ASSERT_OFFSET(struct shm_host_lease, note_host, 1008);
ASSERT_OFFSET(struct shm_host_lease, note_pid, 1016);

/* Processes of this host to the leader: one page before the host leases. */
#define HOST_LEASES_MAX 4096u

enum bridge_count {
	BRIDGE_COUNT_ACQUIRED, /* leases obtained */
	BRIDGE_COUNT_RENEWED,
	BRIDGE_COUNT_RELEASED,
	BRIDGE_COUNT_LOST,
	BRIDGE_COUNT_COMMANDS, /* scripts sent */
	BRIDGE_COUNT_ERRORS,   /* of those, without a usable reply */
	BRIDGE_COUNTERS
};

struct shm_bridge {
	uint32_t doorbell;			/*   0 add: the leader sleeps on it */
	uint32_t overflowed;			/*   4 any thread: 1 = a key may have a record outside its window */
	uint64_t pending[HOST_LEASES_MAX / 64]; /*   8 or: leases to examine; the leader clears them before it does */
	uint64_t counts[BRIDGE_COUNTERS];	/* 520 add */
	uint64_t missing_since;			/* 568 cas by a request that finds no leader: host time; leader: 0 */
	uint64_t reserved1[440];		/* 576 zero */
};
ASSERT_SIZE(struct shm_bridge, 4096);
ASSERT_OFFSET(struct shm_bridge, doorbell, 0);
ASSERT_OFFSET(struct shm_bridge, overflowed, 4);
ASSERT_OFFSET(struct shm_bridge, pending, 8);
ASSERT_OFFSET(struct shm_bridge, counts, 520);
ASSERT_OFFSET(struct shm_bridge, missing_since, 568);
ASSERT_OFFSET(struct shm_bridge, reserved1, 576);

/* How this segment reaches Redis: constant, covered by the header's check. */
#define REDIS_SERVERS_BYTES 1112
#define REDIS_PREFIX_BYTES 128
#define REDIS_HOST_BYTES 16
#define GLOBAL_KEYS_BYTES 256
#define REDIS_QUORUM 1u
#define REDIS_WAIT_SHIFT 8
#define REDIS_WAIT_MAX 15u

/* Replicas that must have a lease before it counts. */
#define REDIS_WAIT(flags) ((flags) >> REDIS_WAIT_SHIFT & REDIS_WAIT_MAX)

struct shm_redis {
	uint32_t policy;		   /*   0 enum lockshm_redis_policy */
	uint32_t flags;			   /*   4 [0:20 | wait:4 | 0:7 | REDIS_QUORUM] */
	uint64_t ttl_ms;		   /*   8 of a host lease */
	uint32_t retain_ms;		   /*  16 how long an unused host lease is kept */
	uint32_t gap_ms;		   /*  20 how long a busy key is then left to programs that poll it */
	char host[REDIS_HOST_BYTES];	   /*  24 16 random hexadecimal digits: this host's name in Redis */
	char prefix[REDIS_PREFIX_BYTES];   /*  40 NUL-terminated */
	char servers[REDIS_SERVERS_BYTES]; /* 168 NUL-terminated URIs */
	char global_keys[GLOBAL_KEYS_BYTES]; /* 1280 NUL-terminated: keys that are global for every request; "" = none */
};
ASSERT_SIZE(struct shm_redis, 1536);
ASSERT_OFFSET(struct shm_redis, policy, 0);
ASSERT_OFFSET(struct shm_redis, flags, 4);
ASSERT_OFFSET(struct shm_redis, ttl_ms, 8);
ASSERT_OFFSET(struct shm_redis, retain_ms, 16);
ASSERT_OFFSET(struct shm_redis, gap_ms, 20);
ASSERT_OFFSET(struct shm_redis, host, 24);
ASSERT_OFFSET(struct shm_redis, prefix, 40);
ASSERT_OFFSET(struct shm_redis, servers, 168);
ASSERT_OFFSET(struct shm_redis, global_keys, 1280);

/* ---------------------------------------------------------------------------------------------------------------- *
 * Header: one page.  Constant after publication, except token_base, state, retired, deadlocks,
 * sweep_next and refused.
 */
#define FEATURE_DOORBELLS UINT64_C(1) /* its libraries ring the doorbells of requests that no thread sleeps for */

#define FULL_TABLES 5 /* locks, requests, owners, tickets, leases */

enum segment_state { SEGMENT_READY = 1, SEGMENT_RETIRED = 2 };

struct shm_header {
	uint64_t magic;			  /*   0 */
	uint32_t format;		  /*   8 */
	uint32_t canary;		  /*  12 byte order */
	uint64_t layout;		  /*  16 signature of the sizes and constants above */
	uint64_t feature_incompat;	  /*  24 FEATURE_...: bits this library must know */
	uint64_t total_size;		  /*  32 */
	unsigned char id[16];		  /*  40 random */
	uint64_t bridge_off;		  /*  56 struct shm_bridge, then the host leases; 0 = no bridge */
	uint32_t n_host_leases;		  /*  64 0 = no bridge */
	uint32_t n_damages;		  /*  68 */
	unsigned char boot_id[16];	  /*  72 the kernel run whose clock and processes are meant */
	uint64_t created_unix_ns;	  /*  88 */
	uint64_t token_floor;		  /*  96 the creator's option, or 0 */
	uint32_t n_owners;		  /* 104 */
	uint32_t n_chunks;		  /* 108 */
	uint32_t chunk_size;		  /* 112 records per chunk */
	uint32_t n_requests;		  /* 116 = n_chunks * chunk_size, indices 1..n_requests */
	uint32_t n_buckets;		  /* 120 */
	uint32_t n_locks;		  /* 124 = n_buckets * BUCKET_SPAN */
	uint64_t owners_off;		  /* 128 */
	uint64_t lives_off;		  /* 136 */
	uint64_t buckets_off;		  /* 144 */
	uint64_t tags_off;		  /* 152 */
	uint64_t entries_off;		  /* 160 */
	uint64_t details_off;		  /* 168 */
	uint64_t damages_off;		  /* 176 */
	uint64_t requests_off;		  /* 184 of index 0, which is never used */
	uint64_t check;			  /* 192 hash of bytes 0..191, of the secret and of the Redis settings */
	uint64_t token_base;		  /* 200 token = token_base + ticket; cas from 0, by the first opener */
	uint64_t reserved0[6];		  /* 208 zero */
	uint64_t state;			  /* 256 enum segment_state; cas READY to RETIRED */
	uint64_t reserved1[7];		  /* 264 zero */
	uint64_t retired[OWNER_COUNTERS]; /* 320 add: counts of owners that left */
	unsigned char hash_secret[192];	  /* 384 random: of the keyed hash */
	struct shm_redis redis;		  /* 576 zero without a bridge */
	uint64_t deadlocks;		  /* 2112 add: requests refused as deadlocks */
	uint32_t sweep_next;		  /* 2120 hint: the slot at which the next partial sweep begins */
	uint32_t reserved4;		  /* 2124 zero */
	uint64_t refused[FULL_TABLES];	  /* 2128 add: requests refused as a table was full, by enum lockshm_table, less 1 */
	uint64_t reserved5[241];	  /* 2168 zero */
};
ASSERT_SIZE(struct shm_header, 4096);
ASSERT_OFFSET(struct shm_header, magic, 0);
ASSERT_OFFSET(struct shm_header, format, 8);
ASSERT_OFFSET(struct shm_header, canary, 12);
ASSERT_OFFSET(struct shm_header, layout, 16);
ASSERT_OFFSET(struct shm_header, feature_incompat, 24);
ASSERT_OFFSET(struct shm_header, total_size, 32);
ASSERT_OFFSET(struct shm_header, id, 40);
ASSERT_OFFSET(struct shm_header, bridge_off, 56);
ASSERT_OFFSET(struct shm_header, n_host_leases, 64);
ASSERT_OFFSET(struct shm_header, n_damages, 68);
ASSERT_OFFSET(struct shm_header, boot_id, 72);
ASSERT_OFFSET(struct shm_header, created_unix_ns, 88);
ASSERT_OFFSET(struct shm_header, token_floor, 96);
ASSERT_OFFSET(struct shm_header, n_owners, 104);
ASSERT_OFFSET(struct shm_header, n_chunks, 108);
ASSERT_OFFSET(struct shm_header, chunk_size, 112);
ASSERT_OFFSET(struct shm_header, n_requests, 116);
ASSERT_OFFSET(struct shm_header, n_buckets, 120);
ASSERT_OFFSET(struct shm_header, n_locks, 124);
ASSERT_OFFSET(struct shm_header, owners_off, 128);
ASSERT_OFFSET(struct shm_header, lives_off, 136);
ASSERT_OFFSET(struct shm_header, buckets_off, 144);
ASSERT_OFFSET(struct shm_header, tags_off, 152);
ASSERT_OFFSET(struct shm_header, entries_off, 160);
ASSERT_OFFSET(struct shm_header, details_off, 168);
ASSERT_OFFSET(struct shm_header, damages_off, 176);
ASSERT_OFFSET(struct shm_header, requests_off, 184);
ASSERT_OFFSET(struct shm_header, check, 192);
ASSERT_OFFSET(struct shm_header, token_base, 200);
ASSERT_OFFSET(struct shm_header, reserved0, 208);
ASSERT_OFFSET(struct shm_header, state, 256);
ASSERT_OFFSET(struct shm_header, reserved1, 264);
ASSERT_OFFSET(struct shm_header, retired, 320);
ASSERT_OFFSET(struct shm_header, hash_secret, 384);
ASSERT_OFFSET(struct shm_header, redis, 576);
ASSERT_OFFSET(struct shm_header, deadlocks, 2112);
ASSERT_OFFSET(struct shm_header, sweep_next, 2120);
ASSERT_OFFSET(struct shm_header, reserved4, 2124);
ASSERT_OFFSET(struct shm_header, refused, 2128);
ASSERT_OFFSET(struct shm_header, reserved5, 2168);

#endif
