/* SPDX-License-Identifier: MIT */
/*
 * proc-fs.c - reading /proc/PID/task/TID/stat; never /proc/PID/stat, which user mode emulators invent for a process
 * that reads its own
 *
 * Used where the kernel does not flag a life word (no robust futexes: an emulator, a filter), and to reclaim the slot
 * of a thread that died before it had one.
 */
#define _GNU_SOURCE
#include "sys/proc-fs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/clock.h"

/* A thread with one of these flags never returns to user mode: it exits, or is in a core dump, which ends it. */
#define PF_EXITING 0x4u
#define PF_POSTCOREDUMP 0x8u /* before Linux 5.5: another flag of an exit; then unused until 5.16 */
#define PF_DUMPCORE 0x200u
#define PF_LEAVING (PF_EXITING | PF_POSTCOREDUMP | PF_DUMPCORE)

struct thread_stat {
	char state;
	unsigned flags;
	uint64_t start_time;
};

/*
 * Without stdio and strtoull(): one snprintf() and one sscanf() touch more pages of the C library than the rest of a
 * process' first acquire.
 */
static char *append(char *to, const char *text)
{
	size_t len = strlen(text);

	memcpy(to, text, len + 1);
	return to + len;
}

static char *append_number(char *to, uint32_t n)
{
	char digits[12];
	int i = sizeof(digits) - 1;

	digits[i] = '\0';
	do
		digits[--i] = (char)('0' + n % 10);
	while ((n /= 10) > 0);
	return append(to, digits + i);
}

static void stat_path(char path[64], int32_t pid, int32_t tid)
{
	char *p = append(path, "/proc/");

	p = append_number(p, (uint32_t)pid);
	p = append(p, "/task/");
	p = append_number(p, (uint32_t)tid);
	append(p, "/stat");
}

static uint64_t number(const char *digits)
{
	uint64_t n = 0;

	while (*digits >= '0' && *digits <= '9')
		n = n * 10 + (uint64_t)(*digits++ - '0');
	return n;
}

/* The field @n blanks further on; NULL = there are fewer. */
static const char *field(const char *p, int n)
{
	for (; p && n > 0; n--) {
		p = strchr(p, ' ');
		p = p ? p + 1 : NULL;
	}
	return p;
}

/* The fields after the name: in proc(5) the state is field 3, the flags 9, the start time 22. */
static bool parse_stat(struct thread_stat *out, const char *state)
{
	const char *flags = field(state, 6), *start = field(flags, 13);

	if (!start || *flags < '0' || *flags > '9' || *start < '0' || *start > '9')
		return false;
	out->state = *state;
	out->flags = (unsigned)number(flags);
	out->start_time = number(start);
	return true;
}

/* 1 = read, 0 = no such thread, -1 = unknown. */
static int read_stat(struct thread_stat *out, int32_t pid, int32_t tid)
{
	char path[64], text[1024];
	const char *p;
	ssize_t n;
	int fd;

	if (pid < 0 || tid < 0)
		return -1;
	stat_path(path, pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return n < 0 && errno == ESRCH ? 0 : -1;
	text[n] = '\0';
	/* The name may contain any byte, also blanks and brackets: start after the last bracket. */
	p = strrchr(text, ')');
	return p && p[1] == ' ' && parse_stat(out, p + 2) ? 1 : -1;
}

/* /proc shifts start times by the boot-time offset of the reader's time namespace: undo that. */
static uint64_t host_ticks(uint64_t ticks)
{
	int64_t hz = sysconf(_SC_CLK_TCK), offset;

	(void)clock_boottime_offset(&offset);
	return ticks + (uint64_t)(offset / (1000000000 / (hz > 0 ? hz : 100)));
}

uint64_t procfs_start_time(int32_t pid, int32_t tid, bool initial_clock)
{
	struct thread_stat st;

	if (read_stat(&st, pid, tid) != 1)
		return 0;
	return initial_clock ? st.start_time : host_ticks(st.start_time);
}

bool procfs_is_single_thread(void)
{
	struct stat st;

	/* A directory has two links, and this one has one more for each thread. */
	return stat("/proc/self/task", &st) == 0 && st.st_nlink == 3;
}

uint64_t procfs_pid_namespace(void)
{
	char self[16], mine[16];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);
	struct stat st;

	/* The mounted /proc may belong to another namespace: then its numbers are not ours. */
	if (n <= 0)
		return 0;
	self[n] = '\0';
	append_number(mine, (uint32_t)getpid());
	if (strcmp(self, mine) != 0)
		return 0;
	return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

bool procfs_thread_is_gone(int32_t pid, int32_t tid)
{
	if (tid <= 0)
		return false;
	/* By a signal 0, not from /proc, which may hide threads. */
	if (pid > 0)
		return syscall(SYS_tgkill, pid, tid, 0) != 0 && errno == ESRCH;
	return syscall(SYS_tkill, tid, 0) != 0 && errno == ESRCH;
}

bool procfs_thread_is_dead(int32_t pid, int32_t tid, uint64_t start_time)
{
	struct thread_stat st;
	uint64_t start;

	if (pid <= 0 || tid <= 0)
		return false;
	if (read_stat(&st, pid, tid) != 1)
		return procfs_thread_is_gone(pid, tid);
	start = host_ticks(st.start_time);
	/* Two ticks of tolerance for the rounding of offsets. */
	return (start_time && (start > start_time + 2 || start + 2 < start_time)) || (st.flags & PF_LEAVING) ||
	       st.state == 'Z' || st.state == 'X';
}

/* The stat of exactly that thread: its number may have been reused, or belong to another namespace. */
static bool same_thread(struct thread_stat *st, int32_t pid, int32_t tid, uint64_t start_time)
{
	uint64_t start;

	if (pid <= 0 || tid <= 0 || start_time == 0 || read_stat(st, pid, tid) != 1)
		return false;
	start = host_ticks(st->start_time);
	return start <= start_time + 2 && start + 2 >= start_time;
}

bool procfs_thread_is_leaving(int32_t pid, int32_t tid, uint64_t start_time)
{
	struct thread_stat st;

	/* Twice: the second read takes the siglock after the thread set its flag under it, so the thread's stores are
	 * visible. */
	return same_thread(&st, pid, tid, start_time) && (st.flags & PF_LEAVING) &&
	       same_thread(&st, pid, tid, start_time) && (st.flags & PF_LEAVING);
}

bool procfs_thread_has_ended(int32_t pid, int32_t tid, uint64_t start_time)
{
	struct thread_stat st;

	return procfs_thread_is_gone(pid, tid) ||
	       (same_thread(&st, pid, tid, start_time) && (st.state == 'Z' || st.state == 'X'));
}
