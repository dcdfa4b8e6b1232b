#include <sys/mman.h>

#include "shim/memory/allocations.h"

enum { PLACES_MIN = 1024 };

static size_t home_of(const struct allocations *a, uint64_t address)
{
    return (size_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> (64 - ALLOCATIONS_BITS)) &
           (a->place_count - 1);
}

/* Returns the place of the address, or the free place where it belongs. */
static size_t find_place(const struct allocations *a, uint64_t address)
{
    size_t place = home_of(a, address);
    while (a->places[place].address && a->places[place].address != address)
        place = (place + 1) & (a->place_count - 1);
    return place;
}

static bool grow(struct allocations *a)
{
    struct allocations larger = {.place_count = a->places ? 2 * a->place_count : PLACES_MIN};
    if (larger.place_count > ALLOCATIONS_MAX)
        return false;
    larger.places = sys_mmap(larger.place_count * sizeof(*larger.places), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!larger.places)
        return false;
    for (size_t i = 0; i < a->place_count; i++) {
        if (a->places[i].address)
            larger.places[find_place(&larger, a->places[i].address)] = a->places[i];
    }
    if (a->places)
        (void)sys_munmap(a->places, a->place_count * sizeof(*a->places));
    a->places = larger.places;
    a->place_count = larger.place_count;
    return true;
}

bool allocations_add(struct allocations *a, const struct allocation *allocation)
{
    if (!allocation->address)
        return false;
    if (!lock_enter(&a->lock))
        return false;
    bool has_room = a->count < a->place_count / 2 || grow(a);
    if (has_room) {
        struct allocation *place = &a->places[find_place(a, allocation->address)];
        a->count += !place->address;
        *place = *allocation;
    }
    lock_release(&a->lock);
    return has_room;
}

/* Closes the gap by moving back the entries behind it, up to the next free place, that were
 * displaced past it. */
static void remove_place(struct allocations *a, size_t gap)
{
    size_t mask = a->place_count - 1;
    for (size_t next = (gap + 1) & mask; a->places[next].address; next = (next + 1) & mask) {
        size_t home = home_of(a, a->places[next].address);
        if (((next - home) & mask) >= ((next - gap) & mask)) {
            a->places[gap] = a->places[next];
            gap = next;
        }
    }
    a->places[gap].address = 0;
    a->count--;
}

bool allocations_take(struct allocations *a, uint64_t address, struct allocation *ret_allocation)
{
    bool is_there = false;
    if (!lock_enter(&a->lock))
        return false;
    if (a->places && address) {
        size_t place = find_place(a, address);
        is_there = a->places[place].address == address;
        if (is_there) {
            *ret_allocation = a->places[place];
            remove_place(a, place);
        }
    }
    lock_release(&a->lock);
    return is_there;
}

bool allocations_find(struct allocations *a, uint64_t address, struct allocation *ret_allocation)
{
    bool is_there = false;
    if (!lock_enter(&a->lock))
        return false;
    if (a->places && address) {
        const struct allocation *place = &a->places[find_place(a, address)];
        is_there = place->address == address;
        if (is_there)
            *ret_allocation = *place;
    }
    lock_release(&a->lock);
    return is_there;
}

bool allocations_find_around(struct allocations *a, uint64_t address,
                             struct allocation *ret_allocation)
{
    bool is_there = false;
    if (!lock_enter(&a->lock))
        return false;
    for (size_t i = 0; i < a->place_count && !is_there; i++) {
        const struct allocation *place = &a->places[i];
        is_there = place->address && address - place->address < place->bytes;
        if (is_there)
            *ret_allocation = *place;
    }
    lock_release(&a->lock);
    return is_there;
}

/* An entry that closes a gap at the cursor comes from behind the cursor or, at the wrap, from
 * before it, where it was visited already. */
bool allocations_take_of(struct allocations *a, uint64_t context, size_t *cursor,
                         struct allocation *ret_allocation)
{
    bool is_there = false;
    if (!lock_enter(&a->lock))
        return false;
    for (; *cursor < a->place_count && !is_there; *cursor += !is_there) {
        const struct allocation *place = &a->places[*cursor];
        is_there = place->address && place->context == context;
        if (is_there) {
            *ret_allocation = *place;
            remove_place(a, *cursor);
        }
    }
    lock_release(&a->lock);
    return is_there;
}

void allocations_reset(struct allocations *a)
{
    if (a->places)
        (void)sys_munmap(a->places, a->place_count * sizeof(*a->places));
    *a = (struct allocations){0};
}
