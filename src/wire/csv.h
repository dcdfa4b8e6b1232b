/*
 * Reader for tables of comma-separated values: measured profiles and traces.
 *
 *   # a comment, anywhere
 *   model,batch,iter_ms
 *   vgg16,128,23.686
 *
 * The first line that is not a comment names the columns, in any order. Readers ask for columns by
 * name and ignore the others. Every row has one cell for each column. Quotes are not supported: a
 * line with '"' is refused.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    CSV_COLUMNS_MAX = 32,
    CSV_CELL_MAX = 64, /* bytes, with NUL, of a column's name or a number; a text cell may be
                        * longer */
};

struct csv_cell {
    const char *start; /* points into the text; not NUL-terminated */
    size_t length;
};

/* The state of a reader: plain data that borrows the text. */
struct csv {
    const char *at, *end;
    unsigned line; /* line number of the current row, from 1 */
    size_t column_count;
    struct csv_cell names[CSV_COLUMNS_MAX], cells[CSV_COLUMNS_MAX];
};

/* Reads the names of the columns. Returns 0, -ERR_SYNTAX or -ERR_TOO_LARGE; the error names the
 * line. */
int csv_open(struct error *e, const char *text, size_t length, struct csv *ret_csv);
/* Returns the index of a column, or -1. */
int csv_column(const struct csv *c, const char *name);
/* Returns the index of a column, or -ERR_SYNTAX if the table lacks the column. */
int csv_column_required(struct error *e, const struct csv *c, const char *name);
/* Reads the next row. Returns 1, 0 at the end, -ERR_SYNTAX or -ERR_TOO_LARGE. */
int csv_next(struct error *e, struct csv *c);
/* Reads a finite number in [least, most] from a cell of the current row. Returns 0 or
 * -ERR_SYNTAX. */
int csv_number(struct error *e, const struct csv *c, int column, double least, double most,
               double *ret_number);
int csv_integer(struct error *e, const struct csv *c, int column, int64_t least, int64_t most,
                int64_t *ret_integer);
/* Copies a cell into a buffer of `size` bytes. Returns 0, or -ERR_SYNTAX if the cell is empty or
 * does not fit. */
int csv_text(struct error *e, const struct csv *c, int column, char *ret_text, size_t size);
