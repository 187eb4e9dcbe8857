/* SPDX-License-Identifier: MIT */
/* credentials.h - where this process has login and TLS files of the servers; what is in there: redis/secrets.h */
#ifndef LOCKSHM_BRIDGE_CREDENTIALS_H
#define LOCKSHM_BRIDGE_CREDENTIALS_H

#include "redis/secrets.h"

/* The directory, a path of at most REDIS_CREDENTIALS_MAX bytes; NULL = none. */
extern const char *bridge_credentials;

#endif
