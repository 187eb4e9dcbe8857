/* SPDX-License-Identifier: MIT */
/*
 * openssl.h - OpenSSL inside a process that may use it, too
 *
 * Loaded at its first use, never unloaded.  It registers no handler at the end of the process for this library; if the
 * program uses OpenSSL and ends it at its own exit, at_its_end() runs before.  All calls are made between enter and
 * leave: OpenSSL has locks of its own, which a forked child could never unlock (redis/dynlib.h).
 */
#ifndef LOCKSHM_REDIS_OPENSSL_H
#define LOCKSHM_REDIS_OPENSSL_H

#include <stdbool.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

/* The functions used, with the types of the headers.  Anything else is a macro around one of these. */
#define OPENSSL_FUNCTIONS(f) \
	f(BIO_ctrl) f(BIO_free) f(BIO_new) f(BIO_new_mem_buf) f(BIO_read) f(BIO_s_mem) f(BIO_write) \
	f(ERR_clear_error) f(ERR_peek_error) f(ERR_peek_last_error) f(ERR_reason_error_string) f(EVP_PKEY_free) \
	f(OPENSSL_atexit) f(OPENSSL_init_ssl) f(OPENSSL_thread_stop) f(PEM_read_bio_PrivateKey) \
	f(PEM_read_bio_X509) f(SSL_CTX_check_private_key) f(SSL_CTX_ctrl) f(SSL_CTX_free) f(SSL_CTX_get_cert_store) \
	f(SSL_CTX_new) f(SSL_CTX_set_cert_store) f(SSL_CTX_set_default_verify_paths) f(SSL_CTX_set_options) \
	f(SSL_CTX_set_verify) f(SSL_CTX_use_PrivateKey) f(SSL_CTX_use_certificate) f(SSL_ctrl) f(SSL_do_handshake) \
	f(SSL_free) f(SSL_get0_param) f(SSL_get_error) f(SSL_get_verify_result) f(SSL_new) f(SSL_read_ex) \
	f(SSL_set1_host) f(SSL_set_bio) f(SSL_set_connect_state) f(SSL_write_ex) f(TLS_client_method) \
	f(X509_STORE_add_cert) f(X509_STORE_free) f(X509_STORE_up_ref) f(X509_VERIFY_PARAM_set1_ip_asc) \
	f(X509_VERIFY_PARAM_set_hostflags) f(X509_free) f(X509_verify_cert_error_string)

#define OPENSSL_AS_POINTER(name) __typeof__(&name) name;
struct openssl {
	OPENSSL_FUNCTIONS(OPENSSL_AS_POINTER)
};
extern struct openssl redis_ssl;

/* NULL, or why it cannot be loaded or used; needed before the first enter. */
const char *redis_openssl_load(void);
/*
 * False = it cannot be used in this process (any more).  Enter and leave clear the thread's error list, in which the
 * program may have left errors of its own.
 */
bool redis_openssl_enter(int *cancel);
void redis_openssl_leave(int cancel);
/*
 * Called by a thread that has used OpenSSL before it ends or returns to the program: else OpenSSL would take its locks
 * at the end of the thread, outside of the lock that fork() takes.
 */
void redis_openssl_thread_ends(void);

/* Text of an error code; inside. */
const char *redis_openssl_reason(unsigned long code);

#endif
