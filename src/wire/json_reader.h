/* JSON texts to trees, by jansson, with errors that say where. fields.h reads the members
 * of objects. */
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/error.h"

/* Parses text whose root is an object. *ret is the caller's to json_decref. Errors are
 * those of json_refuse(); duplicate keys, NUL and what is not UTF-8 are among them. */
int json_parse_object(struct error *e, enum error_code code, const char *text, size_t length,
                      json_t **ret);

/* What jansson found wrong with the text, as an error: -code with the line, and the field whose
 * value cannot be taken (a number too large, a NUL); -ERR_NO_MEMORY. */
int json_refuse(struct error *e, enum error_code code, const char *text,
                const json_error_t *problem);
