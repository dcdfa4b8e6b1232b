/* Test helper: checks that a text is well-formed XML. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/*
 * Checks that elements are closed in order, attributes are quoted and unique, ids are unique, and
 * `<` and `&` occur only in markup. On failure writes reason and place to `why`.
 */
bool markup_is_well_formed(const char *text, char *why, size_t size);
