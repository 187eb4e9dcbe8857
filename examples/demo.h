/* SPDX-License-Identifier: MIT */
/*
 * demo.h - shared by the parts of the demo's client
 *
 *   demo-client.c  the commands but one
 *   demo-load.c    the command "load": requests under random SIGKILLs, and the proof that nothing was lost
 *   demo-util.c    HTTP from the client's side, clock, processes
 */
#ifndef DEMO_H
#define DEMO_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/** What came back; see prefork-http.c for the header lines. */
struct response {
	int status;
	int worker;
	char lock[24]; /* result of lockshm_acquire(): "OK", "OWNER_DIED" ... */
	char note[24];
	int previous_pid;
	uint64_t previous_token;
	uint64_t token;
	int64_t waited_us;
	int64_t granted_ns; /* CLOCK_MONOTONIC of the worker: the same clock as ours */
	int64_t took_ns;    /* from our connect() to the last byte */
	char body[4096];
};

/** Return: 0, or -1 if no whole response came. */
int http_get(int port, const char *path, struct response *response);

/** Get /stats; return the text after @name (with its closing space) in response->body. */
char *get_stat(int port, const char *name, struct response *response);
int64_t stat_number(int port, const char *name);

int64_t now_ns(void);

/** Print "FAILED: ..." and end with status 1. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** From /proc/PID/stat: its state letter ('?' = no such process) and parent. */
char process_state(pid_t pid, pid_t *parent);

/**
 * kill_worker - SIGKILL @pid if it is a child of @master
 * Through a pidfd, so that a reused pid is never hit.  Return: when it was sent (now_ns()), or 0: it was not.
 */
int64_t kill_worker(pid_t pid, pid_t master);

int compare_i64(const void *a, const void *b);

int cmd_load(char **args);

#endif /* DEMO_H */
