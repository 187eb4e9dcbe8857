/* SPDX-License-Identifier: MIT */
/* test-uri.c - URIs of Redis servers, credentials, and classes of error replies */
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
	return redis_uri_parse(text, NULL, servers, REDIS_SERVERS_MAX, &n, &error);
}

#define ck_parses(uri) ck_assert_msg(parse(uri) == 0, "%s: %s", uri, error.message)
#define ck_refused(uri, why)                                                                                           \
	do {                                                                                                           \
		ck_assert_int_eq(parse(uri), LOCKSHM_INVALID);                                                         \
		ck_contains(error.message, why);                                                                       \
	} while (0)

START_TEST(tcp_in_full)
{
	ck_parses("redis://Redis.Example:6380/3");
	ck_assert_uint_eq(n, 1);
	ck_assert_str_eq(servers[0].host, "redis.example");
	ck_assert_str_eq(servers[0].port, "6380");
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
	ck_parses("redis://h/");
	ck_assert_int_eq(servers[0].db, 0);
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
	ck_parses("rediss://H/2");
	ck_assert_str_eq(servers[0].host, "h");
	ck_assert_str_eq(servers[0].port, "6379");
	ck_assert_int_eq(servers[0].db, 2);
	/* Another node of its cluster. */
	redis_server_at(&node, &servers[0], "::1", "7");
	ck_assert(node.tls);
	ck_assert_str_eq(node.label, "rediss://[::1]:7");
	ck_parses("redis://h");
	ck_assert(!servers[0].tls);
	ck_refused("rediss://.example", "begins with a dot");
	ck_refused("redis://a,rediss://A", "same server");
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
	ck_refused("unix:///s?db=", "database");
	ck_refused("unix:///s?db=x", "database");
	ck_refused("redis://h h", "blank");
	ck_refused("redis://h%41", "no escapes");
	ck_refused("unix:///s%2C", "no escapes");
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

/* What had a place in URIs has another one, which the message names. */
START_TEST(neither_login_nor_files)
{
	static const char *const texts[] = {
		"redis://u:hunter2@h",	"redis://:p@h",		   "redis://u@h",	     "redis://@h",
		"unix://u:p@/s",	"redis://h?password-file=/f", "redis://h?password-env=X", "rediss://h?tls-ca=/a",
		"rediss://h?tls-name=n", "redis://h?db=1",	   "redis://h?",	     "unix:///s?db=1&password-file=/f",
	};
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		ck_refused(texts[i], "credentials directory, see lockshm-bridge(8)");
		ck_contains(error.message, "Redis URI 1");
		ck_assert_msg(!strstr(error.message, "hunter2"), "%s", error.message);
	}
	ck_refused("unix:///s?x=1", "no options but db=NUMBER");
}
END_TEST

/* ---------------------------------------------------------------- credentials */

static char password[REDIS_PASSWORD_MAX], dir[] = "/tmp/lockshm-test-credentialsXXXXXX";
static size_t len;

static void put(const char *name, const char *text, mode_t mode)
{
	char path[200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	chmod(path, mode);
}

static void make_dir(void)
{
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static int ask(const char *uri)
{
	int code;

	memset(password, 0, sizeof(password));
	len = 0;
	ck_parses(uri);
	servers[0].credentials = dir;
	code = redis_credentials_find(&servers[0], &trouble);
	return code ? code : redis_password(&servers[0], password, &len, &trouble);
}

#define ck_password(uri, want)                                                                                         \
	do {                                                                                                           \
		ck_code(ask(uri), 0);                                                                                  \
		ck_assert_str_eq(password, want);                                                                      \
	} while (0)

START_TEST(a_password)
{
	ck_password("redis://h", "");
	put("password", "first\nsecond\n", 0600);
	ck_code(ask("redis://h"), 0);
	ck_assert_uint_eq(len, 5);
	ck_assert_mem_eq(password, "first", 5);
	put("password", "one two", 0640);
	ck_password("redis://h", "one two");
	put("password", "open", 0644);
	ck_code(ask("redis://h"), REDIS_DENIED);
	ck_contains(trouble.text, "rights for others");
	put("password", "\n", 0600);
	ck_code(ask("redis://h"), REDIS_DENIED);
	ck_contains(trouble.text, "first line");
	ck_contains(trouble.text, dir);
}
END_TEST

START_TEST(a_user)
{
	put("user", "alice\n", 0644);
	ck_code(ask("redis://h"), REDIS_DENIED);
	ck_contains(trouble.text, "user but no password");
	put("password", "pw", 0600);
	ck_code(ask("redis://h"), 0);
	ck_assert_str_eq(servers[0].user, "alice");
}
END_TEST

/* Each server may have its own files. */
START_TEST(files_of_one_server)
{
	put("password", "all", 0600);
	put("password.h:6379", "h", 0600);
	put("password.[::1]:7", "six", 0600);
	put("password.run-redis-r.sock", "socket", 0600);
	ck_password("redis://H", "h");
	ck_password("rediss://h", "h");
	ck_password("redis://h:1", "all");
	ck_password("redis://[::1]:7/3", "six");
	ck_password("unix:///run/redis/r.sock?db=3", "socket");
	ck_password("unix:///run/redis", "all");
}
END_TEST

START_TEST(tls_files)
{
	put("ca.pem", "a", 0644);
	ck_code(ask("rediss://h"), 0);
	ck_contains(servers[0].tls_ca, "/ca.pem");
	ck_assert_str_eq(servers[0].tls_cert, "");
	put("cert.pem.h:6379", "c", 0644);
	ck_code(ask("rediss://h"), REDIS_DENIED);
	ck_contains(trouble.text, "need each other");
	/* Without TLS they are not looked at. */
	ck_code(ask("redis://h"), 0);
	ck_assert_str_eq(servers[0].tls_ca, "");
	put("key.pem", "k", 0600);
	ck_code(ask("rediss://h"), 0);
	ck_contains(servers[0].tls_cert, "/cert.pem.h:6379");
	put("tls-name", "other.example\n", 0644);
	ck_code(ask("rediss://h"), 0);
	ck_assert_str_eq(servers[0].tls_name, "other.example");
	put("tls-name", ".example\n", 0644);
	ck_code(ask("rediss://h"), REDIS_DENIED);
	ck_contains(trouble.text, "tls-name");
	put("tls-name", "a b", 0644);
	ck_code(ask("rediss://h"), REDIS_DENIED);
}
END_TEST

/* No directory is as an empty one; a path that cannot be looked into is an error. */
START_TEST(no_directory)
{
	ck_code(rmdir(dir), 0);
	ck_password("redis://h", "");
	ck_parses("redis://h");
	ck_code(redis_credentials_find(&servers[0], &trouble), 0);
	ck_assert_int_eq(symlink(dir, dir), 0);
	ck_code(ask("redis://h"), REDIS_DENIED);
	ck_contains(trouble.text, dir);
	ck_assert_int_eq(unlink(dir), 0);
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

static void ck_words(const char *text, const char *words)
{
	size_t bytes = strlen(text);
	const char *at = redis_error_words(text, &bytes);

	ck_assert_msg(bytes == strlen(words) && memcmp(at, words, bytes) == 0, "of '%s': '%.*s'", text, (int)bytes, at);
}

START_TEST(words_of_error_replies)
{
	ck_words("ERR unknown command", "ERR unknown command");
	ck_words("OOM no memory. script: 5c16ec56, on @user_script:140.", "OOM no memory.");
	ck_words("ERR Error running script (call to f_ab): @user_script:9: OOM no memory", "OOM no memory");
	ck_words("ERR Error running script (call to f_ab): @user_script:3: @user_script: 3: -READONLY", "-READONLY");
	ck_words("ERR a script: @user_script:", "ERR a");
	ck_words("ERR @user_script:12", "ERR @user_script:12");
	ck_words("ERR @user_script:12: ", "ERR @user_script:12: ");
	ck_words("", "");
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
	tcase_add_checked_fixture(tc, make_dir, remove_dir);
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
	tcase_add_test(tc, neither_login_nor_files);
	tcase_add_test(tc, a_password);
	tcase_add_test(tc, a_user);
	tcase_add_test(tc, files_of_one_server);
	tcase_add_test(tc, tls_files);
	tcase_add_test(tc, no_directory);
	tcase_add_test(tc, classes_of_error_replies);
	tcase_add_test(tc, classes_of_wrapped_replies);
	tcase_add_test(tc, words_of_error_replies);
	tcase_add_test(tc, what_passes);
}

int main(void)
{
	return suite_main("bridge-uri", add);
}
