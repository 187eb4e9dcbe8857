/* SPDX-License-Identifier: MIT */
/*
 * redis-error.h - what can go wrong between this host and a Redis server, and what to do about it
 *
 * The codes are classes by consequence, not by cause; the message names the cause and the server.
 */
#ifndef LOCKSHM_BRIDGE_ERROR_H
#define LOCKSHM_BRIDGE_ERROR_H

#include <stdbool.h>
#include <stddef.h>

enum bridge_code {
	BRIDGE_OK = 0,
	BRIDGE_AGAIN = 1, /* not done yet: wait for the socket */
	BRIDGE_INVALID = -1, /* bad configuration or arguments; nothing was sent */
	BRIDGE_UNREACHABLE = -2, /* no connection; nothing was executed */
	BRIDGE_UNKNOWN = -3, /* connection lost or deadline over: may or may not have been executed */
	BRIDGE_RETRY = -4, /* the server is not able to now: BUSY, LOADING, READONLY, OOM and the like */
	BRIDGE_DENIED = -5, /* password or rights; stays so until somebody changes the server */
	BRIDGE_NOT_A_LOCK = -6, /* the key holds data of another kind; it was not touched */
	BRIDGE_MOVED = -7, /* another node of the cluster has this key */
	BRIDGE_NO_SCRIPT = -8, /* the server forgot the script: send its text */
	BRIDGE_REFUSED = -9, /* any other error reply */
	BRIDGE_PROTOCOL = -10, /* what came back is not what was asked for: not a Redis server? */
	BRIDGE_FORKED = -11, /* the connection belongs to the parent process */
	BRIDGE_NO_MEMORY = -12, /* or no descriptor left */
};

struct bridge_error {
	int code;
	char text[320];
};

/* Stores code and message; returns @code.  @error may be NULL. */
int bridge_fail(struct bridge_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The class of an error reply of the server. */
int bridge_error_class(const char *text, size_t len);

/* The class of an open() or its like that failed. */
int bridge_error_open(int sys_errno);

/* Is trying again later of any use? */
bool bridge_error_passes(int code);

const char *bridge_code_name(int code);

#endif
