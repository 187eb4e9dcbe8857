/* SPDX-License-Identifier: MIT */
/* bridge-openssl.c - loading OpenSSL, and being inside of it; see bridge-openssl.h */
#include "bridge-openssl.h"

#include "bridge-library.h"

struct openssl ssl;

#define AS_SYMBOL(name) { #name, &ssl.name },
static const struct bridge_symbol symbols[] = { OPENSSL_FUNCTIONS(AS_SYMBOL) };

static struct bridge_library library = {
	.file = BRIDGE_LIBSSL,
	.needs_it = "rediss://",
	.symbols = symbols,
	.n_symbols = sizeof(symbols) / sizeof(symbols[0]),
};

static bool begun, over; /* inside */

const char *bridge_openssl_load(void)
{
	return bridge_library_load(&library);
}

/* By whoever ends OpenSSL here, as a program does at its exit that uses it, too: from then on it is left alone. */
static void at_its_end(void)
{
	int cancel;

	if (!bridge_library_enter(&cancel))
		return;
	over = true;
	bridge_library_leave(cancel);
}

bool bridge_openssl_enter(int *cancel)
{
	if (!bridge_library_enter(cancel))
		return false;
	if (!begun && !over) {
		begun = ssl.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) == 1;
		if (begun)
			(void)ssl.OPENSSL_atexit(at_its_end);
	}
	if (!over && begun) {
		ssl.ERR_clear_error();
		return true;
	}
	bridge_library_leave(*cancel);
	return false;
}

void bridge_openssl_leave(int cancel)
{
	ssl.ERR_clear_error();
	bridge_library_leave(cancel);
}
