/* SPDX-License-Identifier: MIT */
/*
 * serve.c - lockshm-bridge NAME: serve until a signal, or as long as a command runs
 *
 * Beside a command, its exit status is that of the program, also when the segment could not be served, and signals go
 * to it; see cli/child.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "daemon/daemon.h"

enum { OPTION_ANY_OWNER = 256, OPTION_CHECK, OPTION_CREDENTIALS, OPTION_HOST_NAME, OPTION_WHILE_USED };

static const struct option options[] = {
	{ "any-owner", no_argument, NULL, OPTION_ANY_OWNER },
	{ "check", no_argument, NULL, OPTION_CHECK },
	{ "credentials", required_argument, NULL, OPTION_CREDENTIALS },
	{ "help", no_argument, NULL, 'h' },
	{ "host-name", required_argument, NULL, OPTION_HOST_NAME },
	{ "while-used", no_argument, NULL, OPTION_WHILE_USED },
	{ NULL, 0, NULL, 0 } /* end */
};

struct arguments {
	const char *name;
	bool any_owner;
	bool check;
	bool while_used;
	const char *credentials;
	const char *host_name;
	char **command; /**< NULL = none */
};

/** A word after NAME is no command of this program unless NAME was meant as one: "lockshm-bridge shwo shop key". */
static void __attribute__((noreturn)) unexpected(const char *name, const char *word)
{
	static const char *const commands[] = { "ack", "release", "show" };
	struct nearest nearest = nearest_to(name, strlen(name));

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		nearest_offer(&nearest, commands[i], strlen(commands[i]));
	usage_error("unexpected argument '%s'%s", word, nearest_text(&nearest, ""));
}

static void parse(int argc, char **argv, struct arguments *args)
{
	for (int option; (option = args_option(argc, argv, "+:h", options)) != -1;)
		if (option == OPTION_ANY_OWNER)
			args->any_owner = true;
		else if (option == OPTION_CHECK)
			args->check = true;
		else if (option == OPTION_CREDENTIALS)
			args->credentials = optarg;
		else if (option == OPTION_HOST_NAME)
			args->host_name = optarg;
		else
			args->while_used = true;
	args->name = args_segment(argc, argv);
	if (!args->host_name)
		args->host_name = getenv("LOCKSHM_HOST_NAME");
	if (args->host_name && strlen(args->host_name) > HOST_NAME_LONGEST)
		usage_error("the host's name must have at most %d bytes", HOST_NAME_LONGEST);
	if (optind < argc && !strcmp(argv[optind], "--")) {
		optind++;
		args->command = argv + optind;
		if (optind == argc)
			usage_error("no command after --");
	} else if (optind < argc) {
		unexpected(args->name, argv[optind]);
	}
	if (args->check && (args->command || args->while_used))
		usage_error("--check serves nothing: leave out %s", args->command ? "the command" : "--while-used");
}

static sigset_t ending_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	return set;
}

/** Until one of the ending signals, which are blocked, or until no segment is served any more. */
static int await_end(const struct segments *all)
{
	sigset_t set = ending_signals();
	struct pollfd fds[] = { { signalfd(-1, &set, SFD_CLOEXEC), POLLIN, 0 }, { segments_fd(all), POLLIN, 0 } };

	if (fds[0].fd < 0) {
		message("cannot wait for signals: %s%s", strerror(errno), limit_of(errno));
		return EXIT_FAILED;
	}
	while (poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	close(fds[0].fd);
	return EXIT_OK;
}

static int run_command(char **command)
{
	struct child_watch watch = { .fd = -1 };
	struct child_end end;

	if (child_run(command, environ, &watch, &end) < 0) {
		message("cannot start a process: %s%s", strerror(errno), limit_of(errno));
		return EXIT_FAILED;
	}
	if (!end.started && end.exec_errno)
		message("cannot execute %s: %s", command[0], strerror(end.exec_errno));
	return end.exit_status;
}

static void log_line(const char *line)
{
	message("%s", line);
}

int daemon_serve(int argc, char **argv)
{
	struct arguments args = { .name = NULL };
	struct segments *all;
	sigset_t set, before;
	int status, failed_status;

	parse(argc, argv, &args);
	credentials_use(args.credentials, args.name);
	if (args.check)
		return daemon_check(args.name, args.any_owner, args.host_name);
	bridge_log_to = log_line;
	/* No thread that serves takes a signal. */
	sigfillset(&set);
	sigdelset(&set, SIGBUS);
	sigdelset(&set, SIGSEGV);
	sigprocmask(SIG_BLOCK, &set, &before);
	all = segments_start(args.name, args.any_owner, args.while_used, args.host_name);
	if (!all)
		return EXIT_FAILED;
	supervisor_tell("READY=1");
	if (args.command) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		status = run_command(args.command);
	} else {
		status = await_end(all);
	}
	supervisor_tell("STOPPING=1");
	failed_status = segments_stop(all);
	return args.command ? status : status ? status : failed_status;
}
