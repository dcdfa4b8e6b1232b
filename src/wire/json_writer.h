/*
 * Writing JSON, straight into a str: no tree, commas by itself.
 *
 *   json_begin_object(w);
 *   json_put_uint(json_key(w, "id"), 17);
 *   json_put_string(json_key(w, "name"), "resnet");
 *   json_end_object(w);                                → {"id":17,"name":"resnet"}
 *
 * Errors are the str's: check str_failed() once, at the end. The caller keeps begin and end in
 * balance. Numbers follow LC_NUMERIC, as printf does: a main sets LC_CTYPE alone. (The names
 * json_string, json_real, … are jansson's; hence json_put_*.)
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct json_writer {
    struct str *out; /* the caller's */
    bool comma;      /* the next value or key comes after another */
};

void json_writer_init(struct json_writer *w, struct str *out);

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);
/* Returns w, so that the value can follow in the same statement. */
struct json_writer *json_key(struct json_writer *w, const char *key);

/* NULL is written as null. Bytes that are not UTF-8 become U+FFFD: the result is always JSON. */
void json_put_string(struct json_writer *w, const char *text);
void json_put_bytes(struct json_writer *w, const char *text, size_t length);
void json_put_int(struct json_writer *w, int64_t number);
/* A number, or, past INT64_MAX where JSON readers lose it, a string of digits. */
void json_put_uint(struct json_writer *w, uint64_t number);
/* The shortest text that reads back equal; null if it is not finite. */
void json_put_real(struct json_writer *w, double number);
void json_put_bool(struct json_writer *w, bool value);
void json_put_null(struct json_writer *w);
/* "2026-11-15T05:46:15.123Z"; null for 0, which is "not yet" in all records. */
void json_put_time(struct json_writer *w, int64_t wall_ms);
/* Text that is JSON already. */
void json_put_raw(struct json_writer *w, const char *json);
/* The members of a text that is one JSON object. */
void json_put_members(struct json_writer *w, const char *object);
/* Standard base64 (RFC 4648, padded) in a string. */
void json_put_base64(struct json_writer *w, const void *bytes, size_t length);
