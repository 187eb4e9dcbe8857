/* SPDX-License-Identifier: MIT */
/*
 * list.c - listings: of keys and their queues (list-keys.c), of the threads that take part, of segments
 *
 * What a listing needs is in memory of its own between two calls: no lock, no descriptor, no place in the segment.
 */
#include "api/list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lock/participant.h"
#include "lock/queue.h"
#include "segment/registry.h"
#include "sys/hash.h"
#include "sys/sized.h"

#define LIST_MAGIC UINT64_C(0x7473696c206b636f)

/* ---------------------------------------------------------------- owners */

static bool fill_owner(const struct lockshm *s, uint32_t slot, struct lockshm_row *row)
{
	const struct shm_owner *o = &s->owners[slot];
	uint64_t c = load_acquire(&o->control);
	struct request_ref ref = ref_unpack(load_relaxed(&o->waiting));
	const struct shm_request *r = request_at(s, ref.index);
	struct owner_identity who = owner_identity(s, owner_ref(control_gen(c), slot));

	if (control_state(c) < OWNER_ACTIVE || who.pid == 0)
		return false;
	memset(row, 0, sizeof(*row));
	row->request.pid = who.pid;
	row->request.tid = who.tid;
	memcpy(row->request.name, who.name, sizeof(row->request.name));
	row->alive = !owner_slot_is_dead(s, slot, c);
	row->exact = (load_relaxed32(&o->flags) & OWNER_EXACT) != 0;
	row->start_time = load_relaxed(&o->start_time);
	if (r && word_gen(load_acquire(&r->word)) == ref.gen)
		row->request.ticket = segment_token(s, ticket_of(load_relaxed(&r->ticket)));
	return true;
}

static int next_owner(struct lockshm_list *list)
{
	while (list->at < list->s->n_owners)
		if (fill_owner(list->s, list->at++, &list->row))
			return 1;
	return 0;
}

/* ---------------------------------------------------------------- segments */

/* Does the file begin like a segment?  One that cannot be read need not be one.  Other files in /dev/shm are skipped. */
static bool looks_like_segment(const char *path)
{
	uint64_t magic = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return errno != ENOENT && errno != ELOOP && errno != EACCES && errno != EPERM;
	n = read(fd, &magic, sizeof(magic));
	close(fd);
	return n < 0 || (n == (ssize_t)sizeof(magic) && magic == SHM_MAGIC);
}

static int add_segment(struct lockshm_list *list, const char *name, const struct stat *st)
{
	struct listed_segment *more, *new;

	if (list->n_segments == list->segments_room) {
		more = realloc(list->segments, (list->segments_room + 16) * sizeof(*more));
		if (!more)
			return LOCKSHM_NO_MEMORY;
		list->segments = more;
		list->segments_room += 16;
	}
	new = &list->segments[list->n_segments++];
	memset(new, 0, sizeof(*new));
	memcpy(new->name, name, strlen(name));
	new->uid = st->st_uid;
	new->gid = st->st_gid;
	new->permissions = st->st_mode & 07777;
	return 0;
}

static int visit_file(struct lockshm_list *list, const char *file)
{
	char name[LOCKSHM_NAME_MAX + 2], path[LOCKSHM_NAME_MAX + 16];
	struct stat st;

	if (!segment_name(name, file))
		return 0;
	segment_path(path, name);
	if (lstat(path, &st) != 0)
		return errno == ENOENT ? 0 : LOCKSHM_SYSTEM;
	return S_ISREG(st.st_mode) && looks_like_segment(path) ? add_segment(list, name, &st) : 0;
}

/* All at once: a descriptor that stayed open until the end could be closed by the program meanwhile. */
static int find_segments(struct lockshm_list *list)
{
	struct dirent *entry;
	DIR *dir = opendir("/dev/shm");
	int err = 0;

	if (!dir)
		return LOCKSHM_SYSTEM;
	for (errno = 0; !err && (entry = readdir(dir)) != NULL; errno = 0)
		err = visit_file(list, entry->d_name);
	/* Not the end, but an error in between: a list that lacks segments must not look complete. */
	if (!err && errno)
		err = LOCKSHM_SYSTEM;
	closedir(dir);
	return err;
}

static int next_segment(struct lockshm_list *list)
{
	const struct listed_segment *next;

	if (list->at == list->n_segments)
		return 0;
	next = &list->segments[list->at++];
	memset(&list->row, 0, sizeof(list->row));
	memcpy(list->row.segment, next->name, sizeof(next->name));
	list->row.uid = next->uid;
	list->row.gid = next->gid;
	list->row.permissions = next->permissions;
	return 1;
}

/* ---------------------------------------------------------------- begin, go on, end */

static int check_arguments(const struct lockshm *s, int what, const void *key, size_t key_len)
{
	if (what < LOCKSHM_LIST_KEY || what > LOCKSHM_LIST_SEGMENTS || (key ? key_len == 0 : key_len != 0))
		return LOCKSHM_INVALID;
	if (what == LOCKSHM_LIST_SEGMENTS)
		return s || key ? LOCKSHM_INVALID : 0;
	if (!segment_valid(s) || (what == LOCKSHM_LIST_KEY && !key) || (what == LOCKSHM_LIST_OWNERS && key))
		return LOCKSHM_INVALID;
	return key_len > (what == LOCKSHM_LIST_KEY ? LOCKSHM_KEY_MAX : LOCKSHM_KEY_SHOWN_MAX) ? LOCKSHM_KEY_TOO_LONG : 0;
}

/* The reference to the segment is the listing's, until it is closed. */
static int begin(struct lockshm_list *list, struct lockshm *s, const void *key, size_t key_len)
{
	if (list->what == LOCKSHM_LIST_SEGMENTS)
		return find_segments(list);
	if (!process_ref_segment(s))
		return LOCKSHM_INVALID;
	list->s = s;
	list->key_len = key_len;
	if (key)
		memcpy(list->key, key, key_len < sizeof(list->key) ? key_len : sizeof(list->key));
	if (list->what == LOCKSHM_LIST_KEY)
		hash_key(&list->id, s->hash_secret, key, key_len);
	return snapshot_init(&list->snap) ? 0 : LOCKSHM_NO_MEMORY;
}

LOCKSHM_EXPORT int lockshm_list_open(lockshm_list_t **out, lockshm_t *segment, int what, const void *key, size_t key_len)
{
	struct lockshm_list *list;
	int err;

	if (!out)
		return LOCKSHM_INVALID;
	*out = NULL;
	err = check_arguments(segment, what, key, key_len);
	if (err)
		return err;
	list = calloc(1, sizeof(*list));
	if (!list)
		return LOCKSHM_NO_MEMORY;
	list->magic = LIST_MAGIC;
	list->what = what;
	err = begin(list, segment, key, key_len);
	if (err)
		lockshm_list_close(list);
	else
		*out = list;
	return err;
}

LOCKSHM_EXPORT int lockshm_list_next(lockshm_list_t *list, struct lockshm_row *row)
{
	int found;

	if (!list || list->magic != LIST_MAGIC || !row || !sized_good(row, ROW_SIZE_0_1))
		return LOCKSHM_INVALID;
	found = list->what == LOCKSHM_LIST_SEGMENTS ? next_segment(list) :
		list->what == LOCKSHM_LIST_OWNERS   ? next_owner(list) :
						      list_next_key(list);
	if (found == 1)
		sized_out(row, &list->row, sizeof(list->row));
	return found;
}

LOCKSHM_EXPORT void lockshm_list_close(lockshm_list_t *list)
{
	if (!list || list->magic != LIST_MAGIC)
		return;
	list->magic = 0;
	if (list->s)
		segment_unref(list->s);
	snapshot_free(&list->snap);
	free(list->requests);
	free(list->segments);
	free(list);
}
