/* SPDX-License-Identifier: MIT */
/*
 * cli.h - what the programs lockctl and lockshm-bridge share: arguments, messages, output, signals, a command to run
 *
 * It uses the library by lockshm.h only.  Data goes to stdout, messages to stderr as "PROGRAM: COMMAND NAME: reason".
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "lockshm.h"

/** Exit statuses that scripts may rely on; lockctl(1) and lockshm-bridge(8) list them. */
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

/* --- cli/program.c ----------------------------------------------------------------------------------- */

/** "lockctl" or "lockshm-bridge". */
extern const char *program_name;

/** First of all: sets program_name, and no file that is opened later gets the number of a closed standard stream. */
void program_begin(const char *name);
/** Lost output is a failure: the status to exit with instead of @status. */
int program_end(int status);
/** Print "PROGRAM 0.1.0 (liblockshm 0.1.0)".  Return: the status to exit with. */
int program_version(void);

/* --- cli/message.c ----------------------------------------------------------------------------------- */

/** Set the subject of the following messages: the command, then its segment. */
void subject_command(const char *command);
void subject_segment(const char *name);
/** Print "PROGRAM: COMMAND NAME: ..." to stderr. */
void message(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Print a message, point to the help, exit with EXIT_USAGE. */
void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/** Print the reason of a failed library call; @error may be NULL.  Return: the exit status for @code. */
int failed(int code, const struct lockshm_error *error);

/** The limit that an errno is about: " (ulimit -n)", " (ulimit -u)", " (ulimit -v)" or "". */
const char *limit_of(int cause);

/** LOCKSHM_SYSTEM of lockshm_notify(): which limit was it? */
void message_no_watch(void);

/* --- cli/nearest.c: the word that may be meant ---------------------------------------------------------- */

#define NEAREST_MAX 3
#define NEAREST_LONGEST 256

/** The words offered so far that are nearest to @word.  Begin with nearest_to(). */
struct nearest {
	const unsigned char *word;
	size_t len;
	uint32_t distance;
	size_t found;
	struct {
		size_t len;
		unsigned char bytes[NEAREST_LONGEST];
	} words[NEAREST_MAX];
};

struct nearest nearest_to(const void *word, size_t len);
void nearest_offer(struct nearest *nearest, const void *word, size_t len);
/** "; did you mean 'run' or 'rm'?", each after @prefix, to be freed; "" if no word is near. */
char *nearest_text(const struct nearest *nearest, const char *prefix);

/* --- cli/args.c -------------------------------------------------------------------------------------- */

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
/** Of a command that has no option but --help. */
void args_no_option(int argc, char **argv);
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

/* --- cli/open.c -------------------------------------------------------------------------------------- */

/** Open read-only, of any owner.  Return: 0, or the exit status after a message. */
int open_to_look(lockshm_t **segment, const char *name);
/** Open for taking and changing locks.  Return: 0, or the exit status after a message. */
int open_to_act(lockshm_t **segment, const char *name, bool any_owner);
/** The same, and make it with the defaults if there is none. */
int open_or_create(lockshm_t **segment, const char *name, bool any_owner);
/** The reason of lockshm_open(), with the option that would help; to be freed. */
char *open_reason(const char *name, bool any_owner, const struct lockshm_error *error);
/** The message of @error, and whose the file is if its mode is in the way; to be freed. */
char *format_refusal(const char *name, const struct lockshm_error *error);
/** The name, or the number; to be freed. */
char *format_user(uid_t uid);

/* --- cli/output.c ------------------------------------------------------------------------------------ */

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
/** @value is a line of JSON. */
void json_raw(struct json *json, const char *name, const char *value);
/** Nanoseconds as exact milliseconds; LOCKSHM_FOREVER as null. */
void json_ms(struct json *json, const char *name, int64_t ns);
/** NULL @text as null. */
void json_text(struct json *json, const char *name, const char *text);
/** The member "segment": @name with its slash. */
void json_segment(struct json *json, const char *name);
/** What is not to reach a terminal becomes \uXXXX; a byte that is not UTF-8 \u00XX of the byte. */
void json_bytes(struct json *json, const char *name, const void *bytes, size_t len);

/** For porcelain: one word without blanks; bytes outside [!-~] and '%' as %XX, nothing as "-", "-" as "%2D". */
void put_word(FILE *out, const void *bytes, size_t len);
/** The same as a text, to be freed. */
char *format_word(const void *bytes, size_t len);

/** The key of @len bytes of which the first @shown are known, human-readable, to be freed. */
char *format_key(const void *key, size_t shown, size_t len);
/** The same of a KEY argument, cut where a listing cuts it. */
char *format_given_key(struct key key);
char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** "12.5 ms", to be freed; "-" for LOCKSHM_FOREVER. */
char *format_duration(int64_t ns);
/** "2.50 MiB", to be freed. */
char *format_size(uint64_t bytes);

const char *mode_name(int mode);
/** "fail", "wait", "local-only". */
const char *policy_name(int policy);

/* --- cli/text.c: what a terminal may get ---------------------------------------------------------------- */

/** U+2026, where a text is cut. */
#define ELLIPSIS "\xe2\x80\xa6"

/** One character of a text; a byte that is no UTF-8 is one by itself. */
struct character {
	size_t len;
	int columns; /**< of a terminal: 1, or 2; 0 = combining; -1 = not to be shown */
	uint32_t code;
	bool valid; /**< it is UTF-8 */
};

/** The first character of @left bytes, at least one. */
struct character character_at(const void *bytes, size_t left);
/** @memory; ends the program if it is NULL. */
void *checked(void *memory);
/** Human-readable, to be freed: what is not to be shown, and '%', as %XX of each byte, as --escaped takes a KEY. */
char *visible(const void *bytes, size_t len);
/** The same for a sentence that contains such texts: '%' stays. */
char *visible_line(const char *text);

/* --- cli/table.c ------------------------------------------------------------------------------------- */

/** Rows of cells, printed in columns that are as wide as their widest cell, or narrower where there is no room. */
struct table_cell {
	const char *text;
	uint32_t length, width;
	int64_t order; /* of the row; in its first cell only */
};

struct table {
	size_t columns, cells, room;
	uint32_t *widest; /* of each column; 0 = it is not shown */
	bool *minor;      /* of each column: it is left out where there is no room */
	bool *whole;      /* of each column: its cells are never cut, and it is left out where none has a value */
	struct table_cell *cell;
	struct table_text *text; /* where the cells' texts are, so that those of a row are adjacent */
};

/** Titles of such columns begin so. */
#define TABLE_MINOR "-"
#define TABLE_WHOLE "?"

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

/* --- cli/signals.c ----------------------------------------------------------------------------------- */

/** Truncation of the mapped segment ends the program with a message and EXIT_FAILED. */
void signals_contain_truncation(void);

struct front;

/** In a keeper: let a signal that would end it cancel the waits that use @canceller instead. */
void signals_cancel(lockshm_canceller_t *canceller, const struct front *front);
/** The first signal that did, or 0. */
int signals_caught(void);
/** Undo signals_cancel(); async-signal-safe. */
void signals_default(void);

/** Does @sig by its default end a process? */
bool signals_ends(int sig);
bool signals_ignored(int sig);
/** SIGTSTP, SIGTTIN, SIGTTOU: what a terminal stops a job by. */
bool signals_stop(int sig);
/** Did the terminal send it to the whole foreground group? */
bool signals_of_terminal(int sig, const siginfo_t *info);

/** Block all signals that are relayed to a command, and SIGCHLD: they are in @awaited, to be taken one at a time. */
void signals_await(sigset_t *awaited);
/** The next pending one of @awaited, or -1. */
int signals_next(const sigset_t *awaited, siginfo_t *info);
/** Until the next signals_await(): the signals are as the program was started with. */
void signals_unblock(void);
/** In the process that becomes the command: all as the program was started with.  Async-signal-safe. */
void signals_restore(void);
/** Send @sig on, with its value. */
void signals_pass(pid_t pid, int sig, const siginfo_t *info);
/** Stop by @sig, unless @wanted is false: what it looks at is stored before the SIGCONT that ends the stop is sent. */
void signals_stop_self(int sig, bool (*wanted)(const void *arg), const void *arg);

/* --- cli/keeper.c: a process that holds a lock for the one that the caller started --------------------- */

/** The name of a keeper's thread.  Not that of its program: a signal by name, as of pkill(1), is for the front. */
#define KEEPER_NAME "lockshm-keeper"

/** The process that the caller started, in memory that it shares with its keeper. */
struct front {
	pid_t pid;
	pid_t keeper;
	volatile pid_t command; /**< 0 = none yet */
	volatile int caught;    /**< the signal that has ended the wait for the lock, or 0 */
	volatile int stopped;   /**< the signal by which the terminal has stopped the command, or 0 */
	volatile int over;      /**< the keeper has done all, and ends */
	volatile int left;      /**< the front may end, and the keeper goes on */
};

/**
 * Run @keep in a process of its own, and relay signals to it until it ends.
 * Return: the status of @keep.
 */
int keeper_run(struct front *front, int (*keep)(void *arg), void *arg);
/** Shared memory for it; ends the program if there is none. */
struct front *keeper_front(void);
/** In the keeper: the front has something to look at. */
void keeper_tell(const struct front *front);
/** In the keeper: the front was killed. */
bool keeper_is_alone(const struct front *front);
/** In the keeper: let the front end with EXIT_OK.  Return: false = it was killed before. */
bool keeper_leave(struct front *front);
/** In the keeper: keep no stream of the caller's open that one may wait for the end of. */
void keeper_leave_streams(void);

/* --- cli/descendants.c: what a command has started ----------------------------------------------------- */

/**
 * Of the descendants of the calling process: the command, what descends from it, and what did before its parent ended,
 * unless it has a session of its own.  Begin with zeros, and set the first two members.
 */
struct descendants {
	pid_t command;
	bool all;      /**< every descendant, but for */
	const struct descendants *others; /**< these, or NULL */
	pid_t session; /**< of the command, once it was seen */
	struct process *before;
	size_t n_before;
};

/** Send @sig (0 = none) to each that is alive.  Return: their number; 0 = there is surely none. */
size_t descendants_signal(struct descendants *group, int sig);
void descendants_forget(struct descendants *group);
/** The parent of @pid, or 0. */
pid_t process_parent(pid_t pid);

/* --- cli/child.c: a command to run ------------------------------------------------------------------ */

enum { CHILD_LOOK_NEVER = -1, CHILD_LOST = -2 };

/** How child_run() supervises its command. */
struct child_watch {
	/**
	 * May be NULL.  Called after the start, when @fd is readable, and when the time is over that it has returned, in ms;
	 * or CHILD_LOOK_NEVER; or CHILD_LOST: the command gets SIGTERM, if it still runs, and descendants are not waited for.
	 */
	int (*look)(void *arg, bool running);
	void *arg;
	int fd;     /**< may be set by look(); -1 = none */
	bool keep;  /**< wait for the end of all descendants as well, by a pipe that they inherit */
	bool group; /**< signals that end a job are for all that the command has started */
	struct front *front; /**< of the keeper that calls this; NULL = no keeper */
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
int child_run(char **argv, char **envp, struct child_watch *watch, struct child_end *end);

#endif
