/* SPDX-License-Identifier: MIT */
/* list.h - a listing in progress: list.c begins and ends it, list-keys.c fills the rows of keys */
#ifndef LOCKSHM_API_LIST_H
#define LOCKSHM_API_LIST_H

#include "lock/snapshot.h"
#include "segment/segment.h"

/* What a row has of one request. */
struct listed_request {
	struct lockshm_blocker request;
	int alive;
	int global;
};

/* What a row has of one segment. */
struct listed_segment {
	char name[LOCKSHM_NAME_MAX + 2];
	uid_t uid;
	gid_t gid;
	mode_t permissions;
};

struct lockshm_list {
	uint64_t magic;
	struct lockshm *s; /* NULL for segments */
	int what;
	uint32_t at;       /* the next entry, owner slot or segment */
	/* Keys: which ones, and the one whose requests are being listed. */
	unsigned char key[LOCKSHM_KEY_SHOWN_MAX]; /* beginning */
	size_t key_len;
	struct identity id; /* LOCKSHM_LIST_KEY */
	struct snapshot snap;
	struct lockshm_row row;
	struct listed_request *requests; /* oldest first */
	uint32_t room, n;
	uint32_t next; /* twice through @requests: holders, then waiters */
	/* Segments. */
	struct listed_segment *segments;
	uint32_t segments_room, n_segments;
};

/* The next key, or request for it, into list->row.  1, 0 at the end, LOCKSHM_NO_MEMORY. */
MUST_CHECK int list_next_key(struct lockshm_list *list);

#endif
