/* SPDX-License-Identifier: MIT */
/*
 * descriptor.h - descriptors that the library keeps
 *
 * A program may close any number it did not open: closefrom(), a library that makes it a daemon, its own mistake.  The
 * number may then be that of a file of its own.  So each use looks first whether the number still leads to the library's
 * file; a thread that closes it in between is not noticed.
 */
#ifndef LOCKSHM_SYS_DESCRIPTOR_H
#define LOCKSHM_SYS_DESCRIPTOR_H

#include <stdbool.h>
#include <sys/stat.h>

#include "sys/compiler.h"

struct descriptor {
	int fd;	  /* -1 = none */
	int twin; /* another duplicate, of a file that shares its inode with others; else -1 */
	dev_t dev;
	ino_t ino;
};

#define DESCRIPTOR_NONE ((struct descriptor){ -1, -1, 0, 0 })

/* Keep @fd, also to close it.  False, with errno: not kept. */
MUST_CHECK bool descriptor_keep(struct descriptor *d, int fd);

/* Keep a duplicate of @fd, numbered @least or higher, closed at exec.  False, with errno. */
MUST_CHECK bool descriptor_duplicate(struct descriptor *d, int fd, int least);

/* Does it still lead to the file that was kept?  False for none. */
bool descriptor_is_own(const struct descriptor *d);

/* The state of a kept file that has an inode of its own; false if it is not to be had. */
bool descriptor_stat(const struct descriptor *d, struct stat *st);

/* Close it, if it is still the library's. */
void descriptor_close(struct descriptor *d);

#endif
