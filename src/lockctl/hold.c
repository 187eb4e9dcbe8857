/* SPDX-License-Identifier: MIT */
/*
 * hold.c - lockctl hold: hold a lock for as long as a descriptor of a script is open
 *
 * As with flock(1) the descriptor belongs to the script, and is open until the last process that inherited it has
 * closed it or is dead.  A helper process takes the lock, and has to know that moment although it may not have the
 * descriptor open itself.  So lockctl puts an OFD lock (fcntl(2), F_OFD_SETLK) on one byte of the descriptor's file: it
 * belongs to the open file description, which all copies of the descriptor share.  The helper opens the same file anew
 * and waits for that byte.  The kernel grants it when the last copy is closed, by whichever death, so SIGKILL of the
 * script leaves nothing behind.  The bytes are chosen at random beyond any content, so that scripts that use the same
 * file, such as /dev/null, do not meet.
 *
 * The processes: the script starts lockctl, which forks the helper, waits until that has the lock, and exits.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockctl/lockctl.h"

enum { OPTION_FD = GUARD_OPTION_END };

static const struct option options[] = {
	GUARD_OPTIONS,
	{ "acknowledge", no_argument, NULL, GUARD_ACKNOWLEDGE },
	{ "fd", required_argument, NULL, OPTION_FD },
	{ "robust", no_argument, NULL, GUARD_ROBUST },
	{ "shared", no_argument, NULL, 's' },
	{ "unlock", no_argument, NULL, 'u' },
	{ "wait", required_argument, NULL, 'w' },
	{ NULL, 0, NULL, 0 } /* end */
};

/** The bytes from here on are for this purpose. */
#define FIRST_BYTE (INT64_C(1) << 62)

struct hold {
	struct guard guard;
	int fd;        /**< the script's descriptor; in the helper another opening of its file */
	int64_t byte;
	bool unlock;
	int script;    /**< pidfd of the process that started lockctl, or -1 */
	int report_to; /**< the helper writes a byte when it has the lock */
	int closed;    /**< eventfd: the script's descriptor is closed */
};

/* --- The script's descriptor -------------------------------------------------------------------------- */

static int set_byte(int fd, int command, short type, int64_t start, int64_t len)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };

	return fcntl(fd, command, &lock);
}

static void check_descriptor(const struct hold *hold)
{
	int flags = fcntl(hold->fd, F_GETFL);

	if (flags < 0)
		usage_error("--fd: descriptor %d is not open: 'exec %d>/dev/null' before, or 'lockctl hold ... %d>/dev/null'",
			    hold->fd, hold->fd, hold->fd);
	if (flags & O_PATH || (flags & O_ACCMODE) == O_RDONLY)
		usage_error("--fd: descriptor %d is not open for writing: 'exec %d>/dev/null'", hold->fd, hold->fd);
}

/** Put the lock on one byte.  Return: EXIT_OK, or the exit status after a message. */
static int bind_descriptor(struct hold *hold)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
		message("cannot get a random number: %s", strerror(errno));
		return EXIT_FAILED;
	}
	hold->byte = FIRST_BYTE + (int64_t)(random >> 2);
	if (set_byte(hold->fd, F_OFD_SETLK, F_WRLCK, hold->byte, 1) == 0)
		return EXIT_OK;
	if (errno == EAGAIN || errno == EACCES)
		message("--fd: another process has locked the file of descriptor %d: use a file of your own", hold->fd);
	else
		message("--fd: the file of descriptor %d cannot be locked: %s", hold->fd, strerror(errno));
	return EXIT_FAILED;
}

static int unbind_descriptor(const struct hold *hold)
{
	if (set_byte(hold->fd, F_OFD_SETLK, F_UNLCK, FIRST_BYTE, 0) == 0)
		return EXIT_OK;
	message("--fd: descriptor %d: %s", hold->fd, strerror(errno));
	return EXIT_FAILED;
}

/* --- The helper --------------------------------------------------------------------------------------- */

/** Open the file anew, and close all that the script has open: its descriptor, and those of its other locks. */
static bool leave_script(struct hold *hold)
{
	char path[40];
	DIR *list;
	int own, fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", hold->fd);
	own = open(path, O_WRONLY | O_CLOEXEC);
	if (own < 0 || !(list = opendir("/proc/self/fd"))) {
		message("--fd: cannot open the file of descriptor %d again: %s%s", hold->fd, strerror(errno), limit_of(errno));
		return false;
	}
	for (struct dirent *entry; (entry = readdir(list));) {
		fd = atoi(entry->d_name);
		if (fd > STDERR_FILENO && fd != own && fd != hold->script && fd != hold->report_to && fd != dirfd(list))
			close(fd);
	}
	closedir(list);
	hold->fd = own;
	return true;
}

/** Do not keep a pipe of the script open.  Messages still go to its standard error. */
static void leave_streams(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	close(null);
}

static void *await_close(void *arg)
{
	const struct hold *hold = arg;
	const uint64_t one = 1;

	while (set_byte(hold->fd, F_OFD_SETLKW, F_WRLCK, hold->byte, 1) < 0 && errno == EINTR)
		;
	if (write(hold->closed, &one, sizeof(one)) < 0)
		_exit(EXIT_FAILED);
	return NULL;
}

/** From here on only the descriptor counts, not the signals that the script's terminal or service sends to all. */
static bool detach(struct hold *hold)
{
	pthread_t thread;
	sigset_t all;
	int cause;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_PDEATHSIG, 0);
	setsid();
	leave_streams();
	if (chdir("/") < 0)
		message("cannot leave the working directory: %s", strerror(errno));
	hold->closed = eventfd(0, EFD_CLOEXEC);
	cause = hold->closed < 0 ? errno : pthread_create(&thread, NULL, await_close, hold);
	if (!cause)
		return true;
	message("cannot watch the descriptor: %s%s", strerror(cause), limit_of(cause));
	return false;
}

static int keep(struct hold *hold, int notices)
{
	struct pollfd fds[] = { { notices, POLLIN, 0 }, { hold->closed, POLLIN, 0 } };
	uint64_t count;

	for (;;) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents)
			return guard_release(&hold->guard, 0, EXIT_OK);
		if (read(notices, &count, sizeof(count)) < 0 || !guard_lost(&hold->guard, "the script gets SIGTERM"))
			continue;
		if (hold->script >= 0)
			syscall(SYS_pidfd_send_signal, hold->script, SIGTERM, NULL, 0);
		return guard_release(&hold->guard, 0, EXIT_LOST);
	}
}

static int hold_until_closed(struct hold *hold, lockshm_t *segment)
{
	int status, notices;

	if (!guard_acquire(&hold->guard, segment, &status))
		return status;
	notices = guard_notices(&hold->guard, &status);
	if (notices < 0)
		return status;
	/* If lockctl is dead the script never learns that it has the lock. */
	if (!detach(hold) || write(hold->report_to, "", 1) != 1)
		return guard_release(&hold->guard, 0, EXIT_FAILED);
	close(hold->report_to);
	return keep(hold, notices);
}

static int help_script(struct hold *hold, pid_t parent)
{
	lockshm_t *segment;
	int status;

	signals_cancel(&hold->guard.canceller);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || !leave_script(hold))
		return EXIT_FAILED;
	status = open_to_act(&segment, hold->guard.name, hold->guard.any_owner);
	if (status)
		return status;
	status = hold_until_closed(hold, segment);
	lockshm_close(segment);
	return status;
}

/* --- lockctl ------------------------------------------------------------------------------------------ */

static int status_of(pid_t helper)
{
	int status;

	while (waitpid(helper, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_FAILED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BY_SIGNAL + WTERMSIG(status);
}

static int await_helper(int report, pid_t helper)
{
	char byte;
	ssize_t n;

	while ((n = read(report, &byte, 1)) < 0 && errno == EINTR)
		;
	return n == 1 ? EXIT_OK : status_of(helper);
}

static int start_helper(struct hold *hold)
{
	pid_t parent = getpid(), helper;
	int report[2];

	signal(SIGCHLD, SIG_DFL);
	if (pipe2(report, O_CLOEXEC) < 0) {
		message("cannot make a pipe: %s%s", strerror(errno), limit_of(errno));
		return EXIT_FAILED;
	}
	hold->script = (int)syscall(SYS_pidfd_open, getppid(), 0);
	hold->report_to = report[1];
	helper = fork();
	if (helper == 0)
		_exit(help_script(hold, parent));
	close(report[1]);
	if (helper > 0)
		return await_helper(report[0], helper);
	message("cannot start a process: %s%s", strerror(errno), limit_of(errno));
	return EXIT_FAILED;
}

static void default_tag(struct guard *guard)
{
	char path[40], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)getppid());
	file = fopen(path, "re");
	if (file) {
		if (fgets(name, sizeof(name), file))
			name[strcspn(name, "\n")] = '\0';
		fclose(file);
	}
	guard_default_tag(guard, *name ? name : "script");
}

static void parse(struct hold *hold, int argc, char **argv)
{
	for (int option; (option = args_option(argc, argv, "-:suw:" GUARD_SHORTS, options)) != -1;)
		if (option == OPTION_FD)
			hold->fd = (int)args_number("--fd", optarg, 3, INT32_MAX);
		else if (option == 'u')
			hold->unlock = true;
		else if (option != 1)
			guard_option(&hold->guard, option);
		else if (guard_operand(&hold->guard, argv))
			usage_error("unexpected argument '%s': hold has no command, use run", optarg);
	if (hold->fd < 0)
		usage_error("--fd is missing: 'exec 9>/dev/null' and --fd 9");
	if (hold->unlock) {
		if (hold->guard.name)
			usage_error("unexpected argument '%s': -u releases all that the descriptor holds", hold->guard.name);
		args_end(argc, argv);
		return;
	}
	guard_finish(&hold->guard, argc, argv);
	if (hold->guard.command)
		usage_error("unexpected argument '%s': hold has no command, use run", hold->guard.command[0]);
	default_tag(&hold->guard);
}

int lockctl_hold(int argc, char **argv)
{
	struct hold hold = { .guard = GUARD_INIT, .fd = -1, .script = -1 };
	int status;

	parse(&hold, argc, argv);
	check_descriptor(&hold);
	if (hold.unlock)
		return unbind_descriptor(&hold);
	status = bind_descriptor(&hold);
	return status ? status : start_helper(&hold);
}
