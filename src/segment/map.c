/* SPDX-License-Identifier: MIT */
/*
 * map.c - mapping an existing segment after checking everything about it
 *
 * The file may be anything: another user's, cut short, of a newer library, written at random.  The checks go from the
 * outside in (owner, type, size, identity, version, capacities, offsets), and the capacities that pass are copied, so
 * that a later change of the header misleads no process.
 */
#define _GNU_SOURCE
#include "segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "segment/process.h"
#include "sys/error.h"

/* What to do about a segment that no library can use. */
#define REMOVE "; end its processes, and lockctl rm removes it"
#define FOREIGN "; choose another segment name, or remove the file if it is yours"

static int check_identity(const struct shm_header *h, struct lockshm_error *error)
{
	if (h->canary != SHM_CANARY)
		return error_set(error, LOCKSHM_VERSION, "made on a machine of another byte order" REMOVE);
	if (h->format != SHM_FORMAT)
		return error_set(error, LOCKSHM_VERSION,
				 "segment format %u, this library knows %u: remove the segment or use the same version",
				 h->format, SHM_FORMAT);
	if (h->layout != segment_layout())
		return error_set(error, LOCKSHM_VERSION, "made by a library built with another record layout" REMOVE);
	if (h->feature_incompat & ~FEATURE_DOORBELLS)
		return error_set(error, LOCKSHM_VERSION, "uses features this library does not know (0x%llx): remove the segment or use the same "
				 "version",
				 (unsigned long long)(h->feature_incompat & ~FEATURE_DOORBELLS));
	if (h->check != segment_check(h))
		return error_set(error, LOCKSHM_BAD_SEGMENT, "header damaged (check word differs)" REMOVE);
	return 0;
}

/* On a copy of the header: segment_plan() writes some of what is before the check word. */
static int check_geometry(struct shm_header *h, uint64_t file_size, struct lockshm_error *error)
{
	unsigned char found[offsetof(struct shm_header, check)];

	if (h->n_owners < 1 || h->n_owners > 1u << 20 || h->chunk_size < 1 || h->chunk_size > 8 || h->n_chunks < 1 ||
	    h->n_chunks > INDEX_MAX || h->n_requests != h->n_chunks * h->chunk_size || h->n_requests > INDEX_MAX ||
	    h->n_buckets < 8 || h->n_buckets > (1u << SLOT_BITS) / BUCKET_SPAN ||
	    h->n_locks != h->n_buckets * BUCKET_SPAN || h->n_host_leases > HOST_LEASES_MAX)
		return error_set(error, LOCKSHM_BAD_SEGMENT, "impossible capacities in the header" REMOVE);
	memcpy(found, h, sizeof(found));
	segment_plan(h);
	if (memcmp(found, h, sizeof(found)) != 0)
		return error_set(error, LOCKSHM_BAD_SEGMENT, "impossible offsets in the header" REMOVE);
	if (file_size < h->total_size)
		return error_set(error, LOCKSHM_BAD_SEGMENT, "truncated: %llu of %llu bytes" REMOVE,
				 (unsigned long long)file_size, (unsigned long long)h->total_size);
	return 0;
}

static int check_boot(const struct shm_header *h, struct lockshm_error *error)
{
	static const unsigned char unknown[16];
	unsigned char boot[16];

	segment_boot_id(boot);
	if (memcmp(h->boot_id, unknown, 16) == 0 || memcmp(boot, unknown, 16) == 0 || memcmp(h->boot_id, boot, 16) == 0)
		return 0;
	return error_set(error, LOCKSHM_BAD_SEGMENT, "left over from another boot of the machine" REMOVE);
}

static int check_file(const struct stat *st, unsigned flags, struct lockshm_error *error)
{
	if (!S_ISREG(st->st_mode))
		return error_set(error, LOCKSHM_BAD_SEGMENT, "not a regular file" FOREIGN);
	if (!(flags & LOCKSHM_OPEN_ANY_OWNER) && st->st_uid != 0 && st->st_uid != geteuid())
		return error_set(error, LOCKSHM_PERMISSION,
				 "owned by uid %u, neither you nor root, so it is not trusted", (unsigned)st->st_uid);
	return 0;
}

static void take_geometry(struct lockshm *s, const struct shm_header *h, unsigned char *base)
{
	s->header = (struct shm_header *)(void *)base;
	s->owners = (struct shm_owner *)(void *)(base + h->owners_off);
	s->lives = base + h->lives_off;
	s->buckets = (struct shm_bucket *)(void *)(base + h->buckets_off);
	s->tags = (uint16_t *)(void *)(base + h->tags_off);
	s->entries = (struct shm_entry *)(void *)(base + h->entries_off);
	s->details = (struct shm_detail *)(void *)(base + h->details_off);
	s->damages = (struct shm_damage *)(void *)(base + h->damages_off);
	s->requests = (struct shm_request *)(void *)(base + h->requests_off);
	s->n_owners = h->n_owners;
	s->n_chunks = h->n_chunks;
	s->chunk_size = h->chunk_size;
	s->n_requests = h->n_requests;
	s->n_buckets = h->n_buckets;
	s->n_locks = h->n_locks;
	s->n_damages = h->n_damages;
	s->n_host_leases = h->n_host_leases;
	s->has_doorbells = h->feature_incompat & FEATURE_DOORBELLS;
	if (h->n_host_leases) {
		s->bridge = (struct shm_bridge *)(void *)(base + h->bridge_off);
		s->host_leases = (struct shm_host_lease *)(void *)(base + h->bridge_off + sizeof(struct shm_bridge));
		s->redis = h->redis;
		s->redis.global_keys[GLOBAL_KEYS_BYTES - 1] = '\0';
	}
	memcpy(s->hash_secret, h->hash_secret, sizeof(s->hash_secret));
	memcpy(&s->number, h->id, sizeof(s->number));
	s->size = h->total_size;
}

/* Tokens count from this time, in sixteenths of a microsecond: a new segment starts above every token of an older one
 * as long as no key was granted 16 million times a second on average, and tokens stay below 2^53 until 2042. */
#define TOKEN_EPOCH_UNIX_S 1735689600 /* 2025-01-01 */
#define TOKENS_PER_US 16

static uint64_t token_base_now(void)
{
	struct timespec ts;
	uint64_t us;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (ts.tv_sec < TOKEN_EPOCH_UNIX_S)
		return 1; /* 0 = not set */
	us = (uint64_t)(ts.tv_sec - TOKEN_EPOCH_UNIX_S) * 1000000 + (uint64_t)ts.tv_nsec / 1000;
	return us * TOKENS_PER_US;
}

/*
 * The first opener, as a rule the creator, sets the token base: from a clock that was read while the file had its name.
 * Older segments of that name had lost it by then, so their tokens are smaller; newer ones read the clock later.  Set
 * before the link it would be as old as a creator that was stopped there.
 */
bool segment_start_tokens(struct lockshm *s, int fd)
{
	uint64_t high_water = load_relaxed(&s->header->token_floor), base;
	struct stat st;

	if (load_relaxed(&s->header->token_base) == 0) {
		base = token_base_now();
		/* After the clock: the file had its name until then.  A filter that refuses fstat() takes no name
		 * away. */
		if (fstat(fd, &st) == 0 && st.st_nlink == 0)
			return false;
		(void)cas_from(&s->header->token_base, 0, base > high_water ? base : high_water);
	}
	s->token_base = load_relaxed(&s->header->token_base);
	return true;
}

static struct lockshm *handle_new(const struct shm_header *h, unsigned char *base, const struct stat *st,
				  const char *name, unsigned flags, int fd, int64_t clock_offset,
				  uint64_t clock_ns)
{
	struct lockshm *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->seen = process_reserve();
	if (!s->seen) {
		free(s);
		return NULL;
	}
	take_geometry(s, h, base);
	s->token_base = load_relaxed(&s->header->token_base);
	s->clock_ns = clock_ns;
	s->boot_lost = s->n_host_leases && !clock_boottime_offset(&s->boot_offset);
	s->tick = clock_tick();
	segment_set_clock(s, clock_offset);
	s->read_only = flags & LOCKSHM_OPEN_READ_ONLY;
	if (!descriptor_duplicate(&s->file, fd, 3)) {
		s->file.dev = st->st_dev;
		s->file.ino = st->st_ino;
	}
	s->refs = 1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->starting, NULL);
	strcpy(s->name, name);
	CDS_INIT_LIST_HEAD(&s->all);
	CDS_INIT_LIST_HEAD(&s->parts);
	s->magic = SEGMENT_MAGIC;
	return s;
}

/* Read the header without mapping it: a file cut short at this moment is a short read, not a signal. */
static int read_header(struct shm_header *h, int fd, struct lockshm_error *error)
{
	ssize_t n = pread(fd, h, sizeof(*h), 0);

	if (n < 0)
		return error_system(error, LOCKSHM_SYSTEM, errno, "cannot read the segment's header");
	if (!segment_begins(h, (size_t)n))
		return error_set(error, LOCKSHM_BAD_SEGMENT, "not a lockshm segment (wrong magic)" FOREIGN);
	if (n != (ssize_t)sizeof(*h))
		return error_set(error, LOCKSHM_BAD_SEGMENT, "truncated: %zd bytes are less than a header" REMOVE, n);
	return 0;
}

static int unknown_clock(int e, struct lockshm_error *error)
{
	static const char text[] = "cannot tell this process' time namespace (open files exhausted, or unshared by itself)";

	return e ? error_system(error, LOCKSHM_SYSTEM, e, text) : error_set(error, LOCKSHM_SYSTEM, text);
}

/* What an open finds out about a file before it maps it. */
struct checked {
	struct shm_header header;
	struct stat st;
	int64_t clock_offset;
	uint64_t clock_ns;
};

static int check_state(const struct shm_header *h, const char *name, struct lockshm_error *error)
{
	if (h->state == SEGMENT_READY)
		return 0;
	if (h->state == SEGMENT_RETIRED)
		return error_set(error, LOCKSHM_NO_SEGMENT, "segment %s is being removed", name);
	return error_set(error, LOCKSHM_BAD_SEGMENT, "impossible state in the header" REMOVE);
}

/* All that makes an open fail, and for each open anew: the caller's rights or the file may have changed since. */
static int check_all(struct checked *c, int fd, const char *name, unsigned flags, struct lockshm_error *error)
{
	int err;

	if (fstat(fd, &c->st) != 0)
		return error_system(error, LOCKSHM_SYSTEM, errno, "cannot look at the segment's file");
	err = check_file(&c->st, flags, error);
	if (!err)
		err = read_header(&c->header, fd, error);
	if (!err)
		err = check_identity(&c->header, error);
	if (!err)
		err = check_geometry(&c->header, (uint64_t)c->st.st_size, error);
	if (!err)
		err = check_boot(&c->header, error);
	if (!err)
		err = check_state(&c->header, name, error);
	if (err)
		return err;
	errno = 0;
	return clock_namespace_offset(&c->clock_offset, &c->clock_ns) ? 0 : unknown_clock(errno, error);
}

/* EAGAIN: a process that locks all its memory locks a mapping with it. */
static int map_error(int e, uint64_t size, struct lockshm_error *error)
{
	bool locked = e == EAGAIN;
	struct rlimit limit;
	char what[160];

	if ((!locked && e != ENOMEM) || getrlimit(locked ? RLIMIT_MEMLOCK : RLIMIT_AS, &limit) != 0 ||
	    limit.rlim_cur == RLIM_INFINITY)
		snprintf(what, sizeof(what), "cannot map the segment's %llu bytes", (unsigned long long)size);
	else if (locked)
		snprintf(what, sizeof(what), "the process locks its memory, %llu bytes at most (ulimit -l), and the segment needs "
			 "%llu: raise the limit", (unsigned long long)limit.rlim_cur, (unsigned long long)size);
	else
		snprintf(what, sizeof(what), "the process has %llu bytes of address space (ulimit -v), and the segment needs "
			 "%llu: raise the limit", (unsigned long long)limit.rlim_cur, (unsigned long long)size);
	return error_system(error, locked || e == ENOMEM ? LOCKSHM_NO_MEMORY : LOCKSHM_SYSTEM, e, what);
}

static int map_checked(struct lockshm **out, const struct checked *c, int fd, const char *name, unsigned flags,
		       struct lockshm_error *error)
{
	int prot = flags & LOCKSHM_OPEN_READ_ONLY ? PROT_READ : PROT_READ | PROT_WRITE;
	uint64_t size = c->header.total_size;
	void *base = mmap(NULL, size, prot, MAP_SHARED, fd, 0);

	if (base == MAP_FAILED)
		return map_error(errno, size, error);
	/* Huge pages where the machine grants them to shared memory on advice; else a no-op. */
	(void)madvise(base, size, MADV_HUGEPAGE);
	*out = handle_new(&c->header, base, &c->st, name, flags, fd, c->clock_offset, c->clock_ns);
	if (!*out) {
		munmap(base, size);
		return error_system(error, LOCKSHM_NO_MEMORY, ENOMEM, "no memory for the handle");
	}
	return 0;
}

int segment_map(struct lockshm **out, int fd, const char *name, unsigned flags, struct lockshm_error *error)
{
	struct checked c;
	int err = check_all(&c, fd, name, flags, error);

	return err ? err : map_checked(out, &c, fd, name, flags, error);
}

static int open_error(int e, const char *name, struct lockshm_error *error)
{
	char what[LOCKSHM_NAME_MAX + 32];

	snprintf(what, sizeof(what), "cannot open segment %s", name);
	switch (e) {
	case ENOENT:
		return error_set(error, LOCKSHM_NO_SEGMENT,
				 "no segment %s: make it with lockshm_create() or lockctl create", name);
	case EPERM:
		return error_system(error, LOCKSHM_PERMISSION, e, what);
	case ELOOP:
		return error_set(error, LOCKSHM_PERMISSION, "%s is a symbolic link, which is never followed", name);
	default:
		return segment_refused(e, what, error);
	}
}

static int open_new(struct lockshm **out, const struct checked *c, int fd, const char *name, unsigned flags,
		    struct lockshm_error *error)
{
	struct lockshm *s = NULL;
	int err = map_checked(&s, c, fd, name, flags, error);

	if (err)
		return err;
	if (!s->read_only && !segment_start_tokens(s, fd)) {
		segment_abandon(s);
		return error_set(error, LOCKSHM_NO_SEGMENT, "segment %s has just been removed", name);
	}
	*out = segment_register(s);
	return 0;
}

int segment_open(struct lockshm **out, const char *name, unsigned flags, struct lockshm_error *error)
{
	bool read_only = flags & LOCKSHM_OPEN_READ_ONLY;
	char path[LOCKSHM_NAME_MAX + 16];
	struct checked c;
	uint64_t number;
	int fd, err;

	segment_path(path, name);
	/* O_NONBLOCK: a FIFO of that name must not block the open; it is refused as no regular file. */
	fd = open(path, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return open_error(errno, name, error);
	err = check_all(&c, fd, name, flags, error);
	if (!err) {
		memcpy(&number, c.header.id, sizeof(number));
		*out = process_open_again(&c.st, number, read_only, c.clock_ns);
		if (!*out)
			err = open_new(out, &c, fd, name, flags, error);
	}
	close(fd);
	return err;
}

/* By the number of names, not by a look-up: after chroot() the name would lead elsewhere. */
bool segment_has_name(const struct lockshm *s)
{
	char path[LOCKSHM_NAME_MAX + 16];
	struct stat st;

	if (descriptor_stat(&s->file, &st))
		return st.st_nlink > 0;
	segment_path(path, s->name);
	/* A look that fails for another reason proves nothing. */
	if (lstat(path, &st) != 0)
		return errno != ENOENT && errno != ENOTDIR;
	return st.st_dev == s->file.dev && st.st_ino == s->file.ino;
}

bool segment_is_gone(struct lockshm *s)
{
	struct stat st;

	if (segment_retired(s))
		return true;
	if (!descriptor_stat(&s->file, &st) || st.st_nlink > 0)
		return false;
	if (!s->read_only)
		(void)cas_from(&s->header->state, SEGMENT_READY, SEGMENT_RETIRED);
	return true;
}

static void unmap(struct lockshm *s)
{
	process_remove_segment(s);
	munmap(s->header, s->size);
	descriptor_close(&s->file);
	free(s->waits);
	free(s->barge_place);
	free(s->tends);
	pthread_mutex_destroy(&s->starting);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void unref(struct lockshm *s, bool own)
{
	struct renewals *idle = NULL;
	bool last;

	pthread_mutex_lock(&s->lock);
	s->own_refs -= own;
	last = --s->refs == 0;
	/* Closed, and no thread takes part but the library's own: the holds of the process end.  This reference stays
	 * until the service thread has left. */
	if (s->refs == s->own_refs && s->magic != SEGMENT_MAGIC && s->renewals) {
		idle = segment_take_service(s);
		s->refs++;
	}
	pthread_mutex_unlock(&s->lock);
	if (idle) {
		process_end_service(idle);
		segment_unref(s);
	}
	if (last)
		unmap(s);
}

void segment_unref(struct lockshm *s)
{
	unref(s, false);
}

void segment_unref_own(struct lockshm *s)
{
	unref(s, true);
}

void segment_abandon(struct lockshm *s)
{
	/* Under the lock, for segment_unref() of other threads. */
	pthread_mutex_lock(&s->lock);
	s->magic = 0;
	pthread_mutex_unlock(&s->lock);
	segment_unref(s);
}

struct lockshm *segment_register(struct lockshm *s)
{
	struct lockshm *handle = process_add_segment(s);

	if (handle != s)
		segment_abandon(s);
	return handle;
}
