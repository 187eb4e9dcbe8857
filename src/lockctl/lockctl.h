/* SPDX-License-Identifier: MIT */
/*
 * lockctl.h - what the files of lockctl share
 *
 * lockctl is a table of commands (lockctl/main.c), one file per command, and shared functions; cli/cli.h has what it
 * shares with lockshm-bridge.
 */
#ifndef LOCKCTL_H
#define LOCKCTL_H

#include "cli/cli.h"

/** One command.  run() gets its own name as argv[0] and returns the exit status. */
struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *synopsis; /**< what follows the name */
	const char *summary;  /**< one line for lockctl --help */
	const char *options;  /**< lines for lockctl COMMAND --help */
};

int lockctl_ack(int argc, char **argv);
int lockctl_create(int argc, char **argv);
/** What lockctl create --help has from the table of the library. */
void create_help(void);
int lockctl_hold(int argc, char **argv);
int lockctl_ls(int argc, char **argv);
int lockctl_once(int argc, char **argv);
int lockctl_release(int argc, char **argv);
int lockctl_rm(int argc, char **argv);
int lockctl_run(int argc, char **argv);
int lockctl_seat(int argc, char **argv);
int lockctl_show(int argc, char **argv);
int lockctl_stat(int argc, char **argv);
int lockctl_sweep(int argc, char **argv);
int lockctl_verify(int argc, char **argv);

/* --- lockctl/lock-list.c: the locks of a listing ------------------------------------------------------------ */

/** One of the requests for a lock. */
struct request {
	struct lockshm_blocker seen;
	int global; /**< as in struct lockshm_row */
	bool alive;
};

/** One lock and its queue, as they were at one instant; a cooldown that is over is left out. */
struct lock {
	struct lockshm_row row;
	int mode; /**< of the holders; 0 = free */
	size_t holders, waiters;
	struct request *requests; /**< holders, oldest first, then waiters in their order */
	size_t room;
};
#define LOCK_INIT { .row = LOCKSHM_ROW_INIT }

/** The next lock of a listing of keys into @lock, which is reused.  Return: as lockshm_list_next(). */
int lock_next(lockshm_list_t *list, struct lock *lock);
void lock_free(struct lock *lock);

/* --- lockctl/circles.c --------------------------------------------------------------------------------- */

/** Waits behind locks that lockctl holds.  Begin with zeros. */
struct circles {
	struct holder *holder;
	struct wait *wait;
	size_t holders, waits;
};

void circles_add(struct circles *circles, const struct lock *lock);
/** A line for each circle; then free everything. */
void circles_end(struct circles *circles, FILE *out);

/* --- lockctl/left-out.c ------------------------------------------------------------------------------- */

/** How many files ls could not look at, if any. */
void message_left_out(void);

/** As failed(), of a listing of segments. */
int failed_listing(int code);

/* --- lockctl/key.c: which lock is meant ----------------------------------------------------------------- */

/** KEY, or the id of a key of which a listing has the beginning. */
struct selected {
	struct key key;
	uint64_t id; /**< 0 = KEY was given */
};

/** The value of --id. */
uint64_t args_id(const char *text);
/** As args_id() takes it, to be freed. */
char *format_id(uint64_t id);
/** The lock with its requests, for lock_free().  Return: 0, or the code of the listing; LOCKSHM_NOT_HELD = no key has the
 *  id. */
int find_lock(lockshm_t *segment, const struct selected *which, struct lock *lock);
/** The row of @key alone.  Return: 0, or the code of the listing. */
int find_key(lockshm_t *segment, struct key key, struct lockshm_row *row);
/** The message for that.  Return: the exit status. */
int unknown_id(uint64_t id);
/** Keys that the segment remembers. */
struct nearest nearest_keys(lockshm_t *segment, struct key key);
/** "no request for it is known in this segment; did you mean 'k1'?", to be freed. */
char *format_unknown(lockshm_t *segment, struct key key);

/* --- lockctl/lock.c: one lock in three formats ------------------------------------------------------- */

extern const char *const lock_titles[];
#define LOCK_COLUMNS 9

/** The fields of a lock, into the open JSON object. */
void lock_json(struct json *json, const struct lock *lock);
/** A line for the lock and one for each of its requests. */
void lock_porcelain(FILE *out, const struct lock *lock);
/** One row of lock_titles. */
void lock_row(struct table *table, const struct lock *lock);
extern const char *const request_titles[];
#define REQUEST_COLUMNS 8
/** One row of request_titles, for requests[@i]. */
void request_row(struct table *table, const struct lock *lock, size_t i);
/** All its properties, human-readable; @unknown: what format_unknown() has of it, or "". */
void lock_human(FILE *out, const struct lock *lock, const char *unknown);
/** A lock of the library's own. */
bool row_is_internal(const struct lockshm_row *row);
/** "4711 (tag)", with the tid if it is not the pid, and "dead" if the owner is; to be freed. */
char *format_owner(int32_t pid, int32_t tid, const char *tag, bool alive);
/** The holder that left a damage mark, as a sentence, to be freed. */
char *format_mark(const struct lockshm_damage *damage);

/* --- lockctl/bridge.c: what the program lockshm-bridge does ------------------------------------------- */

/** Become "lockshm-bridge ...".  Returns after a message: the exit status. */
int bridge_execute(const char *const *arguments);
/** If no process serves the segment: start one that ends when no global key is in use any more. */
void bridge_start_if_none(lockshm_t *segment, const char *name, bool any_owner);
/** What "lockshm-bridge show" prints of the key: the member "redis" of the open JSON object; lines; a page.  Nothing for
 *  a segment without Redis. */
void remote_json(struct json *json, lockshm_t *segment, const char *name, struct key key);
void remote_porcelain(FILE *out, lockshm_t *segment, const char *name, struct key key);
void remote_human(FILE *out, lockshm_t *segment, const char *name, struct key key);
/** The damage of the key in Redis is cleared, and reported.  Return: the exit status. */
int remote_ack(lockshm_t *segment, const char *name, struct key key, bool any_owner);

/* --- lockctl/guard-args.c, guard.c: a command, or a descriptor, and its lock ---------------------------- */

/** KEY, or one of --also. */
struct guarded {
	char *text;  /**< as given */
	char *copy;  /**< what @key points to */
	char *shown; /**< in messages */
	struct key key;
};

/** What run, seat, once and hold have in common. */
struct guard {
	const char *name;
	struct guarded keys[LOCKSHM_MANY_MAX]; /**< KEY first */
	lockshm_hold_t holds[LOCKSHM_MANY_MAX];
	uint64_t tokens[LOCKSHM_MANY_MAX];
	size_t n_also;
	char *shown;    /**< all keys in messages: a', 'b */
	char **command; /**< NULL: hold has none */
	char *shell[4]; /**< the command of -c */
	char tag[LOCKSHM_TAG_MAX + 1];
	int64_t cooldown_ns;
	int64_t every_ns; /**< of once: the period, counted from @granted_ns; 0 = @cooldown_ns applies */
	int64_t granted_ns;
	int64_t ttl_ns;      /**< of a renewal */
	int64_t max_hold_ns; /**< no renewal beyond that time after the grant; 0 = no bound */
	int64_t renew_ns;    /**< the next renewal, or LOCKSHM_FOREVER */
	int64_t watch_ns;    /**< begin to watch for its loss */
	int notices;         /**< eventfd: the lock may be lost; -1 = not watched yet */
	int conflict_status;
	bool acknowledge; /**< the damage mark that is reported */
	bool escaped;
	bool any_owner;
	bool keep;    /**< until the last descendant of the command has ended */
	bool retry;   /**< no cooldown after a failed command */
	bool announce; /**< report a wait and its end */
	bool no_create;
	struct front *front;
	struct child_watch *watch;
	struct lockshm_request request;
	struct lockshm_report report;
	lockshm_canceller_t canceller;
	int code; /**< of the acquire */
	bool global; /**< a key excludes other hosts, by --global or by the segment */
	bool lost;
};
#define GUARD_INIT                                                                                                     \
	{ .notices = -1, .conflict_status = EXIT_NOT_OBTAINED, .request = LOCKSHM_REQUEST_INIT,                                              \
	  .report = LOCKSHM_REPORT_INIT, .canceller = LOCKSHM_CANCELLER_INIT }

/** Values of the long options; those of one command alone follow GUARD_OPTION_END. */
enum guard_option {
	GUARD_ACKNOWLEDGE = 256,
	GUARD_ALSO,
	GUARD_ANY_OWNER,
	GUARD_COOLDOWN,
	GUARD_ESCAPED,
	GUARD_GLOBAL,
	GUARD_KEEP,
	GUARD_MAX_HOLD,
	GUARD_NO_CREATE,
	GUARD_REDIS_POLICY,
	GUARD_ROBUST,
	GUARD_TAG,
	GUARD_OPTION_END
};

/** The options that all four commands have. */
#define GUARD_OPTIONS                                                                                                  \
	{ "any-owner", no_argument, NULL, GUARD_ANY_OWNER }, { "conflict-exit-code", required_argument, NULL, 'E' },   \
	{ "escaped", no_argument, NULL, GUARD_ESCAPED }, { "global", no_argument, NULL, GUARD_GLOBAL },                \
	{ "help", no_argument, NULL, 'h' }, { "max-hold", required_argument, NULL, GUARD_MAX_HOLD },                   \
	{ "no-create", no_argument, NULL, GUARD_NO_CREATE },                                                           \
	{ "redis-policy", required_argument, NULL, GUARD_REDIS_POLICY }, { "tag", required_argument, NULL, GUARD_TAG }, \
	{ "ttl", required_argument, NULL, 't' }
#define GUARD_SHORTS "t:E:h"

/** Set one option.  Return: false = it is the command's own. */
bool guard_option(struct guard *guard, int option);
/** The operand that getopt_long() has returned as option 1.  Return: it is the first word of the command. */
bool guard_operand(struct guard *guard, char **argv);
/** Operands after "--", KEY, and all that the options of @guard need together. */
void guard_finish(struct guard *guard, int argc, char **argv);
void guard_free(struct guard *guard);
/** Refuse a missing command; its name is the default tag. */
void guard_need_command(struct guard *guard);
/** The arguments of a command that has no option of its own, then guard_run(). */
int guard_main(struct guard *guard, int argc, char **argv, const char *shorts, const struct option *options);
/** The tag, unless --tag gave one: @path without its directory. */
void guard_default_tag(struct guard *guard, const char *path);

/** Open the segment, take the lock, run the command under it, in a keeper.  Return: the exit status of lockctl. */
int guard_run(struct guard *guard);
/** Open the segment, or make it.  Return: 0, or the exit status after a message. */
int guard_open(const struct guard *guard, lockshm_t **segment);
/** Take the lock.  Return: false = not taken, and @status set after a message. */
bool guard_acquire(struct guard *guard, lockshm_t *segment, int *status);
/** Renew the lease if it is time; watch the lock.  Return: the time of the next call, as of child_watch.look(); with
 *  CHILD_LOST there was a message that ends with @effect. */
int guard_look(struct guard *guard, const char *effect);
/** Return: the exit status, which is @status unless the lock had been lost. */
int guard_release(struct guard *guard, int64_t cooldown_ns, int status);

/* --- lockctl/blocker.c: what a request waits for ------------------------------------------------------- */

/** The sentence of lockshm_explain(), and of a holder what an operator needs in addition; to be freed. */
char *format_report(const struct lockshm_report *report, int64_t timeout_ns);
/** The same without "not free: ". */
char *format_blocker(const struct lockshm_report *report);
/** What follows that, to be freed: the writer that a reader behind readers waits for, as it is now; else "". */
char *format_writer_ahead(lockshm_t *segment, const struct lockshm_request *request);

#endif /* LOCKCTL_H */
