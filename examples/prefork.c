/* SPDX-License-Identifier: MIT */
/*
 * prefork.c - a small prefork HTTP server with workers that share locks through one segment
 *
 *   prefork [-n SEGMENT] [-p PORT] [-w WORKERS]      listens on 127.0.0.1, port 0 = any free one
 *
 * The master opens the segment and the listening socket, forks the workers and replaces those that die.  It
 * takes no lock itself.  No code here repairs locks after a death: each surviving worker does so at its next
 * acquire.  Read prefork.h next.
 */
#include "prefork.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

struct options {
	const char *segment;
	int port;
	int workers;
};

static void die(const char *what)
{
	fprintf(stderr, "prefork: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

/* ---- worker ---- */

static void serve(struct app *app, int client)
{
	const struct timeval patience = { .tv_sec = 5 };
	struct reply reply = { 0 };
	struct request request;

	setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	reply.status = http_read(client, &request);
	if (reply.status == 0)
		route(app, &request, &reply);
	if (reply.status > 0)
		http_write(client, &reply);
	close(client);
}

/* The handle made by the master works here at once; this process registers itself at its first acquire. */
static _Noreturn void worker_main(struct app *app, int listener, pid_t master)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGTERM); /* no worker without a master */
	if (getppid() != master)
		_exit(EXIT_SUCCESS);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (;;) {
		int client = accept(listener, NULL, NULL);

		if (client >= 0)
			serve(app, client);
		else if (errno != EINTR && errno != ECONNABORTED)
			die("accept");
	}
}

/* ---- master ---- */

static void start_worker(struct app *app, int listener, int number)
{
	pid_t master = getpid();
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		app->worker = number;
		worker_main(app, listener, master);
	}
	app->shared->workers[number] = pid;
}

/*
 * A worker that was killed is replaced at once, one that crashed a little later, in case the next crashes too.  One
 * that gave up by itself has printed why and would do so again.
 */
static void replace_if_dead(struct app *app, int listener, int number)
{
	pid_t pid = app->shared->workers[number];
	int status;

	if (waitpid(pid, &status, WNOHANG) != pid)
		return;
	if (!WIFSIGNALED(status)) {
		fprintf(stderr, "prefork: worker %d failed, giving up\n", (int)pid);
		exit(EXIT_FAILURE); /* the others get SIGTERM: PR_SET_PDEATHSIG */
	}
	if (WTERMSIG(status) != SIGKILL)
		usleep(100 * 1000);
	app->shared->restarts++;
	start_worker(app, listener, number);
	fprintf(stderr, "prefork: worker %d was killed by signal %d; %d takes its place\n", (int)pid, WTERMSIG(status),
		(int)app->shared->workers[number]);
}

static void stop_workers(struct app *app, int workers)
{
	for (int i = 0; i < workers; i++)
		kill(app->shared->workers[i], SIGTERM);
	while (wait(NULL) > 0 || errno == EINTR)
		;
}

static void master_main(struct app *app, int listener, int workers)
{
	sigset_t set;
	int signal_number;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < workers; i++)
		start_worker(app, listener, i);
	while (sigwait(&set, &signal_number) == 0 && signal_number == SIGCHLD)
		for (int i = 0; i < workers; i++)
			replace_if_dead(app, listener, i);
	stop_workers(app, workers);
}

/* Return: the listening socket; @port becomes the one in use. */
static int listen_on(int *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)*port) };
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		die("socket");
	if (bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, SOMAXCONN) < 0)
		die("bind");
	if (getsockname(fd, (struct sockaddr *)&address, &len) < 0)
		die("getsockname");
	*port = ntohs(address.sin_port);
	return fd;
}

/*
 * The segment is made if it does not exist, and stays when the server ends; `lockctl rm` removes it.  If it is
 * removed while the server runs, the workers reply 500 until the server is started again: opening a new segment while
 * a worker may still hold locks of the old one would give two workers the same lock.
 */
static lockshm_t *open_segment(const char *name)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_error error = { 0 };
	lockshm_t *locks = NULL;

	options.flags = LOCKSHM_CREATE_OR_OPEN;
	if (lockshm_create(&locks, name, &options, &error) < 0) {
		fprintf(stderr, "prefork: segment %s: %s\n", name, error.message);
		exit(EXIT_FAILURE);
	}
	return locks;
}

static int parse_number(const char *s, int min, int max)
{
	char *end;
	long n = strtol(s, &end, 10);

	if (*s == '\0' || *end != '\0' || n < min || n > max) {
		fprintf(stderr, "prefork: '%s' is not a number from %d to %d\n", s, min, max);
		exit(2);
	}
	return (int)n;
}

static struct options parse_options(int argc, char **argv)
{
	struct options o = { .segment = "/prefork", .port = 0, .workers = 4 };
	int c;

	while ((c = getopt(argc, argv, "n:p:w:")) != -1) {
		if (c == 'n')
			o.segment = optarg;
		else if (c == 'p')
			o.port = parse_number(optarg, 0, 65535);
		else if (c == 'w')
			o.workers = parse_number(optarg, 1, WORKERS_MAX);
		else
			exit(2);
	}
	if (optind < argc) {
		fprintf(stderr, "usage: prefork [-n SEGMENT] [-p PORT] [-w WORKERS]\n");
		exit(2);
	}
	return o;
}

int main(int argc, char **argv)
{
	struct options o = parse_options(argc, argv);
	struct app app = { 0 };
	int listener;

	app.locks = open_segment(o.segment);
	app.shared = mmap(NULL, sizeof(*app.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (app.shared == MAP_FAILED)
		die("mmap");
	listener = listen_on(&o.port);
	printf("prefork: http://127.0.0.1:%d segment %s workers %d master %d\n", o.port, o.segment, o.workers,
	       (int)getpid());
	fflush(stdout);
	master_main(&app, listener, o.workers);
	lockshm_close(app.locks);
	return EXIT_SUCCESS;
}
