/* SPDX-License-Identifier: MIT */
/* server.c - real Redis servers for tests; see redis.h */
#define _GNU_SOURCE
#include "redis.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/stalls.h"

struct redis *redis;

static char prefix[40];

int64_t soon(void)
{
	return redis_now() + PATIENCE;
}

/* ---------------------------------------------------------------- commands */

static FILE *dial(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0)
		return fdopen(fd, "r+");
	close(fd);
	return NULL;
}

/* Reads one reply and writes it as text; false at the end of the stream. */
static bool read_reply(FILE *in, FILE *out)
{
	char line[4096];
	long n;

	if (!fgets(line, sizeof(line), in))
		return false;
	line[strcspn(line, "\r\n")] = '\0';
	n = atol(line + 1);
	switch (line[0]) {
	case '$':
		if (n < 0) {
			fputs("(nil)", out);
			return true;
		}
		while (n-- > 0)
			fputc(fgetc(in), out);
		return fgetc(in) == '\r' && fgetc(in) == '\n';
	case '*':
		fputc('[', out);
		for (long i = 0; i < n; i++) {
			if (i)
				fputc(' ', out);
			if (!read_reply(in, out))
				return false;
		}
		fputc(']', out);
		return true;
	default:
		fputs(line + 1, out);
		return true;
	}
}

const char *redis_say(struct redis *r, const char *format, ...)
{
	static char *text;
	static size_t len;
	va_list args;
	FILE *out;
	bool ok;

	if (!r->say)
		r->say = dial(r->socket);
	ck_assert_msg(r->say != NULL, "no connection to %s", r->socket);
	fseek(r->say, 0, SEEK_CUR);
	va_start(args, format);
	vfprintf(r->say, format, args);
	va_end(args);
	fputs("\r\n", r->say);
	fflush(r->say);
	free(text);
	out = open_memstream(&text, &len);
	ok = read_reply(r->say, out);
	fclose(out);
	if (!ok) {
		fclose(r->say);
		r->say = NULL;
	}
	return text;
}

/* ---------------------------------------------------------------- starting and stopping */

static int free_port(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	bind(fd, (struct sockaddr *)&in, sizeof(in));
	getsockname(fd, (struct sockaddr *)&in, &len);
	close(fd);
	return ntohs(in.sin_port);
}

static void become_server(struct redis *r)
{
	char conf[96];
	int null = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(null, 0);
	if (r->clock_us) {
		setenv("LD_PRELOAD", r->shim, 1);
		setenv("LOCKSHM_TEST_CLOCK", r->clock_file, 1);
	}
	snprintf(conf, sizeof(conf), "%s/redis.conf", r->dir);
	execlp("redis-server", "redis-server", conf, (char *)NULL);
	_exit(127);
}

struct started {
	struct redis *r;
	bool ended;
};

static bool answers(void *arg)
{
	struct started *s = arg;
	FILE *f;
	bool ok;

	if (waitpid(s->r->pid, NULL, WNOHANG) == s->r->pid) {
		s->ended = true;
		return true;
	}
	f = dial(s->r->socket);
	if (!f)
		return false;
	ok = fputs("PING\r\n", f) >= 0 && fflush(f) == 0 && fgetc(f) != EOF;
	fclose(f);
	return ok;
}

/* False if it ended at once: another process took its port meanwhile. */
static bool launch(struct redis *r)
{
	struct started s = { r, false };

	fflush(NULL);
	r->pid = fork();
	if (r->pid == 0)
		become_server(r);
	ck_assert_msg(await(answers, &s), "redis-server does not answer");
	return !s.ended;
}

static void configure(struct redis *r, const char *config, bool tls)
{
	char path[96];
	FILE *f;

	snprintf(path, sizeof(path), "%s/redis.conf", r->dir);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fprintf(f, "port %d\nbind 127.0.0.1\nunixsocket %s\ndir %s\nsave \"\"\nlogfile %s/log\n", r->port, r->socket,
		r->dir, r->dir);
	fprintf(f, "databases 16\nenable-debug-command yes\n%s\n", config ? config : "");
	fprintf(f, "user web on >web %s\n", smallest_rights());
	if (tls) {
		fprintf(f, "tls-port %d\ntls-auth-clients no\n", r->tls_port);
		fprintf(f, "tls-ca-cert-file %s\n", tls_file("ca.crt"));
		fprintf(f, "tls-cert-file %s\n", tls_file("server.crt"));
		fprintf(f, "tls-key-file %s\n", tls_file("server.key"));
	}
	fclose(f);
}

/* In the build directory of this program, where libtool puts it. */
static void find_shim(char *out, size_t size)
{
	char exe[256] = "";
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	ck_assert_int_gt(n, 0);
	/* From tests/<folder>/<program> to tests/. */
	*strrchr(exe, '/') = '\0';
	*strrchr(exe, '/') = '\0';
	snprintf(out, size, "%s/.libs/libclockshift.so", exe);
	ck_assert_msg(access(out, R_OK) == 0, "there is no %s", out);
}

static void own_clock(struct redis *r)
{
	int fd;

	find_shim(r->shim, sizeof(r->shim));
	snprintf(r->clock_file, sizeof(r->clock_file), "%s/clock", r->dir);
	fd = open(r->clock_file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(ftruncate(fd, sizeof(*r->clock_us)), 0);
	r->clock_us = mmap(NULL, sizeof(*r->clock_us), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(r->clock_us, MAP_FAILED);
	close(fd);
}

void redis_dir(char out[64])
{
	snprintf(out, 64, "%sXXXXXX", prefix);
	ck_assert_ptr_nonnull(mkdtemp(out));
}

enum { TCP = 1, CLOCK = 2, TLS = 4 };

static struct redis *start(const char *config, int with)
{
	struct redis *r = calloc(1, sizeof(*r));
	int tries;

	redis_dir(r->dir);
	if (with & CLOCK)
		own_clock(r);
	snprintf(r->socket, sizeof(r->socket), "%s/redis.sock", r->dir);
	snprintf(r->uri, sizeof(r->uri), "unix://%s", r->socket);
	for (tries = 0; tries < 20; tries++) {
		r->port = with & TCP ? free_port() : 0;
		r->tls_port = with & TLS ? free_port() : 0;
		configure(r, config, with & TLS);
		if (!launch(r))
			continue;
		if (with & TCP)
			snprintf(r->tcp_uri, sizeof(r->tcp_uri), "redis://127.0.0.1:%d", r->port);
		if (with & TLS)
			snprintf(r->tls_uri, sizeof(r->tls_uri), "rediss://127.0.0.1:%d?tls-ca=%s", r->tls_port,
				 tls_file("ca.crt"));
		return r;
	}
	ck_abort_msg("redis-server does not start; see %s/log", r->dir);
	return NULL;
}

struct redis *redis_start(const char *config, bool tcp)
{
	return start(config, tcp ? TCP : 0);
}

struct redis *redis_start_with_clock(const char *config)
{
	return start(config, CLOCK);
}

struct redis *redis_start_tls(const char *config)
{
	return start(config, TCP | TLS);
}

void redis_step(struct redis *r, int64_t ms)
{
	__atomic_add_fetch(r->clock_us, ms * 1000, __ATOMIC_ACQ_REL);
}

void redis_kill(struct redis *r)
{
	if (r->say)
		fclose(r->say);
	r->say = NULL;
	kill(r->pid, SIGKILL);
	waitpid(r->pid, NULL, 0);
	unlink(r->socket);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

void redis_lose(struct redis *r)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/appendonlydir", r->dir);
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void redis_restart(struct redis *r)
{
	ck_assert_msg(launch(r), "redis-server does not start again");
}

void redis_stop(struct redis *r)
{
	redis_kill(r);
	nftw(r->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(r);
}

void redis_freeze(struct redis *r)
{
	kill(r->pid, SIGSTOP);
	waitpid(r->pid, NULL, WUNTRACED);
}

void redis_thaw(struct redis *r)
{
	kill(r->pid, SIGCONT);
}

/* ---------------------------------------------------------------- shortcuts */

struct redis_server server_of(const char *uri)
{
	struct redis_server server[1];
	struct lockshm_error error;
	char rest[600];
	const char *dir = login_split(uri, rest, sizeof(rest));
	size_t n;

	ck_assert_msg(redis_uri_parse(rest, dir, server, 1, &n, &error) == 0, "%s: %s", uri, error.message);
	return server[0];
}

struct redis_conn *conn_to(const char *uri, const struct redis_conn_options *options)
{
	struct redis_server server = server_of(uri);
	struct redis_error error;
	struct redis_conn *c;

	ck_assert_msg(redis_conn_new(&c, &server, options, &error) == 0, "%s: %s", uri, error.text);
	return c;
}

static void print_reply(FILE *out, const struct redis_reply *r)
{
	size_t i, len, n = redis_reply_count(r);
	const char *text = redis_reply_text(r, &len);

	if (text) {
		fwrite(text, 1, len, out);
	} else if (redis_reply_is_nil(r)) {
		fputs("(nil)", out);
	} else if (redis_reply_is_array(r)) {
		for (i = 0; i < n; i++) {
			fputc(i ? ' ' : '[', out);
			print_reply(out, redis_reply_at(r, i));
		}
		fputs(n ? "]" : "[]", out);
	} else {
		fprintf(out, "%lld", (long long)redis_reply_integer(r, -999));
	}
}

const char *call(struct redis_conn *c, const char *format, ...)
{
	static char *text;
	static size_t len;
	char line[2048], *save = NULL, *word;
	struct redis_reply *reply;
	const char *argv[32];
	va_list args;
	int argc = 0;
	FILE *out;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	for (word = strtok_r(line, " ", &save); word && argc < 32; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	if (redis_conn_call(c, soon(), &reply, argc, argv, NULL) != 0)
		return redis_conn_error(c)->text;
	free(text);
	out = open_memstream(&text, &len);
	print_reply(out, reply);
	fclose(out);
	redis_reply_free(reply);
	return text;
}

int try_call(struct redis_conn *c, int64_t ns, const char *word)
{
	const char *argv[] = { word };
	struct redis_reply *reply = NULL;
	int code = redis_conn_call(c, redis_now() + ns, &reply, 1, argv, NULL);

	redis_reply_free(reply);
	return code;
}

/* ---------------------------------------------------------------- main */

static bool have_server(void)
{
	int status = system("redis-server --version >/dev/null 2>&1");

	return status == 0;
}

static void empty(void)
{
	/* The child must not use the runner's connection. */
	redis->say = NULL;
	ck_redis("OK", redis, "FLUSHALL");
	ck_redis("OK", redis, "SCRIPT FLUSH");
	ck_redis("OK", redis, "CONFIG SET maxmemory 0");
}

static void remove_leftovers(void)
{
	char pattern[64];
	glob_t found;
	size_t i;

	snprintf(pattern, sizeof(pattern), "%s*", prefix);
	if (glob(pattern, 0, NULL, &found) != 0)
		return;
	for (i = 0; i < found.gl_pathc; i++)
		nftw(found.gl_pathv[i], remove_one, 8, FTW_DEPTH | FTW_PHYS);
	globfree(&found);
}

static void start_shared(void)
{
	redis = redis_start(NULL, true);
}

static void stop_shared(void)
{
	redis_stop(redis);
}

static int run_suite(const char *name, void (*add)(TCase *tc), bool with_server)
{
	Suite *suite = suite_create(name);
	TCase *tc = tcase_create(name);
	SRunner *sr = srunner_create(suite);
	int failed;

	stalls_watch();
	if (with_server) {
		/* Once, in the runner. */
		tcase_add_unchecked_fixture(tc, start_shared, stop_shared);
		tcase_add_checked_fixture(tc, empty, NULL);
	}
	tcase_set_timeout(tc, 180);
	add(tc);
	suite_add_tcase(suite, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int suite_main(const char *name, void (*add)(TCase *tc))
{
	return run_suite(name, add, false);
}

int redis_main(const char *name, void (*add)(TCase *tc))
{
	int status;

	if (!have_server()) {
		puts("skipped: there is no redis-server");
		return 77;
	}
	snprintf(prefix, sizeof(prefix), "/tmp/lockshm-test-%d-", (int)getpid());
	status = run_suite(name, add, true);
	remove_leftovers();
	return status;
}
