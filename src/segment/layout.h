/* SPDX-License-Identifier: MIT */
/*
 * layout.h - every byte of the segment
 *
 *   header | owners | lives | buckets | tags | entries | details | requests [| bridge | host leases]
 *
 * Little-endian, 64-bit, fixed-width types, no pointers, no libc types: builds against different C libraries share a
 * segment.  All-zero memory is a valid empty table, so creation writes the header only.  A request index is 1-based
 * and 0 means "nobody"; everything else is 0-based.  doc/internals/shm-format.md is the same in prose.
 *
 * Who may write: "owner" = the thread that owns the record, before it is reachable; "cas" = anybody, by a CAS that
 * carries the generation it decided on; "claimer" = the thread whose claim the entry's tail names.
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
#define SHM_FORMAT 9u
#define SHM_CANARY UINT32_C(0x01020304)

#define INDEX_BITS 18
#define INDEX_MAX ((UINT64_C(1) << INDEX_BITS) - 1)
#define TICKET_MAX ((UINT64_C(1) << 46) - 1)
#define GEN_BITS 41
#define GEN_MASK ((UINT64_C(1) << GEN_BITS) - 1)

/* ---------------------------------------------------------------------------------------------------------------- *
 * Request word: [gen:41 | mode:1 | state:4 | prev:18].  The low half is also the futex its owner sleeps on.
 *
 * gen grows with every incarnation of the record and every renewal.  41 bits at the most a core can do (40 million
 * incarnations a second of one record) wrap in 15 hours: a process would have to be stopped between a load and its
 * CAS for exactly that long, and find everything else equal, to be misled.
 */
enum request_state {
	REQUEST_FREE = 0,
	REQUEST_WAITING = 1,  /* live */
	REQUEST_GRANTED = 2,  /* live */
	REQUEST_COOLING = 3,  /* live, belongs to nobody */
	REQUEST_BARGEABLE = 4, /* live, belongs to nobody: open to its thread and to the request right behind */
	REQUEST_CLAIM = 5,    /* holds a table entry while its identity is written; never in a queue */
	REQUEST_RELEASED = 8, /* dead, from here on; prev is frozen */
	REQUEST_ABANDONED = 9,
	REQUEST_EXPIRED = 10,
	REQUEST_DEAD = 11
};

static inline uint64_t word_make(uint64_t gen, bool exclusive, enum request_state state, uint32_t prev)
{
	return gen << 23 | (uint64_t)exclusive << 22 | (uint64_t)state << 18 | prev;
}

static inline uint32_t word_prev(uint64_t w)
{
	return (uint32_t)(w & INDEX_MAX);
}

static inline enum request_state word_state(uint64_t w)
{
	return (enum request_state)(w >> 18 & 15);
}

static inline bool word_exclusive(uint64_t w)
{
	return w >> 22 & 1;
}

static inline uint64_t word_gen(uint64_t w)
{
	return w >> 23;
}

static inline uint64_t word_with_state(uint64_t w, enum request_state state)
{
	return (w & ~(UINT64_C(15) << 18)) | (uint64_t)state << 18;
}

static inline uint64_t word_with_prev(uint64_t w, uint32_t prev)
{
	return (w & ~INDEX_MAX) | prev;
}

static inline uint64_t word_with_mode(uint64_t w, bool exclusive)
{
	return (w & ~(UINT64_C(1) << 22)) | (uint64_t)exclusive << 22;
}

/* Granted in that generation, in either mode, with nobody before it. */
static inline bool word_is_head_hold(uint64_t w, uint64_t gen)
{
	return word_with_mode(w, false) == word_make(gen, false, REQUEST_GRANTED, 0);
}

/* The next generation of the same word: what a renewal installs. */
static inline uint64_t word_renewed(uint64_t w)
{
	return w + (UINT64_C(1) << 23);
}

static inline bool word_live(uint64_t w)
{
	enum request_state s = word_state(w);

	return s >= REQUEST_WAITING && s <= REQUEST_BARGEABLE;
}

static inline bool word_dead(uint64_t w)
{
	return word_state(w) >= REQUEST_RELEASED;
}

static inline bool word_is(uint64_t w, enum request_state state)
{
	return word_state(w) == state;
}

/* The first bits of a word of the next generation, in no mode and state yet. */
static inline uint64_t word_next_gen(uint64_t w)
{
	return (w | ((UINT64_C(1) << 23) - 1)) + 1;
}

/* A request known by index and incarnation; how anything in the library refers to a request over time. */
struct request_ref {
	uint32_t index;
	uint64_t gen;
};

static inline uint64_t ref_pack(uint32_t index, uint64_t gen)
{
	return gen << INDEX_BITS | index;
}

static inline struct request_ref ref_unpack(uint64_t packed)
{
	struct request_ref ref = { (uint32_t)(packed & INDEX_MAX), packed >> INDEX_BITS };

	return ref;
}

/* Entry tail: [ticket:46 | index:18].  Every change but a pop raises the ticket and a pop only goes back in the queue,
 * so no value ever comes again. */
static inline uint64_t tail_make(uint64_t ticket, uint32_t index)
{
	return ticket << INDEX_BITS | index;
}

static inline uint32_t tail_index(uint64_t tail)
{
	return (uint32_t)(tail & INDEX_MAX);
}

static inline uint64_t tail_ticket(uint64_t tail)
{
	return tail >> INDEX_BITS;
}

/*
 * A request's ticket: [low bits of the generation it was filled in:18 | ticket:46].  An upgrade replaces it by CAS, and
 * the bits keep that of a moved hold, whose record is another thread's, off the next use of the record.
 */
static inline uint64_t ticket_make(uint64_t gen, uint64_t ticket)
{
	return gen << 46 | ticket;
}

/* As @old, with another ticket. */
static inline uint64_t ticket_replace(uint64_t old, uint64_t ticket)
{
	return (old & ~TICKET_MAX) | ticket;
}

static inline uint64_t ticket_of(uint64_t packed)
{
	return packed & TICKET_MAX;
}

/* Deadline word: absolute ns of the segment's clock; or "unset for this generation" while the request waits; or "never,
 * for this generation" of a strict hold.  The generation keeps a CAS from one use of a record off the next one's. */
#define DEADLINE_UNSET (UINT64_C(1) << 63)
#define DEADLINE_NEVER (UINT64_C(1) << 62)

static inline uint64_t deadline_unset(uint64_t gen)
{
	return DEADLINE_UNSET | gen;
}

static inline uint64_t deadline_never(uint64_t gen)
{
	return DEADLINE_NEVER | gen;
}

/* For people and arithmetic: INT64_MAX = none (yet). */
static inline int64_t deadline_ns(uint64_t d)
{
	return d >= DEADLINE_NEVER ? INT64_MAX : (int64_t)d;
}

/* A time made into a deadline of that generation. */
static inline uint64_t deadline_make(int64_t ns, uint64_t gen)
{
	return ns >= (int64_t)DEADLINE_NEVER || ns < 0 ? deadline_never(gen) : (uint64_t)ns;
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Request: 128 bytes.
 */
#define TAG_WORDS 4

struct shm_request {
	uint64_t word;	     /*  0 owner before append, then cas */
	uint64_t deadline;   /*  8 owner; set once by cas from "unset, gen" at the grant */
	uint64_t next;	     /* 16 hint [gen | index] of the request behind; validated by whoever uses it */
	uint64_t ticket;     /* 24 owner; cas by an upgrade: [gen | ticket] */
	uint64_t owner;	     /* 32 owner: [slot generation:24 | slot:24], see owner_ref */
	int64_t ttl_ns;	     /* 40 owner; INT64_MAX = strict */
	int64_t since_ns;    /* 48 owner: when the request was made */
	uint32_t entry;	     /* 56 owner: the lock it is for */
	uint32_t sleeping;   /* 60 owner: not 0 = look for me in the kernel: [number of the sleep | SLEEPS_...] */
	uint64_t tag[TAG_WORDS]; /* 64 owner: readable label, NUL-padded */
	int64_t granted_ns;  /* 96 owner: when it learnt of its grant; before since_ns = at once, or not yet */
	uint32_t bucket;	     /* 104 owner: home of the key a CLAIM is for; with REQUEST_GLOBAL: its host lease, index + 1 */
	uint32_t flags;	     /* 108 owner: REQUEST_... */
	uint64_t chunk;	     /* 112 in the first record of a chunk: owner_ref of the thread that has the chunk; cas */
	uint64_t under;	     /* 120 owner, with REQUEST_GLOBAL: under_make() of the lease it holds under; 0 = waits for one */
};
#define SLEEPS 1u
#define SLEEPS_ON_ONE_WORD 2u /* not on its predecessor's besides */
#define SLEEP_NUMBER 4u
#define REQUEST_HAS_TAG 1u
#define REQUEST_GLOBAL 2u /* granted on this host; home and under say what it has beside that */
#define REQUEST_TRY 4u	  /* waits for the host lease only as long as it takes to ask */
#define REQUEST_BARGES 8u /* its hold may linger: whoever waits right behind watches its word, too */
#define REQUEST_WATCHED 16u /* whoever takes the hold away wakes who sleeps on its word */
ASSERT_SIZE(struct shm_request, 128);
ASSERT_OFFSET(struct shm_request, next, 16);
ASSERT_OFFSET(struct shm_request, owner, 32);
ASSERT_OFFSET(struct shm_request, entry, 56);
ASSERT_OFFSET(struct shm_request, tag, 64);
ASSERT_OFFSET(struct shm_request, granted_ns, 96);
ASSERT_OFFSET(struct shm_request, chunk, 112);
ASSERT_OFFSET(struct shm_request, under, 120);

/* ---------------------------------------------------------------------------------------------------------------- *
 * Details of the sticky mark of a lock; the word that decides is the entry's, see lock/damage.c.
 */
#define DAMAGE_TAG_WORDS 5

struct shm_damage {
	uint64_t who;	/* cas: [low ticket bits:20 | tid:22 | pid:22] */
	uint64_t tag[DAMAGE_TAG_WORDS]; /* cas: [low ticket bits:16 | 6 characters] */
	uint64_t reserved[2];
};
ASSERT_SIZE(struct shm_damage, 64);

/* ---------------------------------------------------------------------------------------------------------------- *
 * Entry: one lock: 64 bytes that every acquire looks at, and 128 bytes of details.  Identity, first_ticket and key are
 * written by the claimer only.
 */
#define KEY_SHOWN_WORDS 8

struct shm_entry {
	uint64_t tail;	       /*   0 cas */
	uint64_t id[2];	       /*   8 keyed 128-bit hash of the key */
	uint64_t key_len;      /*  24 0 = nobody's: an empty slot */
	uint64_t first_ticket; /*  32 the ticket the slot is opened with */
	uint64_t damage_word;    /*  40 cas: [ticket:46 | 0:13 | exclusive:1 | rank:3 | acknowledged:1] */
	uint64_t reserved[2];  /*  48 zero */
};
ASSERT_SIZE(struct shm_entry, 64);
ASSERT_OFFSET(struct shm_entry, damage_word, 40);

struct shm_detail {
	struct shm_damage damage;	       /*   0 read only when there is a mark */
	uint64_t key[KEY_SHOWN_WORDS]; /*  64 first bytes of the key, for people */
};
ASSERT_SIZE(struct shm_detail, 128);
ASSERT_OFFSET(struct shm_detail, key, 64);

/* ---------------------------------------------------------------------------------------------------------------- *
 * Home: serialises the insertions of keys that start their window here.
 *   word [version:20 | slot:24 | low bits of the claim's ticket:20], 0 = nothing announced yet
 *   floor: no key of this home gets a ticket at or below it
 */
#define WINDOW 32u     /* entries a key may live in, from its home on */
#define BUCKET_SPAN 8u   /* entries per home */
#define CLAIM_BITS 20
#define CLAIM_MASK ((UINT64_C(1) << CLAIM_BITS) - 1)
#define SLOT_BITS 24
#define SLOT_MASK ((UINT64_C(1) << SLOT_BITS) - 1)

struct shm_bucket {
	uint64_t word;	/* cas */
	uint64_t high_water; /* cas, only upwards */
};
ASSERT_SIZE(struct shm_bucket, 16);

static inline uint64_t bucket_make(uint64_t version, uint32_t slot, uint64_t claim_ticket)
{
	return version << (SLOT_BITS + CLAIM_BITS) | (uint64_t)slot << CLAIM_BITS | (claim_ticket & CLAIM_MASK);
}

static inline uint64_t bucket_version(uint64_t bucket)
{
	return bucket >> (SLOT_BITS + CLAIM_BITS);
}

static inline uint32_t bucket_slot(uint64_t bucket)
{
	return (uint32_t)(bucket >> CLAIM_BITS & SLOT_MASK);
}

static inline uint64_t bucket_claim(uint64_t bucket)
{
	return bucket & CLAIM_MASK;
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Owner: one thread that takes locks, 128 bytes, and a page of its own for its life word (see owner.c).
 *   control [generation:24 | pid:22 | hash of the pid namespace:16 | state:2]
 */
enum owner_state { OWNER_FREE = 0, OWNER_CLAIMED = 1, OWNER_ACTIVE = 2, OWNER_GONE = 3 };

/* Events each thread counts in its own slot. */
enum owner_count {
	COUNT_ACQUIRES,
	COUNT_WAITS,
	COUNT_TIMEOUTS,
	COUNT_DEADLOCKS,
	COUNT_LOST,
	COUNT_RECOVERED,
	COUNT_EXPIRED,
	COUNT_GLOBAL, /* holds under a lease of this host */
	OWNER_COUNTERS
};

#define LIFE_BYTES 4096u /* per owner */

struct shm_owner {
	uint64_t control;    /*   0 cas */
	uint64_t start_time; /*   8 owner: of the thread, clock ticks since boot */
	uint64_t pid_ns;     /*  16 owner: inode of its pid namespace */
	uint64_t waiting;    /*  24 owner: [gen | index] of the request it waits with, or 0 */
	uint32_t tid;	     /*  32 owner, in its own namespace */
	uint32_t life_off;   /*  36 owner: where in its page the life word is */
	uint32_t flags;	     /*  40 owner: OWNER_EXACT ... */
	uint32_t reserved0;
	uint64_t reserved1[2];
	uint64_t counts[OWNER_COUNTERS]; /* 64 owner: events, by enum owner_count */
};
#define OWNER_EXACT 1u	 /* the kernel flags the life word */
#define OWNER_PROCESS 2u /* stands for the whole process: its service thread */
#define OWNER_ENDED 8u	 /* left in good order, and through with its life word */
#define OWNER_ADOPTED 4u /* may own requests whose records are other threads' */
ASSERT_SIZE(struct shm_owner, 128);
ASSERT_OFFSET(struct shm_owner, tid, 32);
ASSERT_OFFSET(struct shm_owner, counts, 64);

static inline uint64_t control_make(uint64_t gen, uint32_t pid, uint32_t ns_hash, enum owner_state state)
{
	return gen << 40 | (uint64_t)(pid & 0x3fffff) << 18 | (uint64_t)(ns_hash & 0xffff) << 2 | (uint64_t)state;
}

static inline uint64_t control_gen(uint64_t c)
{
	return c >> 40;
}

static inline int32_t control_pid(uint64_t c)
{
	return (int32_t)(c >> 18 & 0x3fffff);
}

static inline uint32_t control_ns_hash(uint64_t c)
{
	return (uint32_t)(c >> 2 & 0xffff);
}

static inline enum owner_state control_state(uint64_t c)
{
	return (enum owner_state)(c & 3);
}

#define OWNER_GEN_MASK UINT64_C(0xffffff)

/* [slot generation:24 | slot + 1:24]; 0 = nobody.  Also the owner word of a chunk of request records. */
static inline uint64_t owner_ref(uint64_t gen, uint32_t slot)
{
	return gen << 24 | (slot + 1);
}

static inline uint32_t owner_ref_slot(uint64_t ref)
{
	return (uint32_t)(ref & 0xffffff) - 1;
}

static inline uint64_t owner_ref_gen(uint64_t ref)
{
	return ref >> 24 & OWNER_GEN_MASK;
}

/* ---------------------------------------------------------------------------------------------------------------- *
 * Host lease: the one lock in Redis that this host holds, or wants, for all its processes; see hostlease/host-lease.h.
 *   word [epoch:48 | turn:7 | looked:1 | downgrade:1 | upgrade:1 | queued:1 | exclusive:1 | state:4]; an epoch is one
 *   acquisition, and makes one token; its turn is how often it was made shared
 */
enum host_lease_state {
	HOST_LEASE_NONE = 0,      /* nothing in Redis; key_len 0 = nobody's record */
	HOST_LEASE_CLAIM = 1,     /* its claimer writes key and identity */
	HOST_LEASE_ACQUIRING = 2, /* the token may be in Redis, or a place in the queue there */
	HOST_LEASE_HELD = 3,      /* until valid_until */
	HOST_LEASE_CLOSING = 4,   /* the same, but nobody else may hold under it */
	HOST_LEASE_RELEASING = 5, /* nobody holds under it, the token may still be in Redis */
	HOST_LEASE_LOST = 6	      /* whoever held under it has lost it */
};
#define HOST_LEASE_STATE_BITS 4
#define HOST_LEASE_EXCLUSIVE (UINT64_C(1) << 4)
#define HOST_LEASE_QUEUED (UINT64_C(1) << 5) /* a place in the queue may be there; in ACQUIRING: not only who began has asked */
#define HOST_LEASE_UPGRADE (UINT64_C(1) << 6) /* who holds under it, or did, wants it exclusively, if that can be had now */
#define HOST_LEASE_DOWNGRADE (UINT64_C(1) << 7) /* it is to be shared in Redis, too, as soon as nobody writes under it */
#define HOST_LEASE_DRAINED (UINT64_C(1) << 8) /* with DOWNGRADE: nobody writes under it in this turn, so that may have been sent */
#define HOST_LEASE_MODE_GEN_SHIFT 9
#define HOST_LEASE_MODE_GEN_MAX 127u
#define HOST_LEASE_EPOCH_SHIFT 16

static inline uint64_t host_lease_make(uint64_t epoch, uint64_t bits, enum host_lease_state state)
{
	return epoch << HOST_LEASE_EPOCH_SHIFT | bits | (uint64_t)state;
}

static inline enum host_lease_state host_lease_state(uint64_t w)
{
	return (enum host_lease_state)(w & 15);
}

static inline uint64_t host_lease_epoch(uint64_t w)
{
	return w >> HOST_LEASE_EPOCH_SHIFT;
}

static inline unsigned host_lease_mode_gen(uint64_t w)
{
	return (unsigned)(w >> HOST_LEASE_MODE_GEN_SHIFT) & HOST_LEASE_MODE_GEN_MAX;
}

/* The turn of which epoch: exclusive in one of them is not exclusive in another. */
static inline uint64_t host_lease_full_mode_gen(uint64_t w)
{
	return w >> HOST_LEASE_MODE_GEN_SHIFT;
}

static inline uint64_t host_lease_with_state(uint64_t w, enum host_lease_state state)
{
	return (w & ~UINT64_C(15)) | (uint64_t)state;
}

/* Fence [next:53 | left:11]: what the next hold gets, and how many are reserved from there on. */
#define FENCE_LEFT_BITS 11
#define FENCE_LEFT_MASK ((UINT64_C(1) << FENCE_LEFT_BITS) - 1)

/* What a request holds under: [fence:53 | low bits of the epoch:11]; never 0. */
#define UNDER_EPOCH_MASK UINT64_C(0x7ff)

static inline uint64_t under_make(uint64_t epoch, uint64_t fence)
{
	return fence << 11 | (epoch & UNDER_EPOCH_MASK);
}

static inline uint64_t under_fence(uint64_t under)
{
	return under >> 11;
}

static inline bool under_is(uint64_t under, uint64_t epoch)
{
	return under != 0 && (under & UNDER_EPOCH_MASK) == (epoch & UNDER_EPOCH_MASK);
}

#define HOST_LEASE_KEY_WORDS 80
#define HOST_LEASE_REASON_WORDS 32

struct shm_host_lease {
	uint64_t word;	      /*   0 cas */
	uint64_t valid_until; /*   8 cas, only upwards: host time (CLOCK_BOOTTIME) at which a held lease ends */
	uint64_t fence;	      /*  16 cas; next only upwards */
	uint64_t acquired;    /*  24 bridge: host time at which the lease was obtained */
	uint64_t local_grants;      /*  32 add: holds under it since; bridge: 0 */
	uint64_t other_hosts_waiting;      /*  40 bridge: other hosts that wait, as last known */
	uint64_t last_result;     /*  48 cas: [asked:62 | code:2] why the last try of the bridge got nothing; claimer: 0 */
	uint64_t blocked;    /*  56 bridge: [ms:32 | asked:32] how long after that the way is closed; claimer: 0 */
	uint64_t id[2];	      /*  64 claimer: identity of the key */
	uint64_t key_len;     /*  80 claimer */
	uint64_t claimer;     /*  88 cas: owner_ref of who gives the record to a key; 0 = nobody */
	uint32_t signal;      /*  96 add: waiters sleep on it; changes with everything they wait for */
	uint32_t reserved0;
	uint64_t asked;	      /* 104 cas, only upwards: host time of the last request that may have put the token there or kept it */
	uint64_t reason_seal;    /* 112 bridge: hash of `why` and of when that was asked */
	uint64_t suppress_until; /* 120 bridge: host time until which the end of a hold need not be rung for; 0 = it is */
	uint64_t key[HOST_LEASE_KEY_WORDS]; /* 128 claimer: all of it */
	uint64_t why[HOST_LEASE_REASON_WORDS]; /* 768 bridge: the verdict in words; for people; claimer: 0 */
};
ASSERT_SIZE(struct shm_host_lease, 1024);
ASSERT_OFFSET(struct shm_host_lease, id, 64);
ASSERT_OFFSET(struct shm_host_lease, signal, 96);
ASSERT_OFFSET(struct shm_host_lease, key, 128);
ASSERT_OFFSET(struct shm_host_lease, why, 768);

/* What the processes of this host tell the one that speaks with Redis: one page before the host leases. */
#define HOST_LEASES_MAX 4096u

enum bridge_count {
	BRIDGE_COUNT_ACQUIRED, /* leases obtained */
	BRIDGE_COUNT_RENEWED,
	BRIDGE_COUNT_RELEASED,
	BRIDGE_COUNT_LOST,
	BRIDGE_COUNT_COMMANDS, /* scripts sent */
	BRIDGE_COUNT_ERRORS,   /* of those, without an answer to rely on */
	BRIDGE_COUNTERS
};

struct shm_bridge {
	uint32_t doorbell; /* 0 add: the bridge sleeps on it */
	uint32_t reserved0;
	uint64_t pending[HOST_LEASES_MAX / 64]; /* 8 or: leases to look at; the bridge takes them out before it looks */
	uint64_t counts[BRIDGE_COUNTERS]; /* 520 add */
	uint64_t reserved1[441];
};
ASSERT_SIZE(struct shm_bridge, 4096);
ASSERT_OFFSET(struct shm_bridge, counts, 520);

/* How this segment reaches Redis: constant, covered by the header's check. */
#define REDIS_SERVERS_BYTES 1112
#define REDIS_PREFIX_BYTES 128
#define REDIS_HOST_BYTES 16
#define REDIS_QUORUM 1u
#define REDIS_WAIT_SHIFT 8
#define REDIS_WAIT_MAX 15u

/* Replicas that must have a lease before it counts. */
#define REDIS_WAIT(flags) ((flags) >> REDIS_WAIT_SHIFT & REDIS_WAIT_MAX)

struct shm_redis {
	uint32_t policy; /* enum lockshm_redis_policy */
	uint32_t flags;	 /* [0:20 | wait:4 | 0:7 | REDIS_QUORUM] */
	uint64_t ttl_ms;
	uint64_t retain_ms;
	char host[REDIS_HOST_BYTES]; /* 16 random hexadecimal digits: this host's name in Redis */
	char prefix[REDIS_PREFIX_BYTES]; /* NUL-terminated */
	char servers[REDIS_SERVERS_BYTES]; /* NUL-terminated URIs, without passwords */
};
ASSERT_SIZE(struct shm_redis, 1280);

/* ---------------------------------------------------------------------------------------------------------------- *
 * Header: one page.  Everything but the last two lines is constant after publication.
 */
enum segment_state { SEGMENT_READY = 1, SEGMENT_RETIRED = 2 };

struct shm_header {
	uint64_t magic;		 /*   0 */
	uint32_t format;	 /*   8 */
	uint32_t canary;	 /*  12 byte order */
	uint64_t layout;	 /*  16 signature of the sizes and constants above */
	uint64_t feature_incompat; /* 24 bits this library must know */
	uint64_t total_size;	 /*  32 */
	unsigned char id[16];	 /*  40 random */
	uint64_t bridge_off;	 /*  56 struct shm_bridge, then the host leases; 0 = no bridge */
	uint32_t n_host_leases;	 /*  64 host leases; 0 = no bridge */
	uint32_t reserved3;	 /*  68 zero */
	unsigned char boot_id[16];  /* 72 the kernel run whose clock and processes are meant */
	uint64_t created_unix_ns; /*  88 */
	uint64_t token_floor;	 /*  96 the creator's wish, or 0 */
	uint32_t n_owners;	 /* 104 */
	uint32_t n_chunks;	 /* 108 */
	uint32_t chunk_size;	 /* 112 records per chunk */
	uint32_t n_requests;	 /* 116 = n_chunks * chunk_size, indices 1..n_requests */
	uint32_t n_buckets;	 /* 120 */
	uint32_t n_locks;	 /* 124 = n_buckets * BUCKET_SPAN */
	uint64_t owners_off;	 /* 128 */
	uint64_t lives_off;	 /* 136 */
	uint64_t buckets_off;	 /* 144 */
	uint64_t tags_off;	 /* 152 */
	uint64_t entries_off;	 /* 160 */
	uint64_t details_off;	 /* 168 */
	uint64_t requests_off;	 /* 176 of index 0, which is never used */
	uint64_t check;		 /* 184 hash of bytes 0..183, of the secret and of the Redis settings */
	uint64_t token_base;	 /* 192 token = token_base + ticket; cas from 0, by whoever opens it first */
	uint64_t reserved0[7];	 /* 200 zero */
	uint64_t state;		 /* 256 enum segment_state; cas READY to RETIRED */
	uint64_t reserved1[7];
	uint64_t retired[OWNER_COUNTERS]; /* 320 counts of owners that left; added atomically */
	unsigned char hash_secret[192]; /* 384 random: of the keyed hash */
	struct shm_redis redis;	 /* 576 zero without a bridge */
	uint64_t reserved4[280];
};
ASSERT_SIZE(struct shm_header, 4096);
ASSERT_OFFSET(struct shm_header, check, 184);
ASSERT_OFFSET(struct shm_header, token_base, 192);
ASSERT_OFFSET(struct shm_header, state, 256);
ASSERT_OFFSET(struct shm_header, retired, 320);
ASSERT_OFFSET(struct shm_header, hash_secret, 384);
ASSERT_OFFSET(struct shm_header, redis, 576);

#endif
