/* What protects a workload's neighbours from it, for people: the part of `gpumux describe`
 * about it. */
#pragma once
#include <jansson.h>

#include "base/str.h"

/* Adds lines of a label and a text, from usage.protection of the API; nothing for what
 * never happened. */
void protection_write(const json_t *protection, struct str *out);
