/* SPDX-License-Identifier: MIT */
/* history.c - writing a history, see history.h */
#define _GNU_SOURCE
#include "history.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x3159524f54534948)

clockid_t history_clock = CLOCK_MONOTONIC;

int64_t history_now(void)
{
	struct timespec ts;

	clock_gettime(history_clock, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static size_t page_align(size_t n)
{
	return (n + 4095) & ~(size_t)4095;
}

static size_t blocks_off(void)
{
	return page_align(sizeof(struct history_header));
}

static size_t records_off(uint32_t blocks)
{
	return page_align(blocks_off() + blocks * sizeof(uint32_t));
}

static size_t block_bytes(uint32_t blocks)
{
	return (size_t)blocks * HISTORY_BLOCK * sizeof(struct history_record);
}

static int map(struct history *h, int fd, size_t size, uint32_t blocks)
{
	unsigned char *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (base == MAP_FAILED)
		return -1;
	h->fd = fd;
	h->size = size;
	h->header = (struct history_header *)(void *)base;
	h->block_track = (uint32_t *)(void *)(base + blocks_off());
	h->records = (struct history_record *)(void *)(base + records_off(blocks));
	return 0;
}

int history_create(struct history *h, uint32_t blocks)
{
	size_t size = records_off(blocks) + block_bytes(blocks);
	int fd = memfd_create("history", 0);

	if (fd < 0 || ftruncate(fd, (off_t)size) != 0 || map(h, fd, size, blocks) != 0)
		return -1;
	h->header->blocks = blocks;
	h->header->magic = MAGIC;
	/* 0 means "none" where a process is named. */
	h->header->next_process = 1;
	return 0;
}

int history_open(struct history *h, int fd)
{
	struct history_header head;
	struct stat st;
	uint32_t blocks;

	if (fstat(fd, &st) != 0 || pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) || head.magic != MAGIC)
		return -1;
	/* A saved file ends with the last block in use. */
	blocks = head.blocks;
	if ((size_t)st.st_size < records_off(blocks))
		return -1;
	return map(h, fd, (size_t)st.st_size, blocks);
}

void history_close(struct history *h)
{
	munmap(h->header, h->size);
	close(h->fd);
}

void history_clear(struct history *h)
{
	uint32_t blocks = h->header->blocks;

	/* Gives the pages back and makes them zero. */
	if (ftruncate(h->fd, 0) != 0 || ftruncate(h->fd, (off_t)h->size) != 0)
		abort();
	h->header->blocks = blocks;
	h->header->magic = MAGIC;
	h->header->next_process = 1;
}

static uint32_t blocks_used(const struct history *h)
{
	uint32_t n = __atomic_load_n(&h->header->next_block, __ATOMIC_ACQUIRE);

	return n < h->header->blocks ? n : h->header->blocks;
}

int history_save(const struct history *h, const char *path)
{
	size_t left = records_off(h->header->blocks) + block_bytes(blocks_used(h));
	const unsigned char *p = (const unsigned char *)h->header;
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	ssize_t n = 0;

	if (fd < 0)
		return -1;
	while (left > 0 && (n = write(fd, p, left)) > 0) {
		p += n;
		left -= (size_t)n;
	}
	return close(fd) == 0 && left == 0 ? 0 : -1;
}

bool history_is_full(const struct history *h)
{
	return __atomic_load_n(&h->header->next_block, __ATOMIC_RELAXED) > h->header->blocks / 8 * 7 ||
	       __atomic_load_n(&h->header->next_track, __ATOMIC_RELAXED) > HISTORY_TRACKS / 8 * 7;
}

uint32_t history_new_process(struct history *h)
{
	return __atomic_fetch_add(&h->header->next_process, 1, __ATOMIC_RELAXED);
}

uint16_t history_realm(struct history *h, uint64_t token_base)
{
	uint16_t i;

	for (i = 0; i < HISTORY_REALMS; i++) {
		uint64_t known = __atomic_load_n(&h->header->realms[i].token_base, __ATOMIC_ACQUIRE);

		if (known == 0 && __atomic_compare_exchange_n(&h->header->realms[i].token_base, &known, token_base,
							      false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			h->header->realms[i].roomy = h->header->roomy;
			return i;
		}
		if (known == token_base)
			return i;
	}
	abort(); /* more segments than a round can make */
}

void history_track_begin(struct history_writer *w, struct history *h, uint32_t process, uint32_t image, uint32_t parent)
{
	uint32_t n = __atomic_fetch_add(&h->header->next_track, 1, __ATOMIC_RELAXED);
	struct history_track *track = &h->header->tracks[n];

	if (n >= HISTORY_TRACKS)
		abort();
	track->pid = getpid();
	track->tid = (int32_t)syscall(SYS_gettid);
	track->process = process;
	track->image = image;
	track->parent = parent;
	track->start = history_now();
	__atomic_store_n(&track->used, 1, __ATOMIC_RELEASE);
	*w = (struct history_writer){ .history = h, .track = n };
}

static void take_block(struct history_writer *w)
{
	struct history *h = w->history;
	uint32_t n = __atomic_fetch_add(&h->header->next_block, 1, __ATOMIC_RELAXED);

	if (n >= h->header->blocks)
		abort(); /* history_is_full() was ignored */
	__atomic_store_n(&h->block_track[n], w->track + 1, __ATOMIC_RELEASE);
	w->at = n * HISTORY_BLOCK;
	w->end = w->at + HISTORY_BLOCK;
}

struct history_record *history_new(struct history_writer *w)
{
	struct history_record *r;

	if (w->at == w->end)
		take_block(w);
	r = &w->history->records[w->at++];
	r->track = w->track;
	r->group = history_number(w->history, r);
	r->previous_track = HISTORY_NO_TRACK;
	return r;
}

void history_enter(struct history_record *r, enum history_op op)
{
	r->enter = history_now();
	__atomic_store_n(&r->op, (uint8_t)op, __ATOMIC_RELEASE);
}

void history_leave(struct history_record *r, int64_t when, int outcome)
{
	r->outcome = (int16_t)outcome;
	__atomic_store_n(&r->leave, when, __ATOMIC_RELEASE);
}

void history_note(struct history_writer *w, enum history_op op, uint32_t subject)
{
	struct history_record *r = history_new(w);

	r->subject = subject;
	history_enter(r, op);
	history_leave(r, history_now(), 0);
}

const char *history_op_name(int op)
{
	static const char *const names[HISTORY_OPS] = {
		[HISTORY_NONE] = "none",	   [HISTORY_ACQUIRE] = "acquire",
		[HISTORY_RELEASE] = "release",	   [HISTORY_RENEW] = "renew",
		[HISTORY_CHECK] = "check",	   [HISTORY_UPGRADE] = "upgrade",
		[HISTORY_DOWNGRADE] = "downgrade", [HISTORY_ACKNOWLEDGE] = "acknowledge",
		[HISTORY_PREVIOUS] = "previous",   [HISTORY_MOVE] = "move",
		[HISTORY_CANCEL] = "cancel",	   [HISTORY_ACK_MARKS] = "ack-marks",
		[HISTORY_END_HOLD] = "end-hold",   [HISTORY_SEEN] = "seen",
		[HISTORY_KILL] = "kill",	   [HISTORY_STOP] = "stop",
		[HISTORY_CONTINUE] = "continue",   [HISTORY_REAP] = "reap",
		[HISTORY_JOIN] = "join",	   [HISTORY_THREAD_END] = "thread-end",
		[HISTORY_EXEC] = "exec",	   [HISTORY_EXIT] = "exit",
		[HISTORY_CLOSE] = "close",	   [HISTORY_DESTROY] = "destroy",
		[HISTORY_STARVED] = "starved",	   [HISTORY_CALM] = "calm",
		[HISTORY_FAULT] = "fault",	   [HISTORY_NEXT] = "next",
		[HISTORY_WITHDRAW] = "withdraw",
	};

	return op >= 0 && op < HISTORY_OPS && names[op] ? names[op] : "?";
}
