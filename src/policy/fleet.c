#include "policy/fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void fleet_init(struct fleet *f, const struct forecast *forecast)
{
    *f = (struct fleet){.forecast = forecast};
    hash_map_init(&f->by_hash);
}

static void forget_devices(struct fleet *f)
{
    free(f->devices);
    free(f->classes);
    free(f->class_numbers);
    free(f->departures);
    free(f->unused);
    hash_map_done(&f->by_hash);
    f->devices = NULL;
    f->classes = NULL;
    f->class_numbers = NULL;
    f->departures = NULL;
    f->unused = NULL;
    f->device_count = f->class_count = f->class_capacity = f->departure_count = f->unused_count = 0;
    hash_map_init(&f->by_hash);
}

void fleet_done(struct fleet *f)
{
    forget_devices(f);
    for (size_t i = 0; i < f->type_count; i++)
        free(f->types[i]);
    free(f->types);
    *f = (struct fleet){0};
}

bool fleet_member_is_gang(const struct fleet_member *m)
{
    return m->needs->devices > 1;
}

bool fleet_member_is_service(const struct fleet_member *m)
{
    return m->needs->kind == WORKLOAD_SERVICE;
}

/* ---- types ---- */

static const struct forecast_device *type_of(struct fleet *f, const struct device *spec)
{
    struct forecast_device wanted;
    forecast_device_make(spec, &wanted);
    for (size_t i = 0; i < f->type_count; i++)
        if (f->types[i]->hash == wanted.hash)
            return f->types[i];
    struct forecast_device **types = realloc(f->types, (f->type_count + 1) * sizeof(*types));
    if (!types)
        return NULL;
    f->types = types;
    struct forecast_device *type = malloc(sizeof *type);
    if (!type)
        return NULL;
    *type = wanted;
    return f->types[f->type_count++] = type;
}

/* ---- departures ---- */

static size_t departure_slot(const struct fleet *f, double at_ms, size_t device)
{
    size_t low = 0, high = f->departure_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct fleet_departure *d = &f->departures[middle];
        if (d->at_ms < at_ms || (d->at_ms == at_ms && d->device < device))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void set_departure(struct fleet *f, size_t device, double at_ms)
{
    struct fleet_device *d = &f->devices[device];
    if (isfinite(d->departure_ms)) {
        size_t slot = departure_slot(f, d->departure_ms, device);
        f->departure_count--;
        memmove(&f->departures[slot], &f->departures[slot + 1],
                (f->departure_count - slot) * sizeof f->departures[0]);
    }
    d->departure_ms = at_ms;
    if (!isfinite(at_ms))
        return;
    size_t slot = departure_slot(f, at_ms, device);
    memmove(&f->departures[slot + 1], &f->departures[slot],
            (f->departure_count - slot) * sizeof f->departures[0]);
    f->departures[slot] = (struct fleet_departure){.at_ms = at_ms, .device = device};
    f->departure_count++;
}

/* ---- classes ---- */

/* All properties that a decision may depend on. */
struct class_key {
    uint64_t type, labels, quota_bytes, swappable_bytes;
    int share_min_percent, neighbours;
    uint8_t usable, full, doubtful, admits, exclusive, kept, suspects, gang, services, members;
    uint32_t kinds[FORECAST_MEMBERS_MAX];
};

static uint64_t labels_hash(const struct pairs *labels)
{
    uint64_t hash = 0;
    for (size_t i = 0; labels && i < labels->count; i++) {
        hash = hash_u64(hash ^ hash_string(labels->items[i].key));
        hash = hash_u64(hash ^ hash_string(labels->items[i].value));
    }
    return hash;
}

static uint64_t class_hash(const struct fleet *f, const struct policy_snapshot *snapshot,
                           size_t device)
{
    const struct policy_device *p = &snapshot->devices[device];
    const struct policy_node *node = &snapshot->nodes[p->node];
    const struct fleet_device *d = &f->devices[device];
    struct class_key key;
    memset(&key, 0, sizeof key);
    key.type = d->type->hash;
    key.labels = labels_hash(node->labels);
    key.quota_bytes = p->quota_bytes;
    key.swappable_bytes = p->swappable_bytes;
    key.share_min_percent = p->share_min_percent;
    key.neighbours = p->neighbours;
    key.usable = node->usable;
    key.full = node->attempts >= node->attempts_max;
    key.doubtful = node->doubtful;
    key.admits = (uint8_t)p->admits;
    key.exclusive = p->exclusive;
    key.kept = p->kept_for != 0;
    key.suspects = p->suspects > 0;
    key.members = (uint8_t)d->member_count;
    for (size_t i = 0; i < d->member_count; i++) {
        key.gang = key.gang || fleet_member_is_gang(&d->members[i]);
        key.services = (uint8_t)(key.services + fleet_member_is_service(&d->members[i]));
        key.kinds[i] = d->members[i].kind;
    }
    return hash_bytes(&key, sizeof key, 0);
}

static int reserve_class(struct fleet *f)
{
    if (f->unused_count > 0 || f->class_count < f->class_capacity)
        return 0;
    size_t capacity = f->class_capacity ? f->class_capacity * 2 : 64;
    struct fleet_class *classes = realloc(f->classes, capacity * sizeof *classes);
    if (classes)
        f->classes = classes;
    double *numbers = realloc(f->class_numbers, capacity * sizeof *numbers);
    if (numbers)
        f->class_numbers = numbers;
    size_t *unused = realloc(f->unused, capacity * sizeof *unused);
    if (unused)
        f->unused = unused;
    if (!classes || !numbers || !unused)
        return -ERR_NO_MEMORY;
    f->class_capacity = capacity;
    return 0;
}

/* Adds a class for devices like this one. Returns FLEET_NONE if out of memory. */
static size_t class_add(struct fleet *f, uint64_t hash, const struct fleet_device *d)
{
    if (reserve_class(f) < 0)
        return FLEET_NONE;
    size_t index = f->unused_count > 0 ? f->unused[f->unused_count - 1] : f->class_count;
    if (hash_map_put(&f->by_hash, hash, (void *)(uintptr_t)(index + 1)) < 0)
        return FLEET_NONE;
    if (f->unused_count > 0)
        f->unused_count--;
    else
        f->class_count++;
    struct fleet_class *c = &f->classes[index];
    *c = (struct fleet_class){.hash = hash, .first = FLEET_NONE};
    c->set = (struct forecast_set){.device = d->type, .count = d->member_count};
    for (size_t i = 0; i < d->member_count; i++) {
        c->set.kinds[i] = d->members[i].kind;
        c->has_service = c->has_service || fleet_member_is_service(&d->members[i]);
        c->has_gang = c->has_gang || fleet_member_is_gang(&d->members[i]);
    }
    f->forecast->together(f->forecast->context, &c->set, &c->answer);
    return index;
}

static void class_leave(struct fleet *f, size_t device)
{
    struct fleet_device *d = &f->devices[device];
    if (d->class_index == FLEET_NONE)
        return;
    struct fleet_class *c = &f->classes[d->class_index];
    if (d->previous == FLEET_NONE)
        c->first = d->next;
    else
        f->devices[d->previous].next = d->next;
    if (d->next != FLEET_NONE)
        f->devices[d->next].previous = d->previous;
    if (--c->device_count == 0) {
        (void)hash_map_remove(&f->by_hash, c->hash);
        f->unused[f->unused_count++] = d->class_index;
    }
    d->class_index = FLEET_NONE;
}

static int class_join(struct fleet *f, const struct policy_snapshot *snapshot, size_t device)
{
    struct fleet_device *d = &f->devices[device];
    uint64_t hash = class_hash(f, snapshot, device);
    size_t index = (size_t)(uintptr_t)hash_map_get(&f->by_hash, hash);
    index = index > 0 ? index - 1 : class_add(f, hash, d);
    if (index == FLEET_NONE)
        return -ERR_NO_MEMORY;
    struct fleet_class *c = &f->classes[index];
    d->class_index = index;
    d->previous = FLEET_NONE;
    d->next = c->first;
    if (c->first != FLEET_NONE)
        f->devices[c->first].previous = device;
    c->first = device;
    c->device_count++;
    return 0;
}

/* ---- devices ---- */

static int reserve_devices(struct fleet *f, size_t count)
{
    forget_devices(f);
    f->devices = calloc(count + 1, sizeof *f->devices);
    f->departures = malloc((count + 1) * sizeof *f->departures);
    if (!f->devices || !f->departures)
        return -ERR_NO_MEMORY;
    f->device_count = count;
    return 0;
}

int fleet_reset(struct fleet *f, const struct policy_snapshot *snapshot,
                const struct device *const *specs)
{
    if (reserve_devices(f, snapshot->device_count) < 0)
        return -ERR_NO_MEMORY;
    for (size_t i = 0; i < f->device_count; i++) {
        struct fleet_device *d = &f->devices[i];
        d->class_index = FLEET_NONE;
        d->departure_ms = INFINITY;
        d->type = type_of(f, specs[i]);
        if (!d->type || class_join(f, snapshot, i) < 0)
            return -ERR_NO_MEMORY;
    }
    return 0;
}

double fleet_remaining_ms(const struct fleet *f, size_t device, size_t i, int64_t now_ms)
{
    const struct fleet_device *d = &f->devices[device];
    const struct fleet_member *m = &d->members[i];
    if (fleet_member_is_service(m))
        return INFINITY;
    if (!m->is_known)
        return fmax(FLEET_UNKNOWN_MS, (double)(now_ms - m->begun_ms));
    double pd = f->classes[d->class_index].answer.pd[i];
    return fmax(FLEET_LEAST_MS, m->alone_ms - (double)(now_ms - d->changed_ms) / pd);
}

double policy_remaining_ms(const struct policy_waiting *waiting)
{
    if (waiting->needs->kind == WORKLOAD_SERVICE)
        return INFINITY;
    return waiting->known.alone_ms > 0 ? waiting->known.alone_ms : FLEET_UNKNOWN_MS;
}

/* Updates the members' remaining times before a change of the device. */
static void settle(struct fleet *f, size_t device, int64_t now_ms)
{
    struct fleet_device *d = &f->devices[device];
    for (size_t i = 0; i < d->member_count; i++)
        if (d->members[i].is_known)
            d->members[i].alone_ms = fleet_remaining_ms(f, device, i, now_ms);
    d->changed_ms = now_ms;
}

static int changed(struct fleet *f, const struct policy_snapshot *snapshot, size_t device,
                   int64_t now_ms)
{
    struct fleet_device *d = &f->devices[device];
    double first_ms = INFINITY;
    class_leave(f, device);
    if (class_join(f, snapshot, device) < 0)
        return -ERR_NO_MEMORY;
    const struct fleet_class *c = &f->classes[d->class_index];
    for (size_t i = 0; i < d->member_count; i++)
        first_ms = fmin(first_ms, fleet_remaining_ms(f, device, i, now_ms) * c->answer.pd[i]);
    set_departure(f, device, (double)now_ms + first_ms);
    return 0;
}

int fleet_take(struct fleet *f, const struct policy_snapshot *snapshot, size_t device,
               const struct fleet_member *member, int64_t now_ms)
{
    struct fleet_device *d = &f->devices[device];
    settle(f, device, now_ms);
    if (d->member_count < FORECAST_MEMBERS_MAX) {
        size_t at = d->member_count++;
        for (; at > 0 && d->members[at - 1].kind > member->kind; at--)
            d->members[at] = d->members[at - 1];
        d->members[at] = *member;
    }
    return changed(f, snapshot, device, now_ms);
}

int fleet_release(struct fleet *f, const struct policy_snapshot *snapshot, size_t device,
                  uint64_t workload, int64_t now_ms, double *ret_alone_ms)
{
    struct fleet_device *d = &f->devices[device];
    size_t at = 0;
    settle(f, device, now_ms);
    while (at < d->member_count && d->members[at].workload != workload)
        at++;
    if (at < d->member_count) {
        if (d->members[at].is_known)
            *ret_alone_ms = d->members[at].alone_ms;
        d->member_count--;
        memmove(&d->members[at], &d->members[at + 1],
                (d->member_count - at) * sizeof d->members[0]);
    }
    return changed(f, snapshot, device, now_ms);
}

int fleet_update(struct fleet *f, const struct policy_snapshot *snapshot, size_t device)
{
    class_leave(f, device);
    return class_join(f, snapshot, device);
}
