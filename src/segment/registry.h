/* SPDX-License-Identifier: MIT */
/*
 * registry.h - the segments that this process has mapped, one handle for each
 *
 * A handle counts its opens: lockshm_open() of a segment that is open already returns the same one.  It is in the list
 * from the first open until it is unmapped, which may be long after the last close: threads that take part, and guests
 * (lock/guest.h), keep it.
 * Each loaded copy of the library has a registry of its own.
 */
#ifndef LOCKSHM_SEGMENT_REGISTRY_H
#define LOCKSHM_SEGMENT_REGISTRY_H

#include <sys/stat.h>

#include "segment/segment.h"

/* ---------------------------------------------------------------- opens and closes */

/* Reserve an entry in the list that process_sees_segment() walks; it is never freed, but used again.  NULL = no
 * memory. */
struct seen_segment *process_reserve(void);

/* The handle that has the file of @st, a segment with @number, open already, counted once more; NULL = none.  A
 * read-only handle stands for read-only opens alone, and one with the clock of another time namespace than @ns for none. */
struct lockshm *process_open_again(const struct stat *st, uint64_t number, bool read_only, uint64_t ns);

/* Add @s, whose entry is reserved, with a count of one.  If another thread was faster: returns that one's handle,
 * counted, and @s stays the caller's to abandon. */
struct lockshm *process_add_segment(struct lockshm *s);

enum process_close { CLOSE_OF_NONE, CLOSE_OF_ONE, CLOSE_OF_LAST };

/* Take one open back.  CLOSE_OF_NONE = no open handle; safe for any value.  CLOSE_OF_LAST: no open finds it any more,
 * and segment_abandon() is the caller's to call. */
enum process_close process_close_segment(const struct lockshm *wanted);

/* Before @s is unmapped, whether it was added or not. */
void process_remove_segment(struct lockshm *s);

/* ---------------------------------------------------------------- is this pointer a handle? */

/* Does this pointer lead to a segment that is mapped, be its handle open or closed?  Safe for any value. */
bool process_knows_segment(const struct lockshm *wanted);

/* The same without a lock, for signal handlers. */
bool process_sees_segment(const struct lockshm *wanted);

/* As process_knows_segment(), and keep it mapped until segment_unref(). */
bool process_ref_segment(struct lockshm *wanted);

/*
 * If @wanted is mapped: the result of @visit, which runs with the process-lock and the segment's lock held, so that
 * neither the mapping nor the service thread ends meanwhile; else false.  Safe for any value, and ends no thread.
 */
bool process_visit(struct lockshm *wanted, bool (*visit)(struct lockshm *s, void *arg), void *arg);

/* ---------------------------------------------------------------- for process.c */

/* The process-lock guards the list and the counts of opens, and is held around fork().  It comes before the locks of a
 * segment. */
void process_lock(void);
void process_unlock(void);
extern struct cds_list_head process_segments;

#endif
