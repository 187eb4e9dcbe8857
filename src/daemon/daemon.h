/* SPDX-License-Identifier: MIT */
/* daemon.h - what the files of the program lockshm-bridge share */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include "bridge/admin.h"
#include "bridge/check.h"
#include "bridge/credentials.h"
#include "bridge/hosts.h"
#include "bridge/log.h"
#include "bridge/serve.h"
#include "cli/cli.h"

/** Longest time for one look-up or change in Redis. */
#define REMOTE_TIMEOUT LOCKSHM_SECONDS(1)

/** Print what keeps a bridge with these options from serving the segment.  Return: the exit status. */
int daemon_check(const char *name, bool any_owner, const char *host_name);
int daemon_release(int argc, char **argv);
int daemon_ack(int argc, char **argv);
/** To be freed: how a robust key was damaged. */
char *format_damage(const struct remote_damage *damage);
int daemon_serve(int argc, char **argv);
int daemon_show(int argc, char **argv);

/* --- daemon/key-command.c: what show, release and ack begin with ----------------------------------------- */

struct key_command {
	bool looks; /* a format can be chosen, and the segment may be of any owner */
	bool has_value; /* an operand VALUE follows KEY */
	enum format format;
	struct key key, value;
	lockshm_t *segment;
};

/** Read the arguments and open the segment.  Return: 0, or the exit status after a message. */
int key_command_begin(struct key_command *command, int argc, char **argv);

/* --- daemon/credentials.c: login and TLS files --------------------------------------------------------- */

/** The directory for segment @name: @option, or $LOCKSHM_CREDENTIALS, or /etc/lockshm/NAME.  One that was named has to
 * be there: else it does not return. */
void credentials_use(const char *option, const char *name);

/* --- daemon/segments.c: the segments of one name ------------------------------------------------------- */

/** The segment that has the name is served by a thread, and a replaced one by another until its last hold ends. */
struct segments;

/** Start.  @while_used: end when no global key has been in use for some seconds.  @host_name: as other hosts show this
 * one; NULL = the machine's, "" = it takes no part in their list.  NULL after a message. */
struct segments *segments_start(const char *name, bool any_owner, bool while_used, const char *host_name);
/** A descriptor that becomes readable when it has ended by itself. */
int segments_fd(const struct segments *all);
/** End: what is free is given back first, for 250 ms at most.  Return: the exit status. */
int segments_stop(struct segments *all);

/* --- daemon/supervisor.c: the service manager -------------------------------------------------------- */

/** Report to the manager that started the program, if it listens (NOTIFY_SOCKET): "READY=1", "STATUS=...". */
void supervisor_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** How often the manager wants a sign of life, half of WATCHDOG_USEC; 0 = never. */
int64_t supervisor_interval(void);

#endif
