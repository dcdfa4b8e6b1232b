#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct error_fact {
    const char *slug;
    const char *title;
    int http_status;
};

static const struct error_fact facts[] = {
#define ERROR(name, number, status, slug_, title_)                                                 \
    [number] = {.slug = slug_, .title = title_, .http_status = status},
#include "../../api/errors.def"
#undef ERROR
};

static const struct error_fact *fact_of(int code)
{
    size_t i = (size_t)abs(code);
    if (i >= sizeof facts / sizeof facts[0] || !facts[i].slug)
        i = ERR_INTERNAL;
    return &facts[i];
}

__attribute__((format(printf, 4, 0))) static void
fill(struct error *e, enum error_code code, const char *field, const char *format, va_list args)
{
    e->code = (int)code;
    snprintf(e->field, sizeof e->field, "%s", field);
    vsnprintf(e->text, sizeof e->text, format, args);
}

int error_set(struct error *e, enum error_code code, const char *format, ...)
{
    if (e) {
        va_list args;
        va_start(args, format);
        fill(e, code, "", format, args);
        va_end(args);
    }
    return -(int)code;
}

int error_set_field(struct error *e, enum error_code code, const char *field, const char *format,
                    ...)
{
    if (e) {
        va_list args;
        va_start(args, format);
        fill(e, code, field, format, args);
        va_end(args);
    }
    return -(int)code;
}

int error_set_errno(struct error *e, enum error_code code, int errno_value, const char *format, ...)
{
    if (e) {
        va_list args;
        va_start(args, format);
        fill(e, code, "", format, args);
        va_end(args);
        size_t used = strlen(e->text);
        snprintf(e->text + used, sizeof e->text - used, ": %s", strerror(errno_value));
    }
    return -(int)code;
}

void error_prefix_field(struct error *e, const char *prefix)
{
    if (!e || !e->code)
        return;
    char joined[2 * ERROR_FIELD_MAX];
    const char *dot = e->field[0] && e->field[0] != '[' ? "." : "";
    snprintf(joined, sizeof joined, "%.*s%s%s", ERROR_FIELD_MAX - 1, prefix, dot, e->field);
    memcpy(e->field, joined, sizeof e->field - 1);
    e->field[sizeof e->field - 1] = '\0';
}

void error_prefix_element(struct error *e, const char *list, size_t index)
{
    char prefix[ERROR_FIELD_MAX];
    snprintf(prefix, sizeof prefix, "%s[%zu]", list, index);
    error_prefix_field(e, prefix);
}

const char *error_slug(int code)
{
    return fact_of(code)->slug;
}

const char *error_title(int code)
{
    return fact_of(code)->title;
}

int error_http_status(int code)
{
    return fact_of(code)->http_status;
}

int error_from_slug(const char *slug)
{
    for (size_t i = 1; i < sizeof facts / sizeof facts[0]; i++)
        if (facts[i].slug && strcmp(facts[i].slug, slug) == 0)
            return (int)i;
    return ERR_INTERNAL;
}
