/* SPDX-License-Identifier: MIT */
/* request.c - the label and flags of a request record */
#include "lock/request.h"

#include <string.h>

#include "lock/tend.h"

void request_drop(struct participant *self, uint32_t index)
{
	struct shm_request *r = &self->segment->requests[index];

	if (unlikely(self->tending != NULL))
		tend_drop(self, index);

	/* Unreachable for other threads: a plain store by its owner. */
	store_release(&r->word, word_make(word_gen(load_relaxed(&r->word)), false, REQUEST_FREE, 0));
	self->free_request = index;
}

void request_set_extras(struct shm_request *r, const char *tag, uint32_t flags)
{
	char text[TAG_WORDS * 8] = { 0 };
	uint64_t words[TAG_WORDS];
	int i;

	if (!tag || !*tag) {
		store_relaxed32(&r->flags, flags);
		return;
	}
	memcpy(text, tag, strnlen(tag, LOCKSHM_TAG_MAX));
	memcpy(words, text, sizeof(words));
	for (i = 0; i < TAG_WORDS; i++)
		store_relaxed(&r->tag[i], words[i]);
	store_relaxed32(&r->flags, flags | REQUEST_HAS_TAG);
}

void request_tag(const struct shm_request *r, char out[LOCKSHM_TAG_MAX + 2])
{
	uint64_t words[TAG_WORDS] = { 0 };
	int i;

	if (load_relaxed32(&r->flags) & REQUEST_HAS_TAG)
		for (i = 0; i < TAG_WORDS; i++)
			words[i] = load_relaxed(&r->tag[i]);
	memcpy(out, words, sizeof(words));
	out[LOCKSHM_TAG_MAX] = '\0';
	out[LOCKSHM_TAG_MAX + 1] = '\0';
}
