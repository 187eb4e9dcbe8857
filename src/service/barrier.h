/* SPDX-License-Identifier: MIT */
/* barrier.h - the registration of this process for the membarriers of others; see barrier.c */
#ifndef LOCKSHM_SERVICE_BARRIER_H
#define LOCKSHM_SERVICE_BARRIER_H

#include "segment/segment.h"

/* Before the first thread of the library starts: registers a process with one thread, which waits for nothing. */
void barrier_register_at_once(void);

/* In a thread of its own, which waits for a grace period of the kernel; once. */
void barrier_register_later(void);

/* OWNER_UNREGISTERED, or 0: for the slot of a service thread that joins. */
uint32_t barrier_owner_flag(void);

/* The lock of @s held: its service thread has joined, perhaps just before the registration. */
void barrier_update_flag(struct lockshm *s);

#endif
