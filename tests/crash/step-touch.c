/* SPDX-License-Identifier: MIT */
/*
 * step-touch.c - which points are alike, so that one of them stands for all
 *
 * What remains of a killed process is the segment, the files, what the kernel has of it, and what the kernel reads in its
 * memory when it ends: the robust list of the thread.  So two points are alike for a kill if nothing between them is a
 * system call, or changes a byte of the segment or of that list (STEP_CHANGES).  One exception: a test's own notes,
 * which no other process of the scene reads.
 *
 * A stopped process goes on with what it has loaded.  So two points are alike for a stop if nothing between them is a
 * system call, looks at the clock, or loads or stores shared memory (STEP_TOUCHES).  Memory that only its own threads
 * share does not count: all of them stop, and run on in any order.  Each time in another object, as in the C library or
 * vdso, counts as one load, and as a change only where the bytes say so.
 *
 * The operand of an instruction is found by decoding it: prefixes, opcode, ModRM.  Operands on the stack by push, pop,
 * call, and return, and those of a thread's own by FS and GS are private.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

#include "support/fixture.h"
#include "step-trace.h"

enum step_points step_points = STEP_EVERY;

#if defined(__x86_64__)

/* ---------------------------------------------------------------- operands */

struct insn {
	const unsigned char *at; /* what is not decoded yet */
	unsigned map;		 /* 0 = one byte, 1 = 0f, 2 = 0f 38, 3 = 0f 3a */
	unsigned op;
	unsigned x, b;		 /* 8 = the upper registers */
	bool own;		 /* by FS or GS */
};

static void decode_vex(struct insn *i, bool three)
{
	unsigned bits = (unsigned char)~i->at[1];

	i->map = three ? bits ^ 0xff : 1;
	i->map &= 31;
	i->x = three && (bits & 0x40) ? 8 : 0;
	i->b = three && (bits & 0x20) ? 8 : 0;
	i->op = i->at[three ? 3 : 2];
	i->at += three ? 4 : 3;
}

static void decode_opcode(struct insn *i)
{
	i->op = *i->at++;
	if (i->op != 0x0f)
		return;
	i->map = 1;
	i->op = *i->at++;
	if (i->op != 0x38 && i->op != 0x3a)
		return;
	i->map = i->op == 0x38 ? 2 : 3;
	i->op = *i->at++;
}

static void decode(struct insn *i, const unsigned char *code)
{
	*i = (struct insn){ .at = code };
	for (;; i->at++) {
		if (*i->at == 0x64 || *i->at == 0x65)
			i->own = true;
		else if (*i->at != 0x66 && *i->at != 0xf0 && *i->at != 0xf2 && *i->at != 0xf3 && *i->at != 0x2e &&
			 *i->at != 0x3e)
			break;
	}
	if (*i->at == 0xc4 || *i->at == 0xc5) {
		decode_vex(i, *i->at == 0xc4);
		return;
	}
	if ((*i->at & 0xf0) == 0x40) {
		i->x = *i->at & 2 ? 8 : 0;
		i->b = *i->at & 1 ? 8 : 0;
		i->at++;
	}
	decode_opcode(i);
}

/* Is a ModRM byte next, and is its operand loaded or stored?  Not so: lea, prefetch, nop. */
static bool has_operand(const struct insn *i)
{
	unsigned op = i->op;

	if (i->map == 0)
		return (op < 0x40 && (op & 7) < 4) || op == 0x63 || op == 0x69 || op == 0x6b ||
		       (op >= 0x80 && op <= 0x8f && op != 0x8d) || op == 0xc0 || op == 0xc1 || op == 0xc6 || op == 0xc7 ||
		       (op >= 0xd0 && op <= 0xd3) || (op >= 0xd8 && op <= 0xdf) || op == 0xf6 || op == 0xf7 || op >= 0xfe;
	if (i->map == 1)
		return op >= 0x10 && op != 0x77 && !(op >= 0x18 && op <= 0x1f) && !(op >= 0x30 && op <= 0x37) &&
		       !(op >= 0x80 && op <= 0x8f) && !(op >= 0xa0 && op <= 0xa2) && !(op >= 0xa8 && op <= 0xaa) &&
		       !(op >= 0xc8 && op <= 0xcf);
	return true;
}

static uintptr_t general(const struct user_regs_struct *r, unsigned n)
{
	const unsigned long long all[] = { r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi,
					   r->r8,  r->r9,  r->r10, r->r11, r->r12, r->r13, r->r14, r->r15 };

	return (uintptr_t)all[n];
}

/* Relative to the program counter: not quite, but in the same mapping, which is private. */
static uintptr_t operand(const struct insn *i, const struct user_regs_struct *r)
{
	const unsigned char *at = i->at;
	unsigned mod = at[0] >> 6, rm = at[0] & 7, sib = at[1];
	uintptr_t sum = 0;
	int32_t by = 0;

	at++;
	if (rm != 4) {
		sum = mod == 0 && rm == 5 ? (uintptr_t)r->rip : general(r, rm | i->b);
	} else {
		at++;
		if (mod != 0 || (sib & 7) != 5)
			sum = general(r, (sib & 7) | i->b);
		if ((sib >> 3 & 7) != 4 || i->x)
			sum += general(r, (sib >> 3 & 7) | i->x) << (sib >> 6);
	}
	if (mod == 1)
		by = (signed char)*at;
	else if (mod == 2 || (mod == 0 && (rm == 5 || (rm == 4 && (sib & 7) == 5))))
		memcpy(&by, at, sizeof(by));
	return sum + (uintptr_t)(intptr_t)by;
}

/* What the instruction at @code loads or stores; returns how many. */
unsigned touched_by(const unsigned char *code, const struct user_regs_struct *r, uintptr_t out[2])
{
	struct insn i;

	decode(&i, code);
	if (i.own)
		return 0;
	if (i.map == 0 && i.op >= 0xa4 && i.op <= 0xaf && i.op != 0xa8 && i.op != 0xa9) {
		out[0] = (uintptr_t)r->rsi;
		out[1] = (uintptr_t)r->rdi;
		return 2;
	}
	if (!has_operand(&i) || *i.at >> 6 == 3)
		return 0;
	out[0] = operand(&i, r);
	return 1;
}

/* Code does not change. */
static const unsigned char *code_at(pid_t pid, uintptr_t pc)
{
	static struct {
		uintptr_t pc;
		long words[2];
	} cache[4096];
	unsigned at = (unsigned)(pc ^ pc >> 12) % 4096;

	if (cache[at].pc != pc) {
		cache[at].pc = pc;
		cache[at].words[0] = ptrace(PTRACE_PEEKTEXT, pid, (void *)pc, NULL);
		cache[at].words[1] = ptrace(PTRACE_PEEKTEXT, pid, (void *)(pc + 8), NULL);
	}
	return (const unsigned char *)cache[at].words;
}

/* ---------------------------------------------------------------- memory of the victim */

#define SHARED_MAX 64
#define SEEN 64 /* bytes: no operand is longer */

static struct text shared[SHARED_MAX];
static unsigned n_shared;

static bool is_inside(const struct text *t, uintptr_t at)
{
	return at >= t->from && at < t->to;
}

static const struct text *shared_at(uintptr_t at)
{
	unsigned i;

	for (i = 0; i < n_shared; i++)
		if (is_inside(&shared[i], at))
			return &shared[i];
	return NULL;
}

/* Shared memory without a name is the test's own. */
static void read_maps(pid_t pid)
{
	char path[48], line[512], perms[8];
	unsigned long from, to;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	n_shared = 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx %7s", &from, &to, perms) != 3 || perms[3] != 's' || strstr(line, "/dev/zero"))
			continue;
		ck_assert_uint_lt(n_shared, SHARED_MAX);
		shared[n_shared++] = (struct text){ from, to };
	}
	fclose(file);
}

static void look_at(pid_t pid, uintptr_t from, void *out, size_t size)
{
	struct iovec here = { out, size }, there = { (void *)from, size };

	if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)size)
		memset(out, 0, size);
}

/* ---------------------------------------------------------------- the robust list */

#define NODES 8

struct robust {
	uintptr_t next, offset, pending;
	uintptr_t nodes[NODES];
};

static uintptr_t robust_head;
static struct robust robust_seen;

static bool robust_changed(pid_t tid)
{
	struct robust now = { 0 };
	uintptr_t node;
	unsigned i;

	if (!robust_head)
		return false;
	look_at(tid, robust_head, &now, 3 * sizeof(uintptr_t));
	for (i = 0, node = now.next; i < NODES && node != robust_head; i++) {
		look_at(tid, node & ~(uintptr_t)1, &now.nodes[i], sizeof(uintptr_t));
		node = now.nodes[i];
	}
	if (memcmp(&now, &robust_seen, sizeof(now)) == 0)
		return false;
	robust_seen = now;
	return true;
}

/* ---------------------------------------------------------------- a step */

static struct before {
	bool ours, call;
	bool mine; /* touches what others can change */
	unsigned n;
	uintptr_t at[2];
	unsigned char bytes[2][SEEN];
} before;

void touch_begin(const struct stepper *t)
{
	size_t len = 0;

	if (step_points == STEP_EVERY)
		return;
	read_maps(t->c.pid);
	(void)segment_changed();
	before = (struct before){ 0 };
	robust_head = 0;
	(void)syscall(SYS_get_robust_list, t->c.tid, &robust_head, &len);
	(void)robust_changed(t->c.tid);
}

static size_t seen_from(uintptr_t at)
{
	const struct text *map = shared_at(at);

	return map && map->to - at < SEEN ? map->to - at : SEEN;
}

static void note_operand(const struct stepper *t, uintptr_t at)
{
	if (!shared_at(at))
		return;
	before.mine = true;
	before.at[before.n] = at;
	if (step_points == STEP_CHANGES)
		look_at(t->c.tid, at, before.bytes[before.n], seen_from(at));
	before.n++;
}

void touch_before(const struct stepper *t, bool ours, bool call)
{
	struct user_regs_struct r;
	uintptr_t at[2];
	unsigned i, n;

	if (before.ours && !ours)
		(void)segment_changed(); /* by others, up to now */
	before.ours = ours;
	before.call = call;
	before.mine = false;
	before.n = 0;
	if (!ours || call)
		return;
	registers_of(t->c.tid, &r);
	n = touched_by(code_at(t->c.tid, t->c.pc), &r, at);
	for (i = 0; i < n; i++)
		note_operand(t, at[i]);
}

static bool operands_changed(pid_t tid)
{
	unsigned char now[SEEN];
	bool changed = false;
	unsigned i;

	for (i = 0; i < before.n; i++) {
		look_at(tid, before.at[i], now, seen_from(before.at[i]));
		changed |= memcmp(now, before.bytes[i], seen_from(before.at[i])) != 0;
	}
	return changed;
}

bool touch_after(const struct stepper *t)
{
	bool back = !before.ours && is_inside(&t->text, t->c.pc), changed;

	if (before.call) {
		read_maps(t->c.pid);
		(void)robust_changed(t->c.tid);
		return true;
	}
	if (step_points == STEP_TOUCHES)
		return before.mine || back || (!before.ours && segment_changed());
	if (before.ours)
		return operands_changed(t->c.tid);
	/* Both looks, for the next time.  The C library fills other segments that the victim makes. */
	changed = segment_changed();
	return robust_changed(t->c.tid) || changed || (back && t->op->life);
}

bool step_knows_touches(void)
{
	return true;
}
#else
void touch_begin(const struct stepper *t)
{
	(void)t;
}

void touch_before(const struct stepper *t, bool ours, bool call)
{
	(void)t;
	(void)ours;
	(void)call;
}

bool touch_after(const struct stepper *t)
{
	(void)t;
	return true;
}

/* Operands are not decoded for other machines yet. */
bool step_knows_touches(void)
{
	return false;
}
#endif
