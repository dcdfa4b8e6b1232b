#include <elf.h>
#include <link.h>
#include <stdint.h>

#include "shim/hook/resolve.h"
#include "shim/sys/text.h"

enum { LIBRARIES_MAX = 100000 }; /* a longer list is broken */

/* Weak and unversioned: musl has only the second symbol, and libc.so.6 has neither. In a process
 * with neither, the shim has nothing to do. */
extern struct r_debug _r_debug __attribute__((weak, visibility("default")));
extern struct r_debug *_dl_debug_addr __attribute__((weak, visibility("default")));
/* This library's dynamic section, defined by the linker. */
extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

struct tables {
    uintptr_t bias;
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Versym) * versions; /* NULL: no versions */
    const uint32_t *gnu_hash;      /* NULL: the library has only old_hash */
    const uint32_t *old_hash;
};

static const struct link_map *first_library(void)
{
    if (&_r_debug && _r_debug.r_map)
        return _r_debug.r_map;
    if (&_dl_debug_addr && _dl_debug_addr)
        return _dl_debug_addr->r_map;
    return NULL;
}

/* glibc has relocated these addresses, musl has not, and neither relocates the kernel's vDSO. */
static uintptr_t absolute(const struct link_map *library, uintptr_t value)
{
    return value < library->l_addr ? value + library->l_addr : value;
}

static bool read_tables(const struct link_map *library, struct tables *ret_tables)
{
    struct tables t = {.bias = library->l_addr};
    if (!library->l_ld)
        return false;
    for (const ElfW(Dyn) *d = library->l_ld; d->d_tag != DT_NULL; d++) {
        uintptr_t address = absolute(library, d->d_un.d_ptr);
        switch (d->d_tag) {
        case DT_SYMTAB:
            t.symbols = (const void *)address;
            break;
        case DT_STRTAB:
            t.names = (const void *)address;
            break;
        case DT_VERSYM:
            t.versions = (const void *)address;
            break;
        case DT_GNU_HASH:
            t.gnu_hash = (const void *)address;
            break;
        case DT_HASH:
            t.old_hash = (const void *)address;
            break;
        }
    }
    if (!t.symbols || !t.names || !(t.gnu_hash || t.old_hash))
        return false;
    *ret_tables = t;
    return true;
}

/* Returns whether a symbol defines the name for newly linked programs, not in a version that exists
 * only for old ones. */
static bool is_definition(const struct tables *t, uint32_t index, const char *name)
{
    const ElfW(Sym) *s = &t->symbols[index];
    return s->st_shndx != SHN_UNDEF && s->st_value != 0 &&
           !(t->versions && (t->versions[index] & 0x8000)) &&
           text_equals(t->names + s->st_name, name);
}

static uint32_t find_gnu(const struct tables *t, const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    uint32_t bucket_count = t->gnu_hash[0], first = t->gnu_hash[1], filter_count = t->gnu_hash[2];
    const uintptr_t *filter = (const uintptr_t *)&t->gnu_hash[4];
    const uint32_t *buckets = (const uint32_t *)&filter[filter_count];
    const uint32_t *chain = &buckets[bucket_count];
    if (bucket_count == 0)
        return 0;
    uint32_t index = buckets[hash % bucket_count];
    if (index < first)
        return 0;
    for (;; index++) {
        uint32_t entry = chain[index - first];
        if ((entry | 1) == (hash | 1) && is_definition(t, index, name))
            return index;
        if (entry & 1)
            return 0;
    }
}

static uint32_t find_old(const struct tables *t, const char *name)
{
    uint32_t hash = 0;
    for (const char *c = name; *c; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        hash ^= (hash >> 24) & 0xf0;
    }
    hash &= 0xfffffff;
    uint32_t bucket_count = t->old_hash[0];
    const uint32_t *buckets = &t->old_hash[2], *chain = &buckets[bucket_count];
    if (bucket_count == 0)
        return 0;
    for (uint32_t index = buckets[hash % bucket_count]; index; index = chain[index]) {
        if (is_definition(t, index, name))
            return index;
    }
    return 0;
}

void *resolve_symbol(const struct link_map *library, const char *name)
{
    struct tables t;
    if (!read_tables(library, &t))
        return NULL;
    uint32_t index = t.gnu_hash ? find_gnu(&t, name) : find_old(&t, name);
    if (index == 0)
        return NULL;
    const ElfW(Sym) *s = &t.symbols[index];
    void *address = (void *)(t.bias + s->st_value);
    if (ELF64_ST_TYPE(s->st_info) == STT_GNU_IFUNC)
        address = ((void *(*)(void))address)();
    return address;
}

static bool is_self(const struct link_map *library)
{
    return library->l_ld == _DYNAMIC;
}

void *resolve_next(const char *name)
{
    const struct link_map *library = first_library();
    int bound = LIBRARIES_MAX;
    while (library && !is_self(library) && --bound > 0)
        library = library->l_next;
    if (!library)
        return NULL;
    while ((library = library->l_next) && --bound > 0) {
        void *address = resolve_symbol(library, name);
        if (address)
            return address;
    }
    return NULL;
}

void *resolve_first(const char *name)
{
    int bound = LIBRARIES_MAX;
    for (const struct link_map *library = first_library(); library && --bound > 0;
         library = library->l_next) {
        void *address = is_self(library) ? NULL : resolve_symbol(library, name);
        if (address)
            return address;
    }
    return NULL;
}

static const char *read_soname(const struct link_map *library)
{
    struct tables t;
    if (!read_tables(library, &t))
        return "";
    for (const ElfW(Dyn) *d = library->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SONAME)
            return t.names + d->d_un.d_val;
    }
    return "";
}

static const char *file_name(const char *path)
{
    const char *name = path;
    for (; *path; path++) {
        if (*path == '/')
            name = path + 1;
    }
    return name;
}

const struct link_map *resolve_library(const char *soname)
{
    int bound = LIBRARIES_MAX;
    for (const struct link_map *library = first_library(); library && --bound > 0;
         library = library->l_next) {
        if (text_equals(read_soname(library), soname) ||
            (library->l_name && text_starts(file_name(library->l_name), soname)))
            return library;
    }
    return NULL;
}

/* A library's dynamic section lies behind its code and before the next library: the nearest section
 * above an address belongs to the library that contains the address. */
bool resolve_is_before(const void *code)
{
    const ElfW(Dyn) *nearest = NULL;
    bool seen_self = false, is_before = false;
    int bound = LIBRARIES_MAX;
    for (const struct link_map *library = first_library(); library && --bound > 0;
         library = library->l_next) {
        seen_self |= is_self(library);
        if ((const void *)library->l_ld > code && (!nearest || library->l_ld < nearest)) {
            nearest = library->l_ld;
            is_before = !seen_self;
        }
    }
    return is_before;
}
