#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct hash_slot {
    uint64_t key;
    void *value; /* NULL: free. Open addressing, linear probing, deletion by shifting back. */
};

uint64_t hash_u64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t hash_bytes(const void *bytes, size_t length, uint64_t seed)
{
    const unsigned char *p = bytes;
    uint64_t h = 0xcbf29ce484222325u ^ seed;
    for (size_t i = 0; i < length; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return hash_u64(h);
}

uint64_t hash_string(const char *s)
{
    return hash_bytes(s, strlen(s), 0);
}

void hash_map_init(struct hash_map *m)
{
    *m = (struct hash_map){0};
}

void hash_map_done(struct hash_map *m)
{
    free(m->slots);
    *m = (struct hash_map){0};
}

static size_t home_of(const struct hash_map *m, uint64_t key)
{
    return hash_u64(key) & (m->capacity - 1);
}

/* Returns the slot that holds key, or the free slot where key belongs. */
static struct hash_slot *find(const struct hash_map *m, uint64_t key)
{
    size_t i = home_of(m, key);
    while (m->slots[i].value && m->slots[i].key != key)
        i = (i + 1) & (m->capacity - 1);
    return &m->slots[i];
}

void *hash_map_get(const struct hash_map *m, uint64_t key)
{
    return m->capacity ? find(m, key)->value : NULL;
}

static int grow(struct hash_map *m)
{
    struct hash_map bigger = {.capacity = m->capacity ? m->capacity * 2 : 16, .count = m->count};
    bigger.slots = calloc(bigger.capacity, sizeof *bigger.slots);
    if (!bigger.slots)
        return -ERR_NO_MEMORY;
    for (size_t i = 0; i < m->capacity; i++)
        if (m->slots[i].value)
            *find(&bigger, m->slots[i].key) = m->slots[i];
    free(m->slots);
    *m = bigger;
    return 0;
}

int hash_map_put(struct hash_map *m, uint64_t key, void *value)
{
    if (m->count + 1 > m->capacity / 4 * 3) {
        int r = grow(m);
        if (r < 0)
            return r;
    }
    struct hash_slot *slot = find(m, key);
    if (!slot->value)
        m->count++;
    *slot = (struct hash_slot){.key = key, .value = value};
    return 0;
}

void *hash_map_remove(struct hash_map *m, uint64_t key)
{
    if (!m->capacity)
        return NULL;
    struct hash_slot *slot = find(m, key);
    void *value = slot->value;
    if (!value)
        return NULL;
    size_t mask = m->capacity - 1, hole = (size_t)(slot - m->slots);
    for (size_t i = (hole + 1) & mask; m->slots[i].value; i = (i + 1) & mask) {
        size_t home = home_of(m, m->slots[i].key);
        /* Move i back only if its home is not (cyclically) after the hole. */
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = (struct hash_slot){0};
    m->count--;
    return value;
}

bool hash_map_next(const struct hash_map *m, size_t *cursor, uint64_t *ret_key, void **ret_value)
{
    while (*cursor < m->capacity) {
        const struct hash_slot *slot = &m->slots[(*cursor)++];
        if (slot->value) {
            if (ret_key)
                *ret_key = slot->key;
            *ret_value = slot->value;
            return true;
        }
    }
    return false;
}
