/* SPDX-License-Identifier: MIT */
/*
 * redis-error.h - what can go wrong between this host and a Redis server
 *
 * The codes are classes by consequence, not by cause; the message names the cause and the server.
 */
#ifndef LOCKSHM_REDIS_REDIS_ERROR_H
#define LOCKSHM_REDIS_REDIS_ERROR_H

#include <stdbool.h>
#include <stddef.h>

enum redis_code {
	REDIS_OK = 0,
	REDIS_AGAIN = 1, /* not done yet: wait for the socket */
	REDIS_INVALID = -1, /* bad configuration or arguments; nothing was sent */
	REDIS_UNREACHABLE = -2, /* no connection; nothing was executed */
	REDIS_UNKNOWN = -3, /* connection lost or deadline passed: may or may not have been executed */
	REDIS_RETRY = -4, /* the server is not able to now: BUSY, LOADING, READONLY, OOM and the like */
	REDIS_DENIED = -5, /* password or rights; lasts until an operator changes the server */
	REDIS_NOT_A_LOCK = -6, /* the key holds other data, which was not touched */
	REDIS_MOVED = -7, /* another node of the cluster has this key */
	REDIS_NO_SCRIPT = -8, /* the server forgot the script: send its text */
	REDIS_REFUSED = -9, /* any other error reply */
	REDIS_PROTOCOL = -10, /* not the reply to this command: not a Redis server? */
	REDIS_NO_MEMORY = -11, /* or no descriptor left */
};

struct redis_error {
	int code;
	char text[320];
};

/* Stores code and message; returns @code.  @error may be NULL. */
int redis_fail(struct redis_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The class of an error reply of the server. */
int redis_error_class(const char *text, size_t len);

/* Its words without the place in a script, which differs from command to command: where they begin, and their length. */
const char *redis_error_words(const char *text, size_t *len);

/* The class of a failed open() or similar call. */
int redis_error_open(int sys_errno);

/* May another try succeed by itself? */
bool redis_error_passes(int code);

const char *redis_code_name(int code);

#endif
