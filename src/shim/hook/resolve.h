/*
 * Finding functions in the libraries that the process has loaded, by the dynamic linker's own list
 * and each library's hash table. The shim can name none of them when it is linked: where dlsym and
 * the pthread functions live differs between C libraries, and its own dlsym stands before theirs.
 *
 * No function here calls the C library. The list changes when libraries come and go: what was
 * loaded at start stays, anything behind it may be looked at under the lock only (libraries.h).
 */
#pragma once
#include <stdbool.h>

struct link_map;

/* The address of a function or object that the library defines, of its default version; NULL if
 * there is none. */
void *resolve_symbol(const struct link_map *library, const char *name);
/* The same in the first library behind this one, in the order in which the dynamic linker looks:
 * what would be found without the shim. */
void *resolve_next(const char *name);
/* The same in the first of all libraries: what a program would be given. Not this library's own. */
void *resolve_first(const char *name);
/* The first library with this soname, or whose file name starts with it. NULL. */
const struct link_map *resolve_library(const char *soname);
/* Whether the code at the address belongs to a library (or the program) before this one. */
bool resolve_is_before(const void *code);
