/* SPDX-License-Identifier: MIT */
/*
 * redis-foreign.h - the same lock used by another program's library
 *
 * The other program reads "lock MS", "wait MS" (as lock, but patiently), "unlock" and "extend MS" line by line and
 * answers "yes" or "no".  It is run as "@program @script SOCKET KEY".
 */
#ifndef LOCKSHM_TEST_REDIS_FOREIGN_H
#define LOCKSHM_TEST_REDIS_FOREIGN_H

/* Runs the suite; status 77 if the shell command @probe fails, with @missing as the reason. */
int foreign_main(const char *name, const char *program, const char *script, const char *probe, const char *missing);

#endif
