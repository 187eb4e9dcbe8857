/* SPDX-License-Identifier: MIT */
/*
 * hold.c - lockctl hold: hold a lock for as long as a descriptor of a script is open
 *
 * As with flock(1) the descriptor belongs to the script, and is open until the last process that inherited it has
 * closed it or is dead.  A keeper (cli/keeper.c) takes the lock, and has to know that moment although it may not have the
 * descriptor open itself.  So lockctl puts an OFD lock (fcntl(2), F_OFD_SETLK) on one byte of the descriptor's file: it
 * belongs to the open file description, which all copies of the descriptor share.  The keeper opens the same file anew
 * and waits for that byte.  The kernel grants it when the last copy is closed, by whichever death, so SIGKILL of the
 * script leaves nothing behind.  The bytes are chosen at random beyond any content, so that scripts that use the same
 * file, such as /dev/null, do not meet.
 *
 * The processes: the script starts lockctl, which forks the keeper, waits until that has the lock, and exits.
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
	int fd;        /**< the script's descriptor; in the keeper another opening of its file */
	int64_t byte;
	bool unlock;
	int script;    /**< pidfd of the process that started lockctl, or -1 */
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

/* --- The keeper --------------------------------------------------------------------------------------- */

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
		if (fd > STDERR_FILENO && fd != own && fd != hold->script && fd != dirfd(list))
			close(fd);
	}
	closedir(list);
	hold->fd = own;
	return true;
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
	hold->closed = eventfd(0, EFD_CLOEXEC);
	cause = hold->closed < 0 ? errno : pthread_create(&thread, NULL, await_close, hold);
	if (!cause)
		return true;
	message("cannot watch the descriptor: %s%s", strerror(cause), limit_of(cause));
	return false;
}

/** The last step: the script goes on. */
static bool leave_session(const struct hold *hold)
{
	setsid();
	if (chdir("/") < 0)
		message("cannot leave the working directory: %s", strerror(errno));
	keeper_leave_streams();
	/* If lockctl is dead the script never learns that it has the lock. */
	return keeper_leave(hold->guard.front);
}

static int hold_until_closed(struct hold *hold)
{
	struct guard *guard = &hold->guard;

	for (;;) {
		int ms = guard_look(guard, "the script gets SIGTERM");
		struct pollfd fds[] = { { guard->notices, POLLIN, 0 }, { hold->closed, POLLIN, 0 } };

		if (ms == CHILD_LOST) {
			if (hold->script >= 0)
				syscall(SYS_pidfd_send_signal, hold->script, SIGTERM, NULL, 0);
			return guard_release(guard, 0, EXIT_LOST);
		}
		if (poll(fds, 2, ms) > 0 && fds[1].revents)
			return guard_release(guard, 0, EXIT_OK);
	}
}

static int take_and_hold(struct hold *hold, lockshm_t *segment)
{
	int status;

	if (!guard_acquire(&hold->guard, segment, &status))
		return status;
	if (!detach(hold) || !leave_session(hold))
		return guard_release(&hold->guard, 0, EXIT_FAILED);
	return hold_until_closed(hold);
}

/** In the keeper. */
static int keep(void *arg)
{
	struct hold *hold = arg;
	lockshm_t *segment;
	int status;

	signals_cancel(&hold->guard.canceller, hold->guard.front);
	signals_unblock();
	if (!leave_script(hold))
		return EXIT_FAILED;
	status = guard_open(&hold->guard, &segment);
	if (status)
		return status;
	status = take_and_hold(hold, segment);
	lockshm_close(segment);
	return status;
}

/* --- lockctl ------------------------------------------------------------------------------------------ */

static int start_keeper(struct hold *hold)
{
	int status;

	hold->script = (int)syscall(SYS_pidfd_open, getppid(), 0);
	hold->guard.front = keeper_front();
	status = keeper_run(hold->guard.front, keep, hold);
	guard_free(&hold->guard);
	return status;
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
	return status ? status : start_keeper(&hold);
}
