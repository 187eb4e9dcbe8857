/* SPDX-License-Identifier: MIT */
/**
 * lockshm.h - keyed, fair, crash-proof read-write locks in one named POSIX shared-memory segment
 *
 * Worker processes of one server open the same segment and take locks named by keys in it.  There is no daemon; only
 * keys that exclude other hosts as well (LOCKSHM_GLOBAL) need one, lockshm-bridge(8).  A free lock costs no system
 * call; a busy one is granted in strict arrival order.  The kernel reports the death of a holder, and the next request
 * is granted at once.  A holder that hangs loses its lock when its lease ends, and its next call returns LOCKSHM_LOST.
 *
 * GUARANTEES
 *  - One key has one exclusive hold or any number of shared ones among holds that are valid (lease not expired, owner
 *    alive).
 *  - Requests for one key are granted in arrival order; adjacent shared requests are granted together.
 *  - A thread that is killed, stopped or descheduled at any instruction delays no other thread beyond what it
 *    legitimately holds: its lease or, for a strict hold, its lifetime.
 *  - release, renew and check return exactly one of four results: fine, late but still held, lost, not held.
 *  - Tokens of one key strictly increase, also when the segment forgets the key and it comes back.  Only the holds of
 *    one streak (LOCKSHM_BARGE), which one thread takes with no other hold between them, have the same token.
 *  - A failed call leaves no trace.
 *  - Ordering: a successful acquire is an acquire fence, release is a release fence.  What a holder wrote
 *    before release is visible to the next holder, also when the holder was killed or its lease expired.
 *    A failed acquire orders nothing.
 *
 * CAVEATS
 *  - A lease cannot stop a holder that overran it from writing to something else.  Send the token with every write and
 *    let the receiver refuse smaller tokens, or call lockshm_check() just before the write.
 *  - A hold belongs to the thread that took it and ends when that thread ends, by exit, exec or signal.
 *    lockshm_move() gives it to the process or to another thread.  A thread that exits has its holds while destructors
 *    of its data run (pthread_key_create(), tss_create(), thread_local), in all PTHREAD_DESTRUCTOR_ITERATIONS rounds;
 *    in the last round the library's own may come before others.
 *  - When a thread other than the first of its process calls exec, the kernel does not report the death of its holds.
 *    Requests for the key detect it within 100 ms by checking the owner: a wait every 100 ms and when it times out, and
 *    a try, but no thread more often than every 10 ms; so shorter waits that are repeated detect it as well.  From
 *    another pid namespace they cannot, and the lease has to end.  The same applies to a process that dumps core: the
 *    kernel reports its death when the dump is written.
 *  - A signal handler ends a wait with lockshm_cancel(), not by a jump.  After a jump out of a wait (siglongjmp()) its
 *    request stays in the queue, and may be granted, until the thread ends, or asks again in that segment for a key that
 *    is not free: the request is taken out then.  What the call had by the time of the jump (of lockshm_acquire_many(),
 *    or with LOCKSHM_GLOBAL) is in its holds: release them.  Assign LOCKSHM_CANCELLER_INIT to its canceller.
 *  - After fork() the child owns nothing: the handle works at once, holds of the parent are "not held".
 *    After vfork() or a raw clone() sharing memory, call exec and nothing here.
 *  - The memory of a hold, lock object or canceller is the caller's, and every call checks it: if it was overwritten,
 *    left over from an earlier use, or copied, the call returns LOCKSHM_NOT_HELD or LOCKSHM_INVALID (LOCKSHM_LOST for
 *    bytes of a released hold that were put back) and changes nothing.  The real hold continues until its lease or its
 *    thread ends.  The check finds accidents; it is no defence against an attacker.
 *  - A process with write access to the segment can break it; its mode and group are the boundary.  A damaged
 *    segment gives errors, not crashes.  Truncating the file under running processes is SIGBUS, as for any
 *    mapped file.
 *  - A program may close descriptors that it did not open, with closefrom() or as a daemon, and its own files may get
 *    their numbers: before each use the library looks whether a number still leads to its own file, and otherwise writes
 *    nothing, reads nothing and closes nothing.  Locks work on.  A notice or an event loop whose descriptor was closed
 *    wakes the program no more: open another loop.  Not detected: a number closed by another thread between the look and
 *    the use; and, before Linux 6.10 where a filter forbids kcmp(), an eventfd in the place of an eventfd.
 *  - All times are CLOCK_MONOTONIC: it does not jump and stands still while the machine is suspended.
 *
 * CONVENTIONS
 *  Every call returns 0, a named positive status (it worked, with a condition to know) or a negative
 *  code of enum lockshm_code; a count is an out parameter.  So a call that acquires is compared with < 0: after != 0
 *  the hold of a positive status would be left behind.  lockshm_loop_next() and lockshm_loop_cancel() return 0 or
 *  1, and lockshm_loop_fd() a descriptor.  The iterators return 0, a negative code, or the value
 *  other than 0 by which their callback ended the iteration; let that be positive.  Times are int64_t nanoseconds.
 *  The library never prints, exits, installs a signal handler, opens a connection or sets errno for the caller to read.
 *  It starts one thread for a process and segment, the service thread, and only for auto-renewal, lockshm_notify(),
 *  lockshm_move() to the process, and lockshm_loop_open().  A process that has several threads by then gets another one
 *  for some milliseconds, 100 ms after its first move or loop, which makes the kernel report the process' death to others
 *  at once; before that the next holder may wait for 10 ms.  Signals are blocked in both, except those of faults.
 *  "Thread-safe" below means: any number of threads at once, on the same handle; one hold, lock object,
 *  canceller, loop, listing or array of holds is used by one thread at a time (lockshm_cancel() excepted).  No function is
 *  async-signal-safe unless stated.  pthread_cancel() of a thread inside a call leaves no lock of the library locked;
 *  the thread's holds end with it, as with any other end, and a handle that lockshm_open() was about to return may stay
 *  open.
 *  Functions that wait for another process, the bridge included: lockshm_acquire(), lockshm_acquire_many(),
 *  lockshm_lock() and lockshm_timedlock(), until their time-out; a try with LOCKSHM_GLOBAL, 1.5 s at most;
 *  lockshm_create() and lockshm_destroy(), for another one that removes the same segment, a second at most.  No other
 *  function does.
 *
 * STRUCTS
 *  A struct begins with its size and grows at its end, so a program works with a library that is older or newer than
 *  the header it was compiled with.  0 in a field that was added later means the behaviour without it.
 *   - Input (request, create_options): start from the initialiser, which sets size.  Fields that a smaller
 *     struct lacks count as 0.  In a larger one the fields unknown to the library have to be 0, otherwise
 *     LOCKSHM_INVALID.
 *   - Output (report, outcome, option, row, stat, bridge_stat): nothing but size has to be set, once; the initialiser
 *     does it.  The calls keep size, and store 0 into fields unknown to the library.
 *   - Frozen: key, error, damage, blocker and host_lease have no size and grow into their reserved words only; those of
 *     a key have to be 0, the others are 0.
 *  A size below that of version 0.1 or above 4,096 is LOCKSHM_INVALID; nothing else of such a struct is read or
 *  written.
 *
 * Link with: pkg-config --cflags --libs lockshm.  Overview: lockshm(7).
 */
#ifndef LOCKSHM_H
#define LOCKSHM_H

#include <stddef.h>
#include <stdint.h>
#ifndef __GNUC__
#include <string.h>
#endif
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#if defined(__GNUC__) && !defined(__clang__)
/* lockshm_stat() and struct lockshm_stat have one name, as stat() and struct stat have. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#define LOCKSHM_CAST_(type, value) static_cast<type>(value)
#else
#define LOCKSHM_CAST_(type, value) ((type)(value))
#endif

/* An output struct: nothing but its size is set, and no compiler asks for the other members. */
#ifdef __cplusplus
#define LOCKSHM_SIZED_(type) [] { struct type sized = {}; sized.size = sizeof(sized); return sized; }()
#else
#define LOCKSHM_SIZED_(type) { .size = sizeof(struct type) }
#endif

/** On calls whose result says what is held or open from now on: compilers warn where it is ignored. */
#ifdef __GNUC__
#define LOCKSHM_MUST_CHECK __attribute__((warn_unused_result))
#else
#define LOCKSHM_MUST_CHECK
#endif

#define LOCKSHM_VERSION_MAJOR 0
#define LOCKSHM_VERSION_MINOR 1
#define LOCKSHM_VERSION_PATCH 0

/** Longest key in bytes; keys are any bytes, at least one. */
#define LOCKSHM_KEY_MAX 65535
/** Leading bytes of a key that the segment keeps, to be shown in listings. */
#define LOCKSHM_KEY_SHOWN_MAX 64
/** Longest key of a request with LOCKSHM_GLOBAL. */
#define LOCKSHM_GLOBAL_KEY_MAX 640
/** Longest tag in bytes, without the closing NUL. */
#define LOCKSHM_TAG_MAX 30
/** Longest name of a thread in bytes, without the closing NUL: the kernel's bound. */
#define LOCKSHM_THREAD_NAME_MAX 15
/** Most keys in one lockshm_acquire_many(). */
#define LOCKSHM_MANY_MAX 64
/** Longest name of a host and value of a host lease in Redis, and longest sentence of an error, without the closing NUL. */
#define LOCKSHM_REDIS_HOST_MAX 23
#define LOCKSHM_REDIS_VALUE_MAX 39
#define LOCKSHM_MESSAGE_MAX 255
/** Longest segment name, without the leading slash. */
#define LOCKSHM_NAME_MAX 200

/**
 * A key that is a C string, as the two arguments "bytes, length":
 * lockshm_end_hold(segment, LOCKSHM_KEY("job"), token).  Without the closing NUL, which sizeof would count: a
 * different key.  @string is evaluated twice.
 */
#define LOCKSHM_KEY(string) (string), LOCKSHM_STRLEN_(string)
#ifdef __GNUC__
#define LOCKSHM_STRLEN_(string) __builtin_strlen(string) /* of a literal a constant, also in a static initialiser */
#else
#define LOCKSHM_STRLEN_(string) strlen(string)
#endif

/** A time-out that never ends, or a lease that never ends (a strict hold). */
#define LOCKSHM_FOREVER INT64_MAX
#define LOCKSHM_MS(n) (LOCKSHM_CAST_(int64_t, n) * 1000000)
#define LOCKSHM_SECONDS(n) (LOCKSHM_CAST_(int64_t, n) * 1000000000)
/** Shortest lease: one millisecond. */
#define LOCKSHM_TTL_MIN LOCKSHM_MS(1)
/** Shortest lease with LOCKSHM_AUTO_RENEW.  The service thread must get a processor within half a lease; on a machine
 *  with 16 runnable threads for each processor that takes more than 100 ms at times.  A second or more is sensible. */
#define LOCKSHM_AUTO_RENEW_TTL_MIN LOCKSHM_MS(200)
/** Longest lease or time-out that is not LOCKSHM_FOREVER: about ten years. */
#define LOCKSHM_TIME_MAX LOCKSHM_SECONDS(315360000)

/** Everything a call can return.  Closed list; lockshm_strerror() gives a sentence for each. */
enum lockshm_code {
	LOCKSHM_OK = 0, /**< done */
	/* Positive: done, with a condition to know. */
	LOCKSHM_OWNER_DIED = 1, /**< LOCKSHM_ROBUST: held; a holder died inside: what the lock protects may be torn */
	LOCKSHM_TOOK_OVER_EXPIRED = 2, /**< LOCKSHM_ROBUST: held; a holder overran its lease, and may still be working */
	LOCKSHM_LATE = 3, /**< done, but the lease had expired before; the lock had no other holder in between */
	LOCKSHM_LOCAL_ONLY = 4, /**< held on this host only: Redis is out of reach, and the request permits it */
	/* Negative: not done, nothing changed. */
	LOCKSHM_TIMEOUT = -1,      /**< not granted in time */
	LOCKSHM_BUSY = -2,         /**< not free right now (try, only_if_free_in_time, upgrade) */
	LOCKSHM_CANCELLED = -3,    /**< lockshm_cancel() ended the wait */
	LOCKSHM_LOST = -4,         /**< the hold was taken away: lease overrun, or ended by an operator */
	LOCKSHM_NOT_HELD = -5,     /**< this hold is not (or no longer) held by the caller, or was overwritten */
	LOCKSHM_DEADLOCK = -6,     /**< waiting would have closed a cycle */
	LOCKSHM_FULL = -7,         /**< a table of the segment is full; the message says which */
	LOCKSHM_INVALID = -8,      /**< a wrong argument; the message names it */
	LOCKSHM_KEY_TOO_LONG = -9, /**< key of more than LOCKSHM_KEY_MAX bytes */
	LOCKSHM_NO_SEGMENT = -10,  /**< no such segment, or it was removed while open: open it again */
	LOCKSHM_EXISTS = -11,      /**< a segment of that name exists already */
	LOCKSHM_PERMISSION = -12,  /**< no right to it, or owned by a user that is not trusted */
	LOCKSHM_BAD_SEGMENT = -13, /**< not a segment, truncated or damaged; the message says what is wrong */
	LOCKSHM_VERSION = -14,     /**< a segment of another format version or machine layout */
	LOCKSHM_NO_MEMORY = -15,   /**< no memory, or no room in /dev/shm */
	LOCKSHM_BRIDGE = -16,      /**< no exclusion across hosts: no bridge, or Redis is out of reach, or it refuses */
	LOCKSHM_SYSTEM = -17,      /**< the system refused something; sys_errno has the reason */
	LOCKSHM_PENDING = -18      /**< event loop: in the queue; an outcome follows */
};

/** The mode of a lock.  Zero and one are not modes, so that a forgotten field is an error. */
enum lockshm_mode {
	LOCKSHM_SHARED = 2,   /**< together with other shared holds */
	LOCKSHM_EXCLUSIVE = 3 /**< alone */
};

/** The full table when a call returns LOCKSHM_FULL. */
enum lockshm_table {
	LOCKSHM_TABLE_NONE = 0,
	LOCKSHM_TABLE_KEYS = 1,     /**< no idle place where this key may be stored: create with more keys */
	LOCKSHM_TABLE_REQUESTS = 2, /**< every request record in use: create with more requests */
	LOCKSHM_TABLE_OWNERS = 3,   /**< every owner slot in use: create with more owners */
	LOCKSHM_TABLE_TICKETS = 4,  /**< this key has used up its ticket numbers: create the segment anew */
	LOCKSHM_TABLE_HOST_LEASES = 5 /**< every host lease is in use: create with more host_leases */
};

/** The field of a request that a call refuses, with LOCKSHM_INVALID or LOCKSHM_KEY_TOO_LONG. */
enum lockshm_field {
	LOCKSHM_FIELD_NONE = 0, /**< another argument, or another code */
	LOCKSHM_FIELD_KEY = 1,  /**< key or key_len */
	LOCKSHM_FIELD_MODE = 2,
	LOCKSHM_FIELD_FLAGS = 3,
	LOCKSHM_FIELD_TTL = 4,
	LOCKSHM_FIELD_TIMEOUT = 5,
	LOCKSHM_FIELD_TAG = 6,
	LOCKSHM_FIELD_CANCELLER = 7,
	LOCKSHM_FIELD_REDIS_POLICY = 8,
	LOCKSHM_FIELD_MAX_HOLD = 9
};

/** The reason of a failure.  Optional out parameter; message is always NUL-terminated.  Frozen. */
struct lockshm_error {
	int code;         /**< the value the call returned */
	int sys_errno;    /**< errno of the refused system call, or 0 */
	int table;        /**< enum lockshm_table with LOCKSHM_FULL, else 0 */
	int field;        /**< enum lockshm_field; if it is not 0 the message begins with the name of the field, in the
			   *   place of which a binding may put that of its own argument */
	uint32_t reserved[4]; /**< 0 */
	char message[LOCKSHM_MESSAGE_MAX + 1]; /**< what is wrong and what to do */
};

/** An open segment.  Opaque; made by lockshm_open() or lockshm_create(). */
typedef struct lockshm lockshm_t;

/**
 * A granted request, owned by the caller: any memory, zeroed or not, filled by a successful acquire.
 * Opaque.  Do not copy it (a copy is "not held") and keep it where it is, and as it is, while it is held.
 */
typedef struct lockshm_hold {
	uint64_t opaque[16];
} lockshm_hold_t;
#define LOCKSHM_HOLD_INIT { { 0 } }

/**
 * A lock object: one key with mode, lease, time-out, flags and tag, and room for one hold; see lockshm_lock().  Opaque,
 * owned by the caller.  Made by lockshm_lock_init(); keep it where it is after that.
 */
typedef struct lockshm_lock {
	uint64_t opaque[48];
} lockshm_lock_t;

/** Lets lockshm_cancel() end a wait.  Caller-owned, one for each waiting call; start from the initialiser. */
typedef struct lockshm_canceller {
	uint64_t opaque[4];
} lockshm_canceller_t;
#define LOCKSHM_CANCELLER_INIT { { 0 } }

/** A damage mark: the exclusive holder of a robust key (LOCKSHM_ROBUST) that ended without a release.  Frozen. */
struct lockshm_damage {
	int status;      /**< LOCKSHM_OWNER_DIED, LOCKSHM_TOOK_OVER_EXPIRED, or 0 for no mark */
	int32_t pid;     /**< as seen in its own pid namespace; 0 = not known: there is room for one mark with details for
			  *   each 32 locks, and at least 64 */
	int32_t tid;
	uint64_t token;
	int64_t age_ns;  /**< since the mark was left */
	char tag[LOCKSHM_TAG_MAX + 2]; /**< "" = it had none, or it is not known */
	uint64_t reserved[4]; /**< 0 */
};

/**
 * What was in the way of a request that ended with LOCKSHM_TIMEOUT or LOCKSHM_BUSY: the holder of the key, of several
 * readers the newest; the oldest request for the key if none holds it; with LOCKSHM_BUSY, a time-out and
 * LOCKSHM_ONLY_IF_FREE_IN_TIME the holder whose lease ends last.  All facts are of one instant of the call.  Frozen.
 */
struct lockshm_blocker {
	int state;             /**< enum lockshm_request_state; LOCKSHM_WAITING also for a holder that waits for the
				*   lease of this host.  0 = not known, or on another host, as
				*   the report's message says: no other field is valid */
	int mode;              /**< enum lockshm_mode */
	int32_t pid;           /**< as seen in its own pid namespace; 0 = no longer known */
	int32_t tid;
	uint64_t token;        /**< result of lockshm_token() for a hold; 0 = none (yet) */
	uint64_t ticket;       /**< its number in the queue, by which later ones are larger; on this host alone a hold's token */
	int64_t age_ns;        /**< since the grant, or since the wait began */
	int64_t expires_in_ns; /**< of a hold; negative = overdue; LOCKSHM_FOREVER = strict, or waiting */
	char name[LOCKSHM_THREAD_NAME_MAX + 1]; /**< of its thread, when that took its first lock in the segment */
	char tag[LOCKSHM_TAG_MAX + 2];
	uint64_t reserved[3];  /**< 0 */
};

/**
 * Details of one acquire, also of a failed or refused one.  Optional out parameter.  It costs next to nothing where the
 * key is free, so one call with a report is all that is needed.  Only size has to be set, as LOCKSHM_REPORT_INIT does.
 *
 * Each call sets the times, token, damage.status, error.code, the other numbers of the error, the first byte of its
 * message, and blocker.state.  The rest of damage is valid if damage.status is not 0, the rest of the message up to
 * its NUL, and the rest of blocker if blocker.state is not 0; else it may be left over from an earlier call.
 */
struct lockshm_report {
	size_t size;        /**< sizeof(struct lockshm_report), set by the initialiser */
	int64_t waited_ns;  /**< wall time between the call and its end; 0 if the key was free at once */
	int64_t slept_ns;   /**< part of it spent asleep; non-zero = another request was in the way */
	uint64_t token;     /**< token of the hold; 0 when there is none */
	struct lockshm_damage damage; /**< the damage mark of the key, also for a plain request; status 0 = none */
	struct lockshm_error error; /**< code 0 and an empty message unless the call failed; with LOCKSHM_DEADLOCK the
				     *   message lists the cycle */
	struct lockshm_blocker blocker; /**< with LOCKSHM_TIMEOUT and LOCKSHM_BUSY; else state 0 */
};
#define LOCKSHM_REPORT_INIT LOCKSHM_SIZED_(lockshm_report)

/** One request for one lock.  Start from LOCKSHM_REQUEST("key"), or from LOCKSHM_REQUEST_INIT and fill the key. */
struct lockshm_request {
	size_t size;        /**< sizeof(struct lockshm_request), set by the initialiser */
	const void *key;    /**< 1..LOCKSHM_KEY_MAX bytes, any values */
	size_t key_len;
	int mode;           /**< enum lockshm_mode; exclusive by default */
	unsigned flags;     /**< 0 or an OR of the flags below */
	int64_t ttl_ns;     /**< lease, LOCKSHM_TTL_MIN..LOCKSHM_TIME_MAX, or LOCKSHM_FOREVER = strict; 30 s.  With
			     *   LOCKSHM_AUTO_RENEW at least LOCKSHM_AUTO_RENEW_TTL_MIN */
	int64_t timeout_ns; /**< longest wait: 0 = try once, LOCKSHM_FOREVER = no bound; 5 s */
	const char *tag;    /**< for listings and the next holder's report; up to LOCKSHM_TAG_MAX bytes; may be NULL */
	lockshm_canceller_t *canceller; /**< lets lockshm_cancel() end the wait; may be NULL */
	struct lockshm_report *report;  /**< filled with details of the call; may be NULL */
	int redis_policy;   /**< with LOCKSHM_GLOBAL: enum lockshm_redis_policy; 0 = that of the segment */
	int64_t max_hold_ns; /**< with LOCKSHM_AUTO_RENEW: the service thread stops renewing after this time,
			      *   LOCKSHM_TTL_MIN..LOCKSHM_TIME_MAX; 0 = no bound */
};
#define LOCKSHM_REQUEST_INIT LOCKSHM_REQUEST_OF_(NULL, 0)
/** The initialiser of a request for a key that is a C string; its bytes are not copied.  @string is evaluated twice. */
#define LOCKSHM_REQUEST(string) LOCKSHM_REQUEST_OF_(string, LOCKSHM_STRLEN_(string))
#define LOCKSHM_REQUEST_OF_(key, key_len)                                                                              \
	{ sizeof(struct lockshm_request), (key), (key_len), LOCKSHM_EXCLUSIVE, 0, LOCKSHM_SECONDS(30),                 \
	  LOCKSHM_SECONDS(5), NULL, NULL, NULL, 0, 0 }
/* Flags of a request. */
#define LOCKSHM_AUTO_RENEW 0x1u           /**< the service thread renews the lease at half its time; 200 ms at least */
#define LOCKSHM_ONLY_IF_FREE_IN_TIME 0x2u /**< LOCKSHM_BUSY at once if a holder's lease ends after my time-out; looks
					   *   at each holder, where a try looks at one */
#define LOCKSHM_GLOBAL 0x8u               /**< exclusive across all hosts with the same Redis, see lockshm_acquire();
					       * without effect where the segment makes the key global */
#define LOCKSHM_BARGE 0x10u               /**< after release, its thread may take it again until the next waiter runs */
#define LOCKSHM_ROBUST 0x20u              /**< guards data that a dead holder may leave torn: tell its next holders */
#define LOCKSHM_TELL_LOSS 0x40u           /**< of a loop: an outcome follows if the hold is lost, see LOSS there */

/** One key of lockshm_acquire_many().  Start from LOCKSHM_MANY_KEY("key", mode) or from zeros.  Frozen. */
struct lockshm_key {
	const void *data;
	size_t len;
	int mode; /**< enum lockshm_mode, or 0 for the mode of the common request */
	uint32_t reserved[3]; /**< 0 */
};
/** The initialiser of one that is a C string; its bytes are not copied.  @string is evaluated twice. */
#define LOCKSHM_MANY_KEY(string, mode) { (string), LOCKSHM_STRLEN_(string), (mode), { 0, 0, 0 } }

/** Result of a request with LOCKSHM_GLOBAL while Redis is out of reach, or no bridge runs on this host, once it is the
 *  next on its host. */
enum lockshm_redis_policy {
	LOCKSHM_REDIS_FAIL = 2,      /**< fails with LOCKSHM_BRIDGE */
	LOCKSHM_REDIS_WAIT = 3,      /**< waits, until its time-out */
	LOCKSHM_REDIS_LOCAL_ONLY = 4 /**< gets the lock of this host alone, and LOCKSHM_LOCAL_ONLY; of a request only */
};

/** Longest texts of lockshm_create_options in bytes, without the closing NUL. */
#define LOCKSHM_REDIS_MAX 1111
#define LOCKSHM_REDIS_PREFIX_MAX 127
#define LOCKSHM_GLOBAL_KEYS_MAX 255

/**
 * Options of a new segment.  Start from LOCKSHM_CREATE_INIT; set fields, or options by their names with
 * lockshm_create_option().  A plain value: texts are inside, so it may be copied and kept.
 */
struct lockshm_create_options {
	size_t size;       /**< sizeof(struct lockshm_create_options) */
	uint32_t keys;     /**< keys held, awaited or damaged at once (16384), 1..11184810, 201 bytes each; a key
			    *   may use few of the places, so there are half as many again; idle keys give way */
	uint32_t requests; /**< holds plus waits at once (16384), 1..262143, also of event loops; every thread
			    *   reserves a chunk of them, so allow for more than expected */
	uint32_t owners;   /**< threads that take locks at once, and processes with moved holds, loops or renewals (1024),
			    *   1..1048576, 4 KiB each */
	mode_t permissions; /**< of the segment's file (0600), 0600 plus bits of 0066; independent of the umask */
	gid_t group;       /**< its group, or (gid_t)-1 for the caller's */
	unsigned flags;    /**< LOCKSHM_CREATE_OR_OPEN, LOCKSHM_CREATE_REDIS_QUORUM */
	uint64_t token_floor; /**< every token is larger than this; 0 = from the wall clock, which rises, too */
	int redis_policy;         /**< LOCKSHM_REDIS_FAIL or LOCKSHM_REDIS_WAIT, for requests without their own.  This and
				   *   all below must be the same on all hosts, except host_leases, and without servers in
				   *   redis as in LOCKSHM_CREATE_INIT */
	uint32_t host_leases;     /**< global keys in use at once (1024), 1..4096, 1 KiB each */
	int64_t redis_ttl_ns;     /**< time until this host's lease in Redis ends without renewal (10s), 1s..1h;
				   *   renewed when a third is over */
	int64_t redis_retain_ns;  /**< how long an unused lease stays (0; after fast local grants 20 ms), < redis_ttl_ns */
	int64_t redis_gap_ns;     /**< how long a busy key stays free after a lease, for programs that poll it (0),
				   *   0..10s, half of redis_ttl_ns at most */
	uint32_t redis_wait;      /**< replicas that must have a lease before it counts (0), 0..15; not with a quorum.  If
				   *   fewer confirm in 1/8 s Redis is out of reach.  It makes a loss less likely, not
				   *   impossible */
	uint32_t reserved;        /**< 0 */
	char redis[LOCKSHM_REDIS_MAX + 1]; /**< URIs of Redis servers, separated by commas; "" = no global keys */
	char redis_prefix[LOCKSHM_REDIS_PREFIX_MAX + 1]; /**< a key's name in Redis is this prefix and the key ("lk:") */
	char global_keys[LOCKSHM_GLOBAL_KEYS_MAX + 1]; /**< keys that are global for every request, see lockshm_create();
							*   "" = none */
};
#define LOCKSHM_CREATE_INIT                                                                                            \
	{ sizeof(struct lockshm_create_options), 16384, 16384, 1024, 0600, LOCKSHM_CAST_(gid_t, -1), 0, 0,             \
	  LOCKSHM_REDIS_FAIL, 1024, LOCKSHM_SECONDS(10), 0, 0, 0, 0, "", "lk:", "" }
#define LOCKSHM_CREATE_OR_OPEN 0x1u /**< open the segment of that name, make it only if there is none */
/** The servers are independent, and a majority decides (Redlock); otherwise each key has its server. */
#define LOCKSHM_CREATE_REDIS_QUORUM 0x2u

#define LOCKSHM_OPEN_READ_ONLY 0x1u /**< for inspection only; needs no write permission */
#define LOCKSHM_OPEN_ANY_OWNER 0x2u /**< accept a segment of any user, not only the caller's or root's: its owner
				     *   can break every lock in it */

/* ------------------------------------------------------------------------------------------------------ *
 * Segments
 * ------------------------------------------------------------------------------------------------------ */

/**
 * lockshm_create - make a segment, reserve all its memory, and publish it in one step
 * @out:     [out] handle, to be closed by lockshm_close(); NULL if none is wanted
 * @name:    "/name" or "name": letters, digits, '.', '_', '-', not '.' first, up to LOCKSHM_NAME_MAX bytes
 * @options: NULL for the defaults
 * @error:   [out] the reason of a failure; may be NULL
 *
 * No process ever sees a half-made segment, and a creator that fails or is killed leaves nothing.  All memory is
 * reserved: a full /dev/shm is an error here, no SIGBUS later.  Capacities cannot be changed afterwards;
 * lockshm_stat() shows their use.  @error is cleared on success.  With LOCKSHM_CREATE_OR_OPEN an existing segment is
 * opened as it is, whatever its capacities, and as by lockshm_open() it is the handle that this process has already;
 * one that cannot be opened is not replaced.  Makes system calls.  Waits for no other process, except while it
 * completes the removal of a half-removed segment as lockshm_destroy() does.
 *
 * A Redis URI is redis://host[:port][/db], the same with rediss:// for TLS, or unix:///path[?db=N].  Every process
 * that can open the segment can read it, so it takes neither a login nor names of files: these are files of fixed
 * names in the bridge's credentials directory, see lockshm-bridge(8).  The server's certificate is always verified.
 * This call contacts no server.
 *
 * options.global_keys is "*", all keys, or prefixes separated by commas, "user:,job:": every request for a key that
 * begins with one of them is global, in every call of every program and binding, as with LOCKSHM_GLOBAL.  So these
 * keys have at most LOCKSHM_GLOBAL_KEY_MAX bytes.  At most 255 bytes, each prefix LOCKSHM_KEY_SHOWN_MAX; a prefix
 * contains neither a comma nor '*'.  It cannot be changed: remove the segment and make it anew.  All hosts should
 * have the same; their bridges log another one.
 *
 * Return: 0; LOCKSHM_EXISTS (and LOCKSHM_CREATE_OR_OPEN not given; also while a removed segment keeps its name, see
 *         the message; LOCKSHM_NO_SEGMENT with that flag); LOCKSHM_NO_SEGMENT (other processes remove each new one at
 *         once: given up after 100); LOCKSHM_INVALID (name, a capacity, mode, flag, a Redis URI, global_keys that are
 *         none or without redis); LOCKSHM_PERMISSION (/dev/shm not writable, or the caller may not give the segment to
 *         the group); LOCKSHM_NO_MEMORY (no room in /dev/shm or to map the segment); LOCKSHM_SYSTEM (a system call was
 *         refused); with LOCKSHM_CREATE_OR_OPEN also every code of lockshm_open().  A failure keeps nothing.
 * Thread-safe.  The handle may be used by all threads and by children made by fork(), which close their own
 * copy of it or leave it to their exit.
 * Since: 0.1
 */
int lockshm_create(lockshm_t **out, const char *name, const struct lockshm_create_options *options,
		   struct lockshm_error *error) LOCKSHM_MUST_CHECK;

/** What the text of an option looks like. */
enum lockshm_option_kind {
	LOCKSHM_OPTION_NUMBER = 2,      /**< decimal digits */
	LOCKSHM_OPTION_DURATION = 3,    /**< 250ms, 1.5s, 2m, 1h or 0 */
	LOCKSHM_OPTION_FLAG = 4,        /**< yes or no */
	LOCKSHM_OPTION_TEXT = 5,        /**< any bytes */
	LOCKSHM_OPTION_LIST = 6,        /**< texts, separated by commas */
	LOCKSHM_OPTION_POLICY = 7,      /**< fail or wait */
	LOCKSHM_OPTION_PERMISSIONS = 8, /**< octal digits: 0660 */
	LOCKSHM_OPTION_GROUP = 9        /**< decimal digits, the number of a group; names are looked up by the caller */
};

/** One option of a segment.  Start from LOCKSHM_OPTION_INIT. */
struct lockshm_option {
	size_t size;      /**< sizeof(struct lockshm_option), set by the initialiser */
	const char *name; /**< constant; a field of struct lockshm_create_options without its unit, or as its comment has it */
	const char *help; /**< constant: a phrase */
	int kind;         /**< enum lockshm_option_kind */
	int of_redis;     /**< 1 = without servers in "redis" it has to be as in LOCKSHM_CREATE_INIT */
	char initial[40]; /**< text of its value in LOCKSHM_CREATE_INIT, "" = none */
	char range[64];   /**< its bounds: "1..16384", "at most 127 bytes" */
};
#define LOCKSHM_OPTION_INIT LOCKSHM_SIZED_(lockshm_option)

/**
 * lockshm_create_option - set an option of a segment by its name, as command lines, files and other languages have it
 * @options: from LOCKSHM_CREATE_INIT
 * @name:    "redis_ttl", one of lockshm_create_option_at(); if @value is NULL a line "redis_ttl=10s"
 * @value:   its text; copied.  NULL = @name has it
 * @error:   [out] may be NULL
 *
 * Checks what lockshm_create() will check of this option alone.  Does not block or make system calls.
 *
 * Return: 0; LOCKSHM_INVALID (the message has the name of the option, its value if that is no URI of Redis, which may
 *         have a password, and the range; @options is unchanged).
 * Thread-safe for different options.
 * Since: 0.1
 */
int lockshm_create_option(struct lockshm_create_options *options, const char *name, const char *value,
			  struct lockshm_error *error) LOCKSHM_MUST_CHECK;

/**
 * lockshm_create_option_at - the options of a segment, one after another
 * @index:  0 is the first
 * @option: [out] from LOCKSHM_OPTION_INIT
 *
 * Does not block.
 *
 * Return: 0; LOCKSHM_INVALID (there are only @index of them; @option is NULL or has no size).
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_create_option_at(size_t index, struct lockshm_option *option) LOCKSHM_MUST_CHECK;

/**
 * lockshm_create_or_open - open a segment, or make it with the defaults if there is none
 * @out:   [out] handle, to be closed by lockshm_close(); NULL if none is wanted
 * @name:  as for lockshm_create()
 * @error: [out] the reason of a failure; may be NULL
 *
 * lockshm_create() with LOCKSHM_CREATE_OR_OPEN and nothing else: one call for programs that need no other capacities.
 * A function of this header, not of the library.  Waits as lockshm_create().
 *
 * Return: as lockshm_create() with that flag.
 * Thread-safe.
 * Since: 0.1
 */
LOCKSHM_MUST_CHECK static inline int lockshm_create_or_open(lockshm_t **out, const char *name,
							    struct lockshm_error *error)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;

	options.flags = LOCKSHM_CREATE_OR_OPEN;
	return lockshm_create(out, name, &options, error);
}

/**
 * lockshm_open - map an existing segment after checking everything about it
 * @out:   [out] handle, to be closed by lockshm_close()
 * @name:  as for lockshm_create()
 * @flags: LOCKSHM_OPEN_READ_ONLY, LOCKSHM_OPEN_ANY_OWNER
 * @error: [out] the reason of a failure; may be NULL
 *
 * Takes no owner slot: a thread gets its slot at its first acquire.  Also reclaims what dead processes left (not with
 * LOCKSHM_OPEN_READ_ONLY).  Where more than 32 owners live a part of it may stay: each open, and each first acquire of
 * a thread, goes on where the last one ended, so the cost does not grow with the number of owners.  Makes system calls.
 * Waits for no other process.
 *
 * A process has one handle of a segment, which counts its opens: if the segment is open already, @out is the handle of
 * the earlier open, to be closed once more.  So parts of a program that open and close for themselves have the same
 * threads as owners, and a deadlock between them is detected.  Every open makes all checks anew, of the caller's rights
 * too.  The file decides, and not its name: a segment made anew under the name has another handle.  Handles with
 * LOCKSHM_OPEN_READ_ONLY are counted apart: one for all read-only opens.
 *
 * Return: 0; LOCKSHM_NO_SEGMENT; LOCKSHM_PERMISSION (permissions, a symbolic link, an owner that is neither the caller nor
 *         root, or /dev/shm is read-only); LOCKSHM_BAD_SEGMENT (not a segment, truncated, damaged); LOCKSHM_VERSION;
 *         LOCKSHM_INVALID; LOCKSHM_NO_MEMORY; LOCKSHM_SYSTEM.
 * Thread-safe.  The handle may be used by all threads and by children made by fork(), which copies the count; a child
 * made while another thread is inside this call may find one open more.
 * Since: 0.1
 */
int lockshm_open(lockshm_t **out, const char *name, unsigned flags, struct lockshm_error *error) LOCKSHM_MUST_CHECK;

/**
 * lockshm_close - take one open of the handle back
 * @segment: handle; NULL is ignored
 *
 * While the handle was opened more often than closed that is all: no hold ends, and other threads may be inside calls.
 *
 * The last close ends the handle: @segment must not be used any more, and lockshm_open() makes another one.  No other
 * thread may be inside a call on @segment or start one.  Ends the calling thread's holds as its exit would (robust keys
 * get a damage mark) and frees its slot.  Holds of other threads of this process
 * remain until those threads end; the mapping goes away with the last of them.  Holds of the process stay
 * usable, by this thread too, as long as another thread has a slot, and end with the last.  Does not block.
 *
 * Return: 0; LOCKSHM_INVALID (@segment is no open handle, whatever it is: closed as often as opened, or never one.  A
 *         newer handle may have got the address of an ended one, and is then closed).
 * Thread-safe.  In a child made by fork() it closes the child's copy only, which has a count of its own.
 * Since: 0.1
 */
int lockshm_close(lockshm_t *segment);

/**
 * lockshm_destroy - remove the segment's name
 * @name:  as for lockshm_create()
 * @error: [out] may be NULL
 *
 * Processes that have it open keep their mapping: their holds can be renewed and released, but every new acquire and
 * every wait there ends with LOCKSHM_NO_SEGMENT, so that no process shares a lock with users of a newer segment.  The
 * segment is retired first, its name removed after that.  A remover that is killed in between leaves the name of a
 * segment that cannot be opened; the next lockshm_destroy() or lockshm_create() removes it.  Waits a second at most,
 * and only for another process that is removing the same segment (removers take turns by flock() on the file); one that
 * is stopped in the middle keeps the name until it continues or is killed.  If the
 * file is removed by other means, waiters and joining threads detect it and retire the segment for all others.
 *
 * Return: 0; LOCKSHM_NO_SEGMENT; LOCKSHM_PERMISSION (the caller may not remove it: nothing has changed);
 *         LOCKSHM_INVALID (name); LOCKSHM_BAD_SEGMENT (the file is not and never was a segment: nothing is removed);
 *         LOCKSHM_SYSTEM (nothing has changed, or, if the message begins with "retired", only the name could not be
 *         removed: call it again).  A damaged segment is removed.
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_destroy(const char *name, struct lockshm_error *error);

/**
 * lockshm_current - is this handle still the segment of that name?
 * @segment: handle
 *
 * Return: 0; LOCKSHM_NO_SEGMENT (its name was removed, or now belongs to a newer segment: close the handle and open
 *         again); LOCKSHM_INVALID.
 * One system call.  Thread-safe.
 * Since: 0.1
 */
int lockshm_current(lockshm_t *segment);

/* ------------------------------------------------------------------------------------------------------ *
 * Locks
 * ------------------------------------------------------------------------------------------------------ */

/**
 * lockshm_acquire - take one lock
 * @segment: handle
 * @request: key, mode, times and options; not used after the call
 * @hold:    [out] any memory; filled on success only; a hold that is held now is refused
 *
 * Blocks for the time-out at most, and not at all if that is 0.  Spins for some microseconds
 * only while it is the next waiter, then sleeps in the kernel.  A lease starts at the grant, also while the caller
 * does not run: if another request takes the lock over before the call returns, the call asks again, within its
 * time-out.  A thread's first acquire takes an owner slot: it allocates, makes system calls, and frees up to four
 * slots of dead owners.
 *
 * With LOCKSHM_AUTO_RENEW and max_hold_ns the service thread renews the lease for that long and no longer, counted
 * from the grant (with LOCKSHM_GLOBAL across all hosts), or from the owner's last lockshm_renew(); then the lease ends
 * like any other.  If max_hold_ns is less than ttl_ns it is the lease.
 *
 * With LOCKSHM_GLOBAL, or for a key of options.global_keys of lockshm_create(), the request waits twice: in the queue
 * of this host, the same as without the flag, and then for the host lease.  That is the one lease that this host has of
 * the key in Redis, for all its processes, and exclusive if the request is.  The next requests in the host's queue are
 * granted under the same lease, without a command to Redis.  Once another host waits they are 64, or as many of up to
 * 1,024 as begin within 5 ms, and none after half of redis_ttl_ns or 200 ms.  The hold ends with its own lease or the
 * host's: after the host lease is lost every call on the hold returns LOCKSHM_LOST.  Its token rises across all hosts,
 * from host lease to host lease, see lockshm_token().
 * A request without the flag is excluded by those with it on this host only, and the reverse.  A try (time-out 0) takes
 * as long as the reply of Redis, 1.5 s at most.  Deadlocks are found within this host only.
 *
 * The program lockshm-bridge obtains the host leases, for all processes of the host; this call only stores that the key
 * is wanted, and waits.  Without a bridge Redis counts as out of reach: for a try after one second, else after two, so
 * that a restart of the bridge fails no request.
 *
 * With LOCKSHM_ROBUST the key is robust from then on, for all requests, as long as the segment remembers it.  If an
 * exclusive holder of a robust key, robust itself or not, dies inside, or overruns its lease and loses the lock, or is
 * ended by an operator, the key gets a damage mark: what the lock protects may be torn.  Inside begins when the call
 * that acquires is about to return (for lockshm_acquire_many(): when all keys are granted) and ends with the release
 * or the downgrade.  A shared holder leaves no mark.  Every robust acquire of the key returns the mark's status until
 * it is acknowledged: by lockshm_acknowledge(), or lockshm_acknowledge_of().  A plain acquire
 * returns 0, and its report and lockshm_damage() have the mark.  A mark keeps its key in the segment.  Without
 * LOCKSHM_ROBUST, 0 may follow an overrun whose holder still writes: check tokens.
 *
 * A later mark replaces an earlier one, but an overrun none of a death.  A bad end before the key was robust leaves
 * none.  Where nothing acknowledges marks, they fill the table of locks.
 *
 * With LOCKSHM_GLOBAL the mark goes to Redis, and robust requests of all hosts get its status, until one acknowledges:
 * with a hold, which counts for other hosts from the release of this host's lease, or by lockctl ack.  A host that did
 * not give the key back, dead or parted, counts as a holder that overran its lease.  The report names pid and host by
 * the tag "PID@HOST".  A host whose segment does not know the key as robust leaves no mark for others.  Marks end with
 * the data of Redis, and a month after the last use of the key.  LOCKSHM_LOCAL_ONLY comes before the status of a mark.
 *
 * LOCKSHM_BARGE is for a hot key whose rate matters more than strict order.  While other requests wait, the release does
 * not grant the lock to the next waiter, which would leave it unused until that waiter has woken up.  It wakes the
 * waiter and opens a barge window: until the waiter runs, and for at most half a millisecond after the first such
 * release, the releasing thread takes the lock again at once if it asks with LOCKSHM_BARGE.  No other thread overtakes
 * a waiter, and the waiters keep their order.  The holds of such a streak, with no other hold between them, have the
 * same token.  A thread that ends or closes the segment leaves no barge window open.  With LOCKSHM_GLOBAL a streak
 * continues only under the same lease of this host, and counts as one hold while other hosts wait.  Exclusive holds of
 * one key only, without LOCKSHM_AUTO_RENEW.
 *
 * Return: 0 (held); LOCKSHM_OWNER_DIED (held, and the key has a damage mark; only with LOCKSHM_ROBUST;
 *         request->report->damage names the holder that left it); LOCKSHM_TOOK_OVER_EXPIRED (held, as before);
 *         LOCKSHM_LOCAL_ONLY (held on this host only, because no bridge runs or Redis is out of reach; only with
 *         redis_policy LOCKSHM_REDIS_LOCAL_ONLY in the request).  Not held:
 *         LOCKSHM_TIMEOUT (with what was in the way in request->report->blocker, as with the next); LOCKSHM_BUSY (a
 *         try, or LOCKSHM_ONLY_IF_FREE_IN_TIME); LOCKSHM_CANCELLED;
 *         LOCKSHM_DEADLOCK (the wait would depend, directly or not, on a hold of the calling thread; holding this
 *         very key is the shortest case; found at the start of the wait, or at a later check if moved holds closed
 *         the cycle.  A try gets LOCKSHM_BUSY); LOCKSHM_FULL (also, with LOCKSHM_GLOBAL, if no host lease is free;
 *         what is held or awaited never gives way); LOCKSHM_INVALID (also,
 *         unless the lock is free, for a canceller that another wait uses or that was overwritten; also LOCKSHM_GLOBAL
 *         in a segment without Redis, and LOCKSHM_TELL_LOSS without a loop); LOCKSHM_KEY_TOO_LONG;
 *         LOCKSHM_NO_SEGMENT (removed or replaced: open again); LOCKSHM_PERMISSION (opened read-only); LOCKSHM_BRIDGE
 *         (with LOCKSHM_GLOBAL: no bridge runs or Redis is out of reach, and the policy is to fail; or Redis refuses
 *         permanently; or the key holds other data there); LOCKSHM_BAD_SEGMENT (something in it is damaged);
 *         LOCKSHM_NO_MEMORY; LOCKSHM_SYSTEM (no service thread for LOCKSHM_AUTO_RENEW, no key of pthread_key_create()
 *         for the first acquire, or the clock of a child in another time namespace cannot be determined).
 * Thread-safe; usable at once in a child after fork().  Restarts after signal handlers.
 * Since: 0.1
 */
int lockshm_acquire(lockshm_t *segment, const struct lockshm_request *request, lockshm_hold_t *hold) LOCKSHM_MUST_CHECK;

/**
 * lockshm_acquire_many - take several locks, all or none
 * @segment: handle
 * @common:  ttl, time-out, flags, tag, canceller, report and default mode for all; its key is not used
 * @keys:    the keys; duplicates count once, with the stronger mode
 * @n:       1..LOCKSHM_MANY_MAX
 * @holds:   [out] @n holds; the second and later of equal keys stay empty (LOCKSHM_NOT_HELD)
 *
 * Takes the locks in an internal order that is the same for all callers, so that two such calls never deadlock.
 * A call that is stopped while it enters the holds, all granted, and loses one of them may leave a mark of another that it entered before.
 *
 * One deadline for the whole call, and for a try with LOCKSHM_GLOBAL one wait of 1.5 s at most for the replies of
 * Redis; each lease starts at its own grant.  Blocks as lockshm_acquire() does, and holds the earlier locks of its
 * order while it waits for a later one: keep the set small.  If a lease ends meanwhile and another request takes that
 * lock, the call starts over, within its time-out.  The holds are owned by the caller.
 *
 * Return: as lockshm_acquire(); a positive status is the worst of all keys: LOCKSHM_LOCAL_ONLY before
 *         LOCKSHM_OWNER_DIED before LOCKSHM_TOOK_OVER_EXPIRED; report.damage has one damage mark, and
 *         lockshm_damage() that of each hold.  LOCKSHM_TIMEOUT also if leases keep ending before the last key is
 *         granted.  LOCKSHM_INVALID also for a wrong @n or a hold in use.  On failure none is held.
 * Thread-safe; usable at once in a child after fork().  Restarts after signal handlers.
 * Since: 0.1
 */
int lockshm_acquire_many(lockshm_t *segment, const struct lockshm_request *common, const struct lockshm_key *keys,
			 size_t n, lockshm_hold_t *holds) LOCKSHM_MUST_CHECK;

/**
 * lockshm_release - end a hold
 * @hold:        a hold of the calling thread (or of the process, see lockshm_move())
 * @cooldown_ns: keep the key closed to all requests this much longer; 0 = not.  Exclusive holds only.
 *
 * Does not block.  A release fence.  A cooldown goes on when the process has ended.
 *
 * Return: 0; LOCKSHM_LATE (released; the lease had expired, but the lock had no other holder: the lease was too short);
 *         LOCKSHM_LOST (it was taken away before, and what was done since the last good result may be mixed with the
 *         work of another holder: see lockshm_lost_to()); LOCKSHM_NOT_HELD (released before,
 *         another thread's, the parent's after fork, or overwritten); LOCKSHM_INVALID (@hold is NULL; negative or too
 *         long cooldown, or one for a shared hold: still held).
 *         @hold is empty afterwards, except after LOCKSHM_INVALID, and after LOCKSHM_NOT_HELD for another thread's hold
 *         or overwritten memory.
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_release(lockshm_hold_t *hold, int64_t cooldown_ns);

/**
 * lockshm_release_many - release all holds of one lockshm_acquire_many(), in reverse order
 * @holds: as filled by lockshm_acquire_many()
 * @n:     their number, as in lockshm_acquire_many()
 *
 * Each is released as by lockshm_release(), and is empty afterwards.  A hold that is not held (LOCKSHM_NOT_HELD there:
 * empty, another thread's, overwritten) is skipped and left as it is.  Does not block.
 *
 * Return: the worst outcome: LOCKSHM_LOST before LOCKSHM_LATE before 0; LOCKSHM_INVALID (@holds is NULL, or
 *         @n is too large).
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_release_many(lockshm_hold_t *holds, size_t n);

/**
 * lockshm_renew - let the lease end @ns from now
 * @hold: held
 * @ns:   LOCKSHM_TTL_MIN..LOCKSHM_TIME_MAX, or LOCKSHM_FOREVER: the hold becomes strict
 *
 * Does not block.  0 and LOCKSHM_LATE mean that the lock has had no other holder since the grant.  With
 * LOCKSHM_AUTO_RENEW it also sets the time of all later renewals, to LOCKSHM_AUTO_RENEW_TTL_MIN at least.
 *
 * Return: 0; LOCKSHM_LATE (renewed, after the lease had expired); LOCKSHM_LOST; LOCKSHM_NOT_HELD (never held,
 *         released, another thread's, the parent's after fork, or overwritten); LOCKSHM_INVALID (@hold is NULL, or @ns;
 *         unchanged).
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_renew(lockshm_hold_t *hold, int64_t ns);

/**
 * lockshm_extend - let the lease end @ns later than it would
 * @hold: held
 * @ns:   LOCKSHM_TTL_MIN..LOCKSHM_TIME_MAX
 *
 * Does not block.  0 and LOCKSHM_LATE mean that the lock has had no other holder since the grant.  Later renewals of
 * LOCKSHM_AUTO_RENEW keep their time.
 *
 * Return: as lockshm_renew(); LOCKSHM_INVALID also for a strict hold, and if the lease ends more than LOCKSHM_TIME_MAX
 *         from now already.
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_extend(lockshm_hold_t *hold, int64_t ns);

/**
 * lockshm_check - is the hold still valid?
 * @hold:         held
 * @remaining_ns: [out] what is left of the lease, 0 if it has expired, LOCKSHM_FOREVER if strict; may be NULL
 *
 * Does not block or write shared memory.  The result is valid at some instant during the call and may be outdated when
 * it arrives: only a token that a receiver compares is proof.  A lease never ends early; it may last a clock tick (4 ms
 * on a common kernel) longer.
 *
 * Return: 0; LOCKSHM_LATE (expired, but no other request has taken the lock); LOCKSHM_LOST; LOCKSHM_NOT_HELD (as for
 *         lockshm_renew()); LOCKSHM_INVALID (@hold is NULL).  @remaining_ns is 0 with a negative code.
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_check(const lockshm_hold_t *hold, int64_t *remaining_ns);

/**
 * lockshm_token - the fencing token of a hold: larger than that of every earlier exclusive hold of this key, except
 *                 those of the same streak (LOCKSHM_BARGE)
 * @hold: held or lost
 *
 * Send it with every write to something outside, and let the receiver refuse one that is smaller than the largest it
 * has seen.  Below 2^53.  With LOCKSHM_GLOBAL: larger than that of every exclusive hold under an earlier lease of any
 * host, and of every earlier one under the same lease, as long as the clock of the Redis server does not go back;
 * shared holds have numbers of their own; 0 with LOCKSHM_LOCAL_ONLY.  Where Redis lost a lease, or it was removed
 * there, its host begins holds until it notices: they have the smaller tokens, also if they begin after one under the
 * next lease.  Reads the caller's memory only.
 *
 * Return: the token, also after LOCKSHM_LOST; 0 for an empty hold, a copy, and overwritten memory.
 * Thread-safe.  Async-signal-safe.
 * Since: 0.1
 */
uint64_t lockshm_token(const lockshm_hold_t *hold);

/**
 * lockshm_lost_to - after a call on @hold returned LOCKSHM_LOST: a token that was issued after it
 * @hold: of that call, also if that was lockshm_release()
 *
 * Reads the caller's memory only.
 *
 * Return: token of the holder at that time, else the newest token of the key; 0 if no later hold was granted, if the
 *         hold itself has none (held on this host only), and for memory that is no such hold.
 * Thread-safe.
 * Since: 0.1
 */
uint64_t lockshm_lost_to(const lockshm_hold_t *hold);

/**
 * lockshm_upgrade - make a shared hold exclusive, if it is the only one and no request waits
 * @hold: held; an exclusive one stays as it is
 *
 * Never waits for other holders, since two waiting upgraders would wait for each other.  Does not block.  The hold
 * gets a new, larger token, but keeps 0 with LOCKSHM_LOCAL_ONLY.  The lease continues unchanged.  A holder that dies
 * or is overrun within this call, or later, may leave a damage mark (LOCKSHM_ROBUST).  One that is stopped within the
 * call keeps new requests waiting until its lease ends.  After LOCKSHM_BUSY release, acquire exclusive, and read the
 * data again.
 *
 * With LOCKSHM_GLOBAL only under an exclusive host lease, so always after lockshm_downgrade(); LOCKSHM_BUSY also if the
 * bridge has not reserved further tokens yet.  Under a shared host lease, the usual one of readers, LOCKSHM_INVALID:
 * release, then acquire exclusive.
 *
 * Return: 0; LOCKSHM_LATE (done; the lease had expired, but the lock had no other holder); LOCKSHM_BUSY (other requests
 *         hold it too, or wait; still shared); LOCKSHM_LOST; LOCKSHM_NOT_HELD (as for lockshm_renew()); LOCKSHM_FULL
 *         (tickets; still shared); LOCKSHM_INVALID (@hold is NULL; its host lease is shared: release, then acquire
 *         exclusive; still shared).
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_upgrade(lockshm_hold_t *hold) LOCKSHM_MUST_CHECK;

/**
 * lockshm_downgrade - make an exclusive hold shared; shared requests directly after it in the queue are granted
 * @hold: held; a shared one stays as it is
 *
 * Keeps token and lease, and leaves no damage mark from then on.  Does not block.  A release fence: what was written
 * before is visible to the shared holders that are granted by it.  With LOCKSHM_GLOBAL they are those of this host.
 * The host lease stays exclusive until it is given back, so a long hold keeps out the readers of other hosts; to admit
 * them release, then acquire shared.
 *
 * Return: 0; LOCKSHM_LATE (done; the lease had expired, but the lock had no other holder); LOCKSHM_LOST;
 *         LOCKSHM_NOT_HELD (as for lockshm_renew()); LOCKSHM_INVALID (@hold is NULL).
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_downgrade(lockshm_hold_t *hold);

/**
 * lockshm_damage - the damage mark of the key of a hold
 * @hold:   held, with or without LOCKSHM_ROBUST
 * @damage: [out] status 0 = no mark
 *
 * Does not block.  The mark cannot change while the hold lasts, except that it is acknowledged.  With LOCKSHM_GLOBAL a
 * mark in Redis is known once a request of this host was robust: for a plain hold that may be later, or not at all.
 *
 * A holder of several keys that dies leaves a mark on each, and the next holder of one of them gets that of this key
 * only.  Where a repair needs the others, release, take all keys by lockshm_acquire_many(), and acknowledge under all.
 *
 * Return: 0; LOCKSHM_LOST; LOCKSHM_NOT_HELD (as for lockshm_renew()); LOCKSHM_INVALID (@hold is NULL).  @damage is
 *         zero with a negative code.
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_damage(const lockshm_hold_t *hold, struct lockshm_damage *damage);

/**
 * lockshm_acknowledge - clear the damage mark of the key of a hold
 * @hold: held, with or without LOCKSHM_ROBUST
 *
 * Call it when what the lock protects is known to be good again.  Does not block.  With LOCKSHM_GLOBAL it clears the
 * mark that lockshm_damage() shows.
 *
 * Return: 0 (also if there is no damage mark); LOCKSHM_LOST; LOCKSHM_NOT_HELD (as for lockshm_renew());
 *         LOCKSHM_INVALID (@hold is NULL).
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_acknowledge(lockshm_hold_t *hold);

/** The new owner for lockshm_move(). */
enum lockshm_move_to {
	LOCKSHM_TO_PROCESS = 2, /**< the hold lives as long as the process; every thread may use it */
	LOCKSHM_TO_CALLER = 3   /**< the hold lives as long as the calling thread */
};

/**
 * lockshm_move - change whose life a hold depends on
 * @hold: of the calling thread, or of the process
 * @to:   enum lockshm_move_to
 *
 * From thread A to thread B: A calls with LOCKSHM_TO_PROCESS, then B with LOCKSHM_TO_CALLER.  The first move to
 * the process starts the service thread, whose life then stands for the process.  Does not wait for other processes.
 *
 * Return: 0; LOCKSHM_LATE (moved; the lease had expired, but the lock had no other holder); LOCKSHM_LOST;
 *         LOCKSHM_NOT_HELD (as for lockshm_renew()); LOCKSHM_FULL (owners: the new one needs a slot);
 *         LOCKSHM_INVALID (@hold is NULL, or @to; or @hold is of a loop, and stays of the process); LOCKSHM_NO_MEMORY;
 *         LOCKSHM_SYSTEM (no thread could be started).
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_move(lockshm_hold_t *hold, int to);

/**
 * lockshm_notify - write to a descriptor when a hold is lost
 * @hold: of the calling thread, or of the process
 * @fd:   an eventfd, or the writing end of a pipe or socket; with O_NONBLOCK.  -1 = end the notifications
 *
 * When the hold is taken away (another request took the lock after the lease had expired, an operator ended the hold,
 * its host lost the lease in Redis) the service thread writes eight bytes to @fd, the number 1 as uint64_t, once,
 * within microseconds.  It takes up to a second if the thread that took the hold away is killed or delayed at that
 * moment, and 10 ms where the kernel has no futex_waitv (before Linux 5.16), or for the holds beyond the first 30 or
 * so that one process has watched at a time.  So an eventfd becomes readable, and one may serve many holds:
 * lockshm_check() finds the lost one.  A release is not a loss, nor is an expired lease as long as no request takes
 * the lock.  Nothing is written after a release, or after another call of this for the same hold.  It may come too
 * late: work that must not be done twice compares tokens.
 *
 * The library keeps a duplicate of @fd until then: closing @fd does no harm, and does not end the notifications.  In a
 * child made by fork() nothing is held and nothing is written; but its copy of an eventfd is the parent's.  Does not
 * wait for other processes.
 *
 * Return: 0; LOCKSHM_LATE (done; the lease has expired, but no request has taken the lock); LOCKSHM_LOST (lost already:
 *         nothing more is written, though a write may have happened at this moment); LOCKSHM_NOT_HELD (as for
 *         lockshm_renew()); LOCKSHM_INVALID (@hold is NULL; @fd is not open for writing, or may block);
 *         LOCKSHM_NO_MEMORY; LOCKSHM_SYSTEM (no descriptor or thread could be made).
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_notify(lockshm_hold_t *hold, int fd);

/**
 * lockshm_cancel - end the wait that uses this canceller, now or as soon as it starts
 * @canceller: of a present or future request; stays cancelled until LOCKSHM_CANCELLER_INIT is
 *             assigned to it, while neither a wait nor a call of this uses it
 *
 * A request that has been granted already stays granted.  Does not block.  Reads the segment of the wait, which
 * must not be closed before this call has returned.
 *
 * Return: 0; LOCKSHM_INVALID (@canceller is NULL, was overwritten, or is a copy of one that a wait used then, also in a
 *         child made by fork(): no wait ends).
 * Thread-safe and async-signal-safe.  Same process only.
 * Since: 0.1
 */
int lockshm_cancel(lockshm_canceller_t *canceller);

/* ------------------------------------------------------------------------------------------------------ *
 * Lock objects
 * ------------------------------------------------------------------------------------------------------ */

/**
 * A lock object is a request that is checked once, for a key that a thread takes again and again:
 *
 *	struct lockshm_request request = LOCKSHM_REQUEST("report");
 *	static _Thread_local lockshm_lock_t report;
 *
 *	if (lockshm_lock_init(&report, segment, &request) < 0)
 *		...
 *	if (lockshm_lock(&report, segment) >= 0) {
 *		...
 *		lockshm_unlock(&report);
 *	}
 *
 * Taking and releasing a free key costs less than by lockshm_acquire() and lockshm_release(); what they do is the same.
 * A lock object that is not held reserves nothing in the segment: it remembers the request record of its last hold and
 * takes that again, if it is still unused.  One thread at a time: the object of each thread is fastest; another thread
 * may use it afterwards, as may a child made by fork(), where it is not held.  It must not lie in memory that
 * processes share.  It needs no end.
 *
 * The memory is the caller's, and every call checks what it uses, as for holds: an object that was overwritten or
 * copied gives LOCKSHM_INVALID or LOCKSHM_NOT_HELD, or works as before if the call does not use what was overwritten.
 */

/**
 * lockshm_lock_init - make a lock object of a request
 * @lock:    [out] any memory, zeroed or not; a lock object that is held now is refused
 * @segment: handle
 * @request: key, mode, ttl, time-out, flags, tag, redis_policy and max_hold_ns; key and tag are copied
 *
 * @lock is for @segment: for every handle of it, also after it was closed and opened.  With a key of up to
 * LOCKSHM_KEY_SHOWN_MAX bytes it is for any other segment, too; of a longer key only what @segment needs is kept.
 * Does not block, write to the segment or make system calls.
 *
 * Return: 0; LOCKSHM_INVALID (@lock, @segment or @request as for lockshm_acquire(); @lock is held; report or canceller
 *         is set, since they would not outlast the call; @request->report has the message nevertheless);
 *         LOCKSHM_KEY_TOO_LONG (also with LOCKSHM_GLOBAL and more than LOCKSHM_KEY_SHOWN_MAX bytes).  @lock is filled
 *         on success only.
 * Thread-safe, as long as no other thread uses @lock during the call.
 * Since: 0.1
 */
int lockshm_lock_init(lockshm_lock_t *lock, lockshm_t *segment,
		      const struct lockshm_request *request) LOCKSHM_MUST_CHECK;

/**
 * lockshm_lock - take the lock of a lock object
 * @lock:    made by lockshm_lock_init(); not held
 * @segment: handle
 *
 * As lockshm_acquire() with the object's request, which is not checked again; blocks as that does.
 *
 * Return: as lockshm_acquire(), 0 or another status that is not negative: held.  LOCKSHM_INVALID also if @lock is held
 *         already, is no lock object, was overwritten or copied, or has a key of more than LOCKSHM_KEY_SHOWN_MAX bytes
 *         and was made for another segment.
 * Thread-safe for different objects; usable at once in a child after fork().  Restarts after signal handlers.
 * Since: 0.1
 */
int lockshm_lock(lockshm_lock_t *lock, lockshm_t *segment) LOCKSHM_MUST_CHECK;

/**
 * lockshm_trylock - the same without waiting: as with a time-out of 0
 * @lock:    as for lockshm_lock()
 * @segment: handle
 *
 * Does not block, except with LOCKSHM_GLOBAL for the reply of Redis, 1.5 s at most.
 *
 * Return: as lockshm_lock(); LOCKSHM_BUSY if it is not free.
 * Thread-safe for different objects.
 * Since: 0.1
 */
int lockshm_trylock(lockshm_lock_t *lock, lockshm_t *segment) LOCKSHM_MUST_CHECK;

/**
 * lockshm_timedlock - the same with a time-out of this call
 * @lock:       as for lockshm_lock()
 * @segment:    handle
 * @timeout_ns: as in a request: replaces the object's
 *
 * Blocks as lockshm_lock(), with that bound.
 *
 * Return: as lockshm_lock(); LOCKSHM_INVALID also for @timeout_ns.
 * Thread-safe for different objects.  Restarts after signal handlers.
 * Since: 0.1
 */
int lockshm_timedlock(lockshm_lock_t *lock, lockshm_t *segment, int64_t timeout_ns) LOCKSHM_MUST_CHECK;

/**
 * lockshm_unlock - release the hold of a lock object
 * @lock: held
 *
 * As lockshm_release() without a cooldown; for one, release the hold inside: lockshm_lock_hold().  Does not block.
 *
 * Return: 0; LOCKSHM_LATE; LOCKSHM_LOST; LOCKSHM_NOT_HELD (as for lockshm_release(), also for a lock object that was
 *         not used yet); LOCKSHM_INVALID (@lock is NULL).  @lock may be locked again, except after LOCKSHM_NOT_HELD for
 *         another thread's hold or overwritten memory.
 * Thread-safe for different objects.
 * Since: 0.1
 */
int lockshm_unlock(lockshm_lock_t *lock);

/**
 * lockshm_lock_hold - the hold inside a lock object: for lockshm_check(), _renew(), _token(), _upgrade() and the others
 * @lock: held
 *
 * Valid until @lock is unlocked: after the next lockshm_lock() ask for it again.  Releasing it by lockshm_release() is
 * as good as lockshm_unlock(), but no faster.  Do not acquire into it.  Does not block.
 *
 * Return: the hold; if @lock is not held one that is empty, or that was lost, for lockshm_lost_to(); NULL if @lock is
 *         NULL, no lock object, overwritten or copied.
 * Thread-safe for different objects.
 * Since: 0.1
 */
lockshm_hold_t *lockshm_lock_hold(lockshm_lock_t *lock);

/* ------------------------------------------------------------------------------------------------------ *
 * Waiting without a thread: event loops
 * ------------------------------------------------------------------------------------------------------ */

/**
 * A loop is where requests wait that no thread sleeps for.  lockshm_loop_acquire() never waits: the lock is held at
 * once, or the request takes its place in the queue of the key, among blocked threads and the requests of other loops,
 * in arrival order.  When it is granted, or the wait has ended otherwise, the loop's descriptor becomes readable, and
 * lockshm_loop_next() gives the outcome.
 *
 *     lockshm_loop_open(&loop, segment, -1, &error);
 *     ...add lockshm_loop_fd(loop) to epoll, for reading...
 *     status = lockshm_loop_acquire(loop, &request, &task->hold, task);
 *     if (status >= 0) run(task, status); else if (status != LOCKSHM_PENDING) fail(task, status);
 *     ...when the descriptor is readable:
 *     while (lockshm_loop_next(loop, &outcome) == 1) resume(outcome.user, outcome.status);
 *
 * OWNER.  A hold of a loop is a hold of the process: any of its threads may use it, with every call on holds but
 * lockshm_move() to a thread, and it ends with the process, not with a thread, and not with the loop.  The end of a
 * task inside the process cannot be known: its lease ends, or the program releases.  Deadlocks between the requests of
 * loops are not found: they end by their time-outs.  Requests of one process for one key wait for each other.
 *
 * LEASE.  It counts from lockshm_loop_next(), at its full ttl_ns, and LOCKSHM_AUTO_RENEW begins there; so a loop that
 * hangs is not renewed.  Until then a grant lasts for ttl_ns or a second, whichever is less.  If another request takes
 * the lock after that, or an operator ends the grant, the wait goes on: lockshm_loop_next() puts the request at the end
 * of the queue again, within its time-out, and there is no outcome yet.
 *
 * LOSS.  With LOCKSHM_TELL_LOSS one more outcome follows if the hold is lost: its lease ended and another request took
 * the lock, an operator ended it, or with LOCKSHM_GLOBAL the host's lease is lost.  Its status is LOCKSHM_LOST, hold and
 * user are those of the request, its report is NULL; of lockshm_loop_acquire_many() each lost hold has its own.  It comes
 * at once, or within a second if the taker is killed; not after lockshm_release() has returned, and not after
 * lockshm_loop_close().  Not with LOCKSHM_BARGE.  The hold is still to be released.  While none is lost a hold costs no more, however many there
 * are.
 *
 * GLOBAL.  A request with LOCKSHM_GLOBAL is always pending first, also if this host has the key, and waits twice: in
 * the queue of its host, then for the host's lease.  lockshm_loop_next() takes it from the one to the other, so a loop
 * that hangs does not ask for the lease.  The service thread keeps its place on the host while it waits for the lease,
 * and ends it there by its time-out, canceller (within 100 ms) or redis_policy.  Nothing else differs from a blocked
 * thread, but that LOCKSHM_BARGE has no effect.
 *
 * THREADS.  All calls on one loop come from one thread at a time, any thread.  A process may have several loops; the
 * service thread serves them all.  It wakes up ten times a second while requests wait, however many they are, and not
 * at all without.  Where the kernel has no futex_waitv (before Linux 5.16), and for the holders and host
 * leases beyond the first 60 that the waits of one process depend on at a time, it looks at them every 10 ms.
 *
 * FORK.  A loop belongs to the process that opened it.  In a child every call on it returns LOCKSHM_NOT_HELD, and the
 * child's copy of the descriptor is the parent's: open a loop after the fork.
 */

/** Where requests wait for an event loop: one for each loop and process.  Opaque. */
typedef struct lockshm_loop lockshm_loop_t;

/** The end of one wait, or the loss of a hold.  Out parameter; start from LOCKSHM_OUTCOME_INIT. */
struct lockshm_outcome {
	size_t size;          /**< sizeof(struct lockshm_outcome), set by the initialiser */
	int status;           /**< as lockshm_acquire() returns it: held if not negative; LOCKSHM_LOST: see LOSS */
	lockshm_hold_t *hold; /**< as given; of lockshm_loop_acquire_many() its array */
	void *user;           /**< as given */
	struct lockshm_report *report; /**< the request's own, filled now; or NULL */
};
#define LOCKSHM_OUTCOME_INIT LOCKSHM_SIZED_(lockshm_outcome)

/**
 * lockshm_loop_open - make a place where requests wait for an event loop
 * @out:     the loop, or NULL on failure
 * @segment: handle, not read-only
 * @fd:      -1 = the library makes an eventfd; else an eventfd, or the writing end of a pipe or stream socket, with
 *           O_NONBLOCK: the library keeps a duplicate
 * @error:   may be NULL
 *
 * The descriptor becomes readable, by eight bytes (the number 1 as uint64_t), when there is an outcome and there was
 * none before.  The library's own eventfd is emptied by lockshm_loop_next() with the last outcome; the reader of
 * another descriptor reads it and then calls lockshm_loop_next() until there is none left.  A write that does not fit
 * is left out: its reader has something to read already.  The loop keeps the segment in use: after lockshm_close() its
 * waits and holds go on until lockshm_loop_close().  Starts the service thread.
 *
 * Return: 0; LOCKSHM_INVALID (@segment is closed, @out is NULL, @fd is not open for writing, may block, or is no
 *         eventfd, pipe or connected socket);
 *         LOCKSHM_PERMISSION (@segment is read-only); LOCKSHM_VERSION (the segment was made by a library without
 *         loops); LOCKSHM_NO_SEGMENT (removed); LOCKSHM_FULL (owners: the service thread needs a slot);
 *         LOCKSHM_NO_MEMORY; LOCKSHM_SYSTEM (no descriptor or thread could be made).
 * Does not wait for other processes.  Thread-safe.
 * Since: 0.1
 */
int lockshm_loop_open(lockshm_loop_t **out, lockshm_t *segment, int fd,
		      struct lockshm_error *error) LOCKSHM_MUST_CHECK;

/**
 * lockshm_loop_close - end all waits of a loop, and free it
 * @loop: not used after the call, unless it failed
 *
 * No outcome follows.  What was granted and not collected is released.  Holds that were collected go on, as long as
 * the segment is open or another loop of it is.
 *
 * Return: 0; LOCKSHM_NOT_HELD (a loop of the parent, before fork()); LOCKSHM_INVALID (@loop is NULL, or no loop).
 * Does not block.  Thread-safe for different loops.
 * Since: 0.1
 */
int lockshm_loop_close(lockshm_loop_t *loop);

/**
 * lockshm_loop_fd - the descriptor to poll for reading
 * @loop: loop
 *
 * Return: the library's own eventfd, which lockshm_loop_close() closes; of a loop with a descriptor of the caller its
 *         duplicate, which is for writing.  LOCKSHM_NOT_HELD (a loop of the parent, before fork()); LOCKSHM_INVALID
 *         (@loop is NULL, or no loop); LOCKSHM_SYSTEM (the program has closed the descriptor: its number may be that of
 *         another file).
 * Does not block.  Thread-safe for different loops.
 * Since: 0.1
 */
int lockshm_loop_fd(const lockshm_loop_t *loop);

/**
 * lockshm_loop_acquire - take one lock, or a place in its queue
 * @loop:    loop
 * @request: as for lockshm_acquire(), and not used after the call; what its canceller and report point to must stay
 *           where it is until the outcome
 * @hold:    [out] memory that stays where it is until the outcome; not one that is held, or awaited, now
 * @user:    for the outcome
 *
 * Never waits.  0 or a positive status: held, from now on, and no outcome follows.  LOCKSHM_PENDING: the request is in
 * the queue, in the order of these calls, and one outcome follows, unless lockshm_loop_cancel() or lockshm_loop_close()
 * ends the wait.  A canceller ends it with the outcome LOCKSHM_CANCELLED.  A try (time-out 0) is never pending,
 * except with LOCKSHM_GLOBAL for the reply of Redis, 1.5 s at most.
 * A free key costs no system call and no lock of the process.  With LOCKSHM_BARGE any thread of the process may
 * release; the barge window is for the next request of this loop.
 *
 * Return: as lockshm_acquire(), or LOCKSHM_PENDING; without LOCKSHM_DEADLOCK, which is not found, and
 *         LOCKSHM_PERMISSION, as a read-only segment has no loop.  Also LOCKSHM_INVALID for a @loop that is NULL or no
 *         loop, and for LOCKSHM_TELL_LOSS with LOCKSHM_BARGE; LOCKSHM_NOT_HELD (a loop of the parent, before fork()).  A negative code but LOCKSHM_PENDING: nothing is held, and no outcome follows.
 * Does not block.  Thread-safe for different loops.
 * Since: 0.1
 */
int lockshm_loop_acquire(lockshm_loop_t *loop, const struct lockshm_request *request, lockshm_hold_t *hold,
			 void *user) LOCKSHM_MUST_CHECK;

/**
 * lockshm_loop_acquire_many - take several locks, all or none, or wait for them
 * @loop:   loop
 * @common: as for lockshm_acquire_many(); its canceller and report stay until the outcome
 * @keys:   1 to LOCKSHM_MANY_MAX keys; their bytes are copied
 * @n:      number of keys
 * @holds:  [out] @n holds that stay where they are until the outcome
 * @user:   for the outcome
 *
 * As lockshm_acquire_many(), and with one outcome, whose hold is @holds; lockshm_loop_cancel() of @holds cancels all.
 * The locks are taken one after the other, each next one when lockshm_loop_next() is called.
 *
 * Return: as lockshm_loop_acquire() and lockshm_acquire_many().
 * Does not block.  Thread-safe for different loops.
 * Since: 0.1
 */
int lockshm_loop_acquire_many(lockshm_loop_t *loop, const struct lockshm_request *common,
			      const struct lockshm_key *keys, size_t n, lockshm_hold_t *holds,
			      void *user) LOCKSHM_MUST_CHECK;

/**
 * lockshm_loop_next - collect one outcome
 * @loop:    loop
 * @outcome: [out] filled if there is one
 *
 * Call it until it returns 0, when the descriptor is readable, or at any time; 0 at once is possible then: the wait was
 * cancelled, or goes on.  The hold is filled here, and the lease begins here.
 * Outcomes of one key come in the order of their requests, those of different keys in any.
 *
 * Return: 1 (one outcome); 0 (none now); LOCKSHM_NOT_HELD (a loop of the parent, before fork()); LOCKSHM_INVALID (@loop
 *         is NULL or no loop, or @outcome).
 * Does not block.  Thread-safe for different loops.
 * Since: 0.1
 */
int lockshm_loop_next(lockshm_loop_t *loop, struct lockshm_outcome *outcome) LOCKSHM_MUST_CHECK;

/**
 * lockshm_loop_cancel - end a wait for good
 * @loop: loop
 * @hold: as given to lockshm_loop_acquire() or lockshm_loop_acquire_many()
 *
 * Final: no outcome follows, and the library does not touch @hold, the report or the canceller again.
 *
 * Return: 0 (it was waiting); 1 (it had been granted, and is released again; a lost race with the descriptor is no
 *         error); LOCKSHM_NOT_HELD (no wait of @loop has this hold: its outcome was collected; or a loop of the parent,
 *         before fork()); LOCKSHM_INVALID (@loop is NULL or no loop, or @hold is NULL).
 * Does not block.  Thread-safe for different loops.
 * Since: 0.1
 */
int lockshm_loop_cancel(lockshm_loop_t *loop, lockshm_hold_t *hold);

/* ------------------------------------------------------------------------------------------------------ *
 * Inspection
 * ------------------------------------------------------------------------------------------------------ */

/**
 * Inspection stops no thread.  Facts that must hold at one instant, such as the queue of one lock, are read twice; two
 * locks that are shown one after the other need not have been so at the same time.  Damaged entries are left out:
 * lockshm_verify() finds them.
 */

/** State of a request in a queue. */
enum lockshm_request_state {
	LOCKSHM_WAITING = 2,
	LOCKSHM_HOLDING = 3,
	LOCKSHM_COOLING = 4, /**< released with a cooldown that has not ended; has no owner */
	LOCKSHM_BARGEABLE = 5 /**< released with LOCKSHM_BARGE, barge window open; has no owner */
};

/** State of this host's lease of one key in Redis. */
enum lockshm_host_lease_state {
	LOCKSHM_HOST_LEASE_NONE = 2,
	LOCKSHM_HOST_LEASE_ACQUIRING = 3, /**< requested; another host may have it */
	LOCKSHM_HOST_LEASE_HELD = 4,
	LOCKSHM_HOST_LEASE_CLOSING = 5,   /**< held; released as soon as the last hold under it ends */
	LOCKSHM_HOST_LEASE_RELEASING = 6,
	LOCKSHM_HOST_LEASE_LOST = 7
};

/** This host's lease of one key in Redis.  Frozen. */
struct lockshm_host_lease {
	int state;             /**< enum lockshm_host_lease_state; 0 = this host has asked for none yet: all fields are 0 */
	int mode;              /**< enum lockshm_mode; 0 = none */
	int64_t remaining_ns;  /**< HELD and CLOSING: how long it is valid without renewal */
	int64_t blocked_ns;    /**< ACQUIRING: longest time until the lease can be free; negative = not known */
	uint64_t next_token;   /**< token of the next hold, if the range lasts */
	uint64_t local_grants; /**< holds granted under this lease so far */
	uint64_t other_hosts_waiting; /**< other hosts that wait, as last reported */
	int64_t why_age_ns;    /**< how long ago the try of @why began: what it says may be over; 0 without @why */
	char value[LOCKSHM_REDIS_VALUE_MAX + 1]; /**< the value in Redis, that of the last lease if there is none now */
	char why[LOCKSHM_MESSAGE_MAX + 1]; /**< why the last try failed, "" if it did not; ends with the host in the way,
				*   if one is known: "another host holds it: web-2 (9b1b6a9d2f0c4e57)" */
	uint64_t reserved[4];  /**< 0 */
};

/** What a listing is of. */
enum lockshm_list_of {
	LOCKSHM_LIST_KEY = 2,     /**< the key @key, also if it is idle, or unknown to the segment */
	LOCKSHM_LIST_BUSY = 3,    /**< keys that are held, awaited, cooling, bargeable or damaged */
	LOCKSHM_LIST_KNOWN = 4,   /**< every key that the segment remembers, idle ones too */
	LOCKSHM_LIST_OWNERS = 5,  /**< threads that have an owner slot */
	LOCKSHM_LIST_SEGMENTS = 6 /**< segments of this machine that the caller may read */
};

/**
 * One row of a listing: a key; a request for that key; an owner; or a segment.  Fields that do not belong to a row are
 * 0.  Out parameter; start from LOCKSHM_ROW_INIT.
 */
struct lockshm_row {
	size_t size;         /**< sizeof(struct lockshm_row), set by the initialiser */
	/* A key.  The rows of its requests repeat all but mode and global. */
	size_t key_len;      /**< whole length */
	size_t key_shown;    /**< bytes at @key: its first ones, and no part of a UTF-8 character */
	unsigned char key[LOCKSHM_KEY_SHOWN_MAX];
	uint64_t id;         /**< names the key in this segment where @key is not all of it: lockshm_end_hold_of() */
	uint32_t holders;    /**< requests that are holding, cooling or bargeable */
	uint32_t waiters;
	int known;           /**< 1 = the segment remembers a request for it; idle keys give way to new ones */
	int mode;            /**< enum lockshm_mode of the holders; 0 = not held.  Of a request: its own */
	int global;          /**< 1 = the segment makes every request for it global, see lockshm_create().  Of a request with
			      *   LOCKSHM_GLOBAL that waits for the host's lease 1, that holds under it 2; else 0 */
	/* A request, or an owner. */
	int alive;           /**< 1 = the owner lives; 0 = it died: the next request reaps what it left */
	struct lockshm_blocker request; /**< as a report has it; state 0 = not the row of a request.  Of an owner pid, tid,
			      *   name, and the ticket of its wait */
	/* A key, and its requests. */
	struct lockshm_damage damage; /**< its damage mark; status 0 = none */
	struct lockshm_host_lease lease;
	/* An owner. */
	uint64_t start_time; /**< of the thread, clock ticks since boot */
	int exact;           /**< 1 = the kernel itself reports its death; 0 = its death is found by reading /proc */
	/* A segment. */
	uid_t uid;
	gid_t gid;
	mode_t permissions;
	char segment[LOCKSHM_NAME_MAX + 8]; /**< its name, with the leading slash */
};
#define LOCKSHM_ROW_INIT LOCKSHM_SIZED_(lockshm_row)

/** A listing in progress.  Opaque. */
typedef struct lockshm_list lockshm_list_t;

/**
 * lockshm_list_open - begin a listing
 * @out:     [out] the listing, to be ended by lockshm_list_close(); NULL on failure
 * @segment: handle, also a read-only one; NULL for LOCKSHM_LIST_SEGMENTS
 * @what:    enum lockshm_list_of
 * @key:     LOCKSHM_LIST_KEY: the key, as in a request.  LOCKSHM_LIST_BUSY and _KNOWN: only keys that begin with these
 *           bytes; NULL = all.  Else NULL
 * @key_len: bytes; of a beginning LOCKSHM_KEY_SHOWN_MAX at most; 0 for NULL
 *
 * Of keys there is a row for each, and after it one for each of its requests: holders, oldest first, then waiters in the
 * order in which they will be granted.  Key and requests are those of one instant, at which lockshm_list_next() came to
 * the key; those of another key are of a later one.  A key that is held, awaited or damaged during the whole listing is
 * in it once.  The memory in use is bounded by the longest queue, and for segments by their number.  The listing keeps
 * the mapping of the segment: lockshm_close() does not harm it.  Allocates.  Does not block.
 *
 *     struct lockshm_row row = LOCKSHM_ROW_INIT;
 *     status = lockshm_list_open(&list, segment, LOCKSHM_LIST_KEY, LOCKSHM_KEY("job"));
 *     while (status == 0 && lockshm_list_next(list, &row) == 1)
 *             if (row.request.state) printf("pid %d\n", (int)row.request.pid);
 *     lockshm_list_close(list);
 *
 * Return: 0; LOCKSHM_INVALID (also for a key where there is none to give, or none where one is needed);
 *         LOCKSHM_KEY_TOO_LONG; LOCKSHM_NO_MEMORY; LOCKSHM_SYSTEM (LOCKSHM_LIST_SEGMENTS: /dev/shm cannot be read).
 * Thread-safe.  In a child made by fork() the listing goes on, apart from the parent's.
 * Since: 0.1
 */
int lockshm_list_open(lockshm_list_t **out, lockshm_t *segment, int what, const void *key,
		      size_t key_len) LOCKSHM_MUST_CHECK;

/**
 * lockshm_list_next - the next row of a listing
 * @list: listing
 * @row:  [out] filled if there is one
 *
 * Allocates.  Does not block.
 *
 * Return: 1 (one row); 0 (the end); LOCKSHM_INVALID (@list is NULL or no listing, or @row); LOCKSHM_NO_MEMORY (call it
 *         again, or end the listing).
 * Thread-safe for different listings.
 * Since: 0.1
 */
int lockshm_list_next(lockshm_list_t *list, struct lockshm_row *row) LOCKSHM_MUST_CHECK;

/**
 * lockshm_list_close - end a listing, at any row, and free it
 * @list: listing; NULL is ignored
 *
 * Does not block.
 *
 * Thread-safe for different listings.
 * Since: 0.1
 */
void lockshm_list_close(lockshm_list_t *list);

/** Capacities, use, and events since creation.  Start from LOCKSHM_STAT_INIT. */
struct lockshm_stat {
	size_t size;              /**< sizeof(struct lockshm_stat), set by the initialiser */
	uint64_t bytes;           /**< size of the segment */
	uint64_t created_unix_ns; /**< wall clock at creation */
	uint64_t token_base;      /**< every token is larger */
	uint32_t keys;          /**< keys that have room at once: what lockshm_create() was given, or somewhat more */
	uint32_t keys_known;   /**< keys it remembers, idle ones too, but not the bridge's; may be more than @keys */
	uint32_t keys_busy;    /**< held or awaited by a live thread, or cooling down */
	uint32_t keys_damaged; /**< with a damage mark */
	uint32_t requests, requests_reserved, requests_used; /**< capacity; in chunks of threads; in use: they hold, wait or cool down */
	uint32_t owners, owners_used, owners_dead;
	uint64_t acquires;      /**< granted, of all threads past and present */
	uint64_t waits;         /**< of those, granted after a wait; counted at the grant */
	uint64_t timeouts;      /**< requests that ended with TIMEOUT or CANCELLED */
	uint64_t deadlocks;
	uint64_t lost;          /**< holds whose owner got LOST */
	uint64_t recovered;     /**< holds of dead owners that were reaped */
	uint64_t expired;       /**< holds that were taken away because their lease had expired */
	uint64_t tries_failed;  /**< requests that ended with BUSY: tries, and LOCKSHM_ONLY_IF_FREE_IN_TIME */
	uint64_t keys_left;    /**< not busy, but with requests of dead threads, which the next request or a sweep ends */
	uint64_t refused_keys; /**< calls that returned FULL, by enum lockshm_table: no place for the key */
	uint64_t refused_requests;
	uint64_t refused_owners;
	uint64_t refused_tickets;
	uint64_t refused_host_leases; /**< no host lease for the key */
};
#define LOCKSHM_STAT_INIT LOCKSHM_SIZED_(lockshm_stat)

/**
 * lockshm_stat - capacities, use and event counts of a segment
 * @segment: handle, also a read-only one
 * @stat:    [out] from LOCKSHM_STAT_INIT
 *
 * Reads every table once; numbers that change meanwhile need not be consistent.  Does not block.
 *
 * Return: 0; LOCKSHM_INVALID.
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_stat(lockshm_t *segment, struct lockshm_stat *stat);

/** The bridge of a segment.  Start from LOCKSHM_BRIDGE_STAT_INIT. */
struct lockshm_bridge_stat {
	size_t size;            /**< sizeof(struct lockshm_bridge_stat), set by the initialiser */
	char servers[LOCKSHM_REDIS_MAX + 1]; /**< URIs as given; "" = this segment has no Redis */
	char prefix[LOCKSHM_REDIS_PREFIX_MAX + 1];
	char host[LOCKSHM_REDIS_HOST_MAX + 1]; /**< this host's name in Redis */
	int policy;             /**< enum lockshm_redis_policy */
	int quorum;             /**< 1 = a majority of the servers decides */
	int64_t ttl_ns;
	int64_t retain_ns;
	int64_t gap_ns;
	uint32_t wait;          /**< replicas that must have a lease before it counts */
	int32_t pid;            /**< the process that is the bridge now; 0 = none runs, or it was stopped for too long */
	int32_t tid;
	uint32_t host_leases, host_leases_known, host_leases_held; /**< capacity; with a key; valid now */
	uint64_t acquired;      /**< leases obtained since the segment was made */
	uint64_t renewed;
	uint64_t released;
	uint64_t lost;
	uint64_t commands;      /**< scripts sent to Redis */
	uint64_t errors;        /**< of those, without a reliable reply */
	uint64_t grants;        /**< holds granted under leases */
	char global_keys[LOCKSHM_GLOBAL_KEYS_MAX + 1]; /**< as given to lockshm_create(); "" = none */
};
#define LOCKSHM_BRIDGE_STAT_INIT LOCKSHM_SIZED_(lockshm_bridge_stat)

/**
 * lockshm_bridge_stat - the Redis settings of a segment, its bridge, and event counts
 * @segment: handle, also a read-only one
 * @stat:    [out] from LOCKSHM_BRIDGE_STAT_INIT
 *
 * Numbers that change meanwhile need not be consistent.  Allocates.  Does not block.
 *
 * Return: 0 (also without Redis); LOCKSHM_INVALID; LOCKSHM_NO_MEMORY.
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_bridge_stat(lockshm_t *segment, struct lockshm_bridge_stat *stat);

/** Called by lockshm_verify() for each broken invariant: its name ("I3") and a sentence. */
typedef void (*lockshm_problem_fn)(const char *invariant, const char *text, void *arg);

/**
 * lockshm_verify - check every invariant of the segment, in use or idle
 * @segment:  handle, also a read-only one
 * @fn:       called for each problem; may be NULL
 * @arg:      passed to @fn
 * @problems: [out] their number, 0 with every code but LOCKSHM_BAD_SEGMENT; may be NULL
 *
 * A check that fails while other threads change the segment is repeated before it counts, with short sleeps in between,
 * some three seconds in all.  Waits for no other process.  Allocates.
 *
 * Return: 0 (sound); LOCKSHM_BAD_SEGMENT (a problem was found); LOCKSHM_INVALID; LOCKSHM_NO_MEMORY.
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_verify(lockshm_t *segment, lockshm_problem_fn fn, void *arg, size_t *problems);

/**
 * lockshm_end_hold - operator: end exactly the hold of @key that has @token
 * @segment: handle
 * @key:     as in a request
 * @key_len: bytes
 * @token:   of the hold, also that of a cooldown, which ends then: result of lockshm_token(), or as a listing has it.  Of
 *           a hold that has none, LOCKSHM_LOCAL_ONLY, its ticket
 *
 * The next call of its owner returns LOST.  That does not stop the owner: where it may still write, stop it first, or
 * let the receiver compare tokens.  If the hold is exclusive and its key robust (LOCKSHM_ROBUST) the key gets a damage
 * mark, TOOK_OVER_EXPIRED.  Ending a cooldown leaves none.  Allocates.  Does not block.
 *
 * Return: 0; LOCKSHM_NOT_HELD (no hold of that key has that token); LOCKSHM_INVALID; LOCKSHM_KEY_TOO_LONG;
 *         LOCKSHM_PERMISSION (read-only handle); LOCKSHM_NO_MEMORY; LOCKSHM_SYSTEM (as for an acquire).
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_end_hold(lockshm_t *segment, const void *key, size_t key_len, uint64_t token);

/**
 * lockshm_end_hold_of - operator: end exactly the hold with @token of the key with @id
 * @segment: handle
 * @id:      as in struct lockshm_row: for a key of which a listing has the first bytes only
 * @token:   as for lockshm_end_hold()
 *
 * Return: as lockshm_end_hold().
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_end_hold_of(lockshm_t *segment, uint64_t id, uint64_t token);

/**
 * lockshm_acknowledge_of - operator: clear a damage mark, without taking the lock
 * @segment: handle
 * @id:      of the key, see struct lockshm_row
 * @token:   of the holder that left the mark: a later mark stays
 *
 * For a key whose data were found good, or do not matter; a listing has the marks, with their age.  That of a dead holder
 * is left when a request for the key, an open or lockshm_sweep() finds the death: call that first.  Does not look whether
 * the lock is held: its holder may be repairing.  Does not block.
 *
 * Return: 0; LOCKSHM_NOT_HELD (no holder with that token left a mark, or it is cleared already); LOCKSHM_INVALID;
 *         LOCKSHM_PERMISSION (read-only handle).
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_acknowledge_of(lockshm_t *segment, uint64_t id, uint64_t token);

/**
 * lockshm_sweep - free what dead processes left: slots, request records, half-made entries; and ended cooldowns
 * @segment: handle
 * @freed:   [out] owner slots freed, 0 with a code; may be NULL
 *
 * Never needed for correctness: opening does it, joining threads free up to four slots, and a thread that finds a table
 * full does it.  Checks each owner that seems to live in /proc.  The calling thread takes an owner slot if it has none.
 * Does not block.
 *
 * Return: 0; LOCKSHM_INVALID; LOCKSHM_PERMISSION (read-only handle); LOCKSHM_FULL (owners); LOCKSHM_NO_MEMORY;
 *         LOCKSHM_SYSTEM.
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_sweep(lockshm_t *segment, size_t *freed);

/** Room for the longest sentence of lockshm_explain(), with its closing NUL. */
#define LOCKSHM_EXPLAIN_MAX 512

/**
 * lockshm_explain - a report in one sentence
 * @report:     of a call, whatever it returned; or one with a blocker or a damage mark alone, all else 0
 * @timeout_ns: of the request; used with LOCKSHM_TIMEOUT only
 * @text:       [out] the sentence, without the key and without a period; printable ASCII, another byte is '?'
 * @size:       bytes at @text, which gets what fits and a closing NUL; LOCKSHM_EXPLAIN_MAX is enough
 *
 * Not granted: "not granted in 5 s: held exclusive by pid 4711 (job) 'nightly' for 12.3 s", with the name of the thread
 * and the tag; with LOCKSHM_BUSY "not free: held ...".  Another failure, or if it is not known what was in the way: the
 * message of the error.  A blocker alone: its part of that sentence.  A request that was granted, or a mark alone: "an
 * earlier holder died inside: pid 4711 'nightly', 2.5 s ago, token 7; what the lock protects may be torn", or nothing if
 * there is no mark.  Does not block.
 *
 * Return: 0; LOCKSHM_INVALID (@report or @text is NULL, @size is 0, or the size of the report is wrong).
 * Thread-safe.
 * Since: 0.1
 */
int lockshm_explain(const struct lockshm_report *report, int64_t timeout_ns, char *text, size_t size);

/**
 * lockshm_strerror - a sentence for a code
 * @code: enum lockshm_code, or any number
 *
 * For one particular failure the message in struct lockshm_error says more.
 *
 * Return: a constant, never NULL.
 * Thread-safe.  Async-signal-safe.
 * Since: 0.1
 */
const char *lockshm_strerror(int code);

/**
 * lockshm_code_name - the name of a code without its prefix: "TIMEOUT" for LOCKSHM_TIMEOUT
 * @code: as for lockshm_strerror()
 *
 * Return: a constant, never NULL.
 * Thread-safe.  Async-signal-safe.
 * Since: 0.1
 */
const char *lockshm_code_name(int code);

/**
 * lockshm_version - the version of the library in use, "0.1.0"
 *
 * That of the header is in LOCKSHM_VERSION_MAJOR, LOCKSHM_VERSION_MINOR and LOCKSHM_VERSION_PATCH.
 *
 * Return: a constant.
 * Thread-safe.  Async-signal-safe.
 * Since: 0.1
 */
const char *lockshm_version(void);

#ifdef __cplusplus
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}
#endif
#endif /* LOCKSHM_H */
