/*
 * Errors. A function that can fail returns 0 or -ERR_x. A function that also explains its failure
 * takes an optional `struct error *` as its first parameter and fills it. On failure, outputs
 * (`ret_x`) are unchanged. The codes come from api/errors.def, the only list of errors.
 *
 * This folder contains errors, strings, containers, clocks, logs and durable files. Files of the
 * folder base may include nothing.
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

/* Description of a failure, for a person to read. Plain data, owns nothing. */
struct error {
    int code;                    /* ERR_x, positive; 0: no error */
    char field[ERROR_FIELD_MAX]; /* path of the invalid input ("workloads[3].share.max"), or "" */
    char text[ERROR_TEXT_MAX];   /* one sentence: the problem and what to do about it */
};

/* Fills *e (which may be NULL) and returns -code, so a function can end with this call. */
int error_set(struct error *e, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int error_set_field(struct error *e, enum error_code code, const char *field, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));
/* Like error_set, for a failed system call: appends the message of errno. Returns -code. */
int error_set_errno(struct error *e, enum error_code code, int errno_value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Prepends `prefix` and a separator to the field of *e: "share" → "workloads[3].share". */
void error_prefix_field(struct error *e, const char *prefix);
/* The same for an element of a list: "share", "workloads", 3 → "workloads[3].share". */
void error_prefix_element(struct error *e, const char *list, size_t index);

/* Look up a code of either sign. An unknown code is treated as ERR_INTERNAL. */
const char *error_slug(int code);
const char *error_title(int code);
int error_http_status(int code);
/* Returns the code with this slug, or ERR_INTERNAL. */
int error_from_slug(const char *slug);
