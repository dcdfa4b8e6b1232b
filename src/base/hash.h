/* Hash functions, and a map from 64-bit keys to pointers. The map does not own its values. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* FNV-1a with a final mix. For tables and fingerprints, not for secrets. */
uint64_t hash_bytes(const void *bytes, size_t length, uint64_t seed);
uint64_t hash_string(const char *s);
uint64_t hash_u64(uint64_t x);

struct hash_slot;

struct hash_map {
    struct hash_slot *slots;
    size_t count;
    size_t capacity; /* a power of two, or 0 */
};

void hash_map_init(struct hash_map *m);
void hash_map_done(struct hash_map *m);
void *hash_map_get(const struct hash_map *m, uint64_t key);
/* Inserts or replaces a value, which must not be NULL. Returns 0 or -ERR_NO_MEMORY. */
int hash_map_put(struct hash_map *m, uint64_t key, void *value);
/* Returns the removed value, or NULL. */
void *hash_map_remove(struct hash_map *m, uint64_t key);
/* Iterates in no particular order: start with *cursor = 0; returns false at the end. The caller
 * must not modify the map during the iteration. */
bool hash_map_next(const struct hash_map *m, size_t *cursor, uint64_t *ret_key, void **ret_value);
