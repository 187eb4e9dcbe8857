/* SPDX-License-Identifier: MIT */
/*
 * table.c - rows of cells, printed in columns
 *
 * A column is as wide as its widest cell, counted in columns of a terminal.  At a terminal the widest columns give way
 * until a row fits, and a cell that was cut ends with an ellipsis; a pipe or file gets all.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"

/** No column is cut to less. */
#define NARROWEST 8u

struct table_text {
	struct table_text *next;
	size_t used, room;
	char bytes[];
};

#define TABLE_TEXT_ROOM 65000u

/* --- Width ------------------------------------------------------------------------------------------- */

/** Bytes of @text that fill at most @room columns; @used [out] the columns. */
static size_t fitting(const char *text, size_t len, uint32_t room, uint32_t *used)
{
	size_t i = 0;

	for (*used = 0; i < len;) {
		struct character c = character_at(text + i, len - i);
		/* A control would be an error of the caller. */
		uint32_t columns = c.columns < 0 ? 1 : (uint32_t)c.columns;

		if (*used + columns > room)
			break;
		*used += columns;
		i += c.len;
	}
	return i;
}

static uint32_t width(const char *text, size_t len)
{
	uint32_t used;

	fitting(text, len, UINT32_MAX, &used);
	return used;
}

/** Columns of the terminal at @out; 0 = it is none, and nothing is cut. */
static size_t terminal_width(FILE *out)
{
	struct winsize size;

	if (!isatty(fileno(out)) || ioctl(fileno(out), TIOCGWINSZ, &size) < 0)
		return 0;
	return size.ws_col;
}

/** Take columns away from the widest cells until a row fits. */
static void fit(struct table *table, size_t room)
{
	size_t total = 2 * (table->columns - 1);

	for (size_t i = 0; i < table->columns; i++)
		total += table->widest[i];
	for (; total > room; total--) {
		uint32_t *widest = table->widest;

		for (size_t i = 1; i < table->columns; i++)
			if (table->widest[i] > *widest)
				widest = &table->widest[i];
		if (*widest <= NARROWEST)
			return;
		--*widest;
	}
}

/* --- Cells ------------------------------------------------------------------------------------------- */

static char *table_keep(struct table *table, const char *text, size_t size)
{
	struct table_text *last = table->text;

	if (!last || last->room - last->used < size) {
		size_t room = size > TABLE_TEXT_ROOM ? size : TABLE_TEXT_ROOM;

		last = checked(malloc(sizeof(*last) + room));
		*last = (struct table_text){ table->text, 0, room };
		table->text = last;
	}
	last->used += size;
	return memcpy(last->bytes + last->used - size, text, size);
}

void table_begin(struct table *table, size_t columns, const char *const *titles)
{
	*table = (struct table){ .columns = columns };
	table->widest = checked(calloc(columns, sizeof(*table->widest)));
	for (size_t i = 0; i < columns; i++)
		table_add(table, titles[i]);
}

void table_add(struct table *table, const char *text)
{
	size_t len = strlen(text);
	struct table_cell cell = { table_keep(table, text, len + 1), (uint32_t)len, width(text, len), 0 };
	uint32_t *widest = &table->widest[table->cells % table->columns];

	if (table->cells == table->room) {
		table->room = table->room ? table->room * 2 : 64;
		table->cell = checked(reallocarray(table->cell, table->room, sizeof(*table->cell)));
	}
	table->cell[table->cells++] = cell;
	if (cell.width > *widest)
		*widest = cell.width;
}

void table_add_own(struct table *table, char *text)
{
	table_add(table, text);
	free(text);
}

void table_order(struct table *table, int64_t order)
{
	table->cell[table->cells - table->columns].order = order;
}

/** Larger orders first, then by the first cell, then as they were added. */
static int compare_rows(const void *one, const void *other)
{
	const struct table_cell *a = *(const struct table_cell *const *)one;
	const struct table_cell *b = *(const struct table_cell *const *)other;
	int order = a->order == b->order ? strcmp(a->text, b->text) : a->order > b->order ? -1 : 1;

	return order ? order : a < b ? -1 : 1;
}

void table_sort(struct table *table)
{
	size_t rows = table->cells / table->columns;
	struct table_cell **row = checked(calloc(rows, sizeof(*row)));
	struct table_cell *cell = checked(calloc(table->cells, sizeof(*cell)));

	for (size_t i = 0; i < rows; i++)
		row[i] = table->cell + i * table->columns;
	qsort(row + 1, rows - 1, sizeof(*row), compare_rows);
	for (size_t i = 0; i < rows; i++)
		memcpy(cell + i * table->columns, row[i], table->columns * sizeof(*cell));
	free(row);
	free(table->cell);
	table->cell = cell;
	table->room = table->cells;
}

static void put_spaces(FILE *out, size_t n)
{
	static const char spaces[] = "                                                                ";

	for (; n >= sizeof(spaces); n -= sizeof(spaces) - 1)
		fwrite(spaces, 1, sizeof(spaces) - 1, out);
	fwrite(spaces, 1, n, out);
}

/** Return: the columns that it has taken. */
static uint32_t put_cell(const struct table_cell *cell, uint32_t room, FILE *out)
{
	uint32_t used = cell->width;
	size_t len = cell->length;

	if (used > room)
		len = fitting(cell->text, len, room - 1, &used);
	fwrite(cell->text, 1, len, out);
	if (len == cell->length)
		return used;
	fputs(ELLIPSIS, out);
	return used + 1;
}

/* A listing may have a hundred thousand rows: no format is parsed for a cell. */
void table_end(struct table *table, FILE *out, const char *indent)
{
	size_t room = terminal_width(out), margin = strlen(indent);

	if (room > margin)
		fit(table, room - margin);
	for (size_t i = 0; i < table->cells; i++) {
		const struct table_cell *cell = &table->cell[i];
		size_t column = i % table->columns;
		uint32_t used;

		if (!column)
			fputs(indent, out);
		used = put_cell(cell, table->widest[column], out);
		if (column + 1 == table->columns)
			fputc('\n', out);
		else
			put_spaces(out, table->widest[column] - used + 2);
	}
	for (struct table_text *text = table->text, *next; text; text = next) {
		next = text->next;
		free(text);
	}
	free(table->widest);
	free(table->cell);
}
