/*
 * A JSON writer. The writer appends to a struct str, builds no tree, and places the commas.
 *
 *   json_begin_object(w);
 *   json_put_uint(json_key(w, "id"), 17);
 *   json_put_string(json_key(w, "name"), "resnet");
 *   json_end_object(w);                                → {"id":17,"name":"resnet"}
 *
 * The str records errors: check str_failed() once, at the end. The caller balances begin and end.
 * Numbers follow LC_NUMERIC, as printf() does, so a program that writes JSON must set only
 * LC_CTYPE. The functions are json_put_*, because jansson has json_string(), json_real() and so on.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct json_writer {
    struct str *out; /* borrowed from the caller */
    bool comma;      /* a comma precedes the next value or key */
};

void json_writer_init(struct json_writer *w, struct str *out);

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);
/* Writes a key. Returns w, so that the value can follow in the same statement. */
struct json_writer *json_key(struct json_writer *w, const char *key);
/* The same, for a key of ASCII characters without quotes, backslashes and control characters. */
struct json_writer *json_plain_key(struct json_writer *w, const char *key);
struct json_writer *json_plain_key_bytes(struct json_writer *w, const char *key, size_t length);

/* Writes NULL as null. Bytes that are not UTF-8 become U+FFFD, so that the result is valid JSON. */
void json_put_string(struct json_writer *w, const char *text);
void json_put_bytes(struct json_writer *w, const char *text, size_t length);
void json_put_int(struct json_writer *w, int64_t number);
/* Writes a number, or above INT64_MAX a string of digits, because JSON readers lose precision above
 * that limit. */
void json_put_uint(struct json_writer *w, uint64_t number);
/* Writes the shortest text that reads back as the same number; null for NaN and infinities. */
void json_put_real(struct json_writer *w, double number);
void json_put_bool(struct json_writer *w, bool value);
void json_put_null(struct json_writer *w);
/* Writes "2026-11-15T05:46:15.123Z"; null for 0, which means "not yet" in all records. */
void json_put_time(struct json_writer *w, int64_t wall_ms);
/* Writes a JSON text unchanged. */
void json_put_raw(struct json_writer *w, const char *json);
/* Writes the members of a text that is one JSON object. */
void json_put_members(struct json_writer *w, const char *object);
/* Writes a string of standard base64 (RFC 4648, padded). */
void json_put_base64(struct json_writer *w, const void *bytes, size_t length);
