/*
 * Tables as comma-separated values: measured figures and traces.
 *
 *   # a comment, anywhere
 *   model,batch,iter_ms
 *   vgg16,128,23.686
 *
 * The first line that is no comment names the columns, in any order; readers ask for them by name
 * and ignore the others. Every row has as many cells. No quotes: a cell with '"' is refused.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    CSV_COLUMNS_MAX = 32,
    CSV_CELL_MAX = 64, /* bytes with NUL of a name or a number; other cells may be longer */
};

struct csv_cell {
    const char *start; /* into the text; not NUL-terminated */
    size_t length;
};

/* Plain data; borrows the text. */
struct csv {
    const char *at, *end;
    unsigned line; /* of the present row, from 1 */
    size_t column_count;
    struct csv_cell names[CSV_COLUMNS_MAX], cells[CSV_COLUMNS_MAX];
};

/* Reads the names. -ERR_SYNTAX, -ERR_TOO_LARGE; the error says which line. */
int csv_open(struct error *e, const char *text, size_t length, struct csv *ret_csv);
/* The index of a column, or -1. */
int csv_column(const struct csv *c, const char *name);
/* The same for one that must be there: -ERR_SYNTAX. */
int csv_column_required(struct error *e, const struct csv *c, const char *name);
/* The next row: 1, at the end 0; -ERR_SYNTAX. */
int csv_next(struct error *e, struct csv *c);
/* A finite number in [least, most] of the present row. -ERR_SYNTAX. */
int csv_number(struct error *e, const struct csv *c, int column, double least, double most,
               double *ret_number);
int csv_integer(struct error *e, const struct csv *c, int column, int64_t least, int64_t most,
                int64_t *ret_integer);
/* A cell as text, into a buffer of `size`. -ERR_SYNTAX when it is empty or does not fit. */
int csv_text(struct error *e, const struct csv *c, int column, char *ret_text, size_t size);
