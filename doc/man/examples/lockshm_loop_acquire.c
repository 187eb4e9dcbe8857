/* SPDX-License-Identifier: MIT */
#include <lockshm.h>

/* One request of a client: run it at once if the key is free, or when its turn has come. */
struct client {
	lockshm_hold_t hold; /* stays where it is, as the client does */
	const char *key;
};

void serve(struct client *client, int status); /* releases client->hold if the status is not negative */

void on_request(lockshm_loop_t *loop, struct client *client)
{
	struct lockshm_request request = LOCKSHM_REQUEST(client->key);
	int status;

	request.timeout_ns = LOCKSHM_SECONDS(2);
	status = lockshm_loop_acquire(loop, &request, &client->hold, client);
	if (status != LOCKSHM_PENDING)
		serve(client, status);
}
