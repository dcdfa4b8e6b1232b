/*
 * Output of commands: -o table|wide|json|yaml, tables with stable columns, bars, and colours on
 * terminals only.
 */
#pragma once
#include <jansson.h>
#include <stdio.h>

#include "base/str.h"
#include "cli/frame/options.h"

enum output_format { OUTPUT_TABLE, OUTPUT_WIDE, OUTPUT_JSON, OUTPUT_YAML };

/* Returns the format of -o. */
enum output_format output_format(const struct invocation *in);
/* Returns whether the output may use colours: the file is a terminal, and NO_COLOR is not set. */
bool output_has_colour(FILE *file);
/* Prints the value as JSON or YAML on standard output. Returns an exit code. */
int output_value(enum output_format format, const json_t *value);
/* Writes the value as YAML in block style. */
int output_write_yaml(struct str *out, const json_t *value);

/* A table that is printed when complete, each column as wide as its widest cell. */
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
    size_t columns, rows, capacity; /* rows: including the header */
    struct output_cell *cells;
    size_t next;      /* column of the next cell */
    size_t width_max; /* width at which lines are cut, in their last column; 0: unlimited */
    bool failed;      /* out of memory */
};

/* titles: ended by NULL, at most OUTPUT_COLUMNS_MAX. */
void output_table_init(struct output_table *t, const char *const *titles);
void output_table_done(struct output_table *t);
/* Fills cells from left to right, row by row. Control characters become '?'. */
void output_cell(struct output_table *t, enum output_colour colour, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends the table's text; the last column is not padded. */
void output_table_write(const struct output_table *t, bool colour, struct str *out);
/* Prints the table on standard output, and frees its cells. Returns an exit code. */
int output_table_print(struct output_table *t);

/* Returns the columns of the terminal on standard output; 0: not a terminal, and no limit. */
size_t output_terminal_width(void);
/* Returns the columns of a text on a terminal, one for each code point. */
size_t output_width(const char *text);
/* Returns the escape sequence of a colour; "" for OUTPUT_PLAIN. */
const char *output_colour_code(enum output_colour colour);

/* Writes a bar of `width` columns, full at fraction 1: eighths of blocks in UTF-8, else '#' and
 * '-'. */
void output_bar(struct str *out, double fraction, size_t width, bool utf8);
/* Returns whether the terminal takes UTF-8, according to the locale's variables. */
bool output_has_utf8(void);
