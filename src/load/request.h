/*
 * The bytes of the request that a run repeats, and the server that gets the request. Pure.
 *
 * Text of a target:
 *   http://HOST[:PORT][/PATH]   a server on TCP; port 80 by default
 *   HOST:PORT[/PATH]            the same
 *   unix:SOCKET[:/PATH]         a server on a unix socket
 *
 * Text of a tensor: NAME:TYPE:SHAPE, such as input:FP32:1x3x224x224. TYPE is a type of the Open
 * Inference Protocol except BYTES. The values are drawn from the seed: multiples of 1/128 from 0.5
 * to below 1 for FP and BF types, 0 to 63 for integers.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "wire/address.h"

enum {
    REQUEST_SOCKET_MAX = 108,
    REQUEST_PATH_MAX = 4096,
    REQUEST_HEADERS_MAX = 32,
    REQUEST_TENSORS_MAX = 16,
    REQUEST_RANK_MAX = 8,
    REQUEST_NAME_MAX = 128,
    REQUEST_BODY_MAX = 64 << 20,
    REQUEST_MAX = REQUEST_BODY_MAX + (1 << 20),
};

struct request_target {
    bool is_unix;
    char socket[REQUEST_SOCKET_MAX]; /* path of a unix socket */
    struct address address;          /* TCP */
    char path[REQUEST_PATH_MAX];     /* path and query, as sent */
};

struct request_tensor {
    char name[REQUEST_NAME_MAX];
    size_t type; /* private to request_tensor.c */
    size_t rank, elements;
    uint32_t shape[REQUEST_RANK_MAX];
};

struct request {
    const char *method;       /* such as "GET" */
    const char *content_type; /* of the body; NULL: none, or a header of the caller */
    const char *headers[REQUEST_HEADERS_MAX]; /* "NAME: VALUE" */
    size_t header_count;
    const void *body;
    size_t body_length;
    size_t inference_header_length; /* bytes of JSON before binary tensors; 0: no such header */
};

int request_parse_target(struct error *e, const char *text, struct request_target *ret);
/* Replaces the path by PATH/v2/models/MODEL/infer. */
int request_add_model(struct error *e, const char *model, struct request_target *target);
/* Refuses a header that is malformed or that the generator sets itself. */
int request_check_header(struct error *e, const char *header);
/* Appends the request. Check str_failed(out). */
void request_write(const struct request_target *target, const struct request *request,
                   struct str *out);

int request_parse_tensor(struct error *e, const char *text, struct request_tensor *ret);
/* Appends a body of the Open Inference Protocol. With is_binary the values follow the JSON as
 * bytes, and *ret_json_length is the length of the JSON. Check str_failed(out). */
void request_write_tensors(const struct request_tensor *tensors, size_t count, bool is_binary,
                           uint64_t seed, struct str *out, size_t *ret_json_length);
