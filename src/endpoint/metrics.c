#include "endpoint/metrics.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

static void append_escaped(struct str *out, const char *text, bool quotes)
{
    for (;;) {
        size_t plain = strcspn(text, quotes ? "\n\\\"" : "\n\\");
        str_append_bytes(out, text, plain);
        if (!text[plain])
            return;
        str_append(out, text[plain] == '\n' ? "\\n" : text[plain] == '"' ? "\\\"" : "\\\\");
        text += plain + 1;
    }
}

void metrics_family(struct str *out, const char *name, enum metric_type type, const char *help)
{
    str_printf(out, "# HELP %s ", name);
    append_escaped(out, help, false);
    str_printf(out, "\n# TYPE %s %s\n", name, type == METRIC_COUNTER ? "counter" : "gauge");
}

/* Writes the digits of a number before `end`, at least `at_least` digits. Returns their start. */
static char *put_digits(char *end, uint64_t number, int at_least)
{
    for (; number > 0 || at_least > 0; number /= 10, at_least--)
        *--end = (char)('0' + number % 10);
    return end;
}

/*
 * Writes a value that is whole or has a few decimals, as nearly every value does; returns false for
 * other values. printf() would need a microsecond for each, and the metrics of a large cluster have
 * tens of thousands of values, during which no other request is served.
 */
static bool append_decimal(struct str *out, double value)
{
    enum { DECIMALS = 4, SCALE = 10000, TEXT_MAX = 32 };
    const double whole_end = 1ULL << 53; /* limit up to which every whole number is exact */
    double size = fabs(value);
    if (size >= whole_end || signbit(value))
        return false;
    uint64_t whole = (uint64_t)size;
    uint64_t parts = (uint64_t)llround((size - (double)whole) * SCALE);
    uint64_t scaled = whole * SCALE + parts;
    bool is_whole = size == (double)whole;
    if (!is_whole && (size >= whole_end / SCALE || (double)scaled / SCALE != size))
        return false;

    char text[TEXT_MAX], *end = text + sizeof text, *at = end;
    *--at = '\n';
    if (!is_whole) {
        int decimals = DECIMALS;
        uint64_t fraction = scaled % SCALE;
        for (; fraction % 10 == 0; fraction /= 10)
            decimals--;
        at = put_digits(at, fraction, decimals);
        *--at = '.';
        whole = scaled / SCALE;
    }
    at = put_digits(at, whole, 1);
    *--at = ' ';
    str_append_bytes(out, at, (size_t)(end - at));
    return true;
}

static void append_value(struct str *out, double value)
{
    if (isnan(value))
        str_append(out, " NaN\n");
    else if (isinf(value))
        str_append(out, value > 0 ? " +Inf\n" : " -Inf\n");
    else if (!append_decimal(out, value))
        str_printf(out, " %.15g\n", value);
}

void metrics_sample(struct str *out, const char *name, double value, ...)
{
    va_list labels;
    const char *label;
    char separator = '{';
    str_append(out, name);
    va_start(labels, value);
    while ((label = va_arg(labels, const char *))) {
        str_append_char(out, separator);
        str_append(out, label);
        str_append(out, "=\"");
        append_escaped(out, va_arg(labels, const char *), true);
        str_append_char(out, '"');
        separator = ',';
    }
    va_end(labels);
    if (separator == ',')
        str_append_char(out, '}');
    append_value(out, value);
}
