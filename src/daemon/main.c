/* SPDX-License-Identifier: MIT */
/* main.c - lockshm-bridge: commands, help, and main; manual: doc/man/lockshm-bridge.8 */
#include <stdlib.h>
#include <string.h>

#include "daemon/daemon.h"

static const char help_text[] =
	"usage: lockshm-bridge [--any-owner] [--while-used] [--credentials DIR] [--host-name TEXT] NAME [-- CMD...]\n"
	"       lockshm-bridge --check [--any-owner] [--credentials DIR] [--host-name TEXT] NAME\n"
	"       lockshm-bridge show [--json|--porcelain] [--escaped] [--credentials DIR] NAME KEY\n"
	"       lockshm-bridge release [--escaped] [--any-owner] [--credentials DIR] NAME KEY VALUE\n"
	"       lockshm-bridge ack [--escaped] [--any-owner] [--credentials DIR] NAME KEY\n"
	"\n"
	"Obtains the global keys of a segment from Redis, for all processes of this host.\n"
	"\n"
	"  show                     print what Redis has of a key\n"
	"  release                  end the hold in Redis that has VALUE, as show prints it\n"
	"  ack                      clear the damage of a robust key that Redis has\n"
	"\n"
	"  --any-owner              accept a segment that belongs to neither the caller nor root\n"
	"  --check                  print whether a bridge can serve the segment, and what to mend; leave nothing\n"
	"  --credentials DIR        directory with login and TLS files, as lockshm-bridge(8) names them; default:\n"
	"                           $LOCKSHM_CREDENTIALS, or /etc/lockshm/NAME\n"
	"  --host-name TEXT         this host in messages of other hosts; default: $LOCKSHM_HOST_NAME, or the machine's name\n"
	"  --while-used             end when no global key has been in use for 3 seconds\n"
	"  --escaped                KEY and VALUE are percent-escaped, as --porcelain prints them\n"
	"  --json                   one JSON array, an element for each server\n"
	"  --porcelain              tab-separated lines for programs\n"
	"  -h, --help               this help\n"
	"      --version            version\n"
	"\n"
	"NAME is a segment: /name or name; it may be made later.  With CMD it runs that command beside, and ends with\n"
	"it.  Segments called show, release or ack are written with the slash.  More: lockshm-bridge(8).\n";

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = { { "show", daemon_show }, { "release", daemon_release }, { "ack", daemon_ack } };

static void __attribute__((noreturn)) help(void)
{
	fputs(help_text, stdout);
	exit(program_end(EXIT_OK));
}

int main(int argc, char **argv)
{
	program_begin("lockshm-bridge");
	args_help = help;
	if (argc < 2) {
		fputs(help_text, stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--version"))
		return program_version();
	signals_contain_truncation();
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		subject_command(commands[i].name);
		return program_end(commands[i].run(argc - 1, argv + 1));
	}
	return program_end(daemon_serve(argc, argv));
}
