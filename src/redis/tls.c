/* SPDX-License-Identifier: MIT */
/*
 * tls.c - OpenSSL between two buffers; see redis/tls.h
 *
 * OpenSSL gets memory buffers instead of a descriptor: no call of it waits, the handshake included.  Its list of errors is
 * emptied before each call that may add to it.
 */
#define _GNU_SOURCE
#include "redis/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "redis/secrets.h"

#define FILE_MAX (4 << 20) /* all authorities of a system take less than one */

struct redis_tls {
	SSL *ssl;
	BIO *in, *out; /* owned by ssl */
	const char *out_bytes; /* inside out */
	size_t out_len;
	bool up, received;
	bool has_ca, has_cert;
	STACK_OF(X509_CRL) *crls; /* NULL = none */
	char name[256]; /* that the certificate must be for */
};

/* ---------------------------------------------------------------- errors */

static bool no_memory(void)
{
	return ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE ||
	       ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE;
}

static const char *reason(unsigned long code)
{
	const char *text = ERR_reason_error_string(code);

	return text ? text : "an error without a name";
}

static int out_of_memory(struct redis_error *error)
{
	return redis_fail(error, REDIS_NO_MEMORY, "out of memory");
}

/* A local failure, before any byte to the server: by the system's settings, for instance. */
static int cannot_begin(struct redis_error *error)
{
	return no_memory() ? out_of_memory(error) :
			     redis_fail(error, REDIS_DENIED, "TLS: cannot begin: %s",
					 reason(ERR_peek_error()));
}

/* OpenSSL reads the system's authorities and does not report when it cannot. */
static bool store_unread(const struct redis_tls *t, long result)
{
	int fd;

	if (t->has_ca || (result != X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY &&
			  result != X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN &&
			  result != X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT &&
			  result != X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE))
		return false;
	fd = open("/", O_PATH | O_CLOEXEC);
	if (fd < 0)
		return redis_error_open(errno) == REDIS_NO_MEMORY;
	close(fd);
	return false;
}

/* The server ended the connection with an alert, which is one byte. */
static bool is_alert(unsigned long code)
{
	int alert = ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET;

	return ERR_GET_LIB(code) == ERR_LIB_SSL && alert >= 0 && alert <= 255;
}

static int refused(const struct redis_tls *t, unsigned long code, struct redis_error *error)
{
	int alert = ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET;
	bool no_cert = !t->has_cert && (alert == SSL_AD_CERTIFICATE_REQUIRED || alert == SSL_AD_HANDSHAKE_FAILURE);

	return redis_fail(error, alert == SSL_AD_INTERNAL_ERROR ? REDIS_UNREACHABLE : REDIS_DENIED,
			   "TLS: refused by the server: %s%s", reason(code),
			   no_cert ? " (if it wants a client certificate: cert.pem, key.pem)" : "");
}

static int failed(const struct redis_tls *t, struct redis_error *error)
{
	unsigned long code = ERR_peek_error();
	long result = SSL_get_verify_result(t->ssl);

	if (no_memory() || result == X509_V_ERR_OUT_OF_MEM)
		return out_of_memory(error);
	if (store_unread(t, result))
		return redis_fail(error, REDIS_NO_MEMORY, "TLS: no descriptor left to read the system's authorities");
	if (result != X509_V_OK)
		return redis_fail(error, REDIS_DENIED, "TLS: the server's certificate, which must be for %.80s: %s",
				   t->name, X509_verify_cert_error_string(result));
	if (is_alert(code))
		return refused(t, code, error);
	return redis_fail(error, REDIS_PROTOCOL, "TLS: %s", reason(code));
}

/* ---------------------------------------------------------------- files */

struct bytes {
	const char *what, *path;
	char *at; /* NULL = none */
	size_t len;
};

struct files {
	struct bytes ca, cert, key, crl;
};

static int bad_file(const struct bytes *b, const char *why, struct redis_error *error)
{
	return redis_fail(error, REDIS_DENIED, "%s file %.120s: %s", b->what, b->path, why);
}

/* With the reason that OpenSSL gives ("key too small").  NO_START_LINE only means the end of the file. */
static int bad_content(const struct bytes *b, const char *why, struct redis_error *error)
{
	unsigned long code = ERR_peek_last_error();

	if (no_memory())
		return out_of_memory(error);
	if (!code || ERR_GET_REASON(code) == PEM_R_NO_START_LINE)
		return bad_file(b, why, error);
	return redis_fail(error, REDIS_DENIED, "%s file %.120s: %s: %s", b->what, b->path, why,
			   reason(code));
}

static void wipe(struct bytes *b)
{
	if (b->at)
		explicit_bzero(b->at, b->len);
	free(b->at);
	b->at = NULL;
}

/* Not by OpenSSL, which would block if it is a pipe. */
static int read_file(struct bytes *b, bool secret, struct redis_error *error)
{
	const char *why;
	int code, fd = redis_open_file(b->path, secret, &code, &why);
	struct stat st;
	ssize_t n = 0;

	if (fd < 0)
		return redis_fail(error, code, "%s file %.120s: %s", b->what, b->path, why);
	b->len = fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= FILE_MAX ? (size_t)st.st_size : 0;
	b->at = b->len ? malloc(b->len) : NULL;
	if (b->at)
		n = read(fd, b->at, b->len);
	close(fd);
	if (b->len && !b->at)
		return out_of_memory(error);
	if (n > 0 && (size_t)n == b->len)
		return 0;
	wipe(b);
	return bad_file(b, b->len ? "cannot be read" : "is empty, or has more than 4 MiB", error);
}

static int read_files(struct files *f, const struct redis_server *s, struct redis_error *error)
{
	int code = 0;

	*f = (struct files){ .ca = { "authorities", s->tls_ca, NULL, 0 },
			     .cert = { "certificate", s->tls_cert, NULL, 0 },
			     .key = { "key", s->tls_key, NULL, 0 },
			     .crl = { "revocation", s->tls_crl, NULL, 0 } };
	if (s->tls_ca[0])
		code = read_file(&f->ca, false, error);
	if (!code && s->tls_cert[0])
		code = read_file(&f->cert, false, error);
	if (!code && s->tls_cert[0])
		code = read_file(&f->key, true, error);
	if (!code && s->tls_crl[0])
		code = read_file(&f->crl, false, error);
	return code;
}

static void wipe_files(struct files *f)
{
	wipe(&f->ca);
	wipe(&f->cert);
	wipe(&f->key);
	wipe(&f->crl);
}

/* A pass phrase is never asked for. */
static int no_pass_phrase(char *out, int size, int writing, void *arg)
{
	(void)out, (void)size, (void)writing, (void)arg;
	return -1;
}

/* Calls @take for each certificate; returns how many, or -1 if there is anything else. */
static int each_certificate(const struct bytes *b, bool (*take)(SSL_CTX *ctx, X509 *cert, int number), SSL_CTX *ctx)
{
	BIO *bio = BIO_new_mem_buf(b->at, (int)b->len);
	bool ok = bio != NULL;
	X509 *cert;
	int n = 0;

	while (ok && (cert = PEM_read_bio_X509(bio, NULL, no_pass_phrase, NULL))) {
		ok = take(ctx, cert, n++);
		X509_free(cert);
	}
	/* The end of the file. */
	ok = ok && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
	BIO_free(bio);
	return ok ? n : -1;
}

static bool trust(SSL_CTX *ctx, X509 *cert, int number)
{
	(void)number;
	return X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert) == 1;
}

/* The first is the client's own, the others its chain. */
static bool present(SSL_CTX *ctx, X509 *cert, int number)
{
	return number == 0 ? SSL_CTX_use_certificate(ctx, cert) == 1 :
			     SSL_CTX_add1_chain_cert(ctx, cert) == 1;
}

static int use_certificates(const struct bytes *b, bool (*take)(SSL_CTX *ctx, X509 *cert, int number), SSL_CTX *ctx,
			    struct redis_error *error)
{
	ERR_clear_error();
	if (each_certificate(b, take, ctx) > 0)
		return 0;
	return bad_content(b, "must have certificates (PEM), and nothing broken", error);
}

static int use_key(const struct bytes *b, SSL_CTX *ctx, struct redis_error *error)
{
	BIO *bio = BIO_new_mem_buf(b->at, (int)b->len);
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_pass_phrase, NULL) : NULL;
	int code = 0;

	if (!key)
		code = bad_content(b, "must have a key (PEM) without a pass phrase", error);
	else if (SSL_CTX_use_PrivateKey(ctx, key) != 1 || SSL_CTX_check_private_key(ctx) != 1)
		code = bad_content(b, "is not the key of the certificate in cert.pem", error);
	EVP_PKEY_free(key);
	BIO_free(bio);
	return code;
}

/*
 * The authorities used last and the content of their file: while it is the same they are not parsed again, which takes
 * long for all authorities of a system.
 */
static struct {
	pthread_mutex_t lock; /* guards the rest: each segment's leader is a thread */
	char *file;
	size_t len;
	X509_STORE *store; /* NULL = none */
} last = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void keep(const struct bytes *b, X509_STORE *store)
{
	X509_STORE_free(last.store);
	free(last.file);
	last.store = NULL;
	last.file = malloc(b->len);
	if (!last.file || X509_STORE_up_ref(store) != 1)
		return;
	memcpy(last.file, b->at, b->len);
	last.len = b->len;
	last.store = store;
}

static int use_authorities(const struct bytes *b, SSL_CTX *ctx, struct redis_error *error)
{
	int code = 0;

	pthread_mutex_lock(&last.lock);
	if (last.store && last.len == b->len && memcmp(last.file, b->at, b->len) == 0 &&
	    X509_STORE_up_ref(last.store) == 1) {
		SSL_CTX_set_cert_store(ctx, last.store);
	} else {
		code = use_certificates(b, trust, ctx, error);
		if (!code)
			keep(b, SSL_CTX_get_cert_store(ctx));
	}
	pthread_mutex_unlock(&last.lock);
	return code;
}

/* The store of authorities is shared and outlives this file: the lists are given to each verification. */
static int verify(X509_STORE_CTX *store, void *crls)
{
	X509_STORE_CTX_set0_crls(store, crls);
	return X509_verify_cert(store);
}

static int use_revocations(const struct bytes *b, STACK_OF(X509_CRL) **crls, SSL_CTX *ctx, struct redis_error *error)
{
	BIO *bio;
	X509_CRL *crl;
	bool ok;

	ERR_clear_error();
	bio = BIO_new_mem_buf(b->at, (int)b->len);
	*crls = sk_X509_CRL_new_null();
	ok = bio && *crls;
	while (ok && (crl = PEM_read_bio_X509_CRL(bio, NULL, no_pass_phrase, NULL))) {
		ok = sk_X509_CRL_push(*crls, crl) > 0;
		if (!ok)
			X509_CRL_free(crl);
	}
	BIO_free(bio);
	if (!ok)
		return out_of_memory(error);
	if (!sk_X509_CRL_num(*crls) || ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		return bad_content(b, "must have revocation lists (PEM), and nothing broken", error);
	(void)X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ctx), X509_V_FLAG_CRL_CHECK);
	SSL_CTX_set_cert_verify_callback(ctx, verify, *crls);
	return 0;
}

static int use_files(const struct files *f, STACK_OF(X509_CRL) **crls, SSL_CTX *ctx, struct redis_error *error)
{
	int code = 0;

	if (f->ca.at)
		code = use_authorities(&f->ca, ctx, error);
	else if (SSL_CTX_set_default_verify_paths(ctx) != 1)
		code = cannot_begin(error);
	if (!code && f->cert.at)
		code = use_certificates(&f->cert, present, ctx, error);
	if (!code && f->cert.at)
		code = use_key(&f->key, ctx, error);
	if (!code && f->crl.at)
		code = use_revocations(&f->crl, crls, ctx, error);
	return code;
}

/* ---------------------------------------------------------------- life cycle */

static void set_policy(SSL_CTX *ctx)
{
	/* The system's settings may require a later version. */
	if (SSL_CTX_get_min_proto_version(ctx) < TLS1_2_VERSION)
		(void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	/* So that a write never needs a reply first. */
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
}

/* For an address no server name is sent, but the certificate is checked.  A wildcard is a whole label (RFC 9525). */
static bool set_name(struct redis_tls *t)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(t->ssl);

	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (X509_VERIFY_PARAM_set1_ip_asc(param, t->name) == 1)
		return true;
	return SSL_set1_host(t->ssl, t->name) == 1 && SSL_set_tlsext_host_name(t->ssl, t->name) == 1;
}

static bool make_buffers(struct redis_tls *t)
{
	t->in = BIO_new(BIO_s_mem());
	t->out = BIO_new(BIO_s_mem());
	if (t->in && t->out) {
		SSL_set_bio(t->ssl, t->in, t->out);
		return true;
	}
	BIO_free(t->in);
	BIO_free(t->out);
	return false;
}

static void update_out(struct redis_tls *t)
{
	char *at = NULL;
	long n = BIO_get_mem_data(t->out, &at);

	t->out_bytes = at;
	t->out_len = n > 0 ? (size_t)n : 0;
}

static int do_handshake(struct redis_tls *t, struct redis_error *error)
{
	int got = SSL_do_handshake(t->ssl);

	t->up = got == 1;
	return got == 1 || SSL_get_error(t->ssl, got) == SSL_ERROR_WANT_READ ? 0 : failed(t, error);
}

static int begin(struct redis_tls *t, const struct files *files, struct redis_error *error)
{
	SSL_CTX *ctx;
	int code;

	ERR_clear_error();
	ctx = SSL_CTX_new(TLS_client_method());
	if (!ctx)
		return cannot_begin(error);
	set_policy(ctx);
	code = use_files(files, &t->crls, ctx, error);
	/* Errors of the files must not be taken for those of later calls. */
	ERR_clear_error();
	if (!code) {
		t->ssl = SSL_new(ctx);
		if (!t->ssl || !make_buffers(t) || !set_name(t))
			code = cannot_begin(error);
	}
	SSL_CTX_free(ctx);
	if (code)
		return code;
	ERR_clear_error();
	SSL_set_connect_state(t->ssl);
	code = do_handshake(t, error);
	update_out(t);
	return code;
}

static int make(struct redis_tls *t, const struct redis_server *server, struct redis_error *error)
{
	struct files files;
	int code = read_files(&files, server, error);

	/* The name may come from another node of a cluster, not only from the settings. */
	if (!code && !redis_name_is_sound(t->name))
		code = redis_fail(error, REDIS_DENIED, "TLS: no certificate is for %.80s", t->name);
	if (!code)
		code = begin(t, &files, error);
	wipe_files(&files);
	return code;
}

static char unusable[150]; /* why OpenSSL cannot be used; "" = it can */

/* After a failure another try may succeed, but without the system's settings: never made. */
static void init_once(void)
{
	ERR_clear_error();
	if (OPENSSL_init_ssl(0, NULL) != 1)
		snprintf(unusable, sizeof(unusable), "%s", reason(ERR_peek_error()));
}

struct redis_tls *redis_tls_new(const struct redis_server *server, struct redis_error *error)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct redis_tls *t = calloc(1, sizeof(*t));

	if (!t) {
		(void)out_of_memory(error);
		return NULL;
	}
	t->has_ca = server->tls_ca[0];
	t->has_cert = server->tls_cert[0];
	snprintf(t->name, sizeof(t->name), "%s", server->tls_name[0] ? server->tls_name : server->host);
	pthread_once(&once, init_once);
	if (unusable[0])
		(void)redis_fail(error, REDIS_DENIED, "TLS: OpenSSL cannot be used in this process: %s", unusable);
	else if (make(t, server, error) == 0)
		return t;
	redis_tls_free(t);
	return NULL;
}

void redis_tls_free(struct redis_tls *t)
{
	if (!t)
		return;
	SSL_free(t->ssl);
	sk_X509_CRL_pop_free(t->crls, X509_CRL_free);
	free(t);
}

const char *redis_tls_missing(void)
{
	return NULL;
}

/* ---------------------------------------------------------------- bytes */

bool redis_tls_up(const struct redis_tls *t)
{
	return t->up;
}

bool redis_tls_received(const struct redis_tls *t)
{
	return t->received;
}

/* The first byte is the type of a TLS record: from a server a handshake or an alert. */
static int check_first(struct redis_tls *t, const char *bytes, struct redis_error *error)
{
	if (t->received || bytes[0] == SSL3_RT_HANDSHAKE || bytes[0] == SSL3_RT_ALERT)
		return 0;
	return redis_fail(error, REDIS_PROTOCOL, "this server does not speak TLS: for a plain one it is redis://");
}

int redis_tls_feed(struct redis_tls *t, const char *bytes, size_t len, struct redis_error *error)
{
	int code = check_first(t, bytes, error);

	if (code)
		return code;
	t->received = true;
	ERR_clear_error();
	if (BIO_write(t->in, bytes, (int)len) != (int)len)
		code = out_of_memory(error);
	else if (!t->up)
		code = do_handshake(t, error);
	update_out(t);
	return code;
}

int redis_tls_get(struct redis_tls *t, char *out, size_t size, size_t *len, struct redis_error *error)
{
	int code = 0;

	*len = 0;
	if (!t->up)
		return 0;
	ERR_clear_error();
	if (SSL_read_ex(t->ssl, out, size, len) != 1) {
		int why = SSL_get_error(t->ssl, 0);

		*len = 0;
		/* close_notify: the end of the connection follows. */
		if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_ZERO_RETURN)
			code = failed(t, error);
	}
	update_out(t);
	return code;
}

int redis_tls_put(struct redis_tls *t, const char *bytes, size_t len, struct redis_error *error)
{
	int code = 0;
	size_t n = 0;

	ERR_clear_error();
	if (SSL_write_ex(t->ssl, bytes, len, &n) != 1 || n != len)
		code = failed(t, error);
	update_out(t);
	return code;
}

const char *redis_tls_out(const struct redis_tls *t, size_t *len)
{
	*len = t->out_len;
	return t->out_bytes;
}

void redis_tls_sent(struct redis_tls *t, size_t len)
{
	char taken[4096];
	int n = 1;

	while (len && n > 0) {
		n = BIO_read(t->out, taken, (int)(len < sizeof(taken) ? len : sizeof(taken)));
		len -= n > 0 ? (size_t)n : 0;
	}
	update_out(t);
}
