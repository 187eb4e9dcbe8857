/* SPDX-License-Identifier: MIT */
/*
 * run.c - lockctl run: hold a lock for exactly as long as a command lives
 *
 * The main thread takes the lock, so the hold lives as long as lockctl.  The library's service thread renews the lease,
 * and writes to an eventfd if the lock is lost: then the command gets SIGTERM.  If lockctl is killed the kernel kills
 * the command, and the next request is granted with a damage mark that names the dead holder.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lockctl/lockctl.h"

enum {
	OPTION_COOLDOWN = 256,
	OPTION_GLOBAL,
	OPTION_MAX_HOLD,
	OPTION_REDIS_POLICY,
	OPTION_TAG,
	OPTION_ESCAPED,
	OPTION_ANY_OWNER
};

static const struct option options[] = {
	{ "any-owner", no_argument, NULL, OPTION_ANY_OWNER },
	{ "conflict-exit-code", required_argument, NULL, 'E' },
	{ "cooldown", required_argument, NULL, OPTION_COOLDOWN },
	{ "escaped", no_argument, NULL, OPTION_ESCAPED },
	{ "global", no_argument, NULL, OPTION_GLOBAL },
	{ "help", no_argument, NULL, 'h' },
	{ "max-hold", required_argument, NULL, OPTION_MAX_HOLD },
	{ "redis-policy", required_argument, NULL, OPTION_REDIS_POLICY },
	{ "shared", no_argument, NULL, 's' },
	{ "tag", required_argument, NULL, OPTION_TAG },
	{ "ttl", required_argument, NULL, 't' },
	{ "wait", required_argument, NULL, 'w' },
	{ NULL, 0, NULL, 0 } /* end */
};

struct run {
	const char *name;
	struct key key;
	char *shown; /**< the key in messages */
	char **command;
	char tag[LOCKSHM_TAG_MAX + 1];
	int64_t cooldown_ns;
	int conflict_status;
	bool escaped;
	bool any_owner;
	struct lockshm_request request;
	struct lockshm_report report;
	lockshm_canceller_t canceller;
	lockshm_hold_t hold;
	bool lost;
};

/* --- Arguments --------------------------------------------------------------------------------------- */

static void set_ttl(struct run *run, const char *text)
{
	int64_t ns = args_duration("-t", text, DURATION_INF | DURATION_NONE);

	if (ns < LOCKSHM_TTL_MIN)
		usage_error("-t: a lease of '%s' is too short; at least 1ms, or none for a strict hold", text);
	run->request.ttl_ns = ns;
}

static void set_max_hold(struct run *run, const char *text)
{
	int64_t ns = args_duration("--max-hold", text, DURATION_FINITE);

	if (ns < LOCKSHM_TTL_MIN)
		usage_error("--max-hold: '%s' is too short; at least 1ms", text);
	run->request.max_hold_ns = ns;
}

static void set_tag(struct run *run, const char *text)
{
	if (strlen(text) > LOCKSHM_TAG_MAX)
		usage_error("--tag: '%s' has more than %d bytes", text, LOCKSHM_TAG_MAX);
	strcpy(run->tag, text);
	run->request.tag = run->tag;
}

static void set_option(struct run *run, int option)
{
	switch (option) {
	case 's':
		run->request.mode = LOCKSHM_SHARED;
		break;
	case 'w':
		run->request.timeout_ns = args_duration("-w", optarg, DURATION_INF);
		break;
	case 't':
		set_ttl(run, optarg);
		break;
	case 'E':
		run->conflict_status = (int)args_number("-E", optarg, 0, 255);
		break;
	case OPTION_COOLDOWN:
		run->cooldown_ns = args_duration("--cooldown", optarg, DURATION_FINITE);
		break;
	case OPTION_GLOBAL:
		run->request.flags |= LOCKSHM_GLOBAL;
		break;
	case OPTION_MAX_HOLD:
		set_max_hold(run, optarg);
		break;
	case OPTION_REDIS_POLICY:
		run->request.redis_policy = args_policy("--redis-policy", optarg);
		break;
	case OPTION_TAG:
		set_tag(run, optarg);
		break;
	case OPTION_ESCAPED:
		run->escaped = true;
		break;
	case OPTION_ANY_OWNER:
		run->any_owner = true;
		break;
	}
}

/** Find NAME, KEY and the command.  The command's own options follow "--" and are not parsed. */
static void parse(struct run *run, int argc, char **argv)
{
	char *operands[2];
	int n = 0;

	for (int option; (option = args_option(argc, argv, "-:sw:t:E:h", options)) != -1;)
		if (option != 1)
			set_option(run, option);
		else if (n == 2)
			usage_error("'--' is missing before the command '%s'", optarg);
		else
			operands[n++] = optarg;
	if (n < 2 && optind < argc) {
		/* A KEY that begins with '-': lockctl run -- NAME -KEY -- CMD */
		for (; n < 2; n++)
			operands[n] = args_operand(argc, argv, n ? "KEY" : "NAME");
		if (optind < argc && strcmp(argv[optind++], "--"))
			usage_error("'--' is missing before the command '%s'", argv[optind - 1]);
	}
	if (n < 2)
		usage_error("%s is missing", n ? "KEY" : "NAME");
	run->name = operands[0];
	subject_segment(run->name);
	run->key = args_key(operands[1], run->escaped);
	run->command = argv + optind;
	if (!run->command[0] || !*run->command[0])
		usage_error("CMD is missing: '--' and the command to run come last");
}

static void default_tag(struct run *run)
{
	const char *slash = strrchr(run->command[0], '/');

	snprintf(run->tag, sizeof(run->tag), "%s", slash ? slash + 1 : run->command[0]);
	run->request.tag = run->tag;
}

static void prepare(struct run *run, int argc, char **argv)
{
	parse(run, argc, argv);
	if (run->cooldown_ns && run->request.mode == LOCKSHM_SHARED)
		usage_error("--cooldown needs an exclusive lock: leave out -s");
	if (run->request.redis_policy && !(run->request.flags & LOCKSHM_GLOBAL))
		usage_error("--redis-policy needs --global");
	if (!run->request.tag)
		default_tag(run);
	if (run->request.max_hold_ns && run->request.ttl_ns == LOCKSHM_FOREVER)
		usage_error("--max-hold needs a lease: leave out -t none");
	if (run->request.ttl_ns != LOCKSHM_FOREVER)
		run->request.flags |= LOCKSHM_AUTO_RENEW;
	run->request.key = run->key.bytes;
	run->request.key_len = run->key.len;
	run->request.canceller = &run->canceller;
	run->request.report = &run->report;
	run->shown =
		visible(run->key.bytes, run->key.len < LOCKSHM_KEY_SHOWN_MAX ? run->key.len : LOCKSHM_KEY_SHOWN_MAX);
}

/* --- The lock ---------------------------------------------------------------------------------------- */

static int not_obtained(const struct run *run, int code)
{
	const char *text = run->report.error.message;

	if (code == LOCKSHM_CANCELLED && signals_caught())
		return EXIT_BY_SIGNAL + signals_caught();
	if (code != LOCKSHM_TIMEOUT && code != LOCKSHM_BUSY)
		return failed(code, &run->report.error);
	message("'%s' not obtained: %s; lockctl show prints the holders, -w waits longer", run->shown,
		*text ? text : lockshm_strerror(code));
	return run->conflict_status;
}

static void warn_previous(const struct run *run)
{
	char *text = format_previous(&run->report.previous);

	message("'%s': %s (damage mark cleared)", run->shown, text);
	free(text);
}

static void warn_lost(const struct run *run, const char *what)
{
	uint64_t next = lockshm_lost_to(&run->hold);
	char *to = next ? format_text(", and token %" PRIu64 " was issued after it", next) : format_text("%s", "");

	message("'%s' was lost, token %" PRIu64 ": the lease expired%s or an operator ended the hold%s; %s", run->shown,
		run->report.token, run->request.flags & LOCKSHM_GLOBAL ? ", this host lost the key in Redis," : "", to, what);
	free(to);
}

/** For child_run(). */
static bool must_stop(void *arg)
{
	struct run *run = arg;
	int code = lockshm_check(&run->hold, NULL);

	if (code != LOCKSHM_LOST && code != LOCKSHM_NOT_HELD)
		return false;
	run->lost = true;
	warn_lost(run, "the command gets SIGTERM");
	return true;
}

/** Return: the exit status, which is @status unless the lock had been lost. */
static int release(struct run *run, int64_t cooldown_ns, int status)
{
	switch (lockshm_release(&run->hold, cooldown_ns)) {
	case LOCKSHM_OK:
		return status;
	case LOCKSHM_LATE:
		message("'%s': the lease had expired before the command ended, but the lock had no other holder", run->shown);
		return status;
	default:
		if (!run->lost)
			warn_lost(run, "the command has ended");
		return EXIT_LOST;
	}
}

/* --- The command ------------------------------------------------------------------------------------- */

static int run_watched(struct run *run, int notices)
{
	struct child_watch watch = { must_stop, run, notices };
	struct child_end end;

	if (child_run(run->command, &watch, &end) < 0) {
		message("cannot start a process: %s%s", strerror(errno), limit_of(errno));
		return release(run, 0, EXIT_FAILED);
	}
	if (end.exec_errno)
		message("cannot execute '%s': %s", run->command[0], strerror(end.exec_errno));
	return release(run, end.started ? run->cooldown_ns : 0, end.exit_status);
}

static int run_command(struct run *run)
{
	int notices = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int code, status;

	if (notices < 0) {
		message("cannot make an eventfd: %s%s", strerror(errno), limit_of(errno));
		return release(run, 0, EXIT_FAILED);
	}
	code = lockshm_notify(&run->hold, notices);
	if (code >= 0) {
		status = run_watched(run, notices);
	} else if (code == LOCKSHM_LOST) {
		run->lost = true;
		warn_lost(run, "the command was not started");
		status = release(run, 0, EXIT_LOST);
	} else {
		if (code == LOCKSHM_SYSTEM)
			message_no_watch();
		status = release(run, 0, code == LOCKSHM_SYSTEM ? EXIT_FAILED : failed(code, NULL));
	}
	close(notices);
	return status;
}

static int acquire_and_run(struct run *run, lockshm_t *segment)
{
	int code = lockshm_acquire(segment, &run->request, &run->hold);

	if (code < 0)
		return not_obtained(run, code);
	if (run->report.previous.status)
		warn_previous(run);
	if (code == LOCKSHM_LOCAL_ONLY)
		message("'%s': Redis is out of reach; the lock is held on this host only", run->shown);
	return run_command(run);
}

int lockctl_run(int argc, char **argv)
{
	struct run run = { .conflict_status = EXIT_NOT_OBTAINED,
			   .request = LOCKSHM_REQUEST_INIT,
			   .canceller = LOCKSHM_CANCELLER_INIT,
			   .hold = LOCKSHM_HOLD_INIT };
	lockshm_t *segment;
	int status;

	prepare(&run, argc, argv);
	signals_cancel(&run.canceller);
	status = open_to_act(&segment, run.name, run.any_owner);
	if (!status) {
		status = acquire_and_run(&run, segment);
		lockshm_close(segment);
	}
	free(run.shown);
	return status;
}
