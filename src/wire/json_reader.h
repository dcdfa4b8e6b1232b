/* Parsing of JSON texts into jansson's trees, with errors that name the line or the field. fields.h
 * reads the members of objects. */
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/error.h"

/* Parses a text whose root is an object. The caller releases *ret with json_decref(). Duplicate
 * keys, NUL and invalid UTF-8 are refused as json_refuse() describes. */
int json_parse_object(struct error *e, enum error_code code, const char *text, size_t length,
                      json_t **ret);

/* Sets the error for a problem that jansson found in the text. Returns -code, with the line and,
 * for a value that cannot be represented (a number too large, a NUL), its field; or
 * -ERR_NO_MEMORY. */
int json_refuse(struct error *e, enum error_code code, const char *text,
                const json_error_t *problem);
