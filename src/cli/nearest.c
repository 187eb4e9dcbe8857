/* SPDX-License-Identifier: MIT */
/*
 * nearest.c - which of the words that exist may be meant by one that does not
 *
 * The number of letters that are changed, left out, added or swapped with their neighbour; a letter in the other case is
 * no change.  Near is a word with at most a third of its letters wrong, and at most three; the beginning of a longer word
 * is as near.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

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
	uint32_t rows[3][NEAREST_LONGEST + 1], *two = rows[0], *one = rows[1], *row = rows[2], *last;

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

static bool begins_with(const struct nearest *nearest, const unsigned char *word, size_t len)
{
	return nearest->len >= 2 && len > nearest->len && !distance(nearest->word, nearest->len, word, nearest->len);
}

static uint32_t far_from(const struct nearest *nearest, const unsigned char *word, size_t len)
{
	size_t longer = len > nearest->len ? len : nearest->len;
	uint32_t most = longer < 6 ? ((uint32_t)longer + 1) / 3 : longer < 12 ? 2 : 3, n;

	if (!len || len > NEAREST_LONGEST || !nearest->len || nearest->len > NEAREST_LONGEST)
		return FAR;
	n = distance(nearest->word, nearest->len, word, len);
	if (n > most && begins_with(nearest, word, len))
		n = most < nearest->len ? most : (uint32_t)nearest->len - 1;
	return n > most || n >= nearest->len ? FAR : n;
}

struct nearest nearest_to(const void *word, size_t len)
{
	struct nearest nearest;

	nearest.word = word;
	nearest.len = len;
	nearest.distance = FAR;
	nearest.found = 0;
	return nearest;
}

void nearest_offer(struct nearest *nearest, const void *word, size_t len)
{
	uint32_t n = far_from(nearest, word, len);

	if (n == FAR || n > nearest->distance)
		return;
	if (n < nearest->distance)
		nearest->found = 0;
	nearest->distance = n;
	if (nearest->found == NEAREST_MAX)
		return;
	memcpy(nearest->words[nearest->found].bytes, word, len);
	nearest->words[nearest->found++].len = len;
}

char *nearest_text(const struct nearest *nearest, const char *prefix)
{
	char *text = format_text("%s", ""), *shown, *longer;

	for (size_t i = 0; i < nearest->found; i++) {
		shown = visible(nearest->words[i].bytes, nearest->words[i].len);
		longer = format_text("%s%s'%s%s'%s", text, !i ? "; did you mean " : i + 1 < nearest->found ? ", " : " or ",
				     prefix, shown, i + 1 < nearest->found ? "" : "?");
		free(shown);
		free(text);
		text = longer;
	}
	return text;
}
