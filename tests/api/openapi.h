/*
 * Checks responses against an OpenAPI document: whether the operation lists the status, and whether
 * the body has the promised shape. Records the responses checked, so that a test can list those
 * that it never provoked.
 *
 * Supports the part of JSON Schema that api/openapi.yaml uses: type, enum, required, properties,
 * additionalProperties, unevaluatedProperties beside allOf, items, allOf, oneOf, minimum, maximum,
 * $ref within the document. Any other keyword that restricts is an error.
 */
#pragma once
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

struct openapi;

int openapi_load(struct error *e, const char *path, struct openapi **ret);
void openapi_free(struct openapi *o);

/* Checks one response. path: as requested, without the query. Returns 0, -ERR_NOT_FOUND for an
 * unknown operation, or -ERR_INVALID for a status, type or body that the document does not
 * allow. */
int openapi_check(struct error *e, struct openapi *o, const char *method, const char *path,
                  int status, const char *content_type, const char *body, size_t length);
/* Returns whether the document has the operation with exactly this path template. */
bool openapi_has_route(const struct openapi *o, const char *method, const char *template);
/* Appends lines "METHOD /template STATUS" of responses never checked; returns their number. */
size_t openapi_list_unseen(const struct openapi *o, struct str *out);
/* Appends lines "METHOD /template" of all operations. */
void openapi_list_operations(const struct openapi *o, struct str *out);
