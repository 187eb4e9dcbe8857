/* SPDX-License-Identifier: MIT */
/*
 * event-loop.c - single flight in an event loop: requests wait for a page, and no thread does
 *
 *   event-loop [-c CONNECTIONS] [-e MS] [-k KEYS] [-m MS] [-n SEGMENT] [-p PROCESSES] [-r REQUESTS] [-x]
 *
 *   -c 1000   connections of each process; they are simulated, all else is as in a server
 *   -e 0      a page expires after so many ms; 0 = never
 *   -k 5      pages that all of them ask for
 *   -m 50     ms that a page takes to be computed, by some backend
 *   -p 1      processes, each with one thread, one epoll instance and one loop of the library
 *   -r 10     requests of each connection, one after the other
 *   -x        the first process that computes a page is killed half-way
 *
 * All processes share a cache.  The rules, per request:
 *
 *   shared lock of the page         held at once, unless the page is being computed: then the request waits
 *   it is there                     copy it, release, reply
 *   it is not, or has expired       release, and ask for the exclusive lock
 *   exclusive lock, look again      the holder before has probably computed it
 *   compute, store, release         the backend is awaited in the event loop too; all that wait are granted together
 *
 * A killed process computes nothing more, and its locks are free at once: one of those that wait does it.  The program
 * proves at its end that no page was computed twice, and prints the longest wait.
 *
 * Read from the bottom: worker(), on_request(), on_lock(), on_computed().
 */
#include <lockshm.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KEYS_MAX = 64, PROCESSES_MAX = 64, EVENTS = 64 };

static struct options {
	int connections, expiry_ms, keys, compute_ms, processes, requests, killed;
	const char *segment;
} options = { 1000, 0, 5, 50, 1, 10, 0, "/event-loop" };

/* ---- the cache: memory that the processes share; a page is read and written under its lock ---- */

struct page {
	char key[24];
	int64_t computed_ns; /* 0 = not there; stored last, so a writer that is killed leaves nothing that looks whole */
	char text[64];
	_Atomic uint64_t computing; /* token of the one that computes it: were there two, one would find the other's */
};

static struct shared {
	struct page pages[KEYS_MAX];
	_Atomic long answered, found, waited, failed; /* requests */
	_Atomic long begun, computed, wasted;         /* computations */
	_Atomic int64_t longest_wait_ns;
	_Atomic int to_be_killed;
} *shared;

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static int page_is_fresh(const struct page *page)
{
	return page->computed_ns &&
	       (!options.expiry_ms || now_ns() - page->computed_ns < LOCKSHM_MS(options.expiry_ms));
}

static void page_store(struct page *page)
{
	page->computed_ns = 0;
	atomic_signal_fence(memory_order_seq_cst);
	snprintf(page->text, sizeof(page->text), "page %s, computed by process %d", page->key, (int)getpid());
	atomic_signal_fence(memory_order_seq_cst);
	page->computed_ns = now_ns();
}

/* ---- one process: connections, and what they wait for ---- */

struct connection {
	lockshm_hold_t hold; /* stays where it is, as the library asks for */
	struct page *page;
	int mode;
	int number;
	int left;         /* requests */
	int64_t asked_ns; /* 0 = not waiting */
	int timer;        /* of the backend's reply */
	struct connection *next;
};

struct worker {
	lockshm_loop_t *loop;
	int epoll;
	int open; /* connections */
	struct connection *ready, **ready_end; /* connections with a request that is to be read */
};

static void fail(const char *what)
{
	fprintf(stderr, "event-loop: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The client has its page, and sends its next request, or leaves. */
static void reply(struct worker *w, struct connection *c, _Atomic long *how)
{
	(*how)++;
	shared->answered++;
	if (--c->left == 0) {
		w->open--;
		return;
	}
	c->next = NULL;
	*w->ready_end = c;
	w->ready_end = &c->next;
}

static void add(struct worker *w, int fd, void *who)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = who };

	if (fd < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		fail("epoll");
}

/* The exclusive lock is held, and the page is not there: ask the backend, and serve others until it replies. */
static void compute(struct worker *w, struct connection *c)
{
	struct itimerspec reply_in = { .it_value.tv_sec = options.compute_ms / 1000,
				       .it_value.tv_nsec = options.compute_ms % 1000 * 1000000 + 1 };

	shared->begun++;
	c->page->computing = lockshm_token(&c->hold);
	c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (timerfd_settime(c->timer, 0, &reply_in, NULL) != 0)
		fail("timerfd");
	add(w, c->timer, c);
}

static void on_computed(struct worker *w, struct connection *c)
{
	if (atomic_exchange(&shared->to_be_killed, 0))
		kill(getpid(), SIGKILL);
	close(c->timer);
	page_store(c->page);
	shared->wasted += c->page->computing != lockshm_token(&c->hold);
	shared->computed++;
	if (lockshm_release(&c->hold, 0) < 0) /* LOST: it took longer than the lease, and another one may compute it too */
		fprintf(stderr, "event-loop: %s took too long\n", c->page->key);
	reply(w, c, &shared->found);
}

static void on_lock(struct worker *w, struct connection *c, int status);

/* Never waits: either the lock is held and on_lock() is called, or on_locks() will call it. */
static void ask(struct worker *w, struct connection *c, int mode)
{
	struct lockshm_request request = LOCKSHM_REQUEST(c->page->key);
	int status;

	request.mode = c->mode = mode;
	request.ttl_ns = request.timeout_ns = LOCKSHM_SECONDS(100); /* longer than the backend ever takes */
	status = lockshm_loop_acquire(w->loop, &request, &c->hold, c);
	if (status != LOCKSHM_PENDING)
		on_lock(w, c, status);
	else if (!c->asked_ns)
		c->asked_ns = now_ns();
}

static void on_request(struct worker *w, struct connection *c)
{
	c->page = &shared->pages[(c->number + c->left) % options.keys];
	c->asked_ns = 0;
	ask(w, c, LOCKSHM_SHARED);
}

static void note_wait(int64_t waited_ns)
{
	int64_t longest = shared->longest_wait_ns;

	while (waited_ns > longest && !atomic_compare_exchange_weak(&shared->longest_wait_ns, &longest, waited_ns))
		;
}

static void on_lock(struct worker *w, struct connection *c, int status)
{
	if (status < 0) {
		fprintf(stderr, "event-loop: %s: %s\n", c->page->key, lockshm_strerror(status));
		reply(w, c, &shared->failed);
	} else if (page_is_fresh(c->page)) {
		lockshm_release(&c->hold, 0);
		if (c->asked_ns)
			note_wait(now_ns() - c->asked_ns);
		reply(w, c, c->asked_ns ? &shared->waited : &shared->found);
	} else if (c->mode == LOCKSHM_SHARED) {
		lockshm_release(&c->hold, 0);
		ask(w, c, LOCKSHM_EXCLUSIVE);
	} else {
		compute(w, c);
	}
}

static void on_locks(struct worker *w)
{
	struct lockshm_outcome outcome = LOCKSHM_OUTCOME_INIT;

	while (lockshm_loop_next(w->loop, &outcome) == 1)
		on_lock(w, outcome.user, outcome.status);
}

static void on_ready(struct worker *w)
{
	while (w->ready) {
		struct connection *c = w->ready;

		w->ready = c->next;
		if (!w->ready)
			w->ready_end = &w->ready;
		on_request(w, c);
	}
}

static void open_connections(struct worker *w)
{
	struct connection *all = calloc((size_t)options.connections, sizeof(*all));

	if (!all)
		fail("memory");
	w->ready_end = &w->ready;
	for (w->open = 0; w->open < options.connections; w->open++) {
		struct connection *c = &all[w->open];

		c->number = w->open;
		c->left = options.requests;
		*w->ready_end = c;
		w->ready_end = &c->next;
	}
}

/* The handle of the parent works in a child; a loop is opened by the process that uses it. */
static int worker(lockshm_t *locks)
{
	struct worker w = { .epoll = epoll_create1(EPOLL_CLOEXEC) };
	struct epoll_event events[EVENTS];
	struct lockshm_error error;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* no worker without the parent */
	if (lockshm_loop_open(&w.loop, locks, -1, &error) != 0)
		return fprintf(stderr, "event-loop: %s\n", error.message), 1;
	add(&w, lockshm_loop_fd(w.loop), NULL);
	open_connections(&w);
	while (w.open > 0) {
		int n;

		on_ready(&w);
		n = w.open > 0 ? epoll_wait(w.epoll, events, EVENTS, -1) : 0;
		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr)
				on_computed(&w, events[i].data.ptr);
			else
				on_locks(&w);
		}
	}
	return lockshm_loop_close(w.loop) != 0;
}

/* ---- the parent ---- */

static int run_workers(lockshm_t *locks)
{
	pid_t pids[PROCESSES_MAX];
	int status, killed = 0, bad = 0;

	for (int i = 0; i < options.processes; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			fail("fork");
		if (pids[i] == 0)
			_exit(worker(locks));
	}
	for (int i = 0; i < options.processes; i++) {
		if (waitpid(pids[i], &status, 0) != pids[i])
			fail("waitpid");
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			killed++;
		else
			bad |= status != 0;
	}
	return bad || killed != options.killed;
}

static int summary(int bad)
{
	long wanted = (long)(options.processes - options.killed) * options.connections * options.requests;

	printf("%ld requests of %d connections in each of %d processes, %d killed\n", (long)shared->answered,
	       options.connections, options.processes, options.killed);
	printf("%ld replies at once or by the computing request, %ld after a wait on the loop, %ld failed\n",
	       (long)shared->found, (long)shared->waited, (long)shared->failed);
	printf("%ld computations of %d pages, %ld of them beside another one, %ld cut off by a death\n",
	       (long)shared->computed, options.keys, (long)shared->wasted, (long)(shared->begun - shared->computed));
	printf("longest wait %.1f ms, of which a computation is %d ms\n", (double)shared->longest_wait_ns / 1e6,
	       options.compute_ms);
	bad |= shared->answered < wanted || shared->failed || shared->wasted;
	bad |= shared->computed < options.keys || (!options.expiry_ms && shared->computed != options.keys);
	puts(bad ? "FAILED" : "each page was computed once");
	return bad;
}

static int number(const char *s, int min, int max)
{
	char *end;
	long n = strtol(s, &end, 10);

	if (*s == '\0' || *end != '\0' || n < min || n > max) {
		fprintf(stderr, "event-loop: '%s' is not a number from %d to %d\n", s, min, max);
		exit(2);
	}
	return (int)n;
}

static void parse_options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "c:e:k:m:n:p:r:x")) != -1) {
		switch (c) {
		case 'c': options.connections = number(optarg, 1, 100000); break;
		case 'e': options.expiry_ms = number(optarg, 0, 1000000); break;
		case 'k': options.keys = number(optarg, 1, KEYS_MAX); break;
		case 'm': options.compute_ms = number(optarg, 0, 20000); break;
		case 'n': options.segment = optarg; break;
		case 'p': options.processes = number(optarg, 1, PROCESSES_MAX); break;
		case 'r': options.requests = number(optarg, 1, 1000000); break;
		case 'x': options.killed = 1; break;
		default: exit(2);
		}
	}
	if (optind < argc || options.processes <= options.killed) {
		fprintf(stderr, "usage: see the head of event-loop.c; -x needs a process that survives\n");
		exit(2);
	}
}

/* One record for each request that waits or holds, and some that each loop has in reserve. */
static lockshm_t *open_segment(void)
{
	struct lockshm_create_options create = LOCKSHM_CREATE_INIT;
	struct lockshm_error error;
	lockshm_t *locks;
	long requests = (long)options.processes * (options.connections + options.connections / 4 + 64);

	create.flags = LOCKSHM_CREATE_OR_OPEN;
	create.requests = requests < 16384 ? 16384 : (uint32_t)requests;
	if (lockshm_create(&locks, options.segment, &create, &error) < 0) {
		fprintf(stderr, "event-loop: %s\n", error.message);
		exit(1);
	}
	return locks;
}

int main(int argc, char **argv)
{
	lockshm_t *locks;
	int bad;

	parse_options(argc, argv);
	locks = open_segment();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("mmap");
	for (int i = 0; i < options.keys; i++)
		snprintf(shared->pages[i].key, sizeof(shared->pages[i].key), "/page/%d", i);
	shared->to_be_killed = options.killed;
	bad = run_workers(locks);
	return summary(bad) || lockshm_close(locks) != 0;
}
