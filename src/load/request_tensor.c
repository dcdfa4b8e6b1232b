/* Bodies of the Open Inference Protocol, version 2. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "load/request.h"
#include "wire/json_writer.h"

enum { ELEMENT_BYTES_MAX = 8, FP_STEPS = 64 };

/* How the value number k, 0 to 63, is written. */
enum encoding { WHOLE, BOOLEAN, HALF, BRAIN, SINGLE, DOUBLE };

static const struct {
    const char *name;
    size_t bytes;
    enum encoding encoding;
} types[] = {
    {"FP32", 4, SINGLE},  {"FP16", 2, HALF},    {"BF16", 2, BRAIN},   {"FP64", 8, DOUBLE},
    {"INT64", 8, WHOLE},  {"INT32", 4, WHOLE},  {"INT16", 2, WHOLE},  {"INT8", 1, WHOLE},
    {"UINT64", 8, WHOLE}, {"UINT32", 4, WHOLE}, {"UINT16", 2, WHOLE}, {"UINT8", 1, WHOLE},
    {"BOOL", 1, BOOLEAN},
};
enum { TYPES = sizeof types / sizeof *types };

static int bad_tensor(struct error *e, const char *text)
{
    return error_set(e, ERR_INVALID,
                     "'%.80s' is not a tensor NAME:TYPE:SHAPE, such as input:FP32:1x3x224x224",
                     text);
}

/* Reads "1x3x224x224". */
static bool parse_shape(const char *text, size_t element_bytes, struct request_tensor *t)
{
    t->elements = 1;
    for (;; text++) {
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 9 || t->rank == REQUEST_RANK_MAX)
            return false;
        uint32_t extent = (uint32_t)strtoul(text, NULL, 10);
        t->shape[t->rank++] = extent;
        t->elements *= extent;
        if (extent == 0 || t->elements * element_bytes > REQUEST_BODY_MAX)
            return false;
        text += digits;
        if (*text != 'x')
            return !*text;
    }
}

int request_parse_tensor(struct error *e, const char *text, struct request_tensor *ret)
{
    struct request_tensor t = {.type = TYPES};
    size_t name = strcspn(text, ":");
    if (name == 0 || name >= sizeof t.name || !text[name])
        return bad_tensor(e, text);
    memcpy(t.name, text, name);
    const char *type = text + name + 1;
    size_t length = strcspn(type, ":");
    for (size_t i = 0; i < TYPES; i++)
        if (strlen(types[i].name) == length && strncmp(types[i].name, type, length) == 0)
            t.type = i;
    if (t.type == TYPES || !type[length] ||
        !parse_shape(type + length + 1, types[t.type].bytes, &t))
        return bad_tensor(e, text);
    *ret = t;
    return 0;
}

static double value_of(uint64_t k)
{
    return 0.5 + (double)k / (2.0 * FP_STEPS);
}

static void put_value(struct json_writer *w, enum encoding encoding, uint64_t k)
{
    if (encoding == WHOLE)
        json_put_uint(w, k);
    else if (encoding == BOOLEAN)
        json_put_bool(w, k & 1);
    else
        json_put_real(w, value_of(k));
}

/* Writes the value in the byte order of the protocol, little endian. */
static void encode(enum encoding encoding, uint64_t k, unsigned char bytes[ELEMENT_BYTES_MAX])
{
    uint64_t bits = encoding == BOOLEAN ? k & 1 : k;
    float single = (float)value_of(k);
    double number = value_of(k);
    uint32_t single_bits;
    memcpy(&single_bits, &single, sizeof single_bits);
    if (encoding == SINGLE)
        bits = single_bits;
    else if (encoding == BRAIN)
        bits = single_bits >> 16;
    else if (encoding == HALF)
        bits = 0x3800 | k << 4; /* exponent of 0.5; the highest six bits of the fraction */
    else if (encoding == DOUBLE)
        memcpy(&bits, &number, sizeof bits);
    for (size_t i = 0; i < ELEMENT_BYTES_MAX; i++)
        bytes[i] = (unsigned char)(bits >> (8 * i));
}

static void write_binary(const struct request_tensor *t, struct rng *rng, struct str *out)
{
    unsigned char bytes[ELEMENT_BYTES_MAX];
    for (size_t i = 0; i < t->elements && !str_failed(out); i++) {
        encode(types[t->type].encoding, rng_below(rng, FP_STEPS), bytes);
        str_append_bytes(out, bytes, types[t->type].bytes);
    }
}

static void write_input(struct json_writer *w, const struct request_tensor *t, bool is_binary,
                        struct rng *rng)
{
    json_begin_object(w);
    json_put_string(json_key(w, "name"), t->name);
    json_begin_array(json_key(w, "shape"));
    for (size_t i = 0; i < t->rank; i++)
        json_put_uint(w, t->shape[i]);
    json_end_array(w);
    json_put_string(json_key(w, "datatype"), types[t->type].name);
    if (is_binary) {
        json_begin_object(json_key(w, "parameters"));
        json_put_uint(json_key(w, "binary_data_size"), t->elements * types[t->type].bytes);
        json_end_object(w);
    } else {
        json_begin_array(json_key(w, "data"));
        for (size_t i = 0; i < t->elements && !str_failed(w->out); i++)
            put_value(w, types[t->type].encoding, rng_below(rng, FP_STEPS));
        json_end_array(w);
    }
    json_end_object(w);
}

void request_write_tensors(const struct request_tensor *tensors, size_t count, bool is_binary,
                           uint64_t seed, struct str *out, size_t *ret_json_length)
{
    struct json_writer w;
    struct rng rng;
    size_t before = out->length;
    rng_seed(&rng, seed);
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_begin_array(json_key(&w, "inputs"));
    for (size_t i = 0; i < count; i++)
        write_input(&w, &tensors[i], is_binary, &rng);
    json_end_array(&w);
    if (is_binary) {
        json_begin_object(json_key(&w, "parameters"));
        json_put_bool(json_key(&w, "binary_data_output"), true);
        json_end_object(&w);
    }
    json_end_object(&w);
    *ret_json_length = out->length - before;
    for (size_t i = 0; is_binary && i < count; i++)
        write_binary(&tensors[i], &rng, out);
}
