/* SPDX-License-Identifier: MIT */
/*
 * create.c - names, plan and making of a segment; removing it is in segment/remove.c
 *
 * A segment is made without a name (O_TMPFILE), gets all its memory (posix_fallocate: a full /dev/shm is an error now
 * and not SIGBUS later), its header and the creator's mapping, and is then linked into place: nothing after that fails,
 * and a creation that fails leaves nothing.  Crash points:
 *   (1) before the link: the kernel frees the nameless file
 *   (2) after it: a segment without a token base, which the next opener fills in (segment/map.c)
 *   (3) after that: a complete segment
 */
#define _GNU_SOURCE
#include "segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "segment/process.h"
#include "sys/error.h"
#include "sys/futex.h"
#include "sys/hash.h"

#define SHM_DIR "/dev/shm"

bool segment_name(char out[LOCKSHM_NAME_MAX + 2], const char *name)
{
	size_t i, len;

	if (!name)
		return false;
	if (*name == '/')
		name++;
	len = strlen(name);
	if (len == 0 || len > LOCKSHM_NAME_MAX || name[0] == '.')
		return false;
	for (i = 0; i < len; i++) {
		char c = name[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
		      c == '_' || c == '-'))
			return false;
	}
	out[0] = '/';
	memcpy(out + 1, name, len + 1);
	return true;
}

int segment_bad_name(struct lockshm_error *error)
{
	return error_set(error, LOCKSHM_INVALID,
			 "not a segment name: 1 to %d letters, digits, '.', '_', '-', not beginning with '.'",
			 LOCKSHM_NAME_MAX);
}

void segment_path(char out[LOCKSHM_NAME_MAX + 16], const char *name)
{
	size_t len = strnlen(name, LOCKSHM_NAME_MAX + 1);

	/* Without stdio, which would be the first to touch its pages in a worker that attaches. */
	memcpy(out, SHM_DIR, sizeof(SHM_DIR) - 1);
	memcpy(out + sizeof(SHM_DIR) - 1, name, len);
	out[sizeof(SHM_DIR) - 1 + len] = '\0';
}

uint64_t segment_layout(void)
{
	static const uint32_t sizes[] = {
		sizeof(struct shm_header), sizeof(struct shm_owner), sizeof(struct shm_bucket),
		sizeof(struct shm_entry),
		sizeof(struct shm_request), sizeof(struct shm_detail), sizeof(struct shm_damage), INDEX_BITS, GEN_BITS, CLAIM_BITS, SLOT_BITS,
		WINDOW, BUCKET_SPAN, OWNER_COUNTERS, LIFE_BYTES, TAG_WORDS, DAMAGE_TAG_WORDS, KEY_SHOWN_WORDS,
		sizeof(struct shm_bridge), sizeof(struct shm_host_lease), sizeof(struct shm_redis), FENCE_LEFT_BITS,
	};

	return hash_plain(sizes, sizeof(sizes));
}

uint64_t segment_check(const struct shm_header *h)
{
	return hash_plain(h, offsetof(struct shm_header, check)) ^ hash_plain(h->hash_secret, sizeof(h->hash_secret)) ^
	       hash_plain(&h->redis, sizeof(h->redis));
}

static uint64_t page_align(uint64_t n)
{
	return (n + 4095) & ~UINT64_C(4095);
}

/* A few keys of a segment have a damage mark at a time. */
#define LOCKS_PER_DAMAGE 32u
#define DAMAGES_MIN 64u

uint64_t segment_plan(struct shm_header *h)
{
	uint64_t at = sizeof(*h);

	h->n_damages = h->n_locks / LOCKS_PER_DAMAGE;
	if (h->n_damages < DAMAGES_MIN)
		h->n_damages = DAMAGES_MIN;
	h->owners_off = at;
	at = page_align(at + (uint64_t)h->n_owners * sizeof(struct shm_owner));
	h->lives_off = at;
	at += (uint64_t)h->n_owners * LIFE_BYTES;
	h->buckets_off = at;
	at = page_align(at + (uint64_t)h->n_buckets * sizeof(struct shm_bucket));
	h->tags_off = at;
	/* A window may run over the end; it wraps, so no padding is needed. */
	at = page_align(at + (uint64_t)h->n_locks * sizeof(uint16_t));
	h->entries_off = at;
	at = page_align(at + (uint64_t)h->n_locks * sizeof(struct shm_entry));
	h->details_off = at;
	at = page_align(at + (uint64_t)h->n_locks * sizeof(struct shm_detail));
	h->damages_off = at;
	at = page_align(at + (uint64_t)h->n_damages * sizeof(struct shm_damage));
	h->requests_off = at;
	at = page_align(at + ((uint64_t)h->n_requests + 1) * sizeof(struct shm_request));
	h->bridge_off = h->n_host_leases ? at : 0;
	if (h->n_host_leases)
		at = page_align(at + sizeof(struct shm_bridge) +
				(uint64_t)h->n_host_leases * sizeof(struct shm_host_lease));
	h->total_size = at;
	return at;
}

static void read_boot_id(unsigned char out[16])
{
	char text[40];
	ssize_t n = -1;
	int i, at = 0, fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	memset(out, 0, 16);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n < 36)
		return;
	text[n] = '\0';
	for (i = 0; i < 16; i++) {
		unsigned byte;

		if (text[at] == '-')
			at++;
		if (sscanf(text + at, "%2x", &byte) != 1)
			return;
		out[i] = (unsigned char)byte;
		at += 2;
	}
}

void segment_boot_id(unsigned char out[16])
{
	/* The same for the whole kernel run, so it is read once; threads that read it at the same time find the
	 * same. */
	static uint64_t known, words[2];
	uint64_t found[2];

	if (load_acquire(&known)) {
		found[0] = load_relaxed(&words[0]);
		found[1] = load_relaxed(&words[1]);
		memcpy(out, found, 16);
		return;
	}
	read_boot_id(out);
	memcpy(found, out, 16);
	if (!found[0] && !found[1])
		return; /* /proc may be there the next time */
	store_relaxed(&words[0], found[0]);
	store_relaxed(&words[1], found[1]);
	store_release(&known, 1);
}

static void size_tables(struct shm_header *h, const struct lockshm_create_options *o)
{
	uint32_t per_owner = o->requests / o->owners;

	h->n_owners = o->owners;
	h->chunk_size = per_owner < 1 ? 1 : per_owner > 8 ? 8 : per_owner;
	h->n_chunks = (o->requests + h->chunk_size - 1) / h->chunk_size;
	if ((uint64_t)h->n_chunks * h->chunk_size > INDEX_MAX)
		h->n_chunks--;
	h->n_requests = h->n_chunks * h->chunk_size;
	h->n_locks = locks_slots(o->keys);
	h->n_buckets = h->n_locks / BUCKET_SPAN;
	h->n_host_leases = o->redis[0] ? o->host_leases : 0;
	segment_plan(h);
}

static int fill_header(struct shm_header *h, const struct lockshm_create_options *o, const struct shm_redis *redis,
		       struct lockshm_error *error)
{
	struct timespec ts;

	if (getrandom(h->id, sizeof(h->id), 0) != sizeof(h->id) ||
	    getrandom(h->hash_secret, sizeof(h->hash_secret), 0) != sizeof(h->hash_secret))
		return error_system(error, LOCKSHM_SYSTEM, errno, "getrandom");
	clock_gettime(CLOCK_REALTIME, &ts);
	h->created_unix_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	h->token_floor = o->token_floor;
	segment_boot_id(h->boot_id);
	h->magic = SHM_MAGIC;
	h->format = SHM_FORMAT;
	h->canary = SHM_CANARY;
	h->layout = segment_layout();
	h->feature_incompat = FEATURE_DOORBELLS;
	h->state = SEGMENT_READY;
	h->redis = *redis;
	h->check = segment_check(h);
	return 0;
}

static int write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int no_room(int e, int fd, uint64_t size, struct lockshm_error *error)
{
	char what[128];
	struct statvfs fs;

	/* ENOMEM is about something else than the file system: the memory of the machine, or of a control group. */
	if (e == ENOSPC && fstatvfs(fd, &fs) == 0)
		snprintf(what, sizeof(what), "no room in " SHM_DIR ": the segment needs %llu bytes, and %llu are free",
			 (unsigned long long)size, (unsigned long long)fs.f_bavail * fs.f_frsize);
	else
		snprintf(what, sizeof(what), "no room in " SHM_DIR " for the segment's %llu bytes",
			 (unsigned long long)size);
	return error_system(error, LOCKSHM_NO_MEMORY, e, what);
}

static int reserve(int fd, uint64_t size, struct lockshm_error *error)
{
	struct rlimit limit;
	int e;

	/* Checked first: going past the limit would send SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < size)
		return error_set(error, LOCKSHM_NO_MEMORY,
				 "the file size limit (ulimit -f) is below the segment's %llu bytes",
				 (unsigned long long)size);
	do
		e = posix_fallocate(fd, 0, (off_t)size);
	while (e == EINTR);
	if (e == ENOSPC || e == ENOMEM)
		return no_room(e, fd, size, error);
	return e ? error_system(error, LOCKSHM_SYSTEM, e, "posix_fallocate") : 0;
}

static int set_access(int fd, const struct lockshm_create_options *o, struct lockshm_error *error)
{
	if (o->group != (gid_t)-1 && fchown(fd, (uid_t)-1, o->group) != 0)
		return error_system(error, LOCKSHM_PERMISSION, errno, "cannot give the segment to that group");
	/* After fchown, and by fchmod: not subject to the umask. */
	if (fchmod(fd, o->permissions) != 0)
		return error_system(error, LOCKSHM_SYSTEM, errno, "fchmod");
	return 0;
}

int segment_refused(int e, const char *what, struct lockshm_error *error)
{
	char text[sizeof(error->message)];

	switch (e) {
	case EROFS:
		snprintf(text, sizeof(text), "%s: mount " SHM_DIR " writable here", what);
		return error_system(error, LOCKSHM_PERMISSION, e, text);
	case EMFILE:
		snprintf(text, sizeof(text), "%s: close files, or raise their limit (ulimit -n)", what);
		return error_system(error, LOCKSHM_SYSTEM, e, text);
	case EACCES:
		return error_system(error, LOCKSHM_PERMISSION, e, what);
	case ENOSPC:
	case EDQUOT:
	case ENOMEM:
		return error_system(error, LOCKSHM_NO_MEMORY, e, what);
	default:
		return error_system(error, LOCKSHM_SYSTEM, e, what);
	}
}

static int publish(int fd, const char *name, struct lockshm_error *error)
{
	char from[40], to[LOCKSHM_NAME_MAX + 16];

	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	segment_path(to, name);
	if (linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	if (errno == EEXIST)
		return error_set(error, LOCKSHM_EXISTS, "segment %s exists already", name);
	return segment_refused(errno, "cannot name a file in " SHM_DIR, error);
}

/* A file without a name, otherwise complete. */
static int create_file(int *out, const struct lockshm_create_options *o, const struct shm_redis *redis,
		       struct lockshm_error *error)
{
	static const struct shm_header blank;
	struct shm_header h = blank;
	int err, fd = open(SHM_DIR, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0 && errno == ENOENT)
		return error_system(error, LOCKSHM_SYSTEM, errno, "no " SHM_DIR " here, mount a tmpfs there");
	if (fd < 0)
		return segment_refused(errno, "cannot make a file in " SHM_DIR, error);
	size_tables(&h, o);
	err = fill_header(&h, o, redis, error);
	if (!err)
		err = reserve(fd, h.total_size, error);
	if (!err && write_all(fd, &h, sizeof(h)) != 0)
		err = error_system(error, LOCKSHM_SYSTEM, errno, "write");
	if (!err)
		err = set_access(fd, o, error);
	if (err) {
		close(fd);
		return err;
	}
	*out = fd;
	return 0;
}

/* Everything that can fail comes before the name; and if the name is taken nothing of the new segment stays. */
int segment_create(struct lockshm **out, const char *name, const struct lockshm_create_options *o,
		   const struct shm_redis *redis, struct lockshm_error *error)
{
	struct lockshm *s = NULL;
	int fd, err = create_file(&fd, o, redis, error);

	if (err)
		return err;
	err = segment_map(&s, fd, name, 0, error);
	if (!err)
		err = publish(fd, name, error);
	if (!err && !segment_start_tokens(s, fd))
		err = error_set(error, LOCKSHM_NO_SEGMENT, "segment %s has just been removed", name);
	close(fd);
	if (!err)
		*out = segment_register(s);
	else if (s)
		segment_abandon(s);
	return err;
}
