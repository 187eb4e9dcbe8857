/* SPDX-License-Identifier: MIT */
/* test-conn-open.c - connecting to real servers and logging in */
#define _GNU_SOURCE
#include "redis-support/redis.h"
#include "redis-support/sockets.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A deadline that passes without a reply. */
#define SHORT REDIS_MS(100)

static const char *why(struct redis_conn *c)
{
	return redis_conn_error(c)->text;
}

/* ---------------------------------------------------------------- connecting */

START_TEST(handshake_over_a_unix_socket)
{
	struct redis_conn_options options = { .name = "lockshm-test" };
	struct redis_conn *c = conn_to(redis->uri, &options);
	const struct redis_server_info *info = redis_conn_info(c);

	ck_assert_str_eq(call(c, "CLIENT GETNAME"), "lockshm-test");
	ck_contains(redis_say(redis, "INFO server"), info->run_id);
	ck_assert_uint_eq(strlen(info->run_id), 40);
	ck_assert_int_ge(info->uptime_s, 0);
	ck_assert(info->version[0] != '\0');
	ck_assert(!info->replica && !info->cluster);
	ck_assert_int_gt(info->round_trip_ns, 0);
	redis_conn_free(c);
}
END_TEST

START_TEST(handshake_over_tcp)
{
	struct redis_conn *c = conn_to(redis->tcp_uri, NULL);

	ck_assert_str_eq(call(c, "SET a 1"), "OK");
	ck_redis("1", redis, "GET a");
	ck_assert(redis_conn_ready(c));
	redis_conn_free(c);
}
END_TEST

/* No server may be listening on the first address of a name. */
START_TEST(tries_every_address)
{
	char uri[64];
	struct redis_conn *c;

	snprintf(uri, sizeof(uri), "redis://localhost:%d", redis->port);
	c = conn_to(uri, NULL);
	ck_assert_str_eq(call(c, "PING"), "PONG");
	redis_conn_free(c);
}
END_TEST

START_TEST(selects_the_database)
{
	char uri[160];
	struct redis_conn *c;

	snprintf(uri, sizeof(uri), "%s?db=3", redis->uri);
	c = conn_to(uri, NULL);
	ck_assert_str_eq(call(c, "SET a 1"), "OK");
	ck_redis("(nil)", redis, "GET a");
	redis_conn_free(c);

	snprintf(uri, sizeof(uri), "%s?db=99", redis->uri);
	c = conn_to(uri, NULL);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_INVALID);
	ck_contains(why(c), "SELECT");
	redis_conn_free(c);
}
END_TEST

START_TEST(descriptor_is_closed_by_exec)
{
	struct redis_conn *c = conn_to(redis->uri, NULL);

	call(c, "PING");
	ck_assert_int_eq(fcntl(redis_conn_fd(c), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	ck_assert_int_eq(fcntl(redis_conn_fd(c), F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	redis_conn_free(c);
}
END_TEST

START_TEST(no_listener)
{
	struct redis_conn *c = conn_to("unix:///nowhere/redis.sock", NULL);

	ck_code(try_call(c, PATIENCE, "PING"), REDIS_UNREACHABLE);
	ck_contains(why(c), "unix:///nowhere/redis.sock: cannot connect: No such file");
	redis_conn_free(c);

	c = conn_to("redis://127.0.0.1:1", NULL);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_UNREACHABLE);
	ck_contains(why(c), "Connection refused");
	redis_conn_free(c);
}
END_TEST

START_TEST(a_name_without_address)
{
	struct redis_conn *c = conn_to("redis://no-such-host.invalid", NULL);

	ck_code(try_call(c, PATIENCE, "PING"), REDIS_UNREACHABLE);
	ck_contains(why(c), "redis://no-such-host.invalid:6379: no address");
	redis_conn_free(c);
}
END_TEST

/* A stopped server still accepts connections. */
START_TEST(a_stopped_server_is_not_connected)
{
	struct redis *r = redis_start(NULL, true);
	struct redis_conn *c = conn_to(r->tcp_uri, NULL);

	redis_freeze(r);
	ck_code(try_call(c, SHORT, "PING"), REDIS_UNREACHABLE);
	ck_contains(why(c), "no reply to the handshake");
	redis_thaw(r);
	ck_assert_str_eq(call(c, "PING"), "PONG");
	redis_conn_free(c);
	redis_stop(r);
}
END_TEST

/* A server of another protocol. */
START_TEST(not_a_redis_server)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char uri[160];
	struct redis_conn *c;
	pid_t pid;

	snprintf(un.sun_path, sizeof(un.sun_path), "%s/other.sock", redis->dir);
	snprintf(uri, sizeof(uri), "unix://%s", un.sun_path);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&un, sizeof(un)), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	pid = fork();
	if (pid == 0) {
		int fd = accept(listener, NULL, NULL);

		dprintf(fd, "SSH-2.0-other\r\n");
		pause();
	}
	c = conn_to(uri, NULL);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_PROTOCOL);
	kill(pid, SIGKILL);
	close(listener);
	redis_conn_free(c);
}
END_TEST

START_TEST(no_descriptor_left)
{
	struct redis_conn *c = conn_to(redis->uri, NULL);
	struct rlimit limit, few;

	getrlimit(RLIMIT_NOFILE, &limit);
	few = limit;
	few.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &few);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_NO_MEMORY);
	ck_contains(why(c), "Too many open files");
	setrlimit(RLIMIT_NOFILE, &limit);
	ck_assert_str_eq(call(c, "PING"), "PONG");
	redis_conn_free(c);
}
END_TEST

/* ---------------------------------------------------------------- logging in */

START_TEST(passwords_and_users)
{
	struct redis *r = redis_start("requirepass sesame\nuser bob on >builder ~* &* +@all", false);
	struct redis_server server = server_of(r->uri);
	struct redis_error error;
	char uri[200];
	struct redis_conn *c;

	c = conn_to(r->uri, NULL);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_DENIED);
	ck_contains(why(c), "NOAUTH");
	redis_conn_free(c);
	server.credentials = r->dir;
	ck_code(redis_conn_new(&c, &server, NULL, &error), 0);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_DENIED);
	ck_contains(why(c), "no file password in ");
	ck_contains(why(c), r->dir);
	redis_conn_free(c);

	snprintf(uri, sizeof(uri), "unix://:wrong@%s", r->socket);
	c = conn_to(uri, NULL);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_DENIED);
	ck_contains(why(c), "AUTH: WRONGPASS");
	ck_assert_ptr_null(strstr(why(c), "wrong@"));
	redis_conn_free(c);

	snprintf(uri, sizeof(uri), "unix://:sesame@%s", r->socket);
	c = conn_to(uri, NULL);
	ck_assert_str_eq(call(c, "ACL WHOAMI"), "default");
	redis_conn_free(c);

	snprintf(uri, sizeof(uri), "unix://bob:builder@%s", r->socket);
	server = server_of(uri);
	ck_code(redis_conn_new(&c, &server, NULL, &error), 0);
	ck_assert_str_eq(call(c, "ACL WHOAMI"), "bob");
	/* Read again at each connect. */
	credential_write(server.credentials, "password", r->uri, "other\n");
	redis_conn_close(c);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_DENIED);
	redis_conn_free(c);
	redis_stop(r);
}
END_TEST

START_TEST(an_unneeded_password)
{
	char uri[200];
	struct redis_conn *c;

	snprintf(uri, sizeof(uri), "unix://:word@%s", redis->socket);
	c = conn_to(uri, NULL);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_DENIED);
	ck_contains(why(c), "AUTH");
	redis_conn_free(c);
}
END_TEST

/* The error names a missing right; a right that is not essential may be missing. */
START_TEST(rights_for_the_handshake)
{
	static const char *const scripts[] = { "return 1" };
	struct redis_conn_options options = { .name = "n", .scripts = scripts, .n_scripts = 1 };
	struct redis_conn *c;
	char uri[200];

	ck_redis("OK", redis, "ACL SETUSER poor on >pw ~* +ping +auth +select");
	snprintf(uri, sizeof(uri), "unix://poor:pw@%s", redis->socket);
	c = conn_to(uri, &options);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_DENIED);
	ck_contains(why(c), "INFO server: NOPERM");
	ck_redis("OK", redis, "ACL SETUSER poor +info");
	ck_assert_str_eq(call(c, "PING"), "PONG");
	ck_assert_ptr_null(redis_conn_script(c, 0));
	redis_conn_free(c);
	ck_redis("1", redis, "ACL DELUSER poor");
}
END_TEST

START_TEST(scripts_are_loaded_at_each_connect)
{
	static const char *const scripts[] = { "return 1", "return 2" };
	struct redis_conn_options options = { .scripts = scripts, .n_scripts = 2 };
	struct redis_conn *c = conn_to(redis->uri, &options);

	call(c, "PING");
	ck_assert_str_eq(call(c, "EVALSHA %s 0", redis_conn_script(c, 1)), "2");
	ck_redis("OK", redis, "SCRIPT FLUSH");
	redis_conn_close(c);
	call(c, "PING");
	ck_assert_str_eq(call(c, "EVALSHA %s 0", redis_conn_script(c, 0)), "1");
	ck_assert_uint_eq(redis_conn_generation(c), 2);
	redis_conn_free(c);
}
END_TEST

START_TEST(a_replica_is_refused)
{
	struct redis_conn_options options = { .replica_ok = true };
	char config[160];
	struct redis *r;
	struct redis_conn *c;

	snprintf(config, sizeof(config), "replicaof 127.0.0.1 %d", redis->port);
	r = redis_start(config, false);
	c = conn_to(r->uri, NULL);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_RETRY);
	ck_contains(why(c), "is a replica (of 127.0.0.1:");
	redis_conn_free(c);
	c = conn_to(r->uri, &options);
	ck_assert_str_eq(call(c, "PING"), "PONG");
	ck_assert(redis_conn_info(c)->replica);
	ck_contains(call(c, "SET a b"), "READONLY");
	ck_code(redis_conn_error(c)->code, REDIS_RETRY);
	redis_conn_free(c);
	redis_stop(r);
}
END_TEST

START_TEST(a_server_that_is_full)
{
	struct redis *r = redis_start("maxclients 1", false);
	struct redis_conn *c = conn_to(r->uri, NULL), *d = conn_to(r->uri, NULL);

	/* redis_start() has just closed a connection of its own. */
	while (try_call(c, PATIENCE, "PING") != 0)
		ck_code(redis_conn_error(c)->code, REDIS_RETRY);
	ck_code(try_call(d, PATIENCE, "PING"), REDIS_RETRY);
	ck_contains(why(d), "max number of clients");
	redis_conn_free(c);
	redis_conn_free(d);
	redis_stop(r);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, handshake_over_a_unix_socket);
	tcase_add_test(tc, handshake_over_tcp);
	if (localhost_is_known())
		tcase_add_test(tc, tries_every_address);
	tcase_add_test(tc, selects_the_database);
	tcase_add_test(tc, descriptor_is_closed_by_exec);
	tcase_add_test(tc, no_listener);
	tcase_add_test(tc, a_name_without_address);
	tcase_add_test(tc, a_stopped_server_is_not_connected);
	tcase_add_test(tc, not_a_redis_server);
	tcase_add_test(tc, no_descriptor_left);
	tcase_add_test(tc, passwords_and_users);
	tcase_add_test(tc, an_unneeded_password);
	tcase_add_test(tc, rights_for_the_handshake);
	tcase_add_test(tc, scripts_are_loaded_at_each_connect);
	tcase_add_test(tc, a_replica_is_refused);
	tcase_add_test(tc, a_server_that_is_full);
}

int main(void)
{
	return redis_main("bridge-connect", add);
}
