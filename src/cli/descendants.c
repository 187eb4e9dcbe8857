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
 *
 * /proc may be missing, be that of another pid namespace, hide the processes of other users (hidepid), or need a
 * descriptor more than there is.  Children are known all the same, by waitid(2) and the caller's own file, and while one
 * of them lives nothing that descends from it is lost.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

struct process {
	pid_t pid, parent, session;
	unsigned long long start; /**< 0 = a child that /proc does not show */
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

/** None, if /proc is not the one of this pid namespace: its numbers are other processes'. */
static struct processes read_all(void)
{
	struct processes all = { NULL, 0, 0 };
	struct process process;
	char own[40];
	DIR *proc;

	snprintf(own, sizeof(own), "/proc/self/task/%d", (int)getpid());
	proc = access(own, F_OK) == 0 ? opendir("/proc") : NULL;

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

/** As waitid() has it. */
enum children { NO_CHILD, ONE_RUNS, ONE_HAS_ENDED };

static enum children children(idtype_t type, pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	if (waitid(type, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
		return NO_CHILD;
	return info.si_pid ? ONE_HAS_ENDED : ONE_RUNS;
}

static void add_child(struct processes *all, pid_t pid)
{
	const struct process child = { .pid = pid, .parent = getpid(), .session = getsid(pid), .state = 'R' };

	if (pid > 0 && !find(all, pid) && children(P_PID, pid) == ONE_RUNS)
		add(all, &child);
}

/** Those that are not shown. */
static void add_children(struct processes *all)
{
	char path[60];
	FILE *list;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	list = fopen(path, "re");
	while (list && fscanf(list, "%d", &pid) == 1)
		add_child(all, pid);
	if (list)
		fclose(list);
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
		return group->all ? !group->others || !belonged(group->others, process) :
				    process->pid == group->command || process->session == getsid(0) ||
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

	if (!process->start) {
		/* Not reaped yet, so the number is still its own. */
		kill(process->pid, sig);
	} else if (!read_process(process->pid, &now) || now.start != process->start) {
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

/**
 * Nothing was found, but a process that was started during the look, by one that ended during it, may have been missed;
 * and without /proc nothing is found.
 */
static bool may_be_more(bool shown)
{
	enum children any = children(P_ALL, 0);

	return any == ONE_HAS_ENDED || (any == ONE_RUNS && !shown);
}

size_t descendants_signal(struct descendants *group, int sig)
{
	const struct process *command;
	struct processes all;
	bool shown;

	if (children(P_ALL, 0) == NO_CHILD) {
		descendants_forget(group);
		return 0;
	}
	all = read_all();
	shown = all.n > 0;
	add_child(&all, group->command);
	add_children(&all);
	command = find(&all, group->command);
	if (command && command->parent == getpid())
		group->session = command->session;
	mark(group, &all);
	remember(group, &all);
	for (size_t i = 0; sig && i < group->n_before; i++)
		send_exactly(&group->before[i], sig);
	return group->n_before || !may_be_more(shown) ? group->n_before : 1;
}
