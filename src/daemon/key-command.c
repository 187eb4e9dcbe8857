/* SPDX-License-Identifier: MIT */
/* key-command.c - what show, release and ack begin with: options, operands, the segment */
#include "daemon/daemon.h"

enum { OPTION_ANY_OWNER = 256, OPTION_CREDENTIALS, OPTION_ESCAPED, OPTION_JSON, OPTION_PORCELAIN };

#define COMMON_OPTIONS                                                                                                 \
	{ "credentials", required_argument, NULL, OPTION_CREDENTIALS },                                                \
		{ "escaped", no_argument, NULL, OPTION_ESCAPED },                                                      \
		{ "help", no_argument, NULL, 'h' }

static const struct option to_look[] = {
	COMMON_OPTIONS,
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "porcelain", no_argument, NULL, OPTION_PORCELAIN },
	{ NULL, 0, NULL, 0 } /* end */
};

static const struct option to_act[] = {
	COMMON_OPTIONS,
	{ "any-owner", no_argument, NULL, OPTION_ANY_OWNER },
	{ NULL, 0, NULL, 0 } /* end */
};

int key_command_begin(struct key_command *command, int argc, char **argv)
{
	bool escaped = false, any_owner = false;
	const char *name, *credentials = NULL;

	for (int option; (option = args_option(argc, argv, ":h", command->looks ? to_look : to_act)) != -1;)
		if (option == OPTION_CREDENTIALS)
			credentials = optarg;
		else if (option == OPTION_ESCAPED)
			escaped = true;
		else if (option == OPTION_ANY_OWNER)
			any_owner = true;
		else
			command->format = option == OPTION_JSON ? FORMAT_JSON : FORMAT_PORCELAIN;
	name = args_segment(argc, argv);
	command->key = args_key(args_operand(argc, argv, "KEY"), escaped);
	if (command->has_value)
		command->value = args_bytes("VALUE", args_operand(argc, argv, "VALUE"), escaped);
	args_end(argc, argv);
	credentials_use(credentials, name);
	return command->looks ? open_to_look(&command->segment, name) : open_to_act(&command->segment, name, any_owner);
}
