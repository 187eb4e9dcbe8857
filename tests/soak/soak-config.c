/* SPDX-License-Identifier: MIT */
/* soak-config.c - see soak.h */
#include "soak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

void soak_seed(struct soak_random *r, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	r->state = mix(mix(mix(mix(a) + b) + c) + d);
}

uint64_t soak_next(struct soak_random *r)
{
	r->state += UINT64_C(0x9e3779b97f4a7c15);
	return mix(r->state);
}

/* Tables so small that something is always full, and entries get other keys all the time. */
static void choose_small(struct soak_config *c, struct soak_random *r)
{
	uint32_t threads = c->workers * (c->threads + 1);

	c->keys = 40 + soak_below(r, 300);
	c->locks = 64;
	c->owners = soak_one_in(r, 3) ? threads / 2 : threads + 8;
	c->requests = c->owners * (1 + soak_below(r, 4));
}

static void choose_roomy(struct soak_config *c, struct soak_random *r)
{
	c->roomy = true;
	c->keys = 4 + soak_below(r, 400);
	c->locks = 16384;
	c->owners = 1024;
	c->requests = 32768;
}

void soak_config(struct soak_config *out, uint64_t seed, unsigned round)
{
	struct soak_random r;

	soak_seed(&r, seed, round, 0, 1);
	memset(out, 0, sizeof(*out));
	out->workers = 3 + soak_below(&r, 7);
	out->threads = 1 + soak_below(&r, 4);
	if (soak_below(&r, 5) < 3)
		choose_small(out, &r);
	else
		choose_roomy(out, &r);
	out->hot = 1 + soak_below(&r, 4);
	out->patient = soak_one_in(&r, 4);
	out->recreate = soak_one_in(&r, 4);
	out->gentle = soak_one_in(&r, 6);
}

void soak_options(struct lockshm_create_options *out, const struct soak_config *config)
{
	static const struct lockshm_create_options defaults = LOCKSHM_CREATE_INIT;

	*out = defaults;
	out->keys = config->locks;
	out->requests = config->requests;
	out->owners = config->owners;
	out->flags = LOCKSHM_CREATE_OR_OPEN;
}

size_t soak_key(unsigned char out[SOAK_KEY_MAX], uint32_t n)
{
	size_t len = (size_t)snprintf((char *)out, SOAK_KEY_MAX, "key-%u", n);

	if (n % 5 == 4) {
		/* Longer than the part that is kept, and not text. */
		memset(out + len, (int)(n % 251), 60 + n % 300);
		len += 60 + n % 300;
	}
	return len;
}

void soak_note_previous(struct history_record *r, const struct lockshm_damage *p)
{
	r->previous_status = (uint8_t)p->status;
	r->previous_pid = p->pid;
	r->previous_tid = p->tid;
	r->previous_token = p->token;
	r->previous_track = strncmp(p->tag, "track ", 5) == 0 ? (uint32_t)strtoul(p->tag + 5, NULL, 10) : HISTORY_NO_TRACK;
}
