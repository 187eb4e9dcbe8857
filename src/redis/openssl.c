/* SPDX-License-Identifier: MIT */
/* openssl.c - loading OpenSSL, and calling it; see redis/openssl.h */
#include "redis/openssl.h"

#include <stdio.h>

#include "redis/dynlib.h"

struct openssl redis_ssl;

#define AS_SYMBOL(name) { #name, &redis_ssl.name },
static const struct redis_symbol symbols[] = { OPENSSL_FUNCTIONS(AS_SYMBOL) };

static struct dynlib openssl_lib = {
	.file = REDIS_LIBSSL,
	.needs_it = "rediss://",
	.symbols = symbols,
	.n_symbols = sizeof(symbols) / sizeof(symbols[0]),
};

static bool begun; /* used inside only */
static bool over;
static char trouble[240]; /* inside only: why OPENSSL_init_ssl() failed */

/* Called by the program's own end of OpenSSL, at its exit: OpenSSL is not used from then on. */
static void at_its_end(void)
{
	/* Before the wait: a later enter finds it set; the thread inside does not check again. */
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	dynlib_wait_at_end();
}

const char *redis_openssl_reason(unsigned long code)
{
	const char *text = redis_ssl.ERR_reason_error_string(code);

	return text ? text : "an error without a name";
}

/* Inside. */
static void begin(void)
{
	/* After a failure another try may succeed, but without the system's settings: never tried again. */
	if (begun || trouble[0] || __atomic_load_n(&over, __ATOMIC_RELAXED))
		return;
	redis_ssl.ERR_clear_error();
	begun = redis_ssl.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) == 1;
	if (begun)
		(void)redis_ssl.OPENSSL_atexit(at_its_end);
	else
		snprintf(trouble, sizeof(trouble), "OpenSSL cannot be used in this process: %.150s",
			 redis_openssl_reason(redis_ssl.ERR_peek_error()));
	/* It may run in a thread of the program, which can end at any time. */
	redis_ssl.OPENSSL_thread_stop();
}

static bool usable(void)
{
	return begun && !__atomic_load_n(&over, __ATOMIC_RELAXED);
}

const char *redis_openssl_load(void)
{
	const char *why = dynlib_load(&openssl_lib);
	int cancel;

	if (why)
		return why;
	why = "OpenSSL cannot be used in this process: it ends, or was cloned past the C openssl_lib";
	if (!dynlib_enter(&cancel))
		return why;
	begin();
	if (begun || trouble[0])
		why = usable() ? NULL : begun ? why : trouble;
	dynlib_leave(cancel);
	return why;
}

bool redis_openssl_enter(int *cancel)
{
	if (!dynlib_enter(cancel))
		return false;
	if (usable()) {
		redis_ssl.ERR_clear_error();
		return true;
	}
	dynlib_leave(*cancel);
	return false;
}

void redis_openssl_leave(int cancel)
{
	redis_ssl.ERR_clear_error();
	dynlib_leave(cancel);
}

void redis_openssl_thread_ends(void)
{
	int cancel;

	if (!__atomic_load_n(&openssl_lib.loaded, __ATOMIC_ACQUIRE) || !dynlib_enter(&cancel))
		return;
	/* The last call: any other would allocate again what this frees. */
	if (usable())
		redis_ssl.OPENSSL_thread_stop();
	dynlib_leave(cancel);
}
