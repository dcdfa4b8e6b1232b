/* The part of `gpumux describe` about protection: how the workload's neighbours are protected from
 * the workload. */
#pragma once
#include <jansson.h>

#include "base/str.h"

/* Adds lines of a label and a text, from usage.protection of the API; events that never happened
 * are omitted. */
void protection_write(const json_t *protection, struct str *out);
