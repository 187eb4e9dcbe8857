/* SPDX-License-Identifier: MIT */
/*
 * bridge-tls.c - OpenSSL between two buffers; see bridge-tls.h
 *
 * No call of it writes to a descriptor or waits: the handshake is between two buffers, too.
 */
#define _GNU_SOURCE
#include "bridge-tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include "bridge-openssl.h"

#define FILE_MAX (4 << 20) /* all authorities of a system are less than one */

struct bridge_tls {
	SSL *ssl;
	BIO *in, *out; /* belong to ssl */
	const char *out_bytes; /* in out */
	size_t out_len;
	bool up, heard;
	bool has_cert;
	char name[256]; /* which the certificate must be for */
};

static int unusable(struct bridge_error *error)
{
	return bridge_fail(error, BRIDGE_UNREACHABLE,
			   "TLS: OpenSSL cannot be used in this process: it ends, or was cloned past the C library");
}

/* ---------------------------------------------------------------- what went wrong */

static const char *reason(unsigned long code)
{
	const char *text = ssl.ERR_reason_error_string(code);

	return text ? text : "an error without a name";
}

/* The server ended it, with one byte that says why. */
static bool is_alert(unsigned long code)
{
	int alert = ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET;

	return ERR_GET_LIB(code) == ERR_LIB_SSL && alert >= 0 && alert <= 255;
}

static int refused(const struct bridge_tls *t, unsigned long code, struct bridge_error *error)
{
	int alert = ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET;
	bool no_cert = !t->has_cert && (alert == SSL_AD_CERTIFICATE_REQUIRED || alert == SSL_AD_HANDSHAKE_FAILURE);

	return bridge_fail(error, alert == SSL_AD_INTERNAL_ERROR ? BRIDGE_UNREACHABLE : BRIDGE_DENIED,
			   "TLS: refused by the server: %s%s", reason(code),
			   no_cert ? " (if it wants a client certificate: tls-cert, tls-key)" : "");
}

static int failed(const struct bridge_tls *t, struct bridge_error *error)
{
	unsigned long code = ssl.ERR_peek_error();
	long verdict = ssl.SSL_get_verify_result(t->ssl);

	if (ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE || verdict == X509_V_ERR_OUT_OF_MEM)
		return bridge_fail(error, BRIDGE_NO_MEMORY, "out of memory");
	if (verdict != X509_V_OK)
		return bridge_fail(error, BRIDGE_DENIED, "TLS: the server's certificate, which must be for %.80s: %s",
				   t->name, ssl.X509_verify_cert_error_string(verdict));
	if (is_alert(code))
		return refused(t, code, error);
	return bridge_fail(error, BRIDGE_PROTOCOL, "TLS: %s", reason(code));
}

/* ---------------------------------------------------------------- files */

struct bytes {
	const char *what, *path;
	char *at;
	size_t len;
};

static int bad_file(const struct bytes *b, const char *why, struct bridge_error *error)
{
	return bridge_fail(error, BRIDGE_DENIED, "%s file %.120s: %s", b->what, b->path, why);
}

static void wipe(struct bytes *b)
{
	if (b->at)
		explicit_bzero(b->at, b->len);
	free(b->at);
	b->at = NULL;
}

/* Not by OpenSSL, which would wait for somebody to write if it is a pipe. */
static int read_file(struct bytes *b, bool secret, struct bridge_error *error)
{
	const char *why;
	int fd = bridge_uri_open(b->path, secret, &why);
	struct stat st;
	ssize_t n = 0;

	if (fd < 0)
		return bad_file(b, why, error);
	b->len = fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= FILE_MAX ? (size_t)st.st_size : 0;
	b->at = b->len ? malloc(b->len) : NULL;
	if (b->at)
		n = read(fd, b->at, b->len);
	close(fd);
	if (b->len && !b->at)
		return bridge_fail(error, BRIDGE_NO_MEMORY, "out of memory");
	if (n > 0 && (size_t)n == b->len)
		return 0;
	wipe(b);
	return bad_file(b, b->len ? "cannot be read" : "is empty, or has more than 4 MiB", error);
}

/* Nobody is asked for one. */
static int no_pass_phrase(char *out, int size, int writing, void *arg)
{
	(void)out, (void)size, (void)writing, (void)arg;
	return -1;
}

/* The certificates in it, one after the other, to @take; how many, or -1 if something else is there. */
static int each_certificate(const struct bytes *b, bool (*take)(SSL_CTX *ctx, X509 *cert, int number), SSL_CTX *ctx)
{
	BIO *bio = ssl.BIO_new_mem_buf(b->at, (int)b->len);
	bool ok = bio != NULL;
	X509 *cert;
	int n = 0;

	while (ok && (cert = ssl.PEM_read_bio_X509(bio, NULL, no_pass_phrase, NULL))) {
		ok = take(ctx, cert, n++);
		ssl.X509_free(cert);
	}
	/* That is how its end is told. */
	ok = ok && ERR_GET_REASON(ssl.ERR_peek_last_error()) == PEM_R_NO_START_LINE;
	ssl.BIO_free(bio);
	return ok ? n : -1;
}

static bool trust(SSL_CTX *ctx, X509 *cert, int number)
{
	(void)number;
	return ssl.X509_STORE_add_cert(ssl.SSL_CTX_get_cert_store(ctx), cert) == 1;
}

/* Our own comes first, then those that vouch for it. */
static bool present(SSL_CTX *ctx, X509 *cert, int number)
{
	return number == 0 ? ssl.SSL_CTX_use_certificate(ctx, cert) == 1 :
			     ssl.SSL_CTX_ctrl(ctx, SSL_CTRL_CHAIN_CERT, 1, cert) == 1;
}

static int load_certificates(struct bytes *b, bool (*take)(SSL_CTX *ctx, X509 *cert, int number), SSL_CTX *ctx,
			     struct bridge_error *error)
{
	int code = read_file(b, false, error);

	if (!code && each_certificate(b, take, ctx) < 1)
		code = bad_file(b, "must have certificates (PEM), and nothing broken", error);
	wipe(b);
	return code;
}

static int load_key(const struct bridge_server *s, SSL_CTX *ctx, struct bridge_error *error)
{
	struct bytes b = { .what = "tls-key", .path = s->tls_key };
	int code = read_file(&b, true, error);
	BIO *bio = code ? NULL : ssl.BIO_new_mem_buf(b.at, (int)b.len);
	EVP_PKEY *key = bio ? ssl.PEM_read_bio_PrivateKey(bio, NULL, no_pass_phrase, NULL) : NULL;

	if (!code && !key)
		code = bad_file(&b, "must have a key (PEM) without a pass phrase", error);
	if (!code && (ssl.SSL_CTX_use_PrivateKey(ctx, key) != 1 || ssl.SSL_CTX_check_private_key(ctx) != 1))
		code = bad_file(&b, "is not the key of the certificate in tls-cert", error);
	ssl.EVP_PKEY_free(key);
	ssl.BIO_free(bio);
	wipe(&b);
	return code;
}

static int load_files(const struct bridge_server *s, SSL_CTX *ctx, struct bridge_error *error)
{
	struct bytes ca = { .what = "tls-ca", .path = s->tls_ca }, cert = { .what = "tls-cert", .path = s->tls_cert };
	int code = 0;

	if (s->tls_ca[0])
		code = load_certificates(&ca, trust, ctx, error);
	else if (ssl.SSL_CTX_set_default_verify_paths(ctx) != 1)
		code = bridge_fail(error, BRIDGE_NO_MEMORY, "out of memory");
	if (!code && s->tls_cert[0])
		code = load_certificates(&cert, present, ctx, error);
	if (!code && s->tls_cert[0])
		code = load_key(s, ctx, error);
	return code;
}

/* ---------------------------------------------------------------- making */

static void set_policy(SSL_CTX *ctx)
{
	/* What the system's settings ask for may be more. */
	if (ssl.SSL_CTX_ctrl(ctx, SSL_CTRL_GET_MIN_PROTO_VERSION, 0, NULL) < TLS1_2_VERSION)
		(void)ssl.SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
	/* So that what is put is never in want of an answer. */
	(void)ssl.SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
	ssl.SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
}

/* Addresses are not asked for by name, but are in certificates, too. */
static bool set_name(struct bridge_tls *t)
{
	if (ssl.X509_VERIFY_PARAM_set1_ip_asc(ssl.SSL_get0_param(t->ssl), t->name) == 1)
		return true;
	return ssl.SSL_set1_host(t->ssl, t->name) == 1 &&
	       ssl.SSL_ctrl(t->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, t->name) == 1;
}

static bool make_buffers(struct bridge_tls *t)
{
	t->in = ssl.BIO_new(ssl.BIO_s_mem());
	t->out = ssl.BIO_new(ssl.BIO_s_mem());
	if (t->in && t->out) {
		ssl.SSL_set_bio(t->ssl, t->in, t->out);
		return true;
	}
	ssl.BIO_free(t->in);
	ssl.BIO_free(t->out);
	return false;
}

static void look_at_out(struct bridge_tls *t)
{
	char *at = NULL;
	long n = ssl.BIO_ctrl(t->out, BIO_CTRL_INFO, 0, &at);

	t->out_bytes = at;
	t->out_len = n > 0 ? (size_t)n : 0;
}

static int shake_hands(struct bridge_tls *t, struct bridge_error *error)
{
	int got = ssl.SSL_do_handshake(t->ssl);

	t->up = got == 1;
	return got == 1 || ssl.SSL_get_error(t->ssl, got) == SSL_ERROR_WANT_READ ? 0 : failed(t, error);
}

static int begin(struct bridge_tls *t, const struct bridge_server *s, struct bridge_error *error)
{
	SSL_CTX *ctx = ssl.SSL_CTX_new(ssl.TLS_client_method());
	int code;

	if (!ctx)
		return bridge_fail(error, BRIDGE_NO_MEMORY, "TLS: %s", reason(ssl.ERR_peek_error()));
	set_policy(ctx);
	code = load_files(s, ctx, error);
	/* Nothing of that matters any more, but would be taken for what comes next. */
	ssl.ERR_clear_error();
	if (!code) {
		t->ssl = ssl.SSL_new(ctx);
		if (!t->ssl || !make_buffers(t) || !set_name(t))
			code = bridge_fail(error, BRIDGE_NO_MEMORY, "TLS: %s", reason(ssl.ERR_peek_error()));
	}
	ssl.SSL_CTX_free(ctx);
	if (code)
		return code;
	ssl.ERR_clear_error();
	ssl.SSL_set_connect_state(t->ssl);
	code = shake_hands(t, error);
	look_at_out(t);
	return code;
}

struct bridge_tls *bridge_tls_new(const struct bridge_server *server, struct bridge_error *error)
{
	const char *why = bridge_openssl_load();
	struct bridge_tls *t = why ? NULL : calloc(1, sizeof(*t));
	int cancel, code;

	if (!t) {
		bridge_fail(error, BRIDGE_NO_MEMORY, "%s", why ? why : "out of memory");
		return NULL;
	}
	t->has_cert = server->tls_cert[0];
	snprintf(t->name, sizeof(t->name), "%s", server->tls_name[0] ? server->tls_name : server->host);
	if (bridge_openssl_enter(&cancel)) {
		code = begin(t, server, error);
		bridge_openssl_leave(cancel);
	} else {
		code = unusable(error);
	}
	if (!code)
		return t;
	bridge_tls_free(t);
	return NULL;
}

void bridge_tls_free(struct bridge_tls *t)
{
	int cancel;

	if (!t)
		return;
	if (t->ssl && bridge_openssl_enter(&cancel)) {
		ssl.SSL_free(t->ssl);
		bridge_openssl_leave(cancel);
	}
	free(t);
}

/* ---------------------------------------------------------------- bytes */

bool bridge_tls_up(const struct bridge_tls *t)
{
	return t->up;
}

bool bridge_tls_heard(const struct bridge_tls *t)
{
	return t->heard;
}

/* A record of TLS begins with its type: from a server the first is of the handshake, or an alert. */
static int look_at_first(struct bridge_tls *t, const char *bytes, struct bridge_error *error)
{
	if (t->heard || bytes[0] == SSL3_RT_HANDSHAKE || bytes[0] == SSL3_RT_ALERT)
		return 0;
	return bridge_fail(error, BRIDGE_PROTOCOL, "this server does not speak TLS: for a plain one it is redis://");
}

int bridge_tls_feed(struct bridge_tls *t, const char *bytes, size_t len, struct bridge_error *error)
{
	int cancel, code = look_at_first(t, bytes, error);

	if (code)
		return code;
	t->heard = true;
	if (!bridge_openssl_enter(&cancel))
		return unusable(error);
	if (ssl.BIO_write(t->in, bytes, (int)len) != (int)len)
		code = bridge_fail(error, BRIDGE_NO_MEMORY, "out of memory");
	else if (!t->up)
		code = shake_hands(t, error);
	look_at_out(t);
	bridge_openssl_leave(cancel);
	return code;
}

int bridge_tls_get(struct bridge_tls *t, char *out, size_t size, size_t *len, struct bridge_error *error)
{
	int cancel, code = 0;

	*len = 0;
	if (!t->up)
		return 0;
	if (!bridge_openssl_enter(&cancel))
		return unusable(error);
	if (ssl.SSL_read_ex(t->ssl, out, size, len) != 1) {
		int why = ssl.SSL_get_error(t->ssl, 0);

		*len = 0;
		/* Who says that it closes does so next. */
		if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_ZERO_RETURN)
			code = failed(t, error);
	}
	look_at_out(t);
	bridge_openssl_leave(cancel);
	return code;
}

int bridge_tls_put(struct bridge_tls *t, const char *bytes, size_t len, struct bridge_error *error)
{
	int cancel, code = 0;
	size_t n = 0;

	if (!bridge_openssl_enter(&cancel))
		return unusable(error);
	if (ssl.SSL_write_ex(t->ssl, bytes, len, &n) != 1 || n != len)
		code = failed(t, error);
	look_at_out(t);
	bridge_openssl_leave(cancel);
	return code;
}

const char *bridge_tls_out(const struct bridge_tls *t, size_t *len)
{
	*len = t->out_len;
	return t->out_bytes;
}

void bridge_tls_sent(struct bridge_tls *t, size_t len)
{
	char taken[4096];
	int cancel, n = 1;

	/* Never the same bytes again. */
	t->out_len = 0;
	if (!bridge_openssl_enter(&cancel))
		return;
	while (len && n > 0) {
		n = ssl.BIO_read(t->out, taken, (int)(len < sizeof(taken) ? len : sizeof(taken)));
		len -= n > 0 ? (size_t)n : 0;
	}
	look_at_out(t);
	bridge_openssl_leave(cancel);
}
