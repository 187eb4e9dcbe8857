/* SPDX-License-Identifier: MIT */
/* test-segment-open.c - opening a file with the wrong owner, length or header */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/segment.h"
#include "support/fixture.h"

static int try_open(const char *name, unsigned flags, struct lockshm_error *error)
{
	lockshm_t *s = (lockshm_t *)-1;
	int code = lockshm_open(&s, name, flags, error);

	if (code == 0)
		ck_code(lockshm_close(s), 0);
	else
		ck_assert_ptr_null(s);
	return code;
}

/* Opening must fail with @code and a message that has @word in it. */
static void refuses(int code, const char *word)
{
	struct lockshm_error error;

	memset(&error, 'x', sizeof(error));
	ck_code(try_open(seg_name, 0, &error), code);
	ck_code(error.code, code);
	ck_assert_ptr_nonnull(memchr(error.message, '\0', sizeof(error.message)));
	ck_assert_msg(strstr(error.message, word), "no '%s' in: %s", word, error.message);
	ck_code(try_open(seg_name, LOCKSHM_OPEN_READ_ONLY, NULL), code);
}

START_TEST(symbolic_link_is_never_followed)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	const char *name = other_name("link");
	struct lockshm_error error;
	char link_path[300];

	snprintf(link_path, sizeof(link_path), "%s", path_of(name));
	ck_assert_int_eq(symlink(path_of(seg_name), link_path), 0);
	ck_code(try_open(name, 0, &error), LOCKSHM_PERMISSION);
	ck_assert_msg(strstr(error.message, "symbolic link"), "%s", error.message);
	options.flags = LOCKSHM_CREATE_OR_OPEN;
	ck_code(lockshm_create(NULL, name, &options, &error), LOCKSHM_PERMISSION);
	ck_code(lockshm_create(NULL, name, NULL, &error), LOCKSHM_EXISTS);
	ck_code(lockshm_destroy(name, &error), LOCKSHM_PERMISSION);
	ck_code(lockshm_current(seg), 0);
	ck_assert_int_eq(unlink(link_path), 0);
}
END_TEST

START_TEST(things_that_are_no_files_are_refused)
{
	struct lockshm_error error;
	const char *name = other_name("thing");

	ck_assert_int_eq(mkfifo(path_of(name), 0600), 0);
	ck_assert_int_lt(try_open(name, 0, &error), 0);
	ck_assert_int_lt(try_open(name, LOCKSHM_OPEN_READ_ONLY, &error), 0); /* and does not wait for a writer */
	ck_assert_int_eq(unlink(path_of(name)), 0);
	ck_assert_int_eq(mkdir(path_of(name), 0700), 0);
	ck_assert_int_lt(try_open(name, 0, &error), 0);
	ck_assert_int_lt(lockshm_destroy(name, &error), 0);
	ck_assert_int_eq(rmdir(path_of(name)), 0);
}
END_TEST

/* Foreign owners */
static int open_code(unsigned flags, int want)
{
	struct lockshm_error error;
	lockshm_t *s;
	int code = lockshm_open(&s, seg_name, flags, &error);

	if (code != want)
		fprintf(stderr, "open(%u) is %s: %s\n", flags, lockshm_code_name(code), error.message);
	return code == want ? 0 : 1;
}

static int refused_unless_any_owner(void)
{
	return open_code(0, LOCKSHM_PERMISSION) || open_code(LOCKSHM_OPEN_ANY_OWNER, 0) ||
	       open_code(LOCKSHM_OPEN_READ_ONLY, LOCKSHM_PERMISSION);
}

static int accepted(void)
{
	return open_code(0, 0);
}

static int refused_by_mode(void)
{
	return open_code(LOCKSHM_OPEN_ANY_OWNER, LOCKSHM_PERMISSION);
}

static int read_only_at_most(void)
{
	return open_code(0, LOCKSHM_PERMISSION) || open_code(LOCKSHM_OPEN_READ_ONLY, 0);
}

START_TEST(foreign_owner_is_refused)
{
	if (not_root())
		return;
	ck_assert_int_eq(chmod(path_of(seg_name), 0666), 0);
	ck_assert_int_eq(as_user(65534, accepted), 0); /* root may own what I use */
	ck_assert_int_eq(chown(path_of(seg_name), 12345, 0), 0);
	ck_assert_int_eq(as_user(65534, refused_unless_any_owner), 0);
	ck_assert_int_eq(as_user(12345, accepted), 0);
	ck_assert_int_eq(chmod(path_of(seg_name), 0600), 0);
	ck_assert_int_eq(as_user(65534, refused_by_mode), 0);
	ck_assert_int_eq(chown(path_of(seg_name), 0, 0), 0);
	ck_assert_int_eq(chmod(path_of(seg_name), 0644), 0);
	ck_assert_int_eq(as_user(65534, read_only_at_most), 0);
}
END_TEST

/* Damaged files */
START_TEST(cut_short_is_a_bad_segment)
{
	static const off_t sizes[] = { 0, 1, 100, 4095, 4096, 4097, 20000 };
	struct stat st;
	off_t size;

	lockshm_close(seg); /* a mapping of a file that is cut short is SIGBUS */
	seg = NULL;
	ck_assert_int_eq(lstat(path_of(seg_name), &st), 0);
	size = _i < 7 ? sizes[_i] : st.st_size - 1;
	ck_assert_int_eq(truncate(path_of(seg_name), size), 0);
	refuses(LOCKSHM_BAD_SEGMENT, "truncated");
	ck_code(lockshm_destroy(seg_name, NULL), 0); /* goes away all the same */
}
END_TEST

START_TEST(longer_than_needed_is_accepted_or_bad_but_safe)
{
	struct stat st;
	int code;

	ck_assert_int_eq(lstat(path_of(seg_name), &st), 0);
	ck_assert_int_eq(truncate(path_of(seg_name), st.st_size + 8192), 0);
	code = try_open(seg_name, 0, NULL);
	ck_assert_msg(code == 0 || code == LOCKSHM_BAD_SEGMENT, "%s", outcome_name(code));
}
END_TEST

static void overwrite(off_t at, const void *bytes, size_t n)
{
	int fd = open(path_of(seg_name), O_RDWR | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pwrite(fd, bytes, n, at), (ssize_t)n);
	close(fd);
}

START_TEST(garbage_is_a_bad_segment)
{
	unsigned char bytes[8192];
	unsigned seed = 1;
	size_t i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = _i ? (unsigned char)(seed = seed * 1103515245 + 12345) : 0;
	overwrite(0, bytes, sizeof(bytes));
	refuses(LOCKSHM_BAD_SEGMENT, "magic");
}
END_TEST

/* A header with one thing changed and a check word that fits again. */
static void change_header(void (*change)(struct shm_header *h))
{
	struct shm_header h;
	int fd = open(path_of(seg_name), O_RDWR | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pread(fd, &h, sizeof(h), 0), (ssize_t)sizeof(h));
	change(&h);
	h.check = segment_check(&h);
	ck_assert_int_eq(pwrite(fd, &h, sizeof(h), 0), (ssize_t)sizeof(h));
	close(fd);
}

static void newer(struct shm_header *h)
{
	h->format++;
}

static void other_layout(struct shm_header *h)
{
	h->layout ^= 1;
}

static void big_endian(struct shm_header *h)
{
	h->canary = 0x04030201;
}

static void new_feature(struct shm_header *h)
{
	h->feature_incompat = 1u << 7;
}

static void huge_locks(struct shm_header *h)
{
	h->n_buckets = h->n_locks = UINT32_MAX;
}

static void no_owners(struct shm_header *h)
{
	h->n_owners = 0;
}

static void wild_offset(struct shm_header *h)
{
	h->entries_off = UINT64_MAX - 4095;
}

static void overlapping_tables(struct shm_header *h)
{
	h->requests_off = h->owners_off;
}

static void huge_size(struct shm_header *h)
{
	h->total_size = UINT64_C(1) << 60;
}

static void other_boot(struct shm_header *h)
{
	memset(h->boot_id, 0xb0, sizeof(h->boot_id));
}

static void no_state(struct shm_header *h)
{
	h->state = 77;
}

static const struct {
	void (*change)(struct shm_header *h);
	int code;
	const char *word;
} headers[] = {
	{ newer, LOCKSHM_VERSION, "format" },
	{ other_layout, LOCKSHM_VERSION, "layout" },
	{ big_endian, LOCKSHM_VERSION, "byte order" },
	{ new_feature, LOCKSHM_VERSION, "feature" },
	{ huge_locks, LOCKSHM_BAD_SEGMENT, "capacities" },
	{ no_owners, LOCKSHM_BAD_SEGMENT, "capacities" },
	{ wild_offset, LOCKSHM_BAD_SEGMENT, "offsets" },
	{ overlapping_tables, LOCKSHM_BAD_SEGMENT, "offsets" },
	{ huge_size, LOCKSHM_BAD_SEGMENT, "" },
	{ other_boot, LOCKSHM_BAD_SEGMENT, "boot" },
	{ no_state, LOCKSHM_BAD_SEGMENT, "state" },
};

START_TEST(strange_header_is_refused)
{
	change_header(headers[_i].change);
	refuses(headers[_i].code, headers[_i].word);
}
END_TEST

START_TEST(every_flipped_bit_of_the_header_is_noticed)
{
	struct shm_header h;
	unsigned char *bytes = (unsigned char *)&h, byte;
	size_t i;
	int fd = open(path_of(seg_name), O_RDWR | O_CLOEXEC);

	ck_assert_int_eq(pread(fd, &h, sizeof(h), 0), (ssize_t)sizeof(h));
	for (i = 0; i < offsetof(struct shm_header, token_base); i++) {
		byte = bytes[i] ^ (unsigned char)(1 << i % 8);
		ck_assert_int_eq(pwrite(fd, &byte, 1, (off_t)i), 1);
		ck_assert_msg(try_open(seg_name, 0, NULL) < 0, "byte %zu", i);
		ck_assert_int_eq(pwrite(fd, &bytes[i], 1, (off_t)i), 1);
	}
	ck_code(try_open(seg_name, 0, NULL), 0);
	close(fd);
}
END_TEST

START_TEST(read_only_handle_looks_and_touches_nothing)
{
	struct lockshm_request request = request_for("k", LOCKSHM_SHARED);
	struct lockshm_report report = LOCKSHM_REPORT_INIT;
	struct lockshm_stat stat = LOCKSHM_STAT_INIT;
	lockshm_hold_t mine, hold;
	struct seen seen;
	lockshm_t *own = seg;

	ck_code(take(&mine, "k", LOCKSHM_SHARED), 0);
	ck_code(lockshm_open(&seg, seg_name, LOCKSHM_OPEN_READ_ONLY, NULL), 0);
	look("k", &seen);
	ck_assert_uint_eq(seen.holders, 1);
	request.report = &report;
	ck_code(lockshm_acquire(seg, &request, &hold), LOCKSHM_PERMISSION);
	ck_assert_msg(strstr(report.error.message, "read-only"), "%s", report.error.message);
	ck_code(lockshm_sweep(seg, NULL), LOCKSHM_PERMISSION);
	ck_code(lockshm_end_hold(seg, "k", 1, lockshm_token(&mine)), LOCKSHM_PERMISSION);
	ck_code(lockshm_stat(seg, &stat), 0);
	ck_assert_uint_eq(stat.owners_used, 1);
	ck_code(lockshm_current(seg), 0);
	verify_clean();
	ck_code(lockshm_close(seg), 0);
	seg = own;
	ck_code(lockshm_release(&mine, 0), 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, symbolic_link_is_never_followed);
	tcase_add_test(tc, things_that_are_no_files_are_refused);
	tcase_add_test(tc, foreign_owner_is_refused);
	tcase_add_loop_test(tc, cut_short_is_a_bad_segment, 0, 8);
	tcase_add_test(tc, longer_than_needed_is_accepted_or_bad_but_safe);
	tcase_add_loop_test(tc, garbage_is_a_bad_segment, 0, 2);
	tcase_add_loop_test(tc, strange_header_is_refused, 0, sizeof(headers) / sizeof(headers[0]));
	tcase_add_test(tc, every_flipped_bit_of_the_header_is_noticed);
	tcase_add_test(tc, read_only_handle_looks_and_touches_nothing);
}

int main(void)
{
	return fixture_main("segment-open", add);
}
