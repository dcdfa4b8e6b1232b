/* Texts of arrival processes. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "load/arrivals.h"
#include "wire/spec.h"

/* Reads a number at *text, which is advanced past the number. Returns false if there is none. */
static bool take_number(const char **text, double *ret)
{
    char *end;
    if (!((**text >= '0' && **text <= '9') || **text == '.'))
        return false;
    *ret = strtod(*text, &end);
    bool is_plain = strspn(*text, "0123456789.") == (size_t)(end - *text);
    *text = end;
    return is_plain;
}

int arrivals_parse_rate(struct error *e, const char *text, double *ret_per_s)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"/s", 1}, {"/m", 60}, {"/min", 60}, {"/h", 3600}};
    const char *rest = text;
    double number;
    if (take_number(&rest, &number))
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (strcmp(rest, units[i].name) == 0 &&
                number / units[i].seconds <= ARRIVALS_RATE_MAX) {
                *ret_per_s = number / units[i].seconds;
                return 0;
            }
    return error_set(e, ERR_INVALID, "'%.40s' is not a rate of at most %g/s, such as 150/s or 20/m",
                     text, ARRIVALS_RATE_MAX);
}

/* Copies the text up to one of the `stops`. Returns the rest, or NULL if the part does not fit. */
static const char *take_part(const char *text, const char *stops, char *part, size_t size)
{
    size_t length = strcspn(text, stops);
    if (length >= size)
        return NULL;
    memcpy(part, text, length);
    part[length] = '\0';
    return text + length;
}

enum { PART_MAX = 64 };

static int parse_time(struct error *e, const char *text, double *ret_s)
{
    double ms;
    int r = spec_parse_real_duration(e, text, &ms);
    if (r == 0 && ms / 1000 > ARRIVALS_SECONDS_MAX)
        r = error_set(e, ERR_INVALID, "%.40s is longer than a year", text);
    if (r == 0)
        *ret_s = ms / 1000;
    return r;
}

static int parse_diurnal(struct error *e, const char *text, struct arrivals_words *w)
{
    char part[PART_MAX];
    int r = 0;
    w->swing = 0.8;
    if (!*text)
        return 0;
    const char *rest = take_part(text + 1, ":", part, sizeof part);
    if (!rest)
        return error_set(e, ERR_INVALID, "'%.40s' is not a period", text + 1);
    r = parse_time(e, part, &w->period_s);
    if (r == 0 && w->period_s < 1e-3)
        r = error_set(e, ERR_INVALID, "diurnal: the period must be at least 1ms");
    if (r < 0 || !*rest)
        return r;
    rest++;
    const char *swing = rest;
    if (!take_number(&rest, &w->swing) || *rest || w->swing > 1)
        return error_set(e, ERR_INVALID, "diurnal: the swing '%.40s' is not a number from 0 to 1",
                         swing);
    return 0;
}

static int parse_steps(struct error *e, const char *text, struct arrivals_words *w)
{
    do {
        char rate[PART_MAX], at[PART_MAX];
        const char *step = text + 1;
        text = take_part(step, "@,", rate, sizeof rate);
        const char *rest = text && *text == '@' ? take_part(text + 1, ",", at, sizeof at) : NULL;
        if (!rest)
            return error_set(e, ERR_INVALID, "'%.40s' is not RATE@TIME, such as 300/s@10s", step);
        if (w->step_count == ARRIVALS_WORDS_STEPS_MAX)
            return error_set(e, ERR_TOO_LARGE, "more than %d steps", ARRIVALS_WORDS_STEPS_MAX);
        struct arrivals_step *to = &w->steps[w->step_count];
        int r = arrivals_parse_rate(e, rate, &to->rate_per_s);
        if (r == 0)
            r = parse_time(e, at, &to->at_s);
        if (r < 0)
            return r;
        if (!(to->at_s > (w->step_count > 0 ? to[-1].at_s : 0)))
            return error_set(e, ERR_INVALID, "step: the times must ascend from above 0, not '%s'",
                             at);
        w->step_count++;
        text = rest;
    } while (*text);
    return 0;
}

/* The last colon separates the column; a path with a slash after that colon has no column. */
static int parse_trace(struct error *e, const char *text, struct arrivals_words *w)
{
    const char *path = text + 1, *colon = strrchr(path, ':');
    if (colon && (strchr(colon, '/') || !colon[1]))
        colon = NULL;
    size_t length = colon ? (size_t)(colon - path) : strlen(path);
    if (length == 0 || length >= sizeof w->path)
        return error_set(e, ERR_INVALID, "trace: no path of at most %zu bytes", sizeof w->path - 1);
    memcpy(w->path, path, length);
    w->path[length] = '\0';
    if (colon && !str_copy(w->column, sizeof w->column, colon + 1))
        return error_set(e, ERR_INVALID, "trace: the name of the column is too long");
    return 0;
}

int arrivals_parse(struct error *e, const char *text, struct arrivals_words *ret)
{
    struct arrivals_words w = {0};
    size_t length = strcspn(text, ":");
    const char *rest = text + length;
    int r = 0;
    if (strcmp(text, "poisson") == 0)
        w.kind = ARRIVALS_POISSON;
    else if (strcmp(text, "uniform") == 0)
        w.kind = ARRIVALS_UNIFORM;
    else if (length == 7 && str_starts_with(text, "diurnal")) {
        w.kind = ARRIVALS_DIURNAL;
        r = parse_diurnal(e, rest, &w);
    } else if (length == 4 && str_starts_with(text, "step") && *rest) {
        w.kind = ARRIVALS_STEP;
        r = parse_steps(e, rest, &w);
    } else if (length == 5 && str_starts_with(text, "trace") && *rest) {
        w.kind = ARRIVALS_TRACE;
        r = parse_trace(e, rest, &w);
    } else {
        r = error_set(e, ERR_INVALID,
                      "'%.40s' is no arrival process: use poisson, uniform, "
                      "diurnal[:PERIOD[:SWING]], step:RATE@TIME,… or trace:FILE[:COLUMN]",
                      text);
    }
    if (r == 0)
        *ret = w;
    return r;
}
