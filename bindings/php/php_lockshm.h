/* SPDX-License-Identifier: MIT */
/*
 * php_lockshm.h - the extension lockshm
 *
 * A hold is taken by the request's own thread, so the kernel reports its end and the library finds deadlocks.  All
 * state is in module globals or persistent memory, which one thread uses.
 */
#ifndef PHP_LOCKSHM_H
#define PHP_LOCKSHM_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdint.h>

#include <lockshm.h>

/* Inline functions of PHP compare numbers of different sign. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "php.h"
#include "zend_exceptions.h"
#include "zend_interfaces.h"
#pragma GCC diagnostic pop

#define PHP_LOCKSHM_VERSION "0.1.0"

extern zend_module_entry lockshm_module_entry;
#define phpext_lockshm_ptr &lockshm_module_entry

/** A segment that this process has open.  Persistent: from the first open to the end of the process. */
struct lk_segment {
	struct lk_segment *next;
	lockshm_t *handle;
	lockshm_t *retired;      /* of a removed segment; holds of the present request may be in it */
	lockshm_loop_t *loop;    /* NULL = none yet */
	pid_t loop_pid;          /* the process that opened the loop */
	struct lockshm_create_options options;
	struct lockshm_blocker refused_by; /* of the last refused try */
	zend_ulong skipped;
	bool makes_global; /* some keys exclude other hosts in each request */
	char name[LOCKSHM_NAME_MAX + 1];
};

/** What the end of a hold does that the script did not release. */
enum lk_end {
	LK_END_RELEASE,
	LK_END_OUTLIVE,  /* closed until the lease would have ended, if it has one */
	LK_END_COOLDOWN, /* closed until closed_until_ns */
};

/** A hold of the request, in the list of all of them. */
struct lk_hold {
	lockshm_hold_t hold;
	struct lk_hold *next, *prev;
	struct lk_segment *segment;
	zend_string *key;
	int64_t lease_ns;
	int64_t closed_until_ns;
	enum lk_end end;
	int mode;
	bool listed;
	bool local_only;
	zend_object std;
};

struct lk_locks {
	struct lk_segment *segment;
	zend_object std;
};

/** The session of the request. */
struct lk_session {
	const struct ps_module_struct *delegate; /* NULL = not open */
	void *delegate_data;
	struct lk_segment *segment;
	zend_string *id; /* of the hold; NULL = not held */
	lockshm_hold_t hold;
	int mode;
	bool refused; /* the wait for it failed */
};

ZEND_BEGIN_MODULE_GLOBALS(lockshm)
	struct lk_segment *segments;
	struct lk_hold *holds; /* of this request, newest first */
	struct lk_session session;
	char *segment;
	char *session_handler;
	double session_wait;
	bool session_global;
ZEND_END_MODULE_GLOBALS(lockshm)

ZEND_EXTERN_MODULE_GLOBALS(lockshm)
#define LK_G(v) ZEND_MODULE_GLOBALS_ACCESSOR(lockshm, v)

#if defined(ZTS) && defined(COMPILE_DL_LOCKSHM)
ZEND_TSRMLS_CACHE_EXTERN()
#endif

extern zend_class_entry *lk_ce_locks, *lk_ce_hold, *lk_ce_holder, *lk_ce_damage;
extern zend_class_entry *lk_ce_exception, *lk_ce_timeout, *lk_ce_busy, *lk_ce_lost, *lk_ce_not_held, *lk_ce_deadlock,
	*lk_ce_full, *lk_ce_segment, *lk_ce_bridge;

/* segments.c */
struct lk_segment *lk_segment_open(const char *name, const struct lockshm_create_options *options,
				   struct lockshm_error *error);
bool lk_segment_default(char name[static LOCKSHM_NAME_MAX + 1]);
int lk_segment_reopen(struct lk_segment *segment, struct lockshm_error *error);
lockshm_loop_t *lk_segment_loop(struct lk_segment *segment, struct lockshm_error *error);
void lk_segments_end_request(void);
void lk_segment_close(struct lk_segment *segment);

/* acquire.c */
int lk_acquire(struct lk_segment *segment, struct lockshm_request *request, lockshm_hold_t *hold,
	       struct lockshm_report *report);

/* wait.c */
int lk_wait(struct lk_segment *segment, struct lockshm_request *request, lockshm_hold_t *hold);
int64_t lk_now_ns(void);

/* hold.c */
void lk_hold_startup(void);
struct lk_hold *lk_hold_new(zval *to, struct lk_segment *segment, zend_string *key, int mode);
void lk_hold_begin(struct lk_hold *hold, int status);
int lk_hold_end(struct lk_hold *hold);
void lk_holds_end_request(void);
bool lk_holds_have(const struct lk_segment *segment, const void *key, size_t key_len);

static inline struct lk_hold *lk_hold_of(zend_object *object)
{
	return (struct lk_hold *)((char *)object - offsetof(struct lk_hold, std));
}

/* locks.c */
void lk_locks_startup(void);

static inline struct lk_segment *lk_segment_of(zval *locks)
{
	return ((struct lk_locks *)((char *)Z_OBJ_P(locks) - offsetof(struct lk_locks, std)))->segment;
}

/* arguments.c */
bool lk_seconds(double seconds, uint32_t argument, int64_t least_ns, int64_t *ns);
bool lk_request_key(struct lockshm_request *request, zend_string *key, uint32_t argument);
bool lk_request_timeout(struct lockshm_request *request, double seconds, bool endless, uint32_t argument);
bool lk_request_lease(struct lockshm_request *request, double seconds, bool strict, bool renew, uint32_t argument);
bool lk_request_tag(struct lockshm_request *request, const char *tag, size_t length, uint32_t argument);
bool lk_request_policy(struct lockshm_request *request, const zend_string *policy, uint32_t argument);
bool lk_create_options(struct lockshm_create_options *options, HashTable *given, uint32_t argument);

/* errors.c */
void lk_throw_acquire(int code, const struct lk_segment *segment, const struct lockshm_request *request,
		      const struct lockshm_report *report);
void lk_throw_segment(int code, const struct lockshm_error *error);
void lk_throw_hold(int code, struct lk_hold *hold);
void lk_throw_upgrade(int code, struct lk_hold *hold);
zend_string *lk_not_granted(const struct lockshm_request *request, const struct lockshm_report *report);
void lk_shown_key(char shown[static LOCKSHM_KEY_SHOWN_MAX + 1], const void *key, size_t key_len);

/* values.c */
void lk_holder_value(zval *to, const struct lockshm_blocker *holder);
void lk_damage_value(zval *to, const struct lockshm_damage *damage);
int lk_holders(struct lk_segment *segment, const void *key, size_t key_len, struct lockshm_blocker **holders,
	       size_t *count);

/* session.c */
void lk_session_startup(void);
void lk_session_end_request(void);

#endif
