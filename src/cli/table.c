/* SPDX-License-Identifier: MIT */
/*
 * table.c - rows of cells, printed in columns
 *
 * A column is as wide as its widest cell, counted in columns of a terminal.  Where the width of that is known, columns
 * without a value are left out, then cells are cut, to end with an ellipsis, then minor columns are left out.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"

/** No column is cut to less. */
#define NARROWEST 8u
/** Between two columns. */
#define GAP 2u
/** A larger width is as good as this one. */
#define WIDEST 100000u

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

/** $COLUMNS, which watch(1) and shells export; 0 = none, or no number. */
static size_t exported_width(void)
{
	const char *text = getenv("COLUMNS");
	size_t width = 0;

	for (; text && *text >= '0' && *text <= '9' && width < WIDEST; text++)
		width = width * 10 + (size_t)(*text - '0');
	return text && *text ? 0 : width;
}

/** Columns of the terminal at @out, or of the one behind a pipe; 0 = not known, and nothing is cut. */
static size_t room_at(FILE *out)
{
	struct winsize size;

	if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col)
		return size.ws_col;
	return exported_width();
}

/* --- Columns that give way --------------------------------------------------------------------------- */

static bool is_empty(const struct table *table, size_t column)
{
	for (size_t i = table->columns + column; i < table->cells; i += table->columns)
		if (strcmp(table->cell[i].text, "-") != 0)
			return false;
	return true;
}

static size_t total(const struct table *table)
{
	size_t sum = 0;

	for (size_t i = 0; i < table->columns; i++)
		sum += table->widest[i] ? table->widest[i] + (sum ? GAP : 0) : 0;
	return sum;
}

/** Take room from the widest columns until a row fits.  Return: it does. */
static bool shrink(struct table *table, size_t room)
{
	for (size_t left = total(table); left > room; left--) {
		uint32_t *widest = NULL;

		for (size_t i = 0; i < table->columns; i++)
			if (!table->whole[i] && table->widest[i] > (widest ? *widest : NARROWEST))
				widest = &table->widest[i];
		if (!widest)
			return false;
		--*widest;
	}
	return true;
}

/** The last column that may be left out; 0, which is the first one, = none. */
static size_t next_to_hide(const struct table *table, bool any)
{
	size_t i = table->columns - 1;

	while (i > 0 && (!table->widest[i] || !(any || table->minor[i])))
		i--;
	return i;
}

/** A width of 0 hides a column: first the empty ones, then minor ones, at last all but the first. */
static void fit(struct table *table, size_t room)
{
	uint32_t *full = checked(calloc(table->columns, sizeof(*full)));
	size_t hidden;

	for (size_t i = table->columns - 1; i > 0 && total(table) > room; i--)
		if (is_empty(table, i))
			table->widest[i] = 0;
	memcpy(full, table->widest, table->columns * sizeof(*full));
	while (!shrink(table, room)) {
		hidden = next_to_hide(table, false);
		if (!hidden)
			hidden = next_to_hide(table, true);
		if (!hidden)
			break;
		full[hidden] = 0;
		memcpy(table->widest, full, table->columns * sizeof(*full));
	}
	free(full);
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
	table->minor = checked(calloc(columns, sizeof(*table->minor)));
	table->whole = checked(calloc(columns, sizeof(*table->whole)));
	for (size_t i = 0; i < columns; i++) {
		table->minor[i] = *titles[i] == TABLE_MINOR[0];
		table->whole[i] = *titles[i] == TABLE_WHOLE[0];
		table_add(table, titles[i] + (table->minor[i] || table->whole[i]));
	}
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
	size_t room = room_at(out), margin = strlen(indent), gap = 0;

	for (size_t i = 0; i < table->columns; i++)
		if (table->whole[i] && is_empty(table, i))
			table->widest[i] = 0;
	if (room)
		fit(table, room > margin ? room - margin : 1);
	for (size_t i = 0; i < table->cells; i++) {
		size_t column = i % table->columns, width = table->widest[column];

		fputs(column ? "" : indent, out);
		if (width) {
			put_spaces(out, gap);
			gap = width - put_cell(&table->cell[i], (uint32_t)width, out) + GAP;
		}
		if (column + 1 == table->columns) {
			fputc('\n', out);
			gap = 0;
		}
	}
	for (struct table_text *text = table->text, *next; text; text = next) {
		next = text->next;
		free(text);
	}
	free(table->widest);
	free(table->minor);
	free(table->whole);
	free(table->cell);
}
