/*
 * Errors. A function that can fail returns 0 or -ERR_x; one that wants to say more takes an
 * optional `struct error *` as its first parameter and fills it. Outputs (`ret_x`) are untouched on
 * failure. The codes come from api/errors.def, the only list of them.
 */
#pragma once
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>

enum error_code {
    ERR_NONE = 0,
#define ERROR(name, number, http_status, slug, title) ERR_##name = number,
#include "../../api/errors.def"
#undef ERROR
    ERR_END
};

enum { ERROR_FIELD_MAX = 128, ERROR_TEXT_MAX = 640 };

/* What went wrong, for a person. Plain data, no ownership. */
struct error {
    int code;                    /* ERR_x, positive; 0: no error */
    char field[ERROR_FIELD_MAX]; /* path of the input at fault ("workloads[3].share.max"), or "" */
    char text[ERROR_TEXT_MAX];   /* a sentence: what is wrong and what to do about it */
};

/* Fills *e (which may be NULL) and returns -code, so that it can end a function. */
int error_set(struct error *e, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int error_set_field(struct error *e, enum error_code code, const char *field, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));
/* The same for a failed system call: appends what errno says. Returns -code. */
int error_set_errno(struct error *e, enum error_code code, int errno_value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Puts `prefix` and a separator before the field that *e names: "share" → "workloads[3].share". */
void error_prefix_field(struct error *e, const char *prefix);

/* Facts about a code (either sign). Unknown codes answer as ERR_INTERNAL. */
const char *error_slug(int code);
const char *error_title(int code);
int error_http_status(int code);
/* The code whose slug this is, or ERR_INTERNAL. */
int error_from_slug(const char *slug);
