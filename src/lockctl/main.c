/* SPDX-License-Identifier: MIT */
/*
 * main.c - the table of commands, help, and main
 *
 * All help is printed from the table, so that a command cannot lack it.  Manual: doc/man/lockctl.1.
 */
#include <stdlib.h>
#include <string.h>

#include "lockctl/lockctl.h"

#define HELP_LINE "  -h, --help               this help\n"
#define FORMAT_LINES                                                                                                   \
	"  --json                   one JSON document\n"                                                               \
	"  --porcelain              tab-separated lines for programs\n"
#define ESCAPED_LINE "  --escaped                KEY is percent-escaped, as --porcelain prints keys\n"
#define ID_LINE "  --id ID                  in place of KEY: the key with this id, as ls and show print it for long keys\n"
#define ANY_OWNER_LINE "  --any-owner              accept a segment that belongs to neither the caller nor root\n"
/* Of run, seat, once and hold. */
#define COMMAND_LINE "  -c, --command 'CMD'      run CMD by /bin/sh -c\n"
#define SHARED_LINE "  -s, --shared             hold it together with other shared holders\n"
#define NO_CREATE_LINE "  --no-create              fail if there is no such segment, instead of making it\n"
#define WAIT_LINE "  -w, --wait DUR           longest wait for the lock (5s); 0 = try once, inf = no bound\n"
#define TAG_LINE "  --tag T                  shown in listings and to the next holder (the name of the command)\n"
#define CONFLICT_LINES                                                                                                 \
	"  -E, --conflict-exit-code CODE\n"                                                                            \
	"                           exit status when the lock is not obtained in time (3)\n"
#define ROBUST_LINES                                                                                                   \
	"  --robust                 a holder that dies inside leaves a damage mark, and marks are reported\n"          \
	"  --acknowledge            clear the damage mark that is found; needs --robust\n"
#define GLOBAL_LINES                                                                                                   \
	"  --global                 exclude other hosts too, through Redis\n"                                          \
	"  --redis-policy POLICY    when Redis is out of reach: fail, wait or local-only (the segment's)\n"

static int help_of(int argc, char **argv);

static const struct command commands[] = {
	{ "ack", lockctl_ack, "NAME KEY | --id ID | --all | [--prefix P] [--older-than DUR]\n"
	  "                   [--escaped] [--any-owner]",
	  "clear the damage marks that dead or overdue holders left",
	  "  --all                    all of the segment\n"
	  "  --prefix P               those of keys that begin with P\n"
	  "  --older-than DUR         those that were left at least that long ago\n"
	  ID_LINE ESCAPED_LINE ANY_OWNER_LINE },
	{ "create", lockctl_create, "NAME [--or-open] [--from FILE] [--OPTION VALUE]...",
	  "make a segment",
	  "  --or-open                use an existing valid segment of that name\n"
	  "  --from FILE              lines OPTION=VALUE, with _ for -, as if they were given here\n" },
	{ "help", help_of, "[COMMAND]", "list the commands, or the options of one", "" },
	{ "hold", lockctl_hold,
	  "NAME KEY --fd N [-s|--shared] [-w DUR] [-t DUR|none] [--max-hold DUR] [--tag T] [-E CODE]\n"
	  "                    [--robust [--acknowledge]] [--global [--redis-policy fail|wait|local-only]]\n"
	  "                    [--escaped] [--no-create] [--any-owner]\n"
	  "       lockctl hold --fd N -u",
	  "hold a lock as long as a descriptor of a script is open",
	  "  --fd N                   descriptor, open for writing: exec 9>/dev/null; lockctl hold ... --fd 9\n"
	  SHARED_LINE WAIT_LINE
	  "  -t, --ttl DUR|none       lease, renewed while it is held (30s); none = strict\n"
	  "  --max-hold DUR           longest time to renew the lease (as long as the descriptor is open)\n"
	  "  --tag T                  shown in listings and to the next holder (the name of the script)\n"
	  CONFLICT_LINES ROBUST_LINES GLOBAL_LINES ESCAPED_LINE NO_CREATE_LINE ANY_OWNER_LINE
	  "  -u, --unlock             release what this descriptor holds, also if other processes have it open\n" },
	{ "ls", lockctl_ls,
	  "[NAME [--pid P] [--waiting] [--min-age DUR] [--sort key|age|waiters] [--internal]]\n"
	  "                  [--json|--porcelain]",
	  "list segments, or the locks of one",
	  "  --pid P                  what process P holds and waits for\n"
	  "  --waiting                what is waited for, by which request, behind which holder\n"
	  "  --min-age DUR            only what is held or waited for at least that long\n"
	  "  --sort key|age|waiters   order of the table: by key, oldest first, most waiters first\n"
	  "  --internal               also the library's own locks, as the election of the bridge\n"
	  FORMAT_LINES },
	{ "once", lockctl_once,
	  "NAME KEY --every DUR [--retry-on-failure] [-t DUR|none] [--max-hold DUR] [--tag T] [-E CODE]\n"
	  "                    [--global [--redis-policy fail|wait|local-only]] [--escaped] [--no-create]\n"
	  "                    [--any-owner] [--] CMD... | -c 'CMD'",
	  "run a command at most once in a period, or skip it",
	  "  --every DUR              the period, counted from the start of the command\n"
	  "  --retry-on-failure       a command that failed does not count\n"
	  "  -t, --ttl DUR|none       lease, renewed while the command runs (30s); none = strict\n"
	  "  --max-hold DUR           longest time to renew the lease (as long as the command runs)\n"
	  TAG_LINE
	  "  -E, --conflict-exit-code CODE\n"
	  "                           exit status of a run that is skipped (0)\n"
	  GLOBAL_LINES ESCAPED_LINE NO_CREATE_LINE ANY_OWNER_LINE COMMAND_LINE },
	{ "release", lockctl_release, "NAME KEY|--id ID --token T | --remote VALUE [--escaped] [--any-owner]",
	  "end one hold by force; its owner gets LOST",
	  "  --token T                token of the hold, as show prints it or the holder has it\n"
	  "  --remote VALUE           end the hold in Redis that has this value, as show prints it\n"
	  ID_LINE ESCAPED_LINE ANY_OWNER_LINE },
	{ "rm", lockctl_rm, "NAME", "remove a segment", "" },
	{ "run", lockctl_run,
	  "NAME KEY [--also KEY]... [-s|--shared] [-w DUR] [-t DUR|none] [--max-hold DUR]\n"
	  "                   [--cooldown DUR] [--tag T] [-E CODE] [--robust [--acknowledge]] [--keep-for-children]\n"
	  "                   [--global [--redis-policy fail|wait|local-only]] [--escaped] [--no-create]\n"
	  "                   [--any-owner] [--] CMD... | -c 'CMD'",
	  "run a command while holding a lock, or several",
	  "  --also KEY               one more lock; repeatable: the command runs with all of them, or does not run\n"
	  SHARED_LINE WAIT_LINE
	  "  -t, --ttl DUR|none       lease, renewed while the command runs (30s); none = strict\n"
	  "  --max-hold DUR           longest time to renew the lease (as long as the command runs)\n"
	  "  --cooldown DUR           keep the key closed that much longer after the command has ended\n"
	  TAG_LINE CONFLICT_LINES ROBUST_LINES
	  "  --keep-for-children      hold it until all processes that the command started have ended\n"
	  GLOBAL_LINES ESCAPED_LINE NO_CREATE_LINE ANY_OWNER_LINE COMMAND_LINE },
	{ "seat", lockctl_seat,
	  "NAME KEY [-w DUR] [-t DUR|none] [--max-hold DUR] [--tag T] [-E CODE]\n"
	  "                    [--global [--redis-policy fail|wait|local-only]] [--escaped] [--no-create]\n"
	  "                    [--any-owner] [--] CMD... | -c 'CMD'",
	  "run a command in one process of many; when it ends, in the next",
	  "  -w, --wait DUR           longest wait for the seat (inf)\n"
	  "  -t, --ttl DUR|none       lease, renewed while the command runs (none = strict)\n"
	  "  --max-hold DUR           longest time to renew the lease (as long as the command runs)\n"
	  TAG_LINE CONFLICT_LINES GLOBAL_LINES ESCAPED_LINE NO_CREATE_LINE ANY_OWNER_LINE COMMAND_LINE },
	{ "show", lockctl_show, "NAME KEY|--id ID [--json|--porcelain] [--local] [--escaped]",
	  "show one lock: holders, queue, damage mark, and its state in Redis",
	  FORMAT_LINES
	  "  --local                  no query to Redis\n"
	  ID_LINE ESCAPED_LINE },
	{ "stat", lockctl_stat, "NAME [--json] | --openmetrics [NAME...]", "show capacities, use and event counts",
	  "  --json                   one JSON document\n"
	  "  --openmetrics            OpenMetrics text for a metrics collector, of all segments without NAME\n" },
	{ "sweep", lockctl_sweep, "NAME [--any-owner]", "free what dead processes left",
	  ANY_OWNER_LINE },
	{ "verify", lockctl_verify, "NAME", "check every invariant of a segment", "" },
	{ NULL, NULL, NULL, NULL, NULL } /* end */
};

static const struct command *running;

static const struct command *find_command(const char *name)
{
	for (const struct command *command = commands; command->name; command++)
		if (!strcmp(command->name, name))
			return command;
	return NULL;
}

static void help(FILE *out)
{
	fputs("usage: lockctl COMMAND ...\n\n"
	      "Keyed, fair, crash-proof locks between the processes of one machine.\n\ncommands:\n", out);
	for (const struct command *command = commands; command->name; command++)
		fprintf(out, "  %-9s %s\n", command->name, command->summary);
	fputs("\nNAME is a segment: /name or name.  KEY is any text.  DUR is 250ms, 1.5s, 2m, 1h, 0 or inf.\n"
	      "More: lockctl COMMAND --help, lockctl --version, lockctl(1).\n", out);
}

static __attribute__((noreturn)) void command_help(void)
{
	printf("usage: lockctl %s%s%s\n\n%s.\n\n%s", running->name, *running->synopsis ? " " : "",
	       running->synopsis, running->summary, running->options);
	if (running->run == lockctl_create)
		create_help();
	fputs(HELP_LINE, stdout);
	exit(program_end(EXIT_OK));
}

/** What other tools call it. */
static const char *const synonyms[][2] = {
	{ "acknowledge", "ack" }, { "delete", "rm" },  { "destroy", "rm" }, { "info", "show" },	     { "list", "ls" },
	{ "lock", "run" },	  { "locks", "ls" },   { "ps", "ls" },	    { "remove", "rm" },	     { "status", "stat" },
	{ "top", "ls" },	  { "trylock", "run" }, { "unlock", "release" }, { "who", "show" },
};

static int unknown_command(const char *name)
{
	struct nearest nearest = nearest_to(name, strlen(name));
	char *meant;

	for (size_t i = 0; i < sizeof(synonyms) / sizeof(synonyms[0]); i++)
		if (!strcmp(name, synonyms[i][0]))
			nearest = nearest_to(synonyms[i][1], strlen(synonyms[i][1]));
	for (const struct command *command = commands; command->name; command++)
		nearest_offer(&nearest, command->name, strlen(command->name));
	if (strlen(name) > strlen("--")) {
		nearest_offer(&nearest, "--help", strlen("--help"));
		nearest_offer(&nearest, "--version", strlen("--version"));
	}
	meant = nearest_text(&nearest, "");
	message("unknown command '%s'%s%slockctl --help lists the commands", name, meant, *meant ? " " : "; ");
	free(meant);
	return EXIT_USAGE;
}

static int help_of(int argc, char **argv)
{
	args_no_option(argc, argv);
	if (optind == argc) {
		help(stdout);
		return EXIT_OK;
	}
	running = find_command(argv[optind]);
	if (!running)
		return unknown_command(argv[optind]);
	optind++;
	args_end(argc, argv);
	command_help();
}

int main(int argc, char **argv)
{
	program_begin("lockctl");
	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		help(stdout);
		return program_end(EXIT_OK);
	}
	if (!strcmp(argv[1], "--version"))
		return program_version();
	args_help = command_help;
	running = find_command(argv[1]);
	if (!running)
		return unknown_command(argv[1]);
	subject_command(running->name);
	signals_contain_truncation();
	return program_end(running->run(argc - 1, argv + 1));
}
