/*
 * How commands show things: -o table|wide|json|yaml, tables with stable columns, colours only on a
 * terminal, bars.
 */
#pragma once
#include <jansson.h>
#include <stdio.h>

#include "base/str.h"
#include "cli/frame/options.h"

enum output_format { OUTPUT_TABLE, OUTPUT_WIDE, OUTPUT_JSON, OUTPUT_YAML };

/* What -o says. */
enum output_format output_format(const struct invocation *in);
/* Colours: the file is a terminal, and NO_COLOR is not set. */
bool output_has_colour(FILE *file);
/* The value as JSON or YAML, to standard output. Returns an exit code. */
int output_value(enum output_format format, const json_t *value);
/* YAML, as a block. */
int output_write_yaml(struct str *out, const json_t *value);

/* A table that is printed when it is whole, each column as wide as it must be. */
enum { OUTPUT_COLUMNS_MAX = 24 };

enum output_colour {
    OUTPUT_PLAIN,
    OUTPUT_BOLD,
    OUTPUT_FAINT,
    OUTPUT_RED,
    OUTPUT_GREEN,
    OUTPUT_YELLOW,
    OUTPUT_BLUE,
    OUTPUT_COLOUR_END
};

struct output_cell {
    char *text; /* owned by the table */
    enum output_colour colour;
};

struct output_table {
    size_t columns, rows, capacity; /* rows: with the header */
    struct output_cell *cells;
    size_t next;      /* column of the next cell */
    size_t width_max; /* lines are cut there, in their last column; 0: nowhere */
    bool failed;      /* memory was out */
};

/* titles: NULL-ended, at most OUTPUT_COLUMNS_MAX. */
void output_table_init(struct output_table *t, const char *const *titles);
void output_table_done(struct output_table *t);
/* Fills cells from left to right, row by row. Control characters are shown as '?'. */
void output_cell(struct output_table *t, enum output_colour colour, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends the table's text; the last column is not padded. */
void output_table_write(const struct output_table *t, bool colour, struct str *out);
/* To standard output. Returns an exit code. */
int output_table_print(const struct output_table *t);

/* Columns of the terminal that standard output is; 0: it is none, and gets everything. */
size_t output_terminal_width(void);
/* Columns that text takes on a terminal, one a code point. */
size_t output_width(const char *text);
/* The escape sequence of a colour; "" for OUTPUT_PLAIN. */
const char *output_colour_code(enum output_colour colour);

/* A bar `width` columns wide, full at fraction 1: eighths of blocks in UTF-8, '#' and '-' else. */
void output_bar(struct str *out, double fraction, size_t width, bool utf8);
/* The terminal takes UTF-8, as the locale's variables say. */
bool output_has_utf8(void);
