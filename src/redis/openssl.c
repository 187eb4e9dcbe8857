/* SPDX-License-Identifier: MIT */
/* openssl.c - loading OpenSSL, and being inside of it; see redis/openssl.h */
#include "redis/openssl.h"

#include <stdio.h>

#include "redis/dynlib.h"

struct openssl bridge_ssl;

#define AS_SYMBOL(name) { #name, &bridge_ssl.name },
static const struct bridge_symbol symbols[] = { OPENSSL_FUNCTIONS(AS_SYMBOL) };

static struct bridge_library library = {
	.file = BRIDGE_LIBSSL,
	.needs_it = "rediss://",
	.symbols = symbols,
	.n_symbols = sizeof(symbols) / sizeof(symbols[0]),
};

static bool begun; /* inside */
static bool over;
static char trouble[240]; /* inside: why it did not begin */

/* By whoever ends OpenSSL here, as a program does at its exit that uses it, too: from then on it is left alone. */
static void at_its_end(void)
{
	/* Before the wait, so that whoever comes after that sees it; who is inside does not look. */
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	bridge_library_wait_at_end();
}

const char *bridge_openssl_reason(unsigned long code)
{
	const char *text = bridge_ssl.ERR_reason_error_string(code);

	return text ? text : "an error without a name";
}

/* Inside. */
static void begin(void)
{
	/* Once it has failed it may say yes, and do without the system's settings. */
	if (begun || trouble[0] || __atomic_load_n(&over, __ATOMIC_RELAXED))
		return;
	bridge_ssl.ERR_clear_error();
	begun = bridge_ssl.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) == 1;
	if (begun)
		(void)bridge_ssl.OPENSSL_atexit(at_its_end);
	else
		snprintf(trouble, sizeof(trouble), "OpenSSL cannot be used in this process: %.150s",
			 bridge_openssl_reason(bridge_ssl.ERR_peek_error()));
	/* That may have been in a thread of the program, which ends at any time. */
	bridge_ssl.OPENSSL_thread_stop();
}

static bool usable(void)
{
	return begun && !__atomic_load_n(&over, __ATOMIC_RELAXED);
}

const char *bridge_openssl_load(void)
{
	const char *why = bridge_library_load(&library);
	int cancel;

	if (why)
		return why;
	why = "OpenSSL cannot be used in this process: it ends, or was cloned past the C library";
	if (!bridge_library_enter(&cancel))
		return why;
	begin();
	if (begun || trouble[0])
		why = usable() ? NULL : begun ? why : trouble;
	bridge_library_leave(cancel);
	return why;
}

bool bridge_openssl_enter(int *cancel)
{
	if (!bridge_library_enter(cancel))
		return false;
	if (usable()) {
		bridge_ssl.ERR_clear_error();
		return true;
	}
	bridge_library_leave(*cancel);
	return false;
}

void bridge_openssl_leave(int cancel)
{
	bridge_ssl.ERR_clear_error();
	bridge_library_leave(cancel);
}

void bridge_openssl_thread_ends(void)
{
	int cancel;

	if (!__atomic_load_n(&library.loaded, __ATOMIC_ACQUIRE) || !bridge_library_enter(&cancel))
		return;
	/* The last call: any other would make again what this takes away. */
	if (usable())
		bridge_ssl.OPENSSL_thread_stop();
	bridge_library_leave(cancel);
}
