/*
 * Finds functions in the libraries that the process has loaded, by the dynamic linker's own list
 * and each library's hash table. The shim cannot link to these functions: each C library defines
 * dlsym and the pthread functions in another file, and the shim's own dlsym precedes the C
 * library's.
 *
 * No function here calls the C library. The list changes when libraries are loaded and unloaded.
 * Libraries loaded at start are never unloaded; all other libraries may be read only under the lock
 * (libraries.h).
 */
#pragma once
#include <stdbool.h>

struct link_map;

/* Returns the address of a function or object that the library defines, in its default version;
 * NULL if the library does not define it. */
void *resolve_symbol(const struct link_map *library, const char *name);
/* Like resolve_symbol(), in the first library after the shim that defines the name, in the dynamic
 * linker's order: the definition that a program would get without the shim. */
void *resolve_next(const char *name);
/* Like resolve_symbol(), in the first of all libraries except the shim that defines the name: the
 * definition that a program gets. */
void *resolve_first(const char *name);
/* Returns the first library with this soname, or with a file name that starts with the soname;
 * NULL: no such library. */
const struct link_map *resolve_library(const char *soname);
/* Returns whether the code at the address belongs to the program or a library before the shim. */
bool resolve_is_before(const void *code);
