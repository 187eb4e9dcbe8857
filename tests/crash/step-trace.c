/* SPDX-License-Identifier: MIT */
/* step-trace.c - see step-trace.h */
#define _GNU_SOURCE
#include "step-trace.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/segment.h"
#include "support/fixture.h"

static int find_text(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct text *text = arg;
	uintptr_t inside = (uintptr_t)lockshm_acquire;
	int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && inside >= from && inside < from + p->p_memsz) {
			text->from = from;
			text->to = from + p->p_memsz;
			return 1;
		}
	}
	return 0;
}

#if defined(__x86_64__) || defined(__aarch64__)
void registers_of(pid_t pid, struct user_regs_struct *regs)
{
	struct iovec iov = { regs, sizeof(*regs) };

	ck_assert_int_eq(ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &iov), 0);
}

static void set_registers(pid_t pid, struct user_regs_struct *regs)
{
	struct iovec iov = { regs, sizeof(*regs) };

	ck_assert_int_eq(ptrace(PTRACE_SETREGSET, pid, (void *)NT_PRSTATUS, &iov), 0);
}
#endif

/* It was stopped in its sleep: the SIGTRAP of the step that put it there is pending still, and would kill it later. */
void take_pending_trap(pid_t tid)
{
	struct __ptrace_peeksiginfo_args first = { .nr = 1 };
	siginfo_t info;
	int status;

	while (ptrace(PTRACE_PEEKSIGINFO, tid, &first, &info) > 0) {
		ck_assert_int_eq(info.si_signo, SIGTRAP);
		ck_assert_int_eq(ptrace(PTRACE_CONT, tid, NULL, NULL), 0);
		ck_assert_int_eq(waitpid(tid, &status, __WALL), tid);
		ck_assert(WIFSTOPPED(status));
	}
}

/* Asleep or not, it stops. */
void seize_thread(pid_t tid)
{
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, tid, NULL, NULL), 0);
	interrupt_thread(tid);
}

void interrupt_thread(pid_t tid)
{
	int status;

	ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
	ck_assert_int_eq(waitpid(tid, &status, __WALL), tid);
	ck_assert(WIFSTOPPED(status));
	take_pending_trap(tid);
}

pid_t other_thread_of(pid_t pid)
{
	char path[48];
	struct dirent *entry;
	pid_t tid = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != pid)
			tid = atoi(entry->d_name);
	closedir(dir);
	ck_assert_int_ne(tid, 0);
	return tid;
}

uintptr_t pc_of(pid_t pid)
{
#if defined(__x86_64__)
	struct user_regs_struct regs;

	registers_of(pid, &regs);
	return regs.rip;
#elif defined(__aarch64__)
	struct user_regs_struct regs;

	registers_of(pid, &regs);
	return regs.pc;
#else
	(void)pid;
	return 0;
#endif
}

/* Functions of the C library that never touch the segment, and take very many steps: run through them at full speed. */
bool is_private(uintptr_t pc)
{
	static const char *const names[] = { "__isoc99_sscanf", "sscanf",	  "snprintf", "vsnprintf",
					     "__vsnprintf_chk", "__snprintf_chk", "malloc",   "calloc",
					     "realloc",		"free",		  "strstr",   "strrchr" };
	static uintptr_t at[sizeof(names) / sizeof(names[0])];
	static bool known;
	const unsigned n = sizeof(names) / sizeof(names[0]);
	unsigned i;

	if (!known)
		for (i = 0; i < n; i++)
			at[i] = (uintptr_t)dlsym(RTLD_DEFAULT, names[i]);
	known = true;
	for (i = 0; i < n; i++)
		if (at[i] == pc)
			return true;
	return false;
}

/*
 * A break point of the tracer's.  Written through /proc/pid/mem, which works while the victim sleeps in the kernel,
 * too.  Text is a private mapping, so no other process runs into it.
 */
#if defined(__x86_64__)
#define BREAK_BYTE 0xcc
#else
#define BREAK_BYTE 0
#endif

static int memory_of(pid_t pid)
{
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

void set_break(pid_t pid, struct break_point *b, uintptr_t pc)
{
	const unsigned char trap = BREAK_BYTE;
	int fd = memory_of(pid);

	b->pc = pc;
	ck_assert_int_eq(pread(fd, &b->byte, 1, (off_t)pc), 1);
	ck_assert_int_eq(pwrite(fd, &trap, 1, (off_t)pc), 1);
	close(fd);
	b->set = true;
}

void clear_break(pid_t pid, struct break_point *b)
{
	int fd;

	if (!b->set)
		return;
	fd = memory_of(pid);
	ck_assert_int_eq(pwrite(fd, &b->byte, 1, (off_t)b->pc), 1);
	close(fd);
	b->set = false;
}

/* The victim has just stopped with SIGTRAP.  If that was @b, it is put back to the instruction itself. */
bool is_at_break(pid_t pid, const struct break_point *b)
{
#if defined(__x86_64__)
	struct user_regs_struct regs;

	registers_of(pid, &regs);
	if (!b->set || regs.rip != b->pc + 1)
		return false;
	regs.rip = b->pc;
	set_registers(pid, &regs);
	return true;
#else
	(void)pid;
	(void)b;
	return false;
#endif
}

/* The victim is at the first instruction of such a function: let it run until it returns. */
void run_through_call(pid_t pid)
{
#if defined(__x86_64__)
	struct break_point back;
	struct user_regs_struct regs;
	int status;

	registers_of(pid, &regs);
	set_break(pid, &back, (uintptr_t)ptrace(PTRACE_PEEKDATA, pid, (void *)(uintptr_t)regs.rsp, NULL));
	ck_assert_int_eq(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
	ck_assert_int_eq(waitpid(pid, &status, __WALL), pid);
	ck_assert(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP && is_at_break(pid, &back));
	clear_break(pid, &back);
#else
	(void)pid;
#endif
}

/* The instruction at @pc; code does not change, and runs the same way again and again. */
bool is_system_call(pid_t pid, uintptr_t pc)
{
	static struct {
		uintptr_t pc;
		long word;
	} cache[4096];
	unsigned at = (unsigned)(pc ^ pc >> 12) % 4096;

	if (cache[at].pc != pc) {
		cache[at].pc = pc;
		cache[at].word = ptrace(PTRACE_PEEKTEXT, pid, (void *)pc, NULL);
	}
#if defined(__x86_64__)
	return (cache[at].word & 0xffff) == 0x050f;
#elif defined(__aarch64__)
	return (cache[at].word & 0xffffffff) == 0xd4000001;
#else
	return cache[at].word == 0;
#endif
}

/* What others can see, as it was at the last look: everything but the unused parts of the life pages. */
static unsigned char *seen_bytes;
static size_t seen_size;

static bool part_changed(size_t from, size_t to)
{
	const unsigned char *now = (const unsigned char *)seg->header;

	if (memcmp(seen_bytes + from, now + from, to - from) == 0)
		return false;
	memcpy(seen_bytes + from, now + from, to - from);
	return true;
}

bool segment_changed(void)
{
	size_t lives = (size_t)((unsigned char *)seg->lives - (unsigned char *)seg->header);
	size_t behind = lives + (size_t)seg->n_owners * LIFE_BYTES;
	bool changed;
	uint32_t i;

	if (seen_size != seg->size) {
		free(seen_bytes);
		seen_size = seg->size;
		seen_bytes = calloc(1, seen_size);
		ck_assert_ptr_nonnull(seen_bytes);
	}
	changed = part_changed(0, lives);
	changed |= part_changed(behind, seen_size);
	for (i = 0; i < seg->n_owners; i++) {
		size_t page = lives + i * (size_t)LIFE_BYTES, doorbell = page + DOORBELL_OFFSET;

		changed |= part_changed(doorbell, doorbell + sizeof(struct shm_doorbell));
		changed |= part_changed(page + LIFE_BYTES - 64, page + LIFE_BYTES);
	}
	return changed;
}

char state_of(pid_t pid)
{
	char path[48], text[256], *paren;
	size_t n;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	paren = strrchr(text, ')');
	return paren && paren[1] ? paren[2] : 0;
}

/* Waits for the next stop.  False = it sleeps in the kernel. */
bool next_stop(pid_t pid, bool may_sleep, int *status)
{
	unsigned tries;
	pid_t got;

	for (tries = 0;; tries++) {
		got = waitpid(pid, status, __WALL | (may_sleep ? WNOHANG : 0));
		ck_assert_int_ge(got, 0);
		if (got == pid)
			return true;
		if (tries > 20 && state_of(pid) == 'S')
			return false;
		sched_yield();
	}
}

/* On arm64 the program counter still points at it. */
void step_over_break_point(pid_t pid)
{
#if defined(__aarch64__)
	struct user_regs_struct regs;

	registers_of(pid, &regs);
	regs.pc += 4;
	set_registers(pid, &regs);
#else
	(void)pid;
#endif
}

struct text text_of_library(void)
{
	struct text text = { 0 };

	ck_assert_int_eq(dl_iterate_phdr(find_text, &text), 1);
	return text;
}

/* The instruction behind the system call that it sleeps in; 0 = it is awake. */
uintptr_t sleeps_at(pid_t pid)
{
	char path_of[48], text[256], *last;
	size_t n;
	FILE *file;

	snprintf(path_of, sizeof(path_of), "/proc/%d/syscall", (int)pid);
	file = fopen(path_of, "re");
	if (!file)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	last = strrchr(text, ' ');
	return last && text[0] != 'r' ? (uintptr_t)strtoull(last, NULL, 16) : 0;
}
