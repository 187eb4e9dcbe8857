/* SPDX-License-Identifier: MIT */
/* sockets.h - what processes between clients and a server share */
#ifndef LOCKSHM_TEST_SOCKETS_H
#define LOCKSHM_TEST_SOCKETS_H

#include <stdbool.h>

#define TARGET_BYTES 96

/* Closes it, if it is open: then it is -1. */
void socket_shut(int *fd);
/* Connects to a path, or a port of 127.0.0.1; -1 = refused. */
int socket_dial(const char target[TARGET_BYTES]);
/* The next client of a listener, its bytes sent at once; -1 = there is none. */
int socket_accept(int listener);
/* Has localhost an address?  Without a file of hosts it has none: said, and the cases that need it are left out. */
bool localhost_is_known(void);

#endif
