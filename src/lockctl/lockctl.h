/* SPDX-License-Identifier: MIT */
/*
 * lockctl.h - what the files of lockctl share
 *
 * lockctl is a table of commands (lockctl/main.c), one file per command, and shared functions.  It knows the library
 * by lockshm.h only.  Data goes to stdout, messages to stderr as "lockctl: COMMAND NAME: reason".
 */
#ifndef LOCKCTL_H
#define LOCKCTL_H

#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "lockshm.h"

/** Exit statuses that scripts may rely on; lockctl(1) lists them. */
enum exit_status {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NOT_OBTAINED = 3,
	EXIT_LOST = 4,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
	EXIT_BY_SIGNAL = 128 /**< plus the number of the signal */
};

/** How a command prints its data. */
enum format { FORMAT_HUMAN, FORMAT_JSON, FORMAT_PORCELAIN, FORMAT_OPENMETRICS };

/** One command.  run() gets its own name as argv[0] and returns the exit status. */
struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *synopsis; /**< what follows the name */
	const char *summary;  /**< one line for lockctl --help */
	const char *options;  /**< lines for lockctl COMMAND --help */
};

int lockctl_ack(int argc, char **argv);
int lockctl_bridge(int argc, char **argv);
int lockctl_create(int argc, char **argv);
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

/* --- lockctl/message.c ------------------------------------------------------------------------------- */

/** Set the subject of the following messages: the command, then its segment. */
void subject_command(const char *command);
void subject_segment(const char *name);
/** Print "lockctl: COMMAND NAME: ..." to stderr. */
void message(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Print a message, point to the help, exit with EXIT_USAGE. */
void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/** Print the reason of a failed library call; @error may be NULL.  Return: the exit status for @code. */
int failed(int code, const struct lockshm_error *error);

/** The limit that an errno is about: " (ulimit -n)", " (ulimit -u)" or "". */
const char *limit_of(int cause);

/** LOCKSHM_SYSTEM of lockshm_notify(): which limit was it? */
void message_no_watch(void);

/* --- lockctl/left-out.c ------------------------------------------------------------------------------- */

/** How many files ls could not look at, if any. */
void message_left_out(void);

/** As failed(), of lockshm_each_segment(). */
int failed_listing(int code);

/* --- lockctl/args.c ---------------------------------------------------------------------------------- */

/** Prints the help of the running command and exits with 0; main() sets it. */
extern void (*args_help)(void) __attribute__((noreturn));

/** The bytes of a KEY argument. */
struct key {
	const unsigned char *bytes;
	size_t len;
};

/** Durations that an option allows besides finite ones. */
enum { DURATION_FINITE = 0, DURATION_INF = 1, DURATION_NONE = 2 };

/** getopt_long() that handles --help and ends the program at a wrong option. */
int args_option(int argc, char **argv, const char *shorts, const struct option *longs);
/** The next operand; @what names it when it is missing. */
char *args_operand(int argc, char **argv, const char *what);
/** The operand NAME; also makes it the subject of messages. */
const char *args_segment(int argc, char **argv);
/** Refuse further arguments. */
void args_end(int argc, char **argv);
/** Check @text as KEY; @escaped = it is percent-escaped and decoded in place. */
struct key args_key(char *text, bool escaped);
/** The same for any other argument that consists of bytes; @what names it. */
struct key args_bytes(const char *what, char *text, bool escaped);
/** enum lockshm_redis_policy. */
int args_policy(const char *option, const char *text);
uint64_t args_number(const char *option, const char *text, uint64_t min, uint64_t max);
/** Nanoseconds; LOCKSHM_FOREVER for "inf" and "none" where @allow has them. */
int64_t args_duration(const char *option, const char *text, int allow);

/* --- lockctl/open.c ---------------------------------------------------------------------------------- */

/** Open read-only, of any owner.  Return: 0, or the exit status after a message. */
int open_to_look(lockshm_t **segment, const char *name);
/** Open for taking and changing locks.  Return: 0, or the exit status after a message. */
int open_to_act(lockshm_t **segment, const char *name, bool any_owner);

/* --- lockctl/output.c -------------------------------------------------------------------------------- */

/** A JSON document being written.  A NULL @name in the calls below means: element of an array. */
struct json {
	FILE *out;
	bool first; /**< the innermost object or array is still empty */
};

void json_open(struct json *json, const char *name, char bracket);
void json_close(struct json *json, char bracket);
void json_bool(struct json *json, const char *name, bool value);
void json_int(struct json *json, const char *name, int64_t value);
void json_uint(struct json *json, const char *name, uint64_t value);
void json_null(struct json *json, const char *name);
/** Nanoseconds as exact milliseconds; LOCKSHM_FOREVER as null. */
void json_ms(struct json *json, const char *name, int64_t ns);
/** NULL @text as null. */
void json_text(struct json *json, const char *name, const char *text);
/** The member "segment": @name with its slash. */
void json_segment(struct json *json, const char *name);
/** Bytes that are not valid UTF-8 become \u00XX of the byte. */
void json_bytes(struct json *json, const char *name, const void *bytes, size_t len);

/** For porcelain: one word without blanks; bytes outside [!-~] and '%' as %XX, nothing as "-", "-" as "%2D". */
void put_word(FILE *out, const void *bytes, size_t len);

/** Length of the UTF-8 sequence at @p, 0 if there is none. */
size_t utf8_length(const unsigned char *p, size_t left);
/** @memory; ends the program if it is NULL. */
void *checked(void *memory);
/** Human-readable, to be freed: control bytes and broken UTF-8 as \xXX, so that a key cannot drive a terminal. */
char *visible(const void *bytes, size_t len);
char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** "12.5 ms", to be freed; "-" for LOCKSHM_FOREVER. */
char *format_duration(int64_t ns);
/** "2.50 MiB", to be freed. */
char *format_size(uint64_t bytes);

const char *mode_name(int mode);
/** "fail", "wait", "local-only". */
const char *policy_name(int policy);

/* --- lockctl/table.c --------------------------------------------------------------------------------- */

/** Rows of cells, printed in columns that are as wide as their widest cell, or narrower at a terminal. */
struct table_cell {
	const char *text;
	uint32_t length, width;
	int64_t order; /* of the row; in its first cell only */
};

struct table {
	size_t columns, cells, room;
	uint32_t *widest; /* of each column */
	struct table_cell *cell;
	struct table_text *text; /* where the cells' texts are, so that those of a row are adjacent */
};

void table_begin(struct table *table, size_t columns, const char *const *titles);
void table_add(struct table *table, const char *text);
/** The same, and @text is freed. */
void table_add_own(struct table *table, char *text);
/** Rows with a larger @order come first; 0 = by their first cell.  For the row just added. */
void table_order(struct table *table, int64_t order);
/** Sort the rows below the titles. */
void table_sort(struct table *table);
/** Print with each line indented by @indent, then free everything. */
void table_end(struct table *table, FILE *out, const char *indent);

/* --- lockctl/lock.c: one lock in three formats ------------------------------------------------------- */

extern const char *const lock_titles[];
#define LOCK_COLUMNS 8

/** The fields of a lock, into the open JSON object. */
void lock_json(struct json *json, const struct lockshm_lock_info *lock);
/** A line for the lock and one for each of its requests. */
void lock_porcelain(FILE *out, const struct lockshm_lock_info *lock);
/** One row of lock_titles. */
void lock_row(struct table *table, const struct lockshm_lock_info *lock);
extern const char *const request_titles[];
#define REQUEST_COLUMNS 7
/** One row of request_titles, for requests[@i]. */
void request_row(struct table *table, const struct lockshm_lock_info *lock, size_t i);
/** All its properties, human-readable. */
void lock_human(FILE *out, const struct lockshm_lock_info *lock);
/** The lock without a cooldown that is over: the table keeps it until the next request. */
struct lockshm_lock_info lock_now(const struct lockshm_lock_info *lock);
/** "4711 (tag)", with the tid if it is not the pid, and "dead" if the owner is; to be freed. */
char *format_owner(int32_t pid, int32_t tid, const char *tag, bool alive);
/** The holder that left a damage mark, as a sentence, to be freed. */
char *format_previous(const struct lockshm_previous *previous);

/* --- lockctl/remote.c: one key in Redis, in three formats --------------------------------------------- */

/** Longest time for one look-up or change in Redis. */
#define REMOTE_TIMEOUT LOCKSHM_SECONDS(1)

/** The member "redis" of the open JSON object; lines; a page.  Empty for a segment without Redis. */
void remote_json(struct json *json, lockshm_t *segment, struct key key);
void remote_porcelain(FILE *out, lockshm_t *segment, struct key key);
void remote_human(FILE *out, lockshm_t *segment, struct key key);

/* --- lockctl/signals.c ------------------------------------------------------------------------------- */

/** Truncation of the mapped segment ends the program with a message and EXIT_FAILED. */
void signals_contain_truncation(void);

/** Let every signal that would end the program cancel the waits that use @canceller instead. */
void signals_cancel(lockshm_canceller_t *canceller);
/** The first signal that did, or 0. */
int signals_caught(void);
/** Undo signals_cancel(); async-signal-safe. */
void signals_default(void);
/** Fill @set with the signals that run relays to its command. */
void signals_relayed(sigset_t *set);

/** Does @sig by its default end a process? */
bool signals_ends(int sig);

/* --- lockctl/child.c: the command of run, seat and once ------------------------------------------------ */

/** How child_run() supervises its command. */
struct child_watch {
	/** Called when @fd becomes readable; once it returns true the command, if it still runs, gets SIGTERM. */
	bool (*must_stop)(void *arg, bool running);
	void *arg;
	int fd;    /**< an eventfd */
	bool keep; /**< wait for the end of all descendants as well, by a pipe that they inherit */
};

/** Result of child_run(). */
struct child_end {
	bool started;    /**< false: the command never ran */
	int exec_errno;  /**< why it could not be executed, or 0 */
	int exit_status; /**< its own; EXIT_BY_SIGNAL + N; or the status for a command that did not start */
	int signal;      /**< the signal that ended the wait for descendants, or 0 */
};

/**
 * Run @argv with the environment @envp until it ends and relay signals to it.
 * Blocks all relayed signals, and leaves them blocked.
 * Return: 0, or -1 with errno when no process could be made.
 */
int child_run(char **argv, char **envp, const struct child_watch *watch, struct child_end *end);

/* --- lockctl/guard-args.c, guard.c: a command, or a descriptor, and its lock ---------------------------- */

/** What run, seat, once and hold have in common. */
struct guard {
	const char *name;
	struct key key;
	char *key_text; /**< KEY as given */
	char *shown;    /**< the key in messages */
	char **command; /**< NULL: hold has none */
	char *shell[4]; /**< the command of -c */
	char tag[LOCKSHM_TAG_MAX + 1];
	int64_t cooldown_ns;
	int64_t every_ns; /**< of once: the period, counted from @granted_ns; 0 = @cooldown_ns applies */
	int64_t granted_ns;
	int conflict_status;
	bool escaped;
	bool any_owner;
	bool keep;    /**< until the last descendant of the command has ended */
	bool retry;   /**< no cooldown after a failed command */
	bool announce; /**< report a wait and its end */
	struct lockshm_request request;
	struct lockshm_report report;
	lockshm_canceller_t canceller;
	lockshm_hold_t hold;
	int code; /**< of the acquire */
	bool lost;
};
#define GUARD_INIT                                                                                                     \
	{ .conflict_status = EXIT_NOT_OBTAINED, .request = LOCKSHM_REQUEST_INIT,                                              \
	  .report = LOCKSHM_REPORT_INIT, .canceller = LOCKSHM_CANCELLER_INIT, .hold = LOCKSHM_HOLD_INIT }

/** Values of the long options; those of one command alone follow GUARD_OPTION_END. */
enum guard_option {
	GUARD_ACKNOWLEDGE = 256,
	GUARD_ANY_OWNER,
	GUARD_COOLDOWN,
	GUARD_ESCAPED,
	GUARD_GLOBAL,
	GUARD_KEEP,
	GUARD_MAX_HOLD,
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
	{ "redis-policy", required_argument, NULL, GUARD_REDIS_POLICY }, { "tag", required_argument, NULL, GUARD_TAG }, \
	{ "ttl", required_argument, NULL, 't' }
#define GUARD_SHORTS "t:E:h"

/** Set one option.  Return: false = it is the command's own. */
bool guard_option(struct guard *guard, int option);
/** The operand that getopt_long() has returned as option 1.  Return: it is the first word of the command. */
bool guard_operand(struct guard *guard, char **argv);
/** Operands after "--", KEY, and all that the options of @guard need together. */
void guard_finish(struct guard *guard, int argc, char **argv);
/** Refuse a missing command; its name is the default tag. */
void guard_need_command(struct guard *guard);
/** The tag, unless --tag gave one: @path without its directory. */
void guard_default_tag(struct guard *guard, const char *path);

/** Open the segment, take the lock, run the command under it.  Return: the exit status of lockctl. */
int guard_run(struct guard *guard);
/** Take the lock.  Return: false = not taken, and @status set after a message. */
bool guard_acquire(struct guard *guard, lockshm_t *segment, int *status);
/** Get notices of the loss of the lock.  Return: an eventfd, or -1: the lock is released, and @status set. */
int guard_notices(struct guard *guard, int *status);
/** Is the lock lost?  If so, a message ends with @effect. */
bool guard_lost(struct guard *guard, const char *effect);
/** Return: the exit status, which is @status unless the lock had been lost. */
int guard_release(struct guard *guard, int64_t cooldown_ns, int status);

/* --- lockctl/blocker.c: what a request waits for ------------------------------------------------------- */

/** "held exclusively by pid 4711 (job), token 7, thread worker, for 2.0 s; ...", to be freed; NULL = not known here. */
char *format_blocker(const struct lockshm_blocker *blocker);

#endif /* LOCKCTL_H */
