/* SPDX-License-Identifier: MIT */
/* tls-files.c - certificates, and the suite's server with them; see redis.h */
#define _GNU_SOURCE
#include "redis.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "redis/tls.h"

static char dir[64];

static const char make_all[] =
	"set -e; cd \"$1\"; exec 2>log\n"
	"new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'\n"
	"for ca in ca strange-ca; do\n"
	"	openssl req -x509 $new -keyout $ca.key -out $ca.crt -subj /CN=$ca -days 30\n"
	"done\n"
	"echo subjectAltName=IP:127.0.0.1,DNS:redis.test >here\n"
	"echo subjectAltName=DNS:other.test >there\n"
	"echo subjectAltName=DNS:re*.part.test,DNS:*.whole.test >many\n"
	"sign() {\n"
	"	openssl x509 -req -in $1 -CA $2.crt -CAkey $2.key -set_serial $3 -days $4 -extfile $5 -out $6.crt\n"
	"}\n"
	"openssl req -new -newkey rsa:512 -nodes -keyout weak.key -out weak.csr -subj /CN=weak\n"
	"for name in server client strange-server strange-client; do\n"
	"	openssl req -new $new -keyout $name.key -out $name.csr -subj /CN=$name\n"
	"done\n"
	"sign server.csr ca 2 30 here server\n"
	"sign server.csr ca 3 -1 here expired\n"
	"sign server.csr ca 4 30 there elsewhere\n"
	"sign client.csr ca 5 30 there client\n"
	"sign strange-server.csr strange-ca 6 30 here strange-server\n"
	"sign strange-client.csr strange-ca 7 30 there strange-client\n"
	"sign server.csr ca 9 30 many many\n"
	"sign weak.csr ca 8 30 there weak\n"
	"openssl pkey -in client.key -aes128 -passout pass:x -out locked.key\n"
	"sign server.csr ca 10 30 here revoked\n"
	"for ca in ca strange-ca; do\n"
	"	printf '[ca]\\ndefault_ca=d\\n[d]\\ndatabase=%s.index\\ndefault_md=sha256\\n' $ca >$ca.cnf\n"
	"	: >$ca.index\n"
	"	list() { openssl ca -config $ca.cnf -cert $ca.crt -keyfile $ca.key \"$@\"; }\n"
	"	[ $ca = strange-ca ] || list -revoke revoked.crt\n"
	"	list -gencrl -crldays 30 -out $ca.crl\n"
	"	list -gencrl -crl_lastupdate 20200101000000Z -crl_nextupdate 20200201000000Z -out $ca-old.crl\n"
	"done\n"
	"chmod 600 *.key\n";

const char *tls_missing(void)
{
	if (redis_tls_missing())
		return "this build has no TLS";
	if (system("openssl version >/dev/null 2>&1") != 0)
		return "there is no openssl command";
	return system("redis-cli --help 2>&1 | grep -q -- --tls") == 0 ? NULL : "this Redis was built without TLS";
}

const char *tls_file(const char *name)
{
	static char path[8][128];
	static unsigned next;
	char *out = path[next++ % 8];

	snprintf(out, sizeof(path[0]), "%s/%s", dir, name);
	return out;
}

static void make_certificates(void)
{
	char command[sizeof(make_all) + 128];

	redis_dir(dir);
	snprintf(command, sizeof(command), "sh -c '%s' sh %s", "eval \"$make_all\"", dir);
	setenv("make_all", make_all, 1);
	ck_assert_msg(system(command) == 0, "openssl: see %s/log", dir);
	unsetenv("make_all");
}

void tls_setup(void)
{
	make_certificates();
	redis_stop(redis);
	redis = redis_start_tls(NULL);
}

void tls_presents(const char *cert, const char *key)
{
	ck_redis("OK", redis, "CONFIG SET tls-cert-file %s tls-key-file %s", tls_file(cert), tls_file(key));
}

const char *tls_with(const char *uri, const char *format, ...)
{
	static char out[1000];
	size_t n = strcspn(uri, "?");
	va_list args;

	memcpy(out, uri, n);
	va_start(args, format);
	vsnprintf(out + n, sizeof(out) - n, format, args);
	va_end(args);
	return out;
}
