/* SPDX-License-Identifier: MIT */
/*
 * lockshm_py.h - what the files of the extension share
 *
 * Everything runs with the GIL, which is what "one thread at a time" of a lockshm loop rests on, except the wait in
 * wait_for_grant() and the opening of a segment.  No state outside of the module object and its instances.
 */
#ifndef LOCKSHM_PY_H
#define LOCKSHM_PY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <lockshm.h>
#include <stdbool.h>
#include <structmember.h>

/* Names of keyword arguments, interned once: a caller's are the same objects. */
enum word {
	WORD_TIMEOUT,
	WORD_LEASE,
	WORD_RENEW,
	WORD_MAX_HOLD,
	WORD_TAG,
	WORD_ROBUST,
	WORD_REENTRANT,
	WORD_GLOBAL,
	WORD_REDIS_POLICY,
	WORD_ON_LOST,
	WORD_BLOCKING,
	WORD_POLL_INTERVAL,
	WORD_COOLDOWN,
	WORDS
};

struct state {
	PyTypeObject *segment_type;
	PyTypeObject *lock_type;
	PyTypeObject *many_type;
	PyTypeObject *loop_type;
	PyTypeObject *wait_type;
	PyObject *report; /* module lockshm._report: exceptions, Holder, log */
	PyObject *words[WORDS];
};

enum node_use { NODE_FREE, NODE_AWAITED, NODE_HELD, NODE_ENDED };

/* Why a lock object that holds nothing does not. */
enum past { PAST_NONE, PAST_RELEASED, PAST_PARENT };

/* One hold of a lock object, with the thread or task that took it.  The library has its address while it is awaited. */
struct node {
	lockshm_hold_t hold;
	enum node_use use;
	bool local_only;
	bool told; /* on_lost was called */
	Py_ssize_t count; /* more than 1 in a reentrant object only */
	uint64_t number;  /* of the grant, among those of the lock object */
	uint64_t thread;  /* PyThreadState_GetID(): never used again, unlike the ident of a thread */
	struct lock_object *lock; /* of an event loop's hold: its lock object */
	struct wait_object *wait; /* and its wait, until that is decided */
	PyObject *task;	  /* that took it by acquire_async(); of a reentrant object also a greenlet; or NULL: the thread did */
	struct node *next;
};

/* A segment: the base of lockshm.Locks. */
typedef struct {
	PyObject_HEAD
	struct state *state;
	lockshm_t *handle;
	PyObject *name;
	lockshm_loop_t **idle; /* loops that no thread waits on; the last one also serves what needs no wait */
	size_t n_idle, room;
	bool closed;
	struct thread_wait *spare; /* that of an ended request, for the next one */
} Segment;

/* A wait of a thread, in its stack. */
struct thread_wait {
	struct lockshm_report report;
	lockshm_canceller_t canceller;
	struct thread_wait *next;
};

typedef struct lock_object {
	PyObject_HEAD
	struct state *state;
	Segment *segment;
	PyObject *key, *tag, *on_lost;
	PyObject *weakrefs;
	struct lockshm_request request; /* copied with a time-out and a report for each acquire */
	int64_t timeout_ns;
	bool reentrant;
	struct node first; /* the only one, unless the object has several holds: shared ones, or lost ones */
	uint64_t grants;
	struct thread_wait *waits;
	enum past past;
	bool cancelled; /* no thread waits on this object any more */
	struct lockshm_blocker blocker; /* of the last refused request */
} Lock;

/* Arguments of Segment(). */
struct create_arguments {
	PyObject *name;
	int create, any_owner;
	struct lockshm_create_options options;
};

/* Arguments of acquire(). */
struct acquire_args {
	int64_t timeout_ns;
	bool returns_false; /* the caller named a bound: False instead of an exception */
};

/* A wait of an event loop.  While it is pending the loop has a reference to it. */
typedef struct wait_object {
	PyObject_HEAD
	struct loop_object *loop;
	Lock *lock;
	PyObject *task, *future;
	struct node *node; /* NULL = finished or abandoned */
	struct wait_object *previous, *next;
	struct acquire_args how;
	int status;
	struct lockshm_report report;
} Wait;

/* The requests of one asyncio event loop in one segment. */
typedef struct loop_object {
	PyObject_HEAD
	struct state *state;
	Segment *segment;
	lockshm_loop_t *loop;
	Wait *pending;
} Loop;

/* args.c */
double number_of(PyObject *value, const char *name);
int time_of(PyObject *value, const char *name, int64_t *ns);
const char *text_of(PyObject *value, const char *what);
const char *name_of(const struct state *state, PyObject *name);
PyObject *seconds_of(int64_t ns);
bool word_is(const struct state *state, PyObject *name, enum word word);
int unknown_word(const char *function, PyObject *name);
int key_bytes(PyObject *key, const char **bytes, Py_ssize_t *len);

/* errors.c: each sets the exception and returns NULL */
PyObject *fail_code(const struct state *state, int code, const struct lockshm_error *error, PyObject *key);
/* An exception is set; no code of the library. */
enum { INTERRUPTED = -1000 };
int wait_for_outcome(lockshm_loop_t *loop, lockshm_hold_t *hold);
PyObject *fail_hold(const Lock *lock, int code, const lockshm_hold_t *hold, uint64_t token);
PyObject *fail_request(const Lock *lock, int code, int64_t timeout_ns, const struct lockshm_report *report);
PyObject *fail_not_held(const Lock *lock);
PyObject *explain_holder(PyObject *module, PyObject *args);
PyObject *holder_of(const struct state *state, const struct lockshm_blocker *blocker);
void log_hold(const Lock *lock, const char *event, const lockshm_hold_t *hold, uint64_t token);

/* create.c */
int policy_of(PyObject *value);
PyObject *option_kinds(void);
int create_arguments(const struct state *state, PyObject *args, PyObject *kwargs, struct create_arguments *out);

/* segment_type.c */
lockshm_loop_t *segment_loop(Segment *segment);
lockshm_loop_t *segment_take_loop(Segment *segment);
void segment_give_loop(Segment *segment, lockshm_loop_t *loop);
void segment_forget_loops(Segment *segment);
int segment_check(const Segment *segment);
bool key_is_held(Segment *segment, const void *key, size_t len, int *error);
extern PyType_Spec segment_spec;

/* lock.c */
PyObject *lock_new(Segment *segment, int mode, PyObject *const *args, Py_ssize_t n, PyObject *names);
extern PyType_Spec lock_spec;
extern PyType_Spec many_spec;

/* node.c */
struct node *node_take(Lock *lock);
void node_free(Lock *lock, struct node *node);
int node_enter(Lock *lock, struct node *node, PyObject *task, bool in_loop, int status);
void forget_foreign(Lock *lock);
struct node *node_of(Lock *lock, const PyObject *task);
struct node *lock_node(Lock *lock);
struct node *lock_node_numbered(Lock *lock, uint64_t number);
int lock_reenter(Lock *lock, PyObject *task);
int owner_of(const Lock *lock, PyObject **task);

/* acquire.c */
int acquire_args(const Lock *lock, PyObject *const *args, Py_ssize_t n, PyObject *names, struct acquire_args *out);
int acquire_as(Lock *lock, const struct acquire_args *how);
PyObject *lock_acquire(Lock *lock, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* release.c */
int lock_release_node(Lock *lock, struct node *node, int64_t cooldown_ns, bool quiet);
PyObject *lock_release(Lock *lock, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *lock_release_save(Lock *lock, PyObject *unused);
PyObject *lock_acquire_restore(Lock *lock, PyObject *count);
PyObject *lock_is_owned(Lock *lock, PyObject *unused);
void lock_drop(Lock *lock);

/* hold.c */
PyObject *hold_check(Lock *lock, PyObject *unused);
PyObject *hold_renew(Lock *lock, PyObject *const *args, Py_ssize_t n);
PyObject *hold_extend(Lock *lock, PyObject *seconds);
PyObject *hold_upgrade(Lock *lock, PyObject *unused);
PyObject *hold_downgrade(Lock *lock, PyObject *unused);
PyObject *hold_acknowledge(Lock *lock, PyObject *unused);
PyObject *hold_notify(Lock *lock, PyObject *const *args, Py_ssize_t n);
PyObject *hold_tell_lost(Lock *lock, PyObject *unused);
PyObject *hold_get_held(Lock *lock, void *unused);
PyObject *hold_get_local_only(Lock *lock, void *unused);
PyObject *hold_get_token(Lock *lock, void *unused);
PyObject *hold_get_remaining(Lock *lock, void *unused);
PyObject *hold_get_damage(Lock *lock, void *unused);

/* loop.c */
extern PyType_Spec loop_spec;
extern PyType_Spec wait_spec;

#endif
