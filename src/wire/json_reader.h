/*
 * Reading the members of a JSON object, by jansson, with errors that name them.
 *
 * A reader remembers its first failure and does nothing after it, so that a list of takes needs one
 * check at the end:
 *
 *   json_reader_init(&r, e, ERR_PROTOCOL, arena, object);
 *   json_take_uint(&r, "workload", &id);
 *   json_take_text(&r, "name", &name);
 *   return r.result;
 *
 * Every member that is taken must be there; json_has() asks first for one that may be missing.
 * Members that nobody takes are ignored.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"

struct json_reader {
    struct error *e;
    enum error_code code; /* what a missing or mistyped member is */
    struct arena *arena;  /* where texts go */
    json_t *object;       /* borrowed */
    int result;           /* 0, or the first failure: -code or -ERR_NO_MEMORY */
};

/* Parses text whose root is an object. *ret is the caller's to json_decref. Errors are
 * those of json_refuse(); duplicate keys, NUL and what is not UTF-8 are among them. */
int json_parse_object(struct error *e, enum error_code code, const char *text, size_t length,
                      json_t **ret);

/* What jansson found wrong with the text, as an error: -code with the line, and the field whose value
 * cannot be taken (a number too large, a NUL); -ERR_NO_MEMORY. */
int json_refuse(struct error *e, enum error_code code, const char *text,
                const json_error_t *problem);

/* Fails at once if object is NULL or not an object. */
void json_reader_init(struct json_reader *r, struct error *e, enum error_code code,
                      struct arena *arena, json_t *object);
/* There, and not null. */
bool json_has(const struct json_reader *r, const char *key);

void json_take_uint(struct json_reader *r, const char *key, uint64_t *ret);
void json_take_int64(struct json_reader *r, const char *key, int64_t least, int64_t most,
                     int64_t *ret);
void json_take_int(struct json_reader *r, const char *key, int least, int most, int *ret);
void json_take_real(struct json_reader *r, const char *key, double *ret);
void json_take_bool(struct json_reader *r, const char *key, bool *ret);
void json_take_text(struct json_reader *r, const char *key, const char **ret);
/* Into a fixed buffer; a text that does not fit is a failure. */
void json_take_buffer(struct json_reader *r, const char *key, char *ret, size_t size);
/* A text that `parse` understands, for the names of enums. */
#define json_take_name(r, key, parse, ret)                                                         \
    do {                                                                                           \
        const char *json_take_name_text = json_borrow_text(r, key);                                \
        if (json_take_name_text && parse(json_take_name_text, ret) < 0)                            \
            json_fail(r, key, "'%.40s' is not known", json_take_name_text);                        \
    } while (0)
/* An array of at most `most` elements, or NULL after a failure. Borrowed. */
json_t *json_take_array(struct json_reader *r, const char *key, size_t most);
/* An object, or NULL after a failure. Borrowed. */
json_t *json_take_object(struct json_reader *r, const char *key);
/* A string inside the object, or NULL after a failure; lives as long as the object. */
const char *json_borrow_text(struct json_reader *r, const char *key);

/* Zeroed memory from the arena, or NULL after a failure. */
void *json_alloc(struct json_reader *r, size_t count, size_t bytes);
/* Marks the reader failed, at this member. */
void json_fail(struct json_reader *r, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Takes over the failure of an inner reader or parser, whose field becomes key[index].field;
 * index -1: key.field. Does nothing for result 0. */
void json_fail_inner(struct json_reader *r, const char *key, int index, int result);
