/* Tables and traces of data/ that are compiled into the executable, by file name. */
#pragma once
#include <stddef.h>

/* Returns static data without a terminating NUL; NULL if there is no file of that name. */
const char *shipped_find(const char *name, size_t *ret_length);
