#include "cli/frame/output.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { TABLE_TEXT_MAX = 256 << 20, LAST_COLUMN_MIN = 8 };

enum output_format output_format(const struct invocation *in)
{
    const char *value = option_value(in, "output");
    if (!value || strcmp(value, "table") == 0)
        return OUTPUT_TABLE;
    if (strcmp(value, "wide") == 0)
        return OUTPUT_WIDE;
    return strcmp(value, "json") == 0 ? OUTPUT_JSON : OUTPUT_YAML;
}

bool output_has_colour(FILE *file)
{
    const char *no = getenv("NO_COLOR");
    return isatty(fileno(file)) && !(no && *no);
}

bool output_has_utf8(void)
{
    const char *names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "UTF-8") || strcasestr(value, "utf8");
    }
    return false;
}

size_t output_width(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

size_t output_terminal_width(void)
{
    struct winsize size = {0};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

const char *output_colour_code(enum output_colour colour)
{
    static const char *const codes[OUTPUT_COLOUR_END] = {
        [OUTPUT_PLAIN] = "",        [OUTPUT_BOLD] = "\033[1m",   [OUTPUT_FAINT] = "\033[2m",
        [OUTPUT_RED] = "\033[31m",  [OUTPUT_GREEN] = "\033[32m", [OUTPUT_YELLOW] = "\033[33m",
        [OUTPUT_BLUE] = "\033[34m",
    };
    return codes[colour];
}

/* ---- tables ---- */

void output_table_init(struct output_table *t, const char *const *titles)
{
    *t = (struct output_table){0};
    while (titles[t->columns] && t->columns < OUTPUT_COLUMNS_MAX)
        t->columns++;
    for (size_t i = 0; i < t->columns; i++)
        output_cell(t, OUTPUT_BOLD, "%s", titles[i]);
}

void output_table_done(struct output_table *t)
{
    for (size_t i = 0; i < t->rows * t->columns; i++)
        free(t->cells[i].text);
    free(t->cells);
    *t = (struct output_table){0};
}

static bool add_row(struct output_table *t)
{
    if (t->rows == t->capacity) {
        size_t capacity = t->capacity ? t->capacity * 2 : 16;
        struct output_cell *cells = realloc(t->cells, capacity * t->columns * sizeof *cells);
        if (!cells)
            return false;
        t->cells = cells;
        t->capacity = capacity;
    }
    memset(t->cells + t->rows * t->columns, 0, t->columns * sizeof *t->cells);
    t->rows++;
    return true;
}

void output_cell(struct output_table *t, enum output_colour colour, const char *format, ...)
{
    if (t->failed || (t->next == 0 && !add_row(t))) {
        t->failed = true;
        return;
    }
    struct output_cell *cell = &t->cells[(t->rows - 1) * t->columns + t->next];
    va_list args;
    va_start(args, format);
    int length = vasprintf(&cell->text, format, args);
    va_end(args);
    if (length < 0) {
        cell->text = NULL;
        t->failed = true;
        return;
    }
    for (char *c = cell->text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    cell->colour = colour;
    t->next = (t->next + 1) % t->columns;
}

/* Returns the width left for the last column; SIZE_MAX if the rest is too narrow to be useful. */
static size_t last_width(const struct output_table *t, const size_t *widths)
{
    size_t taken = 0;
    for (size_t i = 0; i + 1 < t->columns; i++)
        taken += widths[i] + 2;
    return t->width_max >= taken + LAST_COLUMN_MIN ? t->width_max - taken : SIZE_MAX;
}

/* Returns the bytes of text that fit into `width` columns. */
static size_t length_within(const char *text, size_t width)
{
    size_t length = 0;
    for (; text[length]; length++)
        if (((unsigned char)text[length] & 0xc0) != 0x80 && width-- == 0)
            break;
    return length;
}

void output_table_write(const struct output_table *t, bool colour, struct str *out)
{
    size_t widths[OUTPUT_COLUMNS_MAX] = {0};
    for (size_t i = 0; i < t->rows * t->columns; i++) {
        size_t width = t->cells[i].text ? output_width(t->cells[i].text) : 0;
        size_t *widest = &widths[i % t->columns];
        *widest = width > *widest ? width : *widest;
    }
    size_t last_max = last_width(t, widths);
    for (size_t i = 0; i < t->rows * t->columns; i++) {
        const struct output_cell *cell = &t->cells[i];
        const char *text = cell->text ? cell->text : "";
        bool last = i % t->columns == t->columns - 1;
        const char *code = colour ? output_colour_code(cell->colour) : "";
        size_t length = last ? length_within(text, last_max) : strlen(text);
        str_printf(out, "%s%.*s%s", code, (int)length, text, *code ? "\033[0m" : "");
        if (last)
            str_append_char(out, '\n');
        else
            str_printf(out, "%*s", (int)(widths[i % t->columns] - output_width(text) + 2), "");
    }
}

int output_table_print(struct output_table *t)
{
    struct str out;
    str_init(&out, TABLE_TEXT_MAX);
    output_table_write(t, output_has_colour(stdout), &out);
    bool ok = !t->failed && !str_failed(&out) && fputs(str_text(&out), stdout) >= 0;
    str_done(&out);
    if (!ok)
        perror("gpumux: cannot print");
    output_table_done(t);
    return ok ? COMMAND_OK : COMMAND_FAILED;
}

/* ---- values ---- */

int output_value(enum output_format format, const json_t *value)
{
    bool ok;
    if (format == OUTPUT_YAML) {
        struct str out;
        str_init(&out, TABLE_TEXT_MAX);
        ok = output_write_yaml(&out, value) == 0 && fputs(str_text(&out), stdout) >= 0;
        str_done(&out);
    } else {
        ok = json_dumpf(value, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF;
    }
    return ok ? COMMAND_OK : COMMAND_FAILED;
}

/* ---- bars ---- */

void output_bar(struct str *out, double fraction, size_t width, bool utf8)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    double clamped = fraction > 1 ? 1 : fraction > 0 ? fraction : 0; /* NaN counts as 0 */
    size_t parts = utf8 ? 8 : 1;
    size_t filled = (size_t)(clamped * (double)(width * parts) + 0.5);
    size_t whole = filled / parts, part = filled % parts;
    for (size_t i = 0; i < whole; i++)
        str_append(out, utf8 ? "█" : "#");
    if (part)
        str_append(out, eighths[part]);
    for (size_t i = whole + (part ? 1 : 0); i < width; i++)
        str_append(out, utf8 ? "░" : "-");
}
