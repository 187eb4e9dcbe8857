/* SPDX-License-Identifier: MIT */
/*
 * ack.c - lockctl ack: clear the damage mark that a dead or overdue holder left on a key
 *
 * Only an exclusive holder may clear the damage mark, because only it can know that what the lock protects is good.
 * An operator confirms a repair with this command.
 */
#include <stdlib.h>

#include "lockctl/lockctl.h"

enum { OPTION_ESCAPED = 256, OPTION_ANY_OWNER };

static const struct option options[] = {
	{ "any-owner", no_argument, NULL, OPTION_ANY_OWNER },
	{ "escaped", no_argument, NULL, OPTION_ESCAPED },
	{ "help", no_argument, NULL, 'h' },
	{ "wait", required_argument, NULL, 'w' },
	{ NULL, 0, NULL, 0 } /* end */
};

static lockshm_canceller_t canceller = LOCKSHM_CANCELLER_INIT;

static void print_previous(const struct lockshm_previous *previous)
{
	char *text = format_previous(previous);

	printf("cleared: %s\n", text);
	free(text);
}

/** With the lock held: clear the damage mark, if there is one. */
static int acknowledge(lockshm_hold_t *hold, int acquired, const struct lockshm_report *report)
{
	int code = LOCKSHM_OK;

	if (acquired == LOCKSHM_OWNER_DIED || acquired == LOCKSHM_TOOK_OVER_EXPIRED)
		code = lockshm_acknowledge(hold);
	if (code < 0) {
		lockshm_release(hold, 0);
		failed(code, NULL);
		return EXIT_FAILED;
	}
	code = lockshm_release(hold, 0);
	if (code < 0)
		return failed(code, NULL);
	if (acquired == LOCKSHM_OK)
		puts("no damage mark");
	else
		print_previous(&report->previous);
	return EXIT_OK;
}

static int acquire_and_acknowledge(lockshm_t *segment, struct lockshm_request *request)
{
	struct lockshm_report report;
	lockshm_hold_t hold = LOCKSHM_HOLD_INIT;
	int code;

	request->tag = "lockctl ack";
	request->canceller = &canceller;
	request->report = &report;
	code = lockshm_acquire(segment, request, &hold);
	if (code == LOCKSHM_CANCELLED)
		return EXIT_BY_SIGNAL + signals_caught();
	return code < 0 ? failed(code, &report.error) : acknowledge(&hold, code, &report);
}

int lockctl_ack(int argc, char **argv)
{
	struct lockshm_request request = LOCKSHM_REQUEST_INIT;
	bool escaped = false;
	bool any_owner = false;
	lockshm_t *segment;
	const char *name;
	struct key key;
	int status;

	for (int option; (option = args_option(argc, argv, ":w:h", options)) != -1;)
		if (option == 'w')
			request.timeout_ns = args_duration("-w", optarg, DURATION_INF);
		else if (option == OPTION_ESCAPED)
			escaped = true;
		else
			any_owner = true;
	name = args_segment(argc, argv);
	key = args_key(args_operand(argc, argv, "KEY"), escaped);
	args_end(argc, argv);
	request.key = key.bytes;
	request.key_len = key.len;
	signals_cancel(&canceller);
	status = open_to_act(&segment, name, any_owner);
	if (status)
		return status;
	status = acquire_and_acknowledge(segment, &request);
	lockshm_close(segment);
	return status;
}
