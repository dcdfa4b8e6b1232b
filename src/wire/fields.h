/*
 * A table-driven codec: structs to JSON objects and back. Each encoded member is one line of one
 * table. The same table encodes and decodes node messages, stored records and the files of an
 * attempt, and encodes the objects of the API.
 *
 *   #define OF struct job
 *   static const struct field job_members[] = {
 *       FIELD("id", id),
 *       FIELD("state", state, .names = &job_state_names),
 *       FIELD("tries", tries, .least = 1, .flags = FIELD_NEWER),
 *       FIELD_LIST("devices", devices, device_count),
 *   };
 *   #undef OF
 *   const struct fields job_fields = FIELDS(struct job, job_members);
 *
 * The C type of the member selects the encoding. The decoder ignores members that the table does
 * not list, because a newer version may have added them. For the same reason a new line must be
 * FIELD_OPTIONAL as long as the object may come from an older version.
 *
 * The library `fields` contains this codec, the JSON writer and the tables of model/ (objects.h).
 * The library needs neither an event loop nor the rest of wire, so that the supervisor can link it.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "model/names.h"
#include "model/workload.h"
#include "wire/json_writer.h"

/* The destination of an encoded object, or the source of a decoded object. */
enum fields_form {
    FIELDS_MESSAGE = 1, /* message between control and node */
    FIELDS_STORED = 2,  /* record in the store, or the agent's own file */
    FIELDS_FILE = 4,    /* file in an attempt's directory, writable by the workload's user */
    FIELDS_API = 8,     /* object of the API, with every member present */
    FIELDS_OF_AGENT = FIELDS_MESSAGE | FIELDS_STORED | FIELDS_API,
};

enum {
    FIELD_OPTIONAL = 1, /* absent or null decodes as `unset` */
    FIELD_OMIT = 2,     /* an unset member is not written, except to the API */
    FIELD_NEWER = FIELD_OPTIONAL | FIELD_OMIT,
    FIELD_NULL = 4, /* an unset member is null in the API */
    /* wall-clock ms: the key gets "_ms" (files: "_wall_ms"); the API shows a text. */
    FIELD_WALL = 8,
    FIELD_FILLED = 16, /* an empty text is an error */
    FIELD_CUT = 32,    /* a text or array that is too long is truncated instead of refused */
};

enum field_kind {
    FIELD_BOOL,
    FIELD_INT,
    FIELD_UNSIGNED, /* enum with `names`, else a number */
    FIELD_INT64,
    FIELD_UINT64, /* number; past INT64_MAX a string of digits, because JSON readers lose
                   * precision */
    FIELD_REAL,
    FIELD_BUFFER, /* char[] */
    FIELD_TEXT,   /* const char *, allocated from the arena */
    FIELD_PAIRS,
    FIELD_STRUCT, /* object encoded by the table `fields` */
    FIELD_COUNTS, /* uint64_t[] as an object with the keys `names`; zeros appear in the API only */
    FIELD_PART,   /* group of members, see FIELD_PART_OF */
    FIELD_CUSTOM  /* encoding of its own, see FIELD_AS */
};

enum field_list { FIELD_ONE, FIELD_POINTER, FIELD_ARRAY, FIELD_ALLOCATED };

struct field {
    const char *key;
    uint16_t offset; /* offset of the member in the struct */
    uint16_t size;   /* bytes of the member, in a list of one element */
    uint16_t count_offset, count_size;
    uint16_t array_bytes;
    uint8_t kind, list;
    uint8_t flags;
    uint8_t in;   /* forms that contain the member, as bits of enum fields_form; 0: all */
    int8_t unset; /* number for "not known"; with -1 every negative number is unset */
    /* Limits of a number, of a list's length or of a text's bytes. The default is 0 to the largest
     * value of the type; with a negative `least`, the table must give both limits. */
    int64_t least, most;
    union {
        const struct names *names;
        const struct fields *fields;
        const struct field_custom *custom;
    };
};

struct fields {
    const struct field *members;
    uint16_t count; /* number of members */
    uint16_t bytes; /* bytes of the struct */
};

struct field_reader {
    struct error *e;
    enum error_code code; /* error for a missing or malformed member */
    struct arena *arena;  /* NULL is allowed for a table that allocates nothing */
    enum fields_form form;
};

struct field_custom {
    void (*put)(struct json_writer *w, const void *member);
    int (*take)(const struct field_reader *r, json_t *value, void *member);
};

/* A member of OF. Designators may follow: .least, .most, .unset, .names, .fields, .flags, .in. */
#define FIELD(key_, member_, ...)                                                                  \
    {                                                                                              \
        .key = key_, .offset = offsetof(OF, member_), .size = sizeof FIELD_MEMBER(member_),        \
        .kind = FIELD_KIND(FIELD_MEMBER(member_)), __VA_ARGS__                                     \
    }
/* A list. The size of an array limits the number of its elements. A list behind a pointer needs
 * .most; the arena owns its elements, and NULL terminates a list of texts. The type of count_ is
 * int or size_t. */
#define FIELD_LIST(key_, member_, count_, ...)                                                     \
    {                                                                                              \
        .key = key_, .offset = offsetof(OF, member_), .size = sizeof FIELD_MEMBER(member_)[0],     \
        .kind = FIELD_KIND(FIELD_MEMBER(member_)[0]),                                              \
        .list = FIELD_IS_ARRAY(member_) ? FIELD_ARRAY : FIELD_ALLOCATED,                           \
        .array_bytes = sizeof FIELD_MEMBER(member_), .count_offset = offsetof(OF, count_),         \
        .count_size = sizeof FIELD_MEMBER(count_), __VA_ARGS__                                     \
    }
/* A pointer to one struct, which the decoder allocates from the arena. */
#define FIELD_AT(key_, member_, table, ...)                                                        \
    {                                                                                              \
        .key = key_, .offset = offsetof(OF, member_), .size = sizeof *FIELD_MEMBER(member_),       \
        .kind = FIELD_STRUCT, .list = FIELD_POINTER, .fields = table, __VA_ARGS__                  \
    }
/* Members of OF that are present together, while the bool `marker` is set. In the API the members
 * are an object of their own, or null. In the other forms the members lie beside the other members
 * of OF, and the presence of the first member sets the marker. */
#define FIELD_PART_OF(key_, marker, table, ...)                                                    \
    {                                                                                              \
        .key = key_, .offset = offsetof(OF, marker), .kind = FIELD_PART, .fields = table,          \
        __VA_ARGS__                                                                                \
    }
/* A member whose encoding is the pair of functions in custom_. */
#define FIELD_AS(key_, member_, custom_, ...)                                                      \
    {                                                                                              \
        .key = key_, .offset = offsetof(OF, member_), .kind = FIELD_CUSTOM, .custom = custom_,     \
        __VA_ARGS__                                                                                \
    }
#define FIELDS(type, array)                                                                        \
    {                                                                                              \
        array, sizeof(array) / sizeof(array)[0], sizeof(type)                                      \
    }

#define FIELD_MEMBER(member) (((OF *)0)->member)
#define FIELD_IS_ARRAY(member)                                                                     \
    (!__builtin_types_compatible_p(__typeof__(FIELD_MEMBER(member)),                               \
                                   __typeof__(&FIELD_MEMBER(member)[0])))
/* clang-format off */
#define FIELD_KIND(value)                                                                          \
    _Generic(value,                                                                                \
        bool: FIELD_BOOL, int: FIELD_INT, unsigned int: FIELD_UNSIGNED, int64_t: FIELD_INT64,      \
        uint64_t: FIELD_UINT64, double: FIELD_REAL, char *: FIELD_BUFFER,                          \
        const char *: FIELD_TEXT, struct pairs: FIELD_PAIRS, uint64_t *: FIELD_COUNTS,             \
        default: FIELD_STRUCT)
/* clang-format on */

/* Writes one object, or null for NULL. The str of the writer records a failure. */
void fields_put(struct json_writer *w, const struct fields *table, enum fields_form form,
                const void *object);
/* Writes the members without braces; for NULL every member is null. */
void fields_put_members(struct json_writer *w, const struct fields *table, enum fields_form form,
                        const void *object);
/* Appends one object to a text. Returns 0 or -ERR_NO_MEMORY. */
int fields_write(const struct fields *table, enum fields_form form, const void *object,
                 struct str *out);

/* Decodes into *ret, which must be zeroed and is undefined after a failure. Errors name the field.
 * Returns 0, -code or -ERR_NO_MEMORY. */
int fields_take(const struct field_reader *r, const struct fields *table, json_t *object,
                void *ret);
/* Decodes a text whose root is one object. Returns the errors of fields_take(). */
int fields_parse(const struct field_reader *r, const struct fields *table, const char *text,
                 size_t length, void *ret);
/* Sets the error for the value of a custom field. Returns -code. */
int field_fail(const struct field_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
