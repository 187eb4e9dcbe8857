/* SPDX-License-Identifier: MIT */
/* fuzz-program.c - carrying out a program of the fuzzer, see fuzz.h */
#define _GNU_SOURCE
#include "fuzz.h"
#include "support/rows.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lock/participant.h"

char fuzz_name[64];

/* ---------------------------------------------------------------- one run */

#define HOLDS 8

struct run {
	unsigned char *image; /* of the file, until it is opened */
	size_t size;
	unsigned flags;
	int fd;
	lockshm_t *segment; /* NULL = not open */
	lockshm_hold_t holds[HOLDS];
	struct fuzz_loop loop;
	volatile unsigned sum; /* of all results, so that they are read */
};

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---------------------------------------------------------------- changes */

static uint32_t own_slot(const struct run *run)
{
	const struct participant *self = run->segment ? participant_find(run->segment) : NULL;

	return self ? self->slot : 0;
}

/* The @n-th record of the thread that runs the program; any if it has none. */
static uint32_t own_request(const struct run *run, uint32_t n)
{
	const struct participant *self = run->segment ? participant_find(run->segment) : NULL;
	uint32_t size = scene.geometry.chunk_size;

	return self && self->n_chunks ? self->chunks[0] * size + 1 + n % size : scene.requests[n % scene.geometry.n_requests];
}

/* Where a command's word lies in the file. */
static size_t place_of(const struct run *run, const struct fuzz_command *c)
{
	const struct lockshm *g = &scene.geometry;
	uint32_t owner = scene.owners[c->index % g->n_owners], entry = scene.entries[c->index % g->n_locks];
	const void *at;
	size_t record;

	switch (c->area) {
	case AREA_HEADER:
		at = g->header;
		record = sizeof(*g->header);
		break;
	case AREA_OWN:
		owner = own_slot(run);
		__attribute__((fallthrough));
	case AREA_OWNER:
		at = &g->owners[owner];
		record = sizeof(*g->owners);
		break;
	case AREA_OWN_LIFE:
		owner = own_slot(run);
		__attribute__((fallthrough));
	case AREA_LIFE: /* counted from the end, where the life word is */
		return (size_t)(g->lives - scene.image) + (owner + 1) * (size_t)LIFE_BYTES - 8 - c->word * 8u;
	case AREA_OWN_DOORBELL: /* of the service thread, if there is one */
		owner = run->segment ? owner_ref_slot(run->segment->process_ref) % g->n_owners : owner;
		__attribute__((fallthrough));
	case AREA_DOORBELL:
		return (size_t)(g->lives - scene.image) + owner * (size_t)LIFE_BYTES + DOORBELL_OFFSET +
		       c->word * 8u % sizeof(struct shm_doorbell);
	case AREA_BUCKET:
		at = &g->buckets[c->index < SCENE_KEYS ? entry / BUCKET_SPAN : c->index % g->n_buckets];
		record = sizeof(*g->buckets);
		break;
	case AREA_TAG:
		return (size_t)((unsigned char *)g->tags - scene.image) + (entry & ~3u) * sizeof(*g->tags);
	case AREA_ENTRY:
		at = &g->entries[entry];
		record = sizeof(*g->entries);
		break;
	case AREA_DETAIL:
		at = &g->details[entry];
		record = sizeof(*g->details);
		break;
	case AREA_DAMAGE: /* where the mark of that entry has its details first */
		at = &g->damages[entry % g->n_damages];
		record = sizeof(*g->damages);
		break;
	case AREA_REQUEST:
		at = &g->requests[scene.requests[c->index % g->n_requests]];
		record = sizeof(*g->requests);
		break;
	case AREA_OWN_REQUEST:
		at = &g->requests[own_request(run, c->index)];
		record = sizeof(*g->requests);
		break;
	default:
		return (c->index * (size_t)8 + c->word * (size_t)65536 * 8) % scene.size & ~(size_t)7;
	}
	return (size_t)((const unsigned char *)at - scene.image) + c->word * 8u % record;
}

static uint64_t read_word(const struct run *run, size_t at)
{
	uint64_t w = 0;

	if (!run->segment && at + 8 <= run->size)
		memcpy(&w, run->image + at, 8);
	if (run->segment && pread(run->fd, &w, 8, (off_t)at) != 8)
		return 0;
	return w;
}

/* Through the descriptor: the handle's own mapping may be read-only. */
static void write_word(struct run *run, size_t at, uint64_t w)
{
	if (at + 8 > run->size)
		return;
	if (!run->segment)
		memcpy(run->image + at, &w, 8);
	else if (pwrite(run->fd, &w, 8, (off_t)at) != 8)
		abort();
}

static uint64_t new_value(const struct run *run, const struct fuzz_command *c, uint64_t old)
{
	uint64_t v = (uint64_t)c->value;
	struct fuzz_command other = *c;

	switch (c->op) {
	case OP_ADD:
		return old + v;
	case OP_XOR:
		return old ^ v;
	case OP_REQUEST:
		return scene.requests[v % scene.geometry.n_requests];
	case OP_OWNER:
		return scene.owners[v % scene.geometry.n_owners];
	case OP_ENTRY:
		return scene.entries[v % scene.geometry.n_locks];
	case OP_TIME:
		return (uint64_t)now_ns() + v;
	case OP_COPY:
		other.index = (uint16_t)v;
		return read_word(run, place_of(run, &other)) >> c->shift % 64;
	default:
		return v;
	}
}

static void change(struct run *run, const struct fuzz_command *c)
{
	size_t at = place_of(run, c);
	unsigned shift = c->shift % 64, len = c->len == 0 || c->len > 64 ? 64 : c->len;
	uint64_t old, mask = (len == 64 ? UINT64_MAX : (UINT64_C(1) << len) - 1) << shift;

	if (c->area == AREA_TAG)
		mask = UINT64_C(0xffff) << (shift = scene.entries[c->index % scene.geometry.n_locks] % 4 * 16);
	old = read_word(run, at);
	write_word(run, at, (old & ~mask) | (new_value(run, c, (old & mask) >> shift) << shift & mask));
}

/* ---------------------------------------------------------------- calls */

static const char *fuzz_path(void)
{
	static char path[128];

	snprintf(path, sizeof(path), "/dev/shm%s", fuzz_name);
	return path;
}

static void list(struct run *run, int what, const char *key)
{
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	size_t i;
	int code;

	EACH_ROW(row, code, run->segment, what, key, key ? strlen(key) : 0)
	{
		for (i = 0; i < row.key_shown; i++)
			run->sum += row.key[i];
		run->sum += (unsigned)strlen(row.request.tag) + (unsigned)row.request.expires_in_ns +
			    (unsigned)row.request.pid + (unsigned)strlen(row.damage.tag);
	}
}

static void see_problem(const char *invariant, const char *text, void *arg)
{
	struct run *run = arg;

	run->sum += (unsigned)strlen(invariant) + (unsigned)strlen(text);
}

static int64_t lease(int64_t value)
{
	if (value == 0)
		return LOCKSHM_FOREVER;
	if (value < 0)
		return LOCKSHM_TTL_MIN;
	return LOCKSHM_TTL_MIN + value % (LOCKSHM_TIME_MAX - LOCKSHM_TTL_MIN);
}

static struct lockshm_request request_of(const struct fuzz_command *c)
{
	static const unsigned flags[] = { 0, LOCKSHM_ONLY_IF_FREE_IN_TIME, LOCKSHM_ROBUST,
					  LOCKSHM_AUTO_RENEW };
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;

	request.key = scene_keys[c->index % SCENE_KEYS];
	request.key_len = strlen(request.key);
	request.mode = c->word & 1 ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE;
	request.flags = flags[c->word / 2 % 4] | (c->word & 16 ? LOCKSHM_ROBUST : 0);
	request.tag = c->word & 8 ? "fuzz" : NULL;
	request.ttl_ns = lease(c->value);
	if (request.flags & LOCKSHM_AUTO_RENEW &&
	    (request.ttl_ns == LOCKSHM_FOREVER || request.ttl_ns < LOCKSHM_AUTO_RENEW_TTL_MIN))
		request.ttl_ns = LOCKSHM_AUTO_RENEW_TTL_MIN;
	request.timeout_ns = c->len & 1 ? 200000 : 0;
	return request;
}

static void acquire(struct run *run, const struct fuzz_command *c)
{
	struct lockshm_request request = request_of(c);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;

	request.report = &report;
	if (lockshm_acquire(run->segment, &request, &run->holds[c->arg % HOLDS]) == LOCKSHM_DEADLOCK)
		run->sum += (unsigned)strlen(report.error.message);
}

/* Three keys, in the upper holds. */
static void three_keys(const struct fuzz_command *c, struct lockshm_key keys[3])
{
	unsigned i;

	for (i = 0; i < 3; i++) {
		const char *key = scene_keys[(c->index + i * c->arg) % SCENE_KEYS];

		keys[i] = (struct lockshm_key)LOCKSHM_MANY_KEY(key, i == 2 ? LOCKSHM_SHARED : 0);
	}
}

static void acquire_many(struct run *run, const struct fuzz_command *c)
{
	struct lockshm_request request = request_of(c);
	struct lockshm_key keys[3];

	three_keys(c, keys);
	(void)!lockshm_acquire_many(run->segment, &request, keys, 3, run->holds + HOLDS - 3);
}

static void use_loop(struct run *run, const struct fuzz_command *c)
{
	struct lockshm_request request = request_of(c);
	struct lockshm_key keys[3];

	three_keys(c, keys);
	if (c->op == OP_LOOP_MANY) {
		request.key = NULL;
		request.key_len = 0;
	}
	fuzz_loop_call(&run->loop, run->segment, c, &request, 3, keys);
}

static void look_at_all(struct run *run)
{
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	unsigned i;

	for (i = 0; i < SCENE_KEYS; i++)
		list(run, LOCKSHM_LIST_KEY, scene_keys[i]);
	list(run, LOCKSHM_LIST_BUSY, NULL);
	list(run, LOCKSHM_LIST_OWNERS, NULL);
	lockshm_stat(run->segment, &stat);
	lockshm_current(run->segment);
}

static void use_hold(struct run *run, const struct fuzz_command *c)
{
	lockshm_hold_t *hold = &run->holds[c->arg % HOLDS];
	struct lockshm_damage mark;
	int64_t left;

	switch (c->op) {
	case OP_RELEASE:
		lockshm_release(hold, c->value);
		break;
	case OP_RENEW:
		(c->word & 1 ? lockshm_extend : lockshm_renew)(hold, lease(c->value));
		break;
	case OP_CHECK:
		lockshm_check(hold, &left);
		break;
	case OP_UPGRADE:
		(void)!lockshm_upgrade(hold);
		break;
	case OP_DOWNGRADE:
		lockshm_downgrade(hold);
		break;
	case OP_PREVIOUS:
		lockshm_damage(hold, &mark);
		run->sum += (unsigned)strlen(mark.tag) + (unsigned)mark.age_ns;
		break;
	case OP_ACKNOWLEDGE:
		lockshm_acknowledge(hold);
		break;
	default:
		lockshm_move(hold, c->word & 1 ? LOCKSHM_TO_PROCESS : LOCKSHM_TO_CALLER);
	}
	run->sum += (unsigned)lockshm_token(hold) + (unsigned)lockshm_lost_to(hold);
}

/* Of the key, or of those that begin like it, or of all. */
static void acknowledge_marks(struct run *run, const struct fuzz_command *c)
{
	const char *key = scene_keys[c->index % SCENE_KEYS];
	struct lockshm_row row = LOCKSHM_ROW_INIT;
	bool one = c->word % 4 == 0, some = c->word % 4 == 1;
	int code;

	EACH_ROW(row, code, run->segment, one ? LOCKSHM_LIST_KEY : LOCKSHM_LIST_BUSY, one || some ? key : NULL,
		 one ? strlen(key) : some ? 1 + c->arg % strlen(key) : 0)
		run->sum += (unsigned)lockshm_acknowledge_of(
			run->segment, row.id, c->word & 8 ? run->segment->token_base + (uint64_t)c->value : row.damage.token);
}

static void call(struct run *run, const struct fuzz_command *c)
{
	const char *key = scene_keys[c->index % SCENE_KEYS];

	switch (c->op) {
	case OP_ACQUIRE:
		acquire(run, c);
		break;
	case OP_MANY:
		acquire_many(run, c);
		break;
	case OP_LOOK:
		look_at_all(run);
		break;
	case OP_SHOW:
		list(run, LOCKSHM_LIST_KEY, key);
		break;
	case OP_VERIFY:
		lockshm_verify(run->segment, see_problem, run, NULL);
		break;
	case OP_END_HOLD:
		lockshm_end_hold(run->segment, key, strlen(key), run->segment->token_base + (uint64_t)c->value);
		break;
	case OP_ACK_MARKS:
		acknowledge_marks(run, c);
		break;
	case OP_SWEEP:
		lockshm_sweep(run->segment, NULL);
		break;
	case OP_UNLINK:
		unlink(fuzz_path());
		break;
	case OP_LOOP_ACQUIRE:
	case OP_LOOP_MANY:
	case OP_LOOP_NEXT:
	case OP_LOOP_CANCEL:
	case OP_LOOP_RELEASE:
	case OP_LOOP_CLOSE:
		use_loop(run, c);
		break;
	default:
		use_hold(run, c);
	}
}

/* ---------------------------------------------------------------- from the file to the handle and back */

static bool write_file(struct run *run, const char *path)
{
	struct shm_header *h = (void *)run->image;

	if (!(run->flags & START_KEEP_CHECK) && run->size >= sizeof(*h))
		h->check = segment_check(h);
	run->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return run->fd >= 0 && pwrite(run->fd, run->image, run->size, 0) == (ssize_t)run->size;
}

static bool open_segment(struct run *run)
{
	unsigned flags = run->flags & START_READ_ONLY ? LOCKSHM_OPEN_READ_ONLY : 0;
	struct lockshm_error error;

	if (!write_file(run, fuzz_path())) {
		perror("fuzz: the file cannot be written");
		exit(99);
	}
	if (lockshm_open(&run->segment, fuzz_name, flags, &error) == 0)
		return true;
	run->segment = NULL;
	run->sum += (unsigned)strlen(error.message);
	return false;
}

static bool is_change(const struct fuzz_command *c)
{
	return c->op < OP_TRUNCATE;
}

/* @live: also what needs an open handle. */
static void carry_out(struct run *run, const unsigned char *data, size_t n, bool live)
{
	struct fuzz_command c;
	size_t i;

	for (i = 0; i < n; i++) {
		memcpy(&c, data + i * sizeof(c), sizeof(c));
		c.op %= OPS;
		c.area %= AREAS;
		if (c.op == OP_TRUNCATE && !run->segment)
			run->size = (uint64_t)c.value % (scene.size + 1);
		else if (is_change(&c))
			change(run, &c);
		else if (!live || (!run->segment && !open_segment(run)))
			return;
		else if (c.op != OP_TRUNCATE)
			call(run, &c);
	}
}

/* The end of every program. */
static void use_everything(struct run *run)
{
	struct fuzz_command c = { 0 };
	unsigned key;

	look_at_all(run);
	for (key = 0; key < SCENE_KEYS; key++) {
		c = (struct fuzz_command){ .op = OP_ACQUIRE, .index = (uint16_t)key, .word = (key & 1) | 16, .len = key == 0,
					   .arg = HOLDS - 1, .value = LOCKSHM_SECONDS(1) };
		call(run, &c);
		for (c.op = OP_CHECK; c.op <= OP_ACKNOWLEDGE; c.op++)
			call(run, &c);
		c.op = OP_RELEASE;
		c.value = 0;
		call(run, &c);
	}
	lockshm_sweep(run->segment, NULL);
	look_at_all(run);
}

static void finish(struct run *run)
{
	unsigned i;

	fuzz_loop_finish(&run->loop);
	for (i = 0; i < HOLDS / 2; i++)
		lockshm_release(&run->holds[i], 0);
	lockshm_close(run->segment);
	for (i = 0; i < HOLDS; i++)
		lockshm_release(&run->holds[i], 0);
}

static bool start(struct run *run, const unsigned char *data, size_t size)
{
	memset(run, 0, sizeof(*run));
	run->fd = -1;
	if (size < 1)
		return false;
	run->flags = data[0];
	run->size = scene.size;
	run->image = calloc(1, scene.size);
	if (!run->image)
		exit(99);
	switch (run->flags & START_MASK) {
	case START_RAW:
		run->size = size - 1 < scene.size ? size - 1 : scene.size;
		memcpy(run->image, data + 1, run->size);
		return true;
	case START_ZERO:
		memcpy(run->image, scene.image, sizeof(struct shm_header));
		return true;
	default:
		memcpy(run->image, scene.image, scene.size);
		return true;
	}
}

static size_t n_commands(const struct run *run, size_t size)
{
	size_t n = (size - 1) / sizeof(struct fuzz_command);

	return (run->flags & START_MASK) == START_RAW ? 0 : n > FUZZ_COMMANDS_MAX ? FUZZ_COMMANDS_MAX : n;
}

static void leave(struct run *run)
{
	if (run->fd >= 0)
		close(run->fd);
	free(run->image);
}

void fuzz_run(const unsigned char *data, size_t size)
{
	struct run run;

	if (!start(&run, data, size))
		return;
	carry_out(&run, data + 1, n_commands(&run, size), true);
	if (run.segment || (run.fd < 0 && open_segment(&run))) {
		use_everything(&run);
		finish(&run);
	}
	leave(&run);
	unlink(fuzz_path());
}

bool fuzz_write_file(const unsigned char *data, size_t size, const char *path)
{
	struct run run;
	bool written;

	if (!start(&run, data, size))
		return false;
	carry_out(&run, data + 1, n_commands(&run, size), false);
	written = write_file(&run, path);
	leave(&run);
	return written;
}
