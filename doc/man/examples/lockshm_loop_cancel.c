/* SPDX-License-Identifier: MIT */
#include <lockshm.h>
#include <stdlib.h>

/* A client has gone, whatever the state of its request was. */
struct client {
	lockshm_hold_t hold;
};

void on_disconnect(lockshm_loop_t *loop, struct client *client)
{
	if (lockshm_loop_cancel(loop, &client->hold) == LOCKSHM_NOT_HELD)
		lockshm_release(&client->hold, 0); /* nothing is done, and nothing lost, if it is not held */
	free(client);
}
