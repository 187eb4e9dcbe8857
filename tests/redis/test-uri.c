/* SPDX-License-Identifier: MIT */
/* test-uri.c - URIs of Redis servers, sources of passwords, and classes of error replies */
#define _GNU_SOURCE
#include "redis-support/redis.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "redis/secrets.h"
#include "redis/tls.h"

static struct redis_server servers[REDIS_SERVERS_MAX];
static struct lockshm_error error;
static struct redis_error trouble;
static size_t n;

static int parse(const char *text)
{
	memset(&error, 0, sizeof(error));
	return redis_uri_parse(text, REDIS_PRIVATE, servers, REDIS_SERVERS_MAX, &n, &error);
}

#define ck_parses(uri) ck_assert_msg(parse(uri) == 0, "%s: %s", uri, error.message)
#define ck_refused(uri, why)                                                                                           \
	do {                                                                                                           \
		ck_assert_int_eq(parse(uri), LOCKSHM_INVALID);                                                         \
		ck_contains(error.message, why);                                                                       \
	} while (0)

START_TEST(tcp_in_full)
{
	ck_parses("redis://alice:s%40crt@Redis.Example:6380/3");
	ck_assert_uint_eq(n, 1);
	ck_assert_str_eq(servers[0].host, "redis.example");
	ck_assert_str_eq(servers[0].port, "6380");
	ck_assert_str_eq(servers[0].user, "alice");
	ck_assert_str_eq(servers[0].password, "s@crt");
	ck_assert_int_eq(servers[0].db, 3);
	ck_assert_str_eq(servers[0].path, "");
	ck_assert_str_eq(servers[0].label, "redis://redis.example:6380");
}
END_TEST

START_TEST(tcp_in_short)
{
	ck_parses("redis://h");
	ck_assert_str_eq(servers[0].port, "6379");
	ck_assert_int_eq(servers[0].db, 0);
	ck_assert_str_eq(servers[0].user, "");
	ck_assert_str_eq(servers[0].password, "");
	ck_parses("redis://h/");
	ck_parses("redis://:word@h");
	ck_assert_str_eq(servers[0].user, "");
	ck_assert_str_eq(servers[0].password, "word");
	ck_parses("redis://h?db=7");
	ck_assert_int_eq(servers[0].db, 7);
}
END_TEST

START_TEST(ipv6_in_brackets)
{
	ck_parses("redis://[::1]:7000/1");
	ck_assert_str_eq(servers[0].host, "::1");
	ck_assert_str_eq(servers[0].port, "7000");
	ck_assert_str_eq(servers[0].label, "redis://[::1]:7000");
	ck_parses("redis://[fe80::1]");
	ck_assert_str_eq(servers[0].port, "6379");
	ck_refused("redis://::1:7000", "brackets");
	ck_refused("redis://[::1", "]");
	ck_refused("redis://[::1]7000", "]");
}
END_TEST

START_TEST(unix_sockets)
{
	ck_parses("unix:///run/redis/r.sock?db=2");
	ck_assert_str_eq(servers[0].path, "/run/redis/r.sock");
	ck_assert_str_eq(servers[0].host, "");
	ck_assert_int_eq(servers[0].db, 2);
	ck_parses("unix://bob:pw@/run/r.sock");
	ck_assert_str_eq(servers[0].user, "bob");
	ck_assert_str_eq(servers[0].path, "/run/r.sock");
	ck_parses("unix:///a%2Cb%3F");
	ck_assert_str_eq(servers[0].path, "/a,b?");
	ck_refused("unix://run/r.sock", "absolute");
	ck_refused("unix://", "absolute");
}
END_TEST

START_TEST(a_path_as_long_as_the_kernel_takes)
{
	char uri[200] = "unix:///";
	size_t len = strlen(uri);

	memset(uri + len, 'x', 106);
	ck_parses(uri);
	uri[len + 106] = 'x';
	ck_refused(uri, "longer than 107 bytes");
}
END_TEST

START_TEST(several)
{
	ck_parses("redis://a,redis://b:1,unix:///c");
	ck_assert_uint_eq(n, 3);
	ck_assert_str_eq(servers[1].host, "b");
	ck_assert_str_eq(servers[2].path, "/c");
	ck_refused("redis://a,", "URI 2: is empty");
	ck_refused(",redis://a", "URI 1: is empty");
	ck_refused("redis://a,redis://b:x", "URI 2: the port");
}
END_TEST

START_TEST(too_many)
{
	char text[1000] = "redis://h0";
	int i;

	for (i = 1; i < REDIS_SERVERS_MAX; i++)
		sprintf(text + strlen(text), ",redis://h%d", i);
	ck_parses(text);
	ck_assert_uint_eq(n, REDIS_SERVERS_MAX);
	strcat(text, ",redis://more");
	ck_refused(text, "more than 15");
}
END_TEST

START_TEST(the_same_server_twice)
{
	ck_refused("redis://a,redis://b,redis://A:6379", "URI 3: is the same server as number 1");
	ck_refused("redis://a/1,redis://a/2", "same server");
	ck_refused("redis://x:y@a,redis://a", "same server");
	ck_refused("unix:///s,unix:///s?db=1", "same server");
	ck_parses("redis://a:1,redis://a:2");
}
END_TEST

START_TEST(tls)
{
	struct redis_server node;

	ck_parses("rediss://h:6379");
	ck_assert(servers[0].tls);
	ck_assert_str_eq(servers[0].label, "rediss://h:6379");
	ck_parses("rediss://u@H/2?tls-ca=/a&tls-cert=/b%20c&tls-key=/d&tls-name=Name&password-env=P");
	ck_assert_str_eq(servers[0].host, "h");
	ck_assert_str_eq(servers[0].port, "6379");
	ck_assert_int_eq(servers[0].db, 2);
	ck_assert_str_eq(servers[0].tls_ca, "/a");
	ck_assert_str_eq(servers[0].tls_cert, "/b c");
	ck_assert_str_eq(servers[0].tls_key, "/d");
	ck_assert_str_eq(servers[0].tls_name, "Name");
	/* Another node of its cluster. */
	redis_server_at(&node, &servers[0], "::1", "7");
	ck_assert(node.tls);
	ck_assert_str_eq(node.label, "rediss://[::1]:7");
	ck_assert_str_eq(node.tls_ca, "/a");
	ck_parses("redis://h");
	ck_assert(!servers[0].tls);
	ck_refused("rediss://h?tls-ca=a", "absolute");
	ck_refused("rediss://h?tls-cert=/a&tls-key=b", "absolute");
	ck_refused("rediss://h?tls-cert=/a", "need each other");
	ck_refused("rediss://h?tls-key=/a", "need each other");
	ck_refused("rediss://h?tls-verify=no", "unknown option");
	ck_refused("rediss://h?tls-name=", "no value");
	ck_refused("rediss://h?tls-name=.example", "tls-name");
	ck_refused("rediss://.example", "begins with a dot");
	ck_refused("rediss://h?tls-name=a%20b", "tls-name");
	ck_refused("rediss://h?tls-name=a%0a", "tls-name");
	ck_refused("rediss://h?tls-name=a%7f", "tls-name");
	ck_refused("redis://h?tls-ca=/a", "for rediss:// only");
	ck_refused("unix:///s?tls-name=a", "for rediss:// only");
	ck_refused("redis://a,rediss://A", "same server");
	ck_assert_int_eq(redis_uri_parse("rediss://u:hunter2@h", REDIS_PUBLIC, servers, 1, &n, &error), LOCKSHM_INVALID);
	ck_contains(error.message, "password-file");
}
END_TEST

/* Its parser takes what another build, of the bridge, may connect to. */
START_TEST(tls_in_a_build_without)
{
	struct redis_conn *c;

	if (!redis_tls_missing())
		return;
	ck_parses("rediss://h:6379");
	ck_code(redis_conn_new(&c, &servers[0], NULL, &trouble), REDIS_INVALID);
	ck_assert_ptr_null(c);
	ck_contains(trouble.text, "rediss://h:6379");
	ck_contains(trouble.text, "stunnel");
}
END_TEST

START_TEST(bad_ones_with_the_reason)
{
	ck_refused("", "is empty");
	ck_refused("h:6379", "must begin with redis://");
	ck_refused("http://h", "must begin with redis://");
	ck_refused("redis://", "no host");
	ck_refused("redis://:6379", "no host");
	ck_refused("redis://h:0", "port");
	ck_refused("redis://h:65536", "port");
	ck_refused("redis://h:99999999999999999999999", "port");
	ck_refused("redis://h:", "port");
	ck_refused("redis://h:1x", "port");
	ck_refused("redis://h/x", "database");
	ck_refused("redis://h/-1", "database");
	ck_refused("redis://h/1/2", "database");
	ck_refused("redis://h?db=", "no value");
	ck_refused("redis://h?", "no value");
	ck_refused("redis://h?timeout=1", "unknown option");
	ck_refused("redis://@h", "nothing before the @");
	ck_refused("redis://u:@h", "password is empty");
	ck_refused("redis://u@h", "names a user but no password");
	ck_refused("redis://a@b@h", "more than one @");
	ck_refused("redis://h h", "blank");
	ck_refused("redis://h%zz", "hexadecimal");
	ck_refused("redis://h%4", "hexadecimal");
	ck_refused("redis://h%00", "zero byte");
}
END_TEST

START_TEST(no_message_quotes_a_password)
{
	static const char *const texts[] = {
		"redis://u:hunter2",
		"redis://:hunter2/0",
		"redis://u:p@x@hunter2:9",
		"redis://h/hunter2",
		"redis://h?hunter2",
		"redis://h?hunter2=1",
		"hunter2",
		"redis://u:p,hunter2@h",
		"redis://u:hunter2%zz@h",
		"redis://h:1?db=hunter2",
		"rediss://h?tls-ca=hunter2",
		"rediss://h?tls-hunter2=1",
	};
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		ck_assert_int_eq(parse(texts[i]), LOCKSHM_INVALID);
		ck_assert_msg(!strstr(error.message, "hunter2"), "%s", error.message);
	}
}
END_TEST

START_TEST(a_public_uri_holds_no_password)
{
	ck_assert_int_eq(redis_uri_parse("redis://u:hunter2@h", REDIS_PUBLIC, servers, 1, &n, &error), LOCKSHM_INVALID);
	ck_contains(error.message, "password-file");
	ck_assert_int_eq(redis_uri_parse("redis://u@h?password-env=PW", REDIS_PUBLIC, servers, 1, &n, &error), 0);
	ck_assert_str_eq(servers[0].user, "u");
	ck_assert_str_eq(servers[0].password_env, "PW");
}
END_TEST

START_TEST(one_source_of_a_password)
{
	ck_refused("redis://u:p@h?password-env=X", "more than one password");
	ck_refused("redis://h?password-env=X&password-file=/y", "more than one password");
	ck_refused("redis://h?password-file=y", "absolute");
}
END_TEST

/* ---------------------------------------------------------------- passwords */

static char password[REDIS_PASSWORD_MAX];
static size_t len;

static int ask_password(void)
{
	memset(password, 0, sizeof(password));
	return redis_password(&servers[0], password, &len, &trouble);
}

START_TEST(password_from_the_environment)
{
	ck_parses("redis://h?password-env=LOCKSHM_TEST_PW");
	unsetenv("LOCKSHM_TEST_PW");
	ck_code(ask_password(), REDIS_DENIED);
	ck_contains(trouble.text, "LOCKSHM_TEST_PW");
	setenv("LOCKSHM_TEST_PW", "one two", 1);
	ck_code(ask_password(), 0);
	ck_assert_uint_eq(len, 7);
	ck_assert_mem_eq(password, "one two", 7);
}
END_TEST

static void write_file(const char *path, const char *text, mode_t mode)
{
	FILE *f = fopen(path, "w");

	fputs(text, f);
	fclose(f);
	chmod(path, mode);
}

START_TEST(password_from_a_file)
{
	char path[] = "/tmp/lockshm-test-pwXXXXXX", uri[100];

	close(mkstemp(path));
	snprintf(uri, sizeof(uri), "redis://h?password-file=%s", path);
	ck_parses(uri);
	write_file(path, "first\nsecond\n", 0600);
	ck_code(ask_password(), 0);
	ck_assert_uint_eq(len, 5);
	ck_assert_mem_eq(password, "first", 5);
	write_file(path, "changed", 0640);
	ck_code(ask_password(), 0);
	ck_assert_uint_eq(len, 7);
	write_file(path, "open", 0644);
	ck_code(ask_password(), REDIS_DENIED);
	ck_contains(trouble.text, "rights for others");
	write_file(path, "\n", 0600);
	ck_code(ask_password(), REDIS_DENIED);
	ck_contains(trouble.text, "first line");
	unlink(path);
	ck_code(ask_password(), REDIS_DENIED);
	ck_contains(trouble.text, path);
}
END_TEST

START_TEST(no_password)
{
	ck_parses("redis://h");
	ck_code(ask_password(), 0);
	ck_assert_uint_eq(len, 0);
}
END_TEST

/* ---------------------------------------------------------------- error replies */

static int class_of(const char *text)
{
	return redis_error_class(text, strlen(text));
}

START_TEST(classes_of_error_replies)
{
	ck_code(class_of("BUSY Redis is busy running a script"), REDIS_RETRY);
	ck_code(class_of("LOADING Redis is loading the dataset in memory"), REDIS_RETRY);
	ck_code(class_of("READONLY You can't write against a read only replica."), REDIS_RETRY);
	ck_code(class_of("OOM command not allowed"), REDIS_RETRY);
	ck_code(class_of("NOAUTH Authentication required."), REDIS_DENIED);
	ck_code(class_of("WRONGPASS invalid username-password pair"), REDIS_DENIED);
	ck_code(class_of("NOPERM this user has no permissions"), REDIS_DENIED);
	ck_code(class_of("ERR invalid password"), REDIS_DENIED);
	ck_code(class_of("ERR The user executing the script can't run this command or subcommand"), REDIS_DENIED);
	ck_code(class_of("WRONGTYPE Operation against a key holding the wrong kind of value"), REDIS_NOT_A_LOCK);
	ck_code(class_of("MOVED 3999 127.0.0.1:6381"), REDIS_MOVED);
	ck_code(class_of("NOSCRIPT No matching script."), REDIS_NO_SCRIPT);
	ck_code(class_of("ERR max number of clients reached"), REDIS_RETRY);
	ck_code(class_of("ERR unknown command"), REDIS_REFUSED);
	ck_code(class_of("BUSYGROUP Consumer Group name already exists"), REDIS_REFUSED);
	ck_code(class_of(""), REDIS_REFUSED);
}
END_TEST

/* Before 7.0 the error of a command inside a script was wrapped. */
START_TEST(classes_of_wrapped_replies)
{
	ck_code(class_of("ERR Error running script (call to f_ab): @user_script:3: WRONGTYPE Operation against"),
		REDIS_NOT_A_LOCK);
	ck_code(class_of("ERR Error running script (call to f_ab): @user_script:3: @user_script: 3: -READONLY"),
		REDIS_REFUSED);
	ck_code(class_of("ERR Error running script (call to f_ab): @user_script:9: OOM command"), REDIS_RETRY);
	ck_code(class_of("ERR unknown OOM"), REDIS_REFUSED);
}
END_TEST

START_TEST(what_passes)
{
	ck_assert(redis_error_passes(REDIS_UNKNOWN));
	ck_assert(redis_error_passes(REDIS_RETRY));
	ck_assert(!redis_error_passes(REDIS_DENIED));
	ck_assert(!redis_error_passes(REDIS_NOT_A_LOCK));
	ck_assert_str_eq(redis_code_name(REDIS_UNKNOWN), "outcome unknown");
	ck_assert_str_eq(redis_code_name(-99), "unknown code");
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, tcp_in_full);
	tcase_add_test(tc, tcp_in_short);
	tcase_add_test(tc, ipv6_in_brackets);
	tcase_add_test(tc, unix_sockets);
	tcase_add_test(tc, a_path_as_long_as_the_kernel_takes);
	tcase_add_test(tc, several);
	tcase_add_test(tc, too_many);
	tcase_add_test(tc, the_same_server_twice);
	tcase_add_test(tc, tls);
	tcase_add_test(tc, tls_in_a_build_without);
	tcase_add_test(tc, bad_ones_with_the_reason);
	tcase_add_test(tc, no_message_quotes_a_password);
	tcase_add_test(tc, a_public_uri_holds_no_password);
	tcase_add_test(tc, one_source_of_a_password);
	tcase_add_test(tc, password_from_the_environment);
	tcase_add_test(tc, password_from_a_file);
	tcase_add_test(tc, no_password);
	tcase_add_test(tc, classes_of_error_replies);
	tcase_add_test(tc, classes_of_wrapped_replies);
	tcase_add_test(tc, what_passes);
}

int main(void)
{
	return suite_main("bridge-uri", add);
}
