/* SPDX-License-Identifier: MIT */
/* trample.h - every call with a hold of which one word was overwritten: no effect, and no word is trusted */
#ifndef LOCKSHM_TEST_TRAMPLE_H
#define LOCKSHM_TEST_TRAMPLE_H

#include "support/fixture.h"

/* The last kind of hold; used in messages. */
extern const char *trample_kind;

/*
 * @hold and @other are held by the calling thread in the segment `seg`, and not under the keys "spare" and "spares".
 * @earlier is the memory of a hold that was released.  Each word of @hold is overwritten alone, with every plausible
 * value, and each call made with it; @hold and @other must be held as before all the time.
 */
void trample(lockshm_hold_t *hold, const lockshm_hold_t *other, const lockshm_hold_t *earlier);

/* Every call but those that acquire, and those that read the caller's memory only, on memory that is no hold of the
 * caller: each returns NOT_HELD or INVALID.  @or_lost: LOST will do, for a former hold. */
void trample_says_not_held(lockshm_hold_t *hold, bool or_lost);

/* The values that may replace a word, in addition to those that depend on it; returns their number. */
#define TRAMPLE_VALUES 32
unsigned trample_values(uint64_t out[TRAMPLE_VALUES], const void *words, unsigned n_words, unsigned word);

#endif
