/* For tests: is this text a tree of elements, as a reader of XML takes it? */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/*
 * Every element is closed, in order; attributes are quoted, and none is there twice; no id is there
 * twice; `<` and `&` are markup only. On failure says why, and where, in `why`.
 */
bool markup_is_well_formed(const char *text, char *why, size_t size);
