/*
 * An OpenAPI document as a judge of answers: was this status foreseen for this operation, and has
 * its body the promised shape? Remembers which responses it has seen, so that a test can tell which
 * it never provoked.
 *
 * Understands the part of JSON Schema that api/openapi.yaml uses: type, enum, required, properties,
 * additionalProperties, unevaluatedProperties beside allOf, items, allOf, oneOf, minimum, maximum,
 * $ref within the document. Any other keyword that restricts is an error, not ignored.
 */
#pragma once
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

struct openapi;

int openapi_load(struct error *e, const char *path, struct openapi **ret);
void openapi_free(struct openapi *o);

/* One answer. path: as it was asked for, without the query. -ERR_NOT_FOUND: no such operation;
 * -ERR_INVALID: a status, type or body that the document does not allow. */
int openapi_check(struct error *e, struct openapi *o, const char *method, const char *path,
                  int status, const char *content_type, const char *body, size_t length);
/* The operation of exactly this path template is in the document. */
bool openapi_has_route(const struct openapi *o, const char *method, const char *template);
/* Lines "METHOD /template STATUS" of responses that were never checked; returns how many. */
size_t openapi_list_unseen(const struct openapi *o, struct str *out);
/* Lines "METHOD /template" of every operation. */
void openapi_list_operations(const struct openapi *o, struct str *out);
