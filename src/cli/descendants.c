/* SPDX-License-Identifier: MIT */
/*
 * descendants.c - the processes that a command has started
 *
 * They are found by their parents.  The caller is a subreaper (prctl(2)), so a process whose parent has ended becomes
 * the caller's child and is not lost, whatever its user, groups and process group.  Of those the ones in the session of
 * the caller, or of the command, still belong to it; one with a session of its own is a daemon.  What has belonged to it
 * at an earlier look does so until it ends.
 *
 * Between a look at /proc and a signal a process may end and its number may be used again: the signal goes through a
 * pidfd, behind which the time of the start is compared.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/cli.h"

struct process {
	pid_t pid, parent, session;
	unsigned long long start;
	char state;
	bool belongs;
};

struct processes {
	struct process *list;
	size_t n, room;
};

/** Its line in /proc.  Return: false = it is gone. */
static bool read_process(pid_t pid, struct process *process)
{
	char path[40], text[512];
	const char *fields;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	/* The name of the program may have parentheses: "PID (NAME) STATE PARENT GROUP SESSION ..."; START is the 22nd. */
	fields = strrchr(text, ')');
	*process = (struct process){ .pid = pid };
	return fields && sscanf(fields + 1, " %c %d %*d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
				&process->state, &process->parent, &process->session, &process->start) == 4;
}

pid_t process_parent(pid_t pid)
{
	struct process process;

	return read_process(pid, &process) ? process.parent : 0;
}

static void add(struct processes *all, const struct process *process)
{
	if (all->n == all->room) {
		all->room = all->room ? 2 * all->room : 256;
		all->list = checked(realloc(all->list, all->room * sizeof(*all->list)));
	}
	all->list[all->n++] = *process;
}

static struct processes read_all(void)
{
	struct processes all = { NULL, 0, 0 };
	struct process process;
	DIR *proc = opendir("/proc");

	for (struct dirent *entry; proc && (entry = readdir(proc));)
		if (*entry->d_name >= '1' && *entry->d_name <= '9' && read_process(atoi(entry->d_name), &process))
			add(&all, &process);
	if (proc)
		closedir(proc);
	return all;
}

static const struct process *find(const struct processes *all, pid_t pid)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->list[i].pid == pid)
			return &all->list[i];
	return NULL;
}

static bool belonged(const struct descendants *group, const struct process *process)
{
	for (size_t i = 0; i < group->n_before; i++)
		if (group->before[i].pid == process->pid && group->before[i].start == process->start)
			return true;
	return false;
}

static bool belongs(const struct descendants *group, const struct processes *all, const struct process *process)
{
	const struct process *parent;

	if (belonged(group, process))
		return true;
	if (process->parent == getpid())
		return group->all || process->pid == group->command || process->session == getsid(0) ||
		       process->session == group->session;
	parent = find(all, process->parent);
	return parent && parent->belongs;
}

/** Children have larger numbers than their parents only mostly. */
static void mark(const struct descendants *group, struct processes *all)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < all->n; i++)
			if (!all->list[i].belongs && belongs(group, all, &all->list[i]))
				changed = all->list[i].belongs = true;
	}
}

static void send_exactly(const struct process *process, int sig)
{
	int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	struct process now;

	if (!read_process(process->pid, &now) || now.start != process->start) {
		/* The signal was for one that has ended. */
	} else if (fd >= 0) {
		syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
	} else {
		kill(process->pid, sig);
	}
	if (fd >= 0)
		close(fd);
}

void descendants_forget(struct descendants *group)
{
	free(group->before);
	group->before = NULL;
	group->n_before = 0;
}

/** Of @all those that belong to it and are alive. */
static void remember(struct descendants *group, struct processes *all)
{
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		if (all->list[i].belongs && all->list[i].state != 'Z' && all->list[i].state != 'X')
			all->list[n++] = all->list[i];
	descendants_forget(group);
	group->before = all->list;
	group->n_before = n;
}

size_t descendants_signal(struct descendants *group, int sig)
{
	struct processes all = read_all();
	const struct process *command = find(&all, group->command);

	if (command && command->parent == getpid())
		group->session = command->session;
	mark(group, &all);
	remember(group, &all);
	for (size_t i = 0; sig && i < group->n_before; i++)
		send_exactly(&group->before[i], sig);
	return group->n_before;
}
