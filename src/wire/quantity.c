/* Sizes and times in the notation of people. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "wire/spec.h"
#include "wire/spec_internal.h"

struct unit {
    const char *name;
    double factor;
};

#define KIBI 0x1p10
#define MEBI 0x1p20
#define GIBI 0x1p30
#define TEBI 0x1p40
static const struct unit byte_units[] = {
    {"", 1},       {"b", 1},     {"k", KIBI},   {"kb", KIBI},  {"kib", KIBI},
    {"m", MEBI},   {"mb", MEBI}, {"mib", MEBI}, {"g", GIBI},   {"gb", GIBI},
    {"gib", GIBI}, {"t", TEBI},  {"tb", TEBI},  {"tib", TEBI}, {NULL, 0},
};

static const struct unit time_units[] = {
    {"", 1000},   {"us", 1e-3},   {"ms", 1},       {"s", 1000},
    {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {NULL, 0},
};

enum { UNIT_MAX = 4 };

/*
 * Reads one number with its unit at *text, which is advanced; returns false if there is none. Only
 * digits and at most one point are read: no sign, exponent, "inf" or "nan".
 */
static bool take_quantity(const char **text, const struct unit *units, double *ret,
                          bool *ret_has_unit)
{
    const char *p = *text;
    size_t whole = strspn(p, "0123456789");
    size_t length = whole;
    if (p[whole] == '.') {
        size_t fraction = strspn(p + whole + 1, "0123456789");
        if (fraction == 0)
            return false;
        length = whole + 1 + fraction;
    }
    if (whole == 0 || length > 40)
        return false;
    double number = strtod(p, NULL);
    p += length;
    p += *p == ' ' && p[1] != '\0';
    char unit[UNIT_MAX] = "";
    size_t letters = 0;
    for (; (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z'); p++) {
        if (letters == UNIT_MAX - 1)
            return false;
        unit[letters++] = *p;
    }
    unit[letters] = '\0';
    for (; units->name; units++)
        if (strcasecmp(unit, units->name) == 0) {
            *ret = number * units->factor;
            *ret_has_unit = letters > 0;
            *text = p;
            return true;
        }
    return false;
}

int spec_parse_bytes(struct error *e, const char *text, uint64_t *ret_bytes)
{
    /* Past 2^53 a double skips whole numbers, so that whole numbers are read as integers. */
    char *rest;
    errno = 0;
    unsigned long long whole = strtoull(text, &rest, 10);
    if (text[0] >= '0' && text[0] <= '9' && *rest == '\0' && errno == 0) {
        *ret_bytes = whole;
        return 0;
    }
    const char *p = text;
    double bytes;
    bool has_unit;
    if (!take_quantity(&p, byte_units, &bytes, &has_unit) || *p)
        return error_set(e, ERR_INVALID, "'%.40s' is not a size, such as 8g, 512m or 1.5GiB", text);
    if (bytes >= 0x1p63)
        return error_set(e, ERR_INVALID, "%.40s is too large", text);
    *ret_bytes = (uint64_t)llround(bytes);
    return 0;
}

int spec_parse_real_duration(struct error *e, const char *text, double *ret_ms)
{
    double total_ms = 0, part_ms = 0;
    bool has_unit = true;
    const char *p = text;
    do {
        bool first = p == text;
        if (!take_quantity(&p, time_units, &part_ms, &has_unit) || (!has_unit && (!first || *p)))
            return error_set(e, ERR_INVALID, "'%.40s' is not a time, such as 90s, 250ms or 1h30m",
                             text);
        total_ms += part_ms;
    } while (*p);
    if (total_ms > (double)WORKLOAD_TIME_MS_MAX)
        return error_set(e, ERR_INVALID, "%.40s is longer than ten years", text);
    *ret_ms = total_ms;
    return 0;
}

int spec_parse_duration(struct error *e, const char *text, int64_t *ret_ms)
{
    double ms;
    int r = spec_parse_real_duration(e, text, &ms);
    if (r < 0)
        return r;
    if (ms > 0 && ms < 0.5)
        return error_set(e, ERR_INVALID, "%.40s is less than a millisecond", text);
    *ret_ms = llround(ms);
    return 0;
}

char *spec_format_duration(int64_t ms, char text[SPEC_QUANTITY_MAX])
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    if (ms <= 0) {
        snprintf(text, SPEC_QUANTITY_MAX, "0s");
        return text;
    }
    size_t used = 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (ms < units[i].ms)
            continue;
        used += (size_t)snprintf(text + used, SPEC_QUANTITY_MAX - used, "%lld%s",
                                 (long long)(ms / units[i].ms), units[i].name);
        ms %= units[i].ms;
    }
    return text;
}
