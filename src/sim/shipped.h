/* The tables and traces of data/ that are part of the executable, by the names of their files. */
#pragma once
#include <stddef.h>

/* NULL: there is none of that name. Not NUL-terminated; static. */
const char *shipped_find(const char *name, size_t *ret_length);
/* index 0, 1, …; NULL past the last. */
const char *shipped_name(size_t index);
