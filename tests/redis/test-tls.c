/* SPDX-License-Identifier: MIT */
/* test-tls.c - connections over TLS to a real server: verification, network faults */
#define _GNU_SOURCE
#include "redis-support/redis.h"
#include "redis-support/sockets.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHORT REDIS_MS(200)

static struct redis_conn *c;
static struct redis_reply *reply;

/* Before each case. */
static void restore(void)
{
	tls_presents("server.crt", "server.key");
	ck_redis("OK", redis, "CONFIG SET tls-auth-clients no");
	ck_redis("OK", redis, "CONFIG SET tls-protocols \"\"");
}

static const char *why(void)
{
	return redis_conn_error(c)->text;
}

/* A connection with these options. */
static struct redis_conn *with(const char *options)
{
	return conn_to(tls_with(redis->tls_uri, "%s", options), NULL);
}

static struct redis_conn *with_cert(const char *cert, const char *key)
{
	return conn_to(tls_with(redis->tls_uri, "?tls-ca=%s&tls-cert=%s&tls-key=%s", tls_file("ca.crt"), tls_file(cert),
				tls_file(key)),
		       NULL);
}

/* No reply of the server may be known then. */
static void is_refused(int code, const char *part)
{
	ck_code(try_call(c, PATIENCE, "PING"), code);
	ck_contains(why(), part);
	ck_contains(why(), "rediss://127.0.0.1:");
	ck_assert(redis_conn_closed(c));
	ck_assert_str_eq(redis_conn_info(c)->run_id, "");
	redis_conn_free(c);
}

static void is_taken(void)
{
	ck_assert_str_eq(call(c, "PING"), "PONG");
	redis_conn_free(c);
}

/* ---------------------------------------------------------------- commands */

START_TEST(commands)
{
	c = conn_to(redis->tls_uri, NULL);
	ck_assert_str_eq(call(c, "SET a hello"), "OK");
	ck_redis("hello", redis, "GET a");
	ck_assert_str_eq(redis_conn_label(c), tls_with(redis->tls_uri, "%s", ""));
	ck_assert_int_gt(redis_conn_info(c)->round_trip_ns, 0);
	ck_assert_uint_eq(redis_conn_generation(c), 1);
	redis_conn_free(c);
}
END_TEST

START_TEST(login_and_database)
{
	struct redis_server server;

	ck_redis("OK", redis, "ACL SETUSER me on >secret allkeys allchannels allcommands");
	c = conn_to(tls_with(redis->tls_uri, "/3?tls-ca=%s", tls_file("ca.crt")), NULL);
	ck_assert_str_eq(call(c, "SET a 1"), "OK");
	ck_redis("(nil)", redis, "GET a");
	redis_conn_free(c);
	server = server_of(tls_with("rediss://me:wrong@127.0.0.1", ":%d?tls-ca=%s", redis->tls_port, tls_file("ca.crt")));
	ck_code(redis_conn_new(&c, &server, NULL, NULL), 0);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_DENIED);
	ck_contains(why(), "WRONGPASS");
	credential_write(server.credentials, "password", server.label, "secret");
	ck_assert_str_eq(call(c, "ACL WHOAMI"), "me");
	redis_conn_free(c);
	ck_redis("1", redis, "ACL DELUSER me");
}
END_TEST

/* More than a socket takes at once, and more than a TLS record holds. */
START_TEST(large)
{
	static char big[1000000];
	const char *set[] = { "SET", "k", big }, *get[] = { "GET", "k" };
	size_t lens[] = { 3, 1, sizeof(big) }, len, i;
	const char *got;

	for (i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 7 + i / 4096);
	c = conn_to(redis->tls_uri, NULL);
	ck_code(redis_conn_call(c, soon(), &reply, 3, set, lens), 0);
	redis_reply_free(reply);
	ck_code(redis_conn_call(c, soon(), &reply, 2, get, lens), 0);
	got = redis_reply_text(reply, &len);
	ck_assert_uint_eq(len, sizeof(big));
	ck_assert(memcmp(got, big, len) == 0);
	redis_reply_free(reply);
	redis_conn_free(c);
}
END_TEST

START_TEST(pipeline_keeps_the_order)
{
	char text[16];
	int i;

	c = conn_to(redis->tls_uri, NULL);
	call(c, "PING");
	for (i = 0; i < 3000; i++) {
		const char *argv[] = { "ECHO", text };

		snprintf(text, sizeof(text), "%d", i);
		ck_code(redis_conn_send(c, soon(), 2, argv, NULL), 0);
	}
	for (i = 0; i < 3000; i++) {
		snprintf(text, sizeof(text), "%d", i);
		while (!(reply = redis_conn_take(c))) {
			ck_assert_msg(!redis_conn_closed(c), "%s", why());
			redis_conns_poll(&c, 1, soon());
		}
		ck_assert(redis_reply_equals(reply, text));
		redis_reply_free(reply);
	}
	redis_conn_free(c);
}
END_TEST

/* A waiter must sleep, not spin: TLS messages without data are no event for the caller. */
START_TEST(nothing_to_do_while_nothing_comes)
{
	c = conn_to(redis->tls_uri, NULL);
	call(c, "PING");
	redis_conns_poll(&c, 1, redis_now() + SHORT / 4);
	ck_assert_int_eq(redis_conn_events(c), POLLIN);
	redis_conn_free(c);
}
END_TEST

/* ---------------------------------------------------------------- verification of the server */

START_TEST(not_trusted)
{
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s", tls_file("strange-ca.crt")), NULL);
	is_refused(REDIS_DENIED, "certificate");
	tls_presents("strange-server.crt", "strange-server.key");
	c = conn_to(redis->tls_uri, NULL);
	is_refused(REDIS_DENIED, "certificate");
}
END_TEST

START_TEST(expired)
{
	tls_presents("expired.crt", "server.key");
	c = conn_to(redis->tls_uri, NULL);
	is_refused(REDIS_DENIED, "expired");
}
END_TEST

START_TEST(revoked)
{
	const char *ca = tls_file("ca.crt"), *crl = tls_file("ca.crl");

	tls_presents("revoked.crt", "server.key");
	c = conn_to(redis->tls_uri, NULL);
	is_taken();
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s&tls-crl=%s", ca, crl), NULL);
	is_refused(REDIS_DENIED, "must be for 127.0.0.1: certificate revoked");
	/* The list concerns this connection only. */
	c = conn_to(redis->tls_uri, NULL);
	is_taken();
	tls_presents("server.crt", "server.key");
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s&tls-crl=%s", ca, crl), NULL);
	is_taken();
}
END_TEST

/* Nothing is known about the certificate then. */
START_TEST(revocations_that_do_not_count)
{
	const char *ca = tls_file("ca.crt");

	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s&tls-crl=%s", ca, tls_file("strange-ca.crl")), NULL);
	is_refused(REDIS_DENIED, "unable to get certificate CRL");
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s&tls-crl=%s", ca, tls_file("ca-old.crl")), NULL);
	is_refused(REDIS_DENIED, "CRL has expired");
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s&tls-crl=%s", ca, ca), NULL);
	is_refused(REDIS_DENIED, "must have revocation lists");
}
END_TEST

/* Its own authority, which is not among those that are trusted. */
START_TEST(self_signed)
{
	tls_presents("strange-ca.crt", "strange-ca.key");
	c = conn_to(redis->tls_uri, NULL);
	is_refused(REDIS_DENIED, "self");
}
END_TEST

START_TEST(another_name)
{
	tls_presents("elsewhere.crt", "server.key");
	c = conn_to(redis->tls_uri, NULL);
	is_refused(REDIS_DENIED, "must be for 127.0.0.1: IP address mismatch");
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s&tls-name=redis.test", tls_file("ca.crt")), NULL);
	is_refused(REDIS_DENIED, "must be for redis.test: ");
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s&tls-name=other.test", tls_file("ca.crt")), NULL);
	is_taken();
}
END_TEST

START_TEST(the_name_is_the_hosts)
{
	const char *ca = tls_file("ca.crt");

	c = conn_to(tls_with("rediss://localhost", ":%d?tls-ca=%s", redis->tls_port, ca), NULL);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_DENIED);
	ck_contains(why(), "must be for localhost: ");
	redis_conn_free(c);
	c = conn_to(tls_with("rediss://localhost", ":%d?tls-ca=%s&tls-name=redis.test", redis->tls_port, ca), NULL);
	is_taken();
	c = conn_to(tls_with("rediss://localhost", ":%d?tls-ca=%s&tls-name=127.0.0.1", redis->tls_port, ca), NULL);
	is_taken();
}
END_TEST

START_TEST(names_of_many)
{
	const char *ca = tls_file("ca.crt");

	tls_presents("many.crt", "server.key");
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s&tls-name=redis.whole.test", ca), NULL);
	is_taken();
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s&tls-name=redis.part.test", ca), NULL);
	is_refused(REDIS_DENIED, "must be for redis.part.test: ");
}
END_TEST

/* Another node of a cluster might name it; a file with it is refused. */
START_TEST(a_name_that_is_a_domain)
{
	struct redis_server server = server_of(redis->tls_uri);

	server.credentials = NULL;
	strcpy(server.tls_name, ".test");
	ck_code(redis_conn_new(&c, &server, NULL, NULL), 0);
	is_refused(REDIS_DENIED, "no certificate is for .test");
}
END_TEST

/* Without tls-ca the system's authorities count; this file replaces them. */
START_TEST(the_systems_store)
{
	c = with("");
	is_refused(REDIS_DENIED, "certificate");
	setenv("SSL_CERT_FILE", tls_file("ca.crt"), 1);
	c = with("");
	is_taken();
}
END_TEST

/* No restart: the files are read at each connect. */
START_TEST(files_may_change)
{
	char copy[128], command[400];

	snprintf(copy, sizeof(copy), "%s", tls_file("copy.crt"));
	snprintf(command, sizeof(command), "cp %s %s", tls_file("strange-ca.crt"), copy);
	ck_assert_int_eq(system(command), 0);
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s", copy), NULL);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_DENIED);
	snprintf(command, sizeof(command), "cat %s >>%s", tls_file("ca.crt"), copy);
	ck_assert_int_eq(system(command), 0);
	is_taken();
}
END_TEST

static unsigned trusted; /* certificates that were added to a store */

struct x509_store_st;
struct x509_st;

/* In the place of OpenSSL's, for the connection under test. */
int X509_STORE_add_cert(struct x509_store_st *store, struct x509_st *cert);
int X509_STORE_add_cert(struct x509_store_st *store, struct x509_st *cert)
{
	int (*really)(struct x509_store_st *, struct x509_st *);

	*(void **)&really = dlsym(RTLD_NEXT, "X509_STORE_add_cert");
	trusted++;
	return really(store, cert);
}

/* Authorities are parsed once, until their file changes. */
START_TEST(authorities_are_understood_once)
{
	char copy[128], command[400];
	unsigned before;

	snprintf(copy, sizeof(copy), "%s", tls_file("copy.crt"));
	snprintf(command, sizeof(command), "cp %s %s", tls_file("ca.crt"), copy);
	ck_assert_int_eq(system(command), 0);
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s", copy), NULL);
	is_taken();
	ck_assert_uint_eq(trusted, 1);
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s", copy), NULL);
	is_taken();
	ck_assert_uint_eq(trusted, 1);
	snprintf(command, sizeof(command), "cp %s %s", tls_file("strange-ca.crt"), copy);
	ck_assert_int_eq(system(command), 0);
	before = trusted;
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s", copy), NULL);
	is_refused(REDIS_DENIED, "certificate");
	ck_assert_uint_gt(trusted, before);
}
END_TEST

START_TEST(old_versions)
{
	ck_redis("OK", redis, "CONFIG SET tls-protocols TLSv1.2");
	c = conn_to(redis->tls_uri, NULL);
	is_taken();
	ck_redis("OK", redis, "CONFIG SET tls-protocols TLSv1.1");
	c = conn_to(redis->tls_uri, NULL);
	is_refused(REDIS_DENIED, "refused by the server");
}
END_TEST

/* ---------------------------------------------------------------- client certificates */

static void wants_a_client_certificate(const char *versions, const char *none, const char *strange)
{
	ck_redis("OK", redis, "CONFIG SET tls-auth-clients yes tls-protocols %s", versions);
	c = conn_to(redis->tls_uri, NULL);
	is_refused(REDIS_DENIED, none);
	c = conn_to(redis->tls_uri, NULL);
	is_refused(REDIS_DENIED, "cert.pem");
	c = with_cert("strange-client.crt", "strange-client.key");
	is_refused(REDIS_DENIED, strange);
	c = with_cert("client.crt", "client.key");
	is_taken();
}

START_TEST(client_certificates)
{
	wants_a_client_certificate("TLSv1.3", "certificate required", "unknown ca");
}
END_TEST

START_TEST(client_certificates_of_tls_1_2)
{
	wants_a_client_certificate("TLSv1.2", "handshake failure", "unknown ca");
}
END_TEST

START_TEST(bad_files)
{
	char path[128];

	c = with_cert("client.crt", "server.key");
	is_refused(REDIS_DENIED, "is not the key of the certificate");
	c = with_cert("client.crt", "locked.key");
	is_refused(REDIS_DENIED, "pass phrase");
	ck_assert_int_eq(chmod(tls_file("client.crt"), 0644), 0); /* whatever the umask is */
	c = with_cert("client.crt", "client.crt");
	is_refused(REDIS_DENIED, "rights for others");
	c = with_cert("client.key", "client.key");
	is_refused(REDIS_DENIED, "must have certificates");
	c = with_cert("none.crt", "client.key");
	is_refused(REDIS_DENIED, "No such file");
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=/dev/null"), NULL);
	is_refused(REDIS_DENIED, "plain file");
	/* No wait for a writer of the pipe. */
	snprintf(path, sizeof(path), "%s", tls_file("fifo"));
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s", path), NULL);
	is_refused(REDIS_DENIED, "plain file");
	unlink(path);
	ck_assert_int_eq(chmod(tls_file("client.key"), 0604), 0);
	c = with_cert("client.crt", "client.key");
	is_refused(REDIS_DENIED, "rights for others");
	ck_assert_int_eq(chmod(tls_file("client.key"), 0600), 0);
}
END_TEST

/* The text is OpenSSL's: its settings, or the system's, refuse some keys. */
START_TEST(a_weak_key)
{
	c = with_cert("weak.crt", "weak.key");
	is_refused(REDIS_DENIED, "too small");
}
END_TEST

/* The socket gets the last descriptor, the next file fails. */
static void no_descriptor_left(const char *options, const char *part)
{
	struct rlimit old, few;
	int fd = dup(0);

	close(fd);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = (rlim_t)fd + 1;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	c = with(options);
	is_refused(REDIS_NO_MEMORY, part);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	c = with(options);
	is_taken();
}

/* It passes, unlike a missing file or an untrusted server. */
START_TEST(descriptors_run_out)
{
	char options[300];

	c = conn_to(redis->tls_uri, NULL);
	is_taken();
	snprintf(options, sizeof(options), "?tls-ca=%s", tls_file("ca.crt"));
	no_descriptor_left(options, "Too many open files");
	setenv("SSL_CERT_FILE", tls_file("ca.crt"), 1);
	no_descriptor_left("", "no descriptor left");
}
END_TEST

START_TEST(settings_that_openssl_refuses)
{
	char path[128], command[400];

	snprintf(path, sizeof(path), "%s", tls_file("bad.cnf"));
	snprintf(command, sizeof(command), "printf 'config_diagnostics = 1\nopenssl_conf = nowhere\n' >%s", path);
	ck_assert_int_eq(system(command), 0);
	setenv("OPENSSL_CONF", path, 1);
	c = conn_to(redis->tls_uri, NULL);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_DENIED);
	ck_contains(why(), "cannot be used in this process: ");
	ck_assert_ptr_null(strstr(why(), "an error without a name"));
	/* Nor later, with the same reason. */
	snprintf(command, sizeof(command), "%s", why());
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_DENIED);
	ck_assert_str_eq(why(), command);
	redis_conn_free(c);
}
END_TEST

START_TEST(half_a_file)
{
	char path[128], command[400];

	snprintf(path, sizeof(path), "%s", tls_file("half.crt"));
	snprintf(command, sizeof(command), "(cat %s; head -c 300 %s) >%s", tls_file("ca.crt"), tls_file("ca.crt"),
		 path);
	ck_assert_int_eq(system(command), 0);
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s", path), NULL);
	is_refused(REDIS_DENIED, "nothing broken");
	ck_assert_int_eq(truncate(path, 0), 0);
	c = conn_to(tls_with(redis->tls_uri, "?tls-ca=%s", path), NULL);
	is_refused(REDIS_DENIED, "empty");
}
END_TEST

/* ---------------------------------------------------------------- servers without TLS */

START_TEST(a_plain_server)
{
	c = conn_to(tls_with("rediss://127.0.0.1", ":%d", redis->port), NULL);
	ck_code(try_call(c, SHORT, "PING"), REDIS_UNREACHABLE);
	ck_contains(why(), "does it speak no TLS, redis://?");
	redis_conn_free(c);
}
END_TEST

/* A plain server that sends at once: here for lack of room. */
START_TEST(a_plain_server_that_talks)
{
	struct redis *r = redis_start("maxclients 1", true);

	redis_say(r, "PING");
	c = conn_to(tls_with("rediss://127.0.0.1", ":%d", r->port), NULL);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_PROTOCOL);
	ck_contains(why(), "does not speak TLS");
	redis_conn_free(c);
	redis_stop(r);
}
END_TEST

START_TEST(spoken_to_without)
{
	c = conn_to(tls_with("redis://127.0.0.1", ":%d", redis->tls_port), NULL);
	ck_code(try_call(c, PATIENCE, "PING"), REDIS_UNREACHABLE);
	ck_contains(why(), "does it speak TLS, rediss://?");
	redis_conn_free(c);
}
END_TEST

/* ---------------------------------------------------------------- network faults */

START_TEST(silent_server)
{
	struct redis *r = redis_start_tls(NULL);
	int64_t began = redis_now();

	redis_freeze(r);
	c = conn_to(r->tls_uri, NULL);
	ck_code(try_call(c, SHORT, "PING"), REDIS_UNREACHABLE);
	ck_contains(why(), "handshake in time");
	ck_assert_int_ge(redis_now() - began, SHORT);
	redis_thaw(r);
	ck_assert_str_eq(call(c, "PING"), "PONG");
	redis_freeze(r);
	ck_code(try_call(c, SHORT, "PING"), REDIS_UNKNOWN);
	redis_thaw(r);
	ck_assert_str_eq(call(c, "PING"), "PONG");
	redis_kill(r);
	redis_conns_poll(&c, 1, soon());
	ck_code(redis_conn_error(c)->code, REDIS_UNREACHABLE);
	redis_conn_free(c);
	redis_stop(r);
}
END_TEST

/* Both handshakes byte by byte in each direction, then commands. */
START_TEST(bytes_one_by_one)
{
	struct proxy *p = proxy_start(redis, true);

	proxy_set(p, PROXY_SLICE);
	c = conn_to(p->uri, NULL);
	ck_assert_str_eq(call(c, "SET a hello"), "OK");
	ck_assert_str_eq(call(c, "GET a"), "hello");
	ck_assert_uint_eq(redis_conn_generation(c), 1);
	redis_conn_free(c);
}
END_TEST

START_TEST(cut_in_the_handshake)
{
	struct proxy *p = proxy_start(redis, true);

	proxy_set(p, PROXY_HOLD_REPLIES);
	c = conn_to(p->uri, NULL);
	ck_code(redis_conn_open(c, soon()), 0);
	redis_conns_poll(&c, 1, redis_now() + SHORT / 4);
	ck_assert(!redis_conn_closed(c));
	proxy_set(p, PROXY_RESET);
	while (!redis_conn_closed(c))
		redis_conns_poll(&c, 1, soon());
	ck_code(redis_conn_error(c)->code, REDIS_UNREACHABLE);
	proxy_set(p, PROXY_PASS);
	is_taken();
}
END_TEST

START_TEST(lost_and_late_replies)
{
	struct proxy *p = proxy_start(redis, true);
	const char *argv[] = { "ECHO", "old" };

	c = conn_to(p->uri, NULL);
	call(c, "PING");
	proxy_set(p, PROXY_DROP_REPLIES);
	ck_code(try_call(c, SHORT, "DBSIZE"), REDIS_UNKNOWN);
	proxy_set(p, PROXY_PASS);
	ck_assert_str_eq(call(c, "PING"), "PONG");
	proxy_set(p, PROXY_HOLD_REPLIES);
	ck_code(redis_conn_call(c, redis_now() + SHORT, &reply, 2, argv, NULL), REDIS_UNKNOWN);
	proxy_set(p, PROXY_PASS);
	ck_assert_str_eq(call(c, "ECHO new"), "new");
	redis_conn_free(c);
}
END_TEST

/* SIGPIPE is deadly in this suite. */
START_TEST(a_reset_with_a_command_sent)
{
	struct proxy *p = proxy_start(redis, true);
	const char *argv[] = { "PING" };

	c = conn_to(p->uri, NULL);
	call(c, "PING");
	proxy_set(p, PROXY_HOLD_REPLIES);
	ck_code(redis_conn_send(c, soon(), 1, argv, NULL), 0);
	redis_conn_pump(c);
	proxy_set(p, PROXY_RESET);
	ck_code(redis_conn_send(c, soon(), 1, argv, NULL), 0);
	while (!redis_conn_closed(c)) {
		redis_conn_pump(c);
		ck_assert_ptr_null(redis_conn_take(c));
	}
	ck_code(redis_conn_error(c)->code, REDIS_UNKNOWN);
	redis_conn_free(c);
}
END_TEST

/* A gap is noticed, and nothing after it is accepted. */
START_TEST(a_hole_in_the_stream)
{
	struct proxy *p = proxy_start(redis, true);
	const char *argv[] = { "ECHO", "one" };

	c = conn_to(p->uri, NULL);
	call(c, "PING");
	proxy_set(p, PROXY_DROP_REQUESTS);
	ck_code(redis_conn_send(c, soon(), 2, argv, NULL), 0);
	ck_code(redis_conn_pump(c), 0);
	/* The proxy is sequential: its reply shows that the earlier bytes were dropped. */
	proxy_set(p, PROXY_COUNT);
	redis_conns_poll(&c, 1, redis_now() + SHORT / 4);
	proxy_set(p, PROXY_PASS);
	argv[1] = "two";
	ck_code(redis_conn_send(c, soon(), 2, argv, NULL), 0);
	while (!redis_conn_closed(c)) {
		redis_conns_poll(&c, 1, soon());
		ck_assert_ptr_null(redis_conn_take(c));
	}
	ck_code(redis_conn_error(c)->code, REDIS_UNKNOWN);
	ck_assert_str_eq(call(c, "ECHO three"), "three");
	redis_conn_free(c);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_unchecked_fixture(tc, tls_setup, NULL);
	tcase_add_checked_fixture(tc, restore, NULL);
	tcase_add_test(tc, commands);
	tcase_add_test(tc, login_and_database);
	tcase_add_test(tc, large);
	tcase_add_test(tc, pipeline_keeps_the_order);
	tcase_add_test(tc, nothing_to_do_while_nothing_comes);
	tcase_add_test(tc, not_trusted);
	tcase_add_test(tc, expired);
	tcase_add_test(tc, revoked);
	tcase_add_test(tc, revocations_that_do_not_count);
	tcase_add_test(tc, self_signed);
	tcase_add_test(tc, another_name);
	if (localhost_is_known())
		tcase_add_test(tc, the_name_is_the_hosts);
	tcase_add_test(tc, names_of_many);
	tcase_add_test(tc, a_name_that_is_a_domain);
	tcase_add_test(tc, the_systems_store);
	tcase_add_test(tc, files_may_change);
	tcase_add_test(tc, authorities_are_understood_once);
	tcase_add_test(tc, old_versions);
	tcase_add_test(tc, client_certificates);
	tcase_add_test(tc, client_certificates_of_tls_1_2);
	tcase_add_test(tc, bad_files);
	tcase_add_test(tc, a_weak_key);
	tcase_add_test(tc, descriptors_run_out);
	tcase_add_test(tc, settings_that_openssl_refuses);
	tcase_add_test(tc, half_a_file);
	tcase_add_test(tc, a_plain_server);
	tcase_add_test(tc, a_plain_server_that_talks);
	tcase_add_test(tc, spoken_to_without);
	tcase_add_test(tc, silent_server);
	tcase_add_test(tc, bytes_one_by_one);
	tcase_add_test(tc, cut_in_the_handshake);
	tcase_add_test(tc, lost_and_late_replies);
	tcase_add_test(tc, a_reset_with_a_command_sent);
	tcase_add_test(tc, a_hole_in_the_stream);
}

int main(void)
{
	const char *missing = tls_missing();

	if (missing) {
		printf("skipped: %s\n", missing);
		return 77;
	}
	return redis_main("bridge-tls", add);
}
