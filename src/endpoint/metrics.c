#include "endpoint/metrics.h"

#include <math.h>
#include <stdarg.h>
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

static void append_value(struct str *out, double value)
{
    if (isnan(value))
        str_append(out, " NaN\n");
    else if (isinf(value))
        str_append(out, value > 0 ? " +Inf\n" : " -Inf\n");
    else
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
