/* SPDX-License-Identifier: MIT */
/*
 * nearest.c - which of the words that exist may be meant by one that does not
 *
 * The number of letters that are changed, left out, added or swapped with their neighbour; a letter in the other case is
 * no change.  Near is a word with at most a third of its letters wrong, and at most two; the beginning of a longer word
 * is as near.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/** Longer words are not compared. */
#define LONGEST 256
#define FAR UINT32_MAX

static unsigned char lower(unsigned char c)
{
	return c >= 'A' && c <= 'Z' ? (unsigned char)(c - 'A' + 'a') : c;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/** Rows of the matrix of distances between the beginnings of both: of all but the last two letters, the last, all. */
static uint32_t distance(const unsigned char *a, size_t n, const unsigned char *b, size_t m)
{
	uint32_t rows[3][LONGEST + 1], *two = rows[0], *one = rows[1], *row = rows[2], *last;

	for (size_t k = 0; k <= m; k++)
		row[k] = (uint32_t)k;
	for (size_t i = 1; i <= n; i++) {
		last = two;
		two = one;
		one = row;
		row = last;
		row[0] = (uint32_t)i;
		for (size_t k = 1; k <= m; k++) {
			bool same = lower(a[i - 1]) == lower(b[k - 1]);

			row[k] = least(least(one[k], row[k - 1]) + 1, one[k - 1] + !same);
			if (i > 1 && k > 1 && lower(a[i - 1]) == lower(b[k - 2]) && lower(a[i - 2]) == lower(b[k - 1]))
				row[k] = least(row[k], two[k - 2] + 1);
		}
	}
	return row[m];
}

static uint32_t far_from(const struct nearest *nearest, const unsigned char *word, size_t len)
{
	size_t longer = len > nearest->len ? len : nearest->len;
	uint32_t most = longer < 3 ? 1 : longer < 6 ? (uint32_t)longer / 3 : 2;
	uint32_t n;

	if (len > LONGEST || nearest->len > LONGEST || !len)
		return FAR;
	n = distance(nearest->word, nearest->len, word, len);
	if (n > most && nearest->len >= 3 && len > nearest->len)
		n = distance(nearest->word, nearest->len, word, nearest->len) ? n : most;
	return n > most || n >= nearest->len ? FAR : n;
}

struct nearest nearest_to(const void *word, size_t len)
{
	return (struct nearest){ .word = word, .len = len, .distance = FAR };
}

void nearest_offer(struct nearest *nearest, const void *word, size_t len)
{
	uint32_t n = far_from(nearest, word, len);

	if (n == FAR || n > nearest->distance)
		return;
	if (n < nearest->distance)
		nearest->found = 0;
	nearest->distance = n;
	for (size_t i = 0; i < nearest->found; i++)
		if (nearest->lens[i] == len && !memcmp(nearest->words[i], word, len))
			return;
	if (nearest->found == NEAREST_MAX)
		return;
	memcpy(nearest->words[nearest->found], word, len);
	nearest->lens[nearest->found++] = len;
}
