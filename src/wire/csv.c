#include "wire/csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int bad(struct error *e, const struct csv *c, const char *what)
{
    return error_set(e, ERR_SYNTAX, "line %u: %s", c->line, what);
}

/* Returns the next line that is neither a comment nor empty, without its end; length 0 at the end
 * of the text. */
static struct csv_cell next_line(struct csv *c)
{
    while (c->at < c->end) {
        const char *start = c->at;
        const char *newline = memchr(start, '\n', (size_t)(c->end - start));
        size_t length = (size_t)((newline ? newline : c->end) - start);
        c->at = newline ? newline + 1 : c->end;
        c->line++;
        if (length > 0 && start[length - 1] == '\r')
            length--;
        if (length > 0 && start[0] != '#')
            return (struct csv_cell){.start = start, .length = length};
    }
    return (struct csv_cell){.start = c->end};
}

/* Cuts a line into cells. Returns their number, or an error. */
static int split(struct error *e, const struct csv *c, struct csv_cell line, struct csv_cell *cells)
{
    int count = 0;
    if (memchr(line.start, '"', line.length) || memchr(line.start, '\0', line.length))
        return bad(e, c, "quotes and NUL bytes are not supported");
    for (;;) {
        const char *comma = memchr(line.start, ',', line.length);
        size_t length = comma ? (size_t)(comma - line.start) : line.length;
        if (count == CSV_COLUMNS_MAX)
            return error_set(e, ERR_TOO_LARGE, "line %u has more than %d columns", c->line,
                             CSV_COLUMNS_MAX);
        cells[count++] = (struct csv_cell){.start = line.start, .length = length};
        if (!comma)
            return count;
        line.start += length + 1;
        line.length -= length + 1;
    }
}

/* Spreadsheets begin a UTF-8 file with a byte order mark. */
static const char byte_order_mark[] = "\xef\xbb\xbf";

int csv_open(struct error *e, const char *text, size_t length, struct csv *ret_csv)
{
    size_t mark_length = sizeof byte_order_mark - 1;
    if (length >= mark_length && memcmp(text, byte_order_mark, mark_length) == 0) {
        text += mark_length;
        length -= mark_length;
    }
    struct csv c = {.at = text, .end = text + length};
    struct csv_cell line = next_line(&c);
    if (line.length == 0)
        return error_set(e, ERR_SYNTAX, "the header line with the names of the columns is missing");
    int count = split(e, &c, line, c.names);
    if (count < 0)
        return count;
    for (int i = 0; i < count; i++)
        if (c.names[i].length == 0 || c.names[i].length >= CSV_CELL_MAX)
            return bad(e, &c, "the name of a column is empty or too long");
    c.column_count = (size_t)count;
    *ret_csv = c;
    return 0;
}

int csv_column(const struct csv *c, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < c->column_count; i++)
        if (c->names[i].length == length && memcmp(c->names[i].start, name, length) == 0)
            return (int)i;
    return -1;
}

int csv_column_required(struct error *e, const struct csv *c, const char *name)
{
    int column = csv_column(c, name);
    return column < 0 ? error_set(e, ERR_SYNTAX, "the column '%s' is missing", name) : column;
}

int csv_next(struct error *e, struct csv *c)
{
    struct csv_cell line = next_line(c);
    if (line.length == 0)
        return 0;
    int count = split(e, c, line, c->cells);
    if (count < 0)
        return count;
    if ((size_t)count != c->column_count)
        return error_set(e, ERR_SYNTAX, "line %u has %d cells, but the header names %zu columns",
                         c->line, count, c->column_count);
    return 1;
}

int csv_text(struct error *e, const struct csv *c, int column, char *ret_text, size_t size)
{
    const struct csv_cell *cell = &c->cells[column];
    if (cell->length == 0 || cell->length >= size)
        return error_set(e, ERR_SYNTAX, "line %u: '%.*s' is empty or too long", c->line,
                         (int)c->names[column].length, c->names[column].start);
    memcpy(ret_text, cell->start, cell->length);
    ret_text[cell->length] = '\0';
    return 0;
}

int csv_number(struct error *e, const struct csv *c, int column, double least, double most,
               double *ret_number)
{
    char text[CSV_CELL_MAX], *end;
    int r = csv_text(e, c, column, text, sizeof text);
    if (r < 0)
        return r;
    double number = strtod(text, &end);
    if (*end || !isfinite(number) || number < least || number > most)
        return error_set(e, ERR_SYNTAX, "line %u: '%.*s' is %s, not a number from %g to %g",
                         c->line, (int)c->names[column].length, c->names[column].start, text, least,
                         most);
    *ret_number = number;
    return 0;
}

int csv_integer(struct error *e, const struct csv *c, int column, int64_t least, int64_t most,
                int64_t *ret_integer)
{
    double number;
    int r = csv_number(e, c, column, (double)least, (double)most, &number);
    if (r < 0)
        return r;
    if (number != floor(number) || fabs(number) > 9007199254740992.0)
        return bad(e, c, "a cell must be a whole number");
    *ret_integer = (int64_t)number;
    return 0;
}
