#include "control/programs.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "learn/stored.h"

static const char stored_kind[] = "prog";
enum {
    VERSION = 2,
    VERSION_REQUESTS = 2 /* first version with requests */,
    NAME_WORDS = PROGRAM_NAME_MAX / sizeof(uint64_t)
};
/* numbers free after programs_make_room() */
enum { ROOM_MADE = PROGRAMS_MAX / 4 };

struct programs {
    struct program **items; /* by number; owned */
    size_t count;
    uint32_t free_from;     /* no lower number is free */
    struct hash_map by_key; /* key → program's number */
};

struct programs *programs_new(void)
{
    struct programs *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    hash_map_init(&p->by_key);
    p->free_from = 1;
    p->items = calloc(PROGRAMS_MAX, sizeof(*p->items));
    if (!p->items) {
        programs_free(p);
        return NULL;
    }
    return p;
}

void programs_free(struct programs *p)
{
    if (!p)
        return;
    for (size_t i = 0; p->items && i < PROGRAMS_MAX; i++)
        free(p->items[i]);
    free(p->items);
    hash_map_done(&p->by_key);
    free(p);
}

/* ---- identity ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return hash_u64(hash ^ hash_u64(value));
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return mix(hash, text ? hash_string(text) : 0);
}

static uint64_t mix_real(uint64_t hash, double value)
{
    return mix(hash, hash_bytes(&value, sizeof value, 0));
}

static uint64_t family_of(const char *user, const struct workload_spec *spec)
{
    const char *said = pairs_get(&spec->labels, PROGRAM_LABEL);
    uint64_t hash = mix_text(mix_text(spec->needs.kind, user), said);
    if (said)
        return hash;
    hash = mix(mix_text(mix_text(hash, spec->user), spec->directory), spec->command.count);
    for (size_t i = 0; i < spec->command.count; i++)
        hash = mix_text(hash, spec->command.items[i]);
    return hash;
}

void program_identify(const char *user, const struct workload_spec *spec,
                      struct program *ret_program)
{
    const struct workload_needs *needs = &spec->needs;
    *ret_program = (struct program){.family = family_of(user, spec),
                                    .kind = needs->kind,
                                    .batch = (uint32_t)spec->batch_reference,
                                    .share = needs->share_max_percent / 100.0,
                                    .slo_ms = spec->slo_latency_ms};
    (void)str_copy(ret_program->name, sizeof ret_program->name, spec->name);
    uint64_t key = mix(mix(ret_program->family, needs->quota_bytes), (uint64_t)needs->devices);
    key = mix(mix(key, (uint64_t)needs->share_min_percent), (uint64_t)needs->share_max_percent);
    key = mix(key, (uint64_t)spec->batch_reference);
    if (spec->slo_latency_ms > 0)
        key = mix_real(mix_real(key, spec->slo_latency_ms), spec->slo_percentile);
    ret_program->key = key ? key : 1;
}

/* ---- numbers ---- */

struct program *programs_at(const struct programs *p, uint32_t number)
{
    return number < PROGRAMS_MAX ? p->items[number] : NULL;
}

uint32_t programs_find(const struct programs *p, uint64_t key)
{
    return (uint32_t)(uintptr_t)hash_map_get(&p->by_key, key);
}

size_t programs_count(const struct programs *p)
{
    return p->count;
}

size_t programs_settled(const struct programs *p)
{
    size_t count = 0;
    for (size_t i = 1; i < PROGRAMS_MAX; i++) {
        bool is_settled = false;
        for (size_t k = 0; p->items[i] && k < p->items[i]->alone_count; k++)
            is_settled = is_settled || p->items[i]->alone[k].settled_s > 0;
        count += is_settled;
    }
    return count;
}

static int add(struct programs *p, const struct program *program, uint32_t *ret_number)
{
    uint32_t number = p->free_from;
    while (number < PROGRAMS_MAX && p->items[number])
        number++;
    p->free_from = number;
    if (number == PROGRAMS_MAX)
        return -ERR_TOO_LARGE;
    struct program *copy = malloc(sizeof *copy);
    if (!copy || hash_map_put(&p->by_key, program->key, (void *)(uintptr_t)number) < 0) {
        free(copy);
        return -ERR_NO_MEMORY;
    }
    *copy = *program;
    p->items[number] = copy;
    p->count++;
    *ret_number = number;
    return 0;
}

int programs_number(struct programs *p, const struct program *program, int64_t now_wall_ms,
                    uint32_t *ret_number)
{
    uint32_t number = programs_find(p, program->key);
    int r = number ? 0 : add(p, program, &number);
    if (r < 0)
        return r;
    p->items[number]->seen_wall_ms = now_wall_ms;
    *ret_number = number;
    return 0;
}

static void drop(struct programs *p, uint32_t number)
{
    (void)hash_map_remove(&p->by_key, p->items[number]->key);
    free(p->items[number]);
    p->items[number] = NULL;
    p->count--;
    if (number < p->free_from)
        p->free_from = number;
}

/* Sorts programs that were never alone first, then by the time when they were last seen. */
static int compare_worth(const void *a, const void *b)
{
    const struct program *const *x = a, *const *y = b;
    bool known_x = (*x)->alone_count > 0, known_y = (*y)->alone_count > 0;
    if (known_x != known_y)
        return known_x - known_y;
    return ((*x)->seen_wall_ms > (*y)->seen_wall_ms) - ((*x)->seen_wall_ms < (*y)->seen_wall_ms);
}

void programs_make_room(struct programs *p, const bool used[PROGRAMS_MAX], int64_t since_wall_ms,
                        void (*gone)(void *arg, uint32_t number), void *arg)
{
    const struct program **unused = malloc(PROGRAMS_MAX * sizeof(*unused));
    size_t count = 0;
    for (uint32_t i = 1; unused && i < PROGRAMS_MAX; i++)
        if (p->items[i] && !used[i] && p->items[i]->seen_wall_ms < since_wall_ms)
            unused[count++] = p->items[i];
    if (unused)
        qsort(unused, count, sizeof(*unused), compare_worth);
    for (size_t i = 0; i < count && p->count > PROGRAMS_MAX - ROOM_MADE; i++) {
        uint32_t number = programs_find(p, unused[i]->key);
        drop(p, number);
        gone(arg, number);
    }
    free(unused);
}

/* ---- alone ---- */

struct program_alone *program_alone(struct program *program, uint64_t device)
{
    for (size_t i = 0; i < program->alone_count; i++)
        if (program->alone[i].device == device)
            return &program->alone[i];
    return NULL;
}

struct program_alone *program_alone_add(struct program *program, uint64_t device)
{
    struct program_alone *alone = program_alone(program, device);
    if (alone || program->alone_count == PROGRAM_DEVICES_MAX)
        return alone;
    alone = &program->alone[program->alone_count++];
    *alone = (struct program_alone){.device = device};
    return alone;
}

static double lower(double a, double b)
{
    return a > 0 && (b == 0 || a < b) ? a : b;
}

static double lowest_ms(const struct program *program)
{
    double lowest = 0;
    for (size_t i = 0; i < program->alone_count; i++)
        if (program->alone[i].requests.count >= PROGRAM_REQUESTS_MIN)
            lowest = lower(program->alone[i].requests.p99, lowest);
    return lowest;
}

double programs_alone_ms(const struct programs *p, const struct program *program)
{
    const struct program *own = programs_at(p, programs_find(p, program->key));
    double lowest = own ? lowest_ms(own) : 0;
    if (lowest > 0)
        return lowest;
    for (size_t i = 1; i < PROGRAMS_MAX; i++)
        if (p->items[i] && p->items[i]->family == program->family)
            lowest = lower(lowest_ms(p->items[i]), lowest);
    return lowest;
}

/* ---- beside others ---- */

static bool is_beside(const struct program_beside *b, uint64_t device, const uint64_t *keys,
                      size_t count)
{
    return b->device == device && b->count == count &&
           memcmp(b->keys, keys, count * sizeof keys[0]) == 0;
}

struct program_beside *program_beside_add(struct program *program, uint64_t device,
                                          const uint64_t *keys, size_t count)
{
    struct program_beside *oldest = &program->besides[0];
    for (size_t i = 0; i < program->beside_count; i++) {
        struct program_beside *b = &program->besides[i];
        if (is_beside(b, device, keys, count))
            return b;
        if (b->requests.measured_wall_ms < oldest->requests.measured_wall_ms)
            oldest = b;
    }
    if (program->beside_count < PROGRAM_BESIDES_MAX)
        oldest = &program->besides[program->beside_count++];
    *oldest = (struct program_beside){.device = device, .count = count};
    memcpy(oldest->keys, keys, count * sizeof keys[0]);
    return oldest;
}

bool program_is_recent(const struct program_requests *requests, int64_t now_wall_ms)
{
    int64_t age_ms = now_wall_ms - requests->measured_wall_ms;
    return age_ms < PROGRAM_RECENT_MS && age_ms > -PROGRAM_RECENT_MS;
}

bool program_beside_is_known(const struct program_beside *beside)
{
    return beside->is_bound || beside->requests.count >= PROGRAM_REQUESTS_MIN;
}

bool program_forget_besides(struct program *program, int64_t now_wall_ms)
{
    size_t kept = 0, before = program->beside_count;
    for (size_t i = 0; i < before; i++)
        if (program_is_recent(&program->besides[i].requests, now_wall_ms))
            program->besides[kept++] = program->besides[i];
    program->beside_count = kept;
    return kept < before;
}

void program_features(const struct program *program, const struct program_alone *alone,
                      const struct forecast_device *device, struct task_profile *ret_features)
{
    *ret_features = (struct task_profile){.family = program->family,
                                          .sm_activity = alone->sm_activity,
                                          .dram_rate = alone->dram_rate,
                                          .memory_part = alone->memory_part,
                                          .share = program->share,
                                          .device_sms = device->sm_count};
    if (program->batch && alone->samples_per_s > 0)
        ret_features->iteration_ms = 1000.0 * program->batch / alone->samples_per_s;
}

/* ---- as bytes ---- */

static void save_requests(const struct program_requests *q, struct str *to)
{
    stored_put_double(to, q->p99);
    stored_put_double(to, q->count);
    stored_put_u64(to, (uint64_t)q->measured_wall_ms);
}

static void save_beside(const struct program_beside *b, struct str *to)
{
    stored_put_u64(to, b->device);
    stored_put_u64(to, b->is_bound);
    stored_put_u64(to, b->count);
    for (size_t i = 0; i < b->count; i++)
        stored_put_u64(to, b->keys[i]);
    save_requests(&b->requests, to);
}

static void save_alone(const struct program_alone *a, struct str *to)
{
    const double numbers[] = {a->watched_s,   a->sm_activity,   a->dram_rate,
                              a->memory_part, a->samples_per_s, a->settled_s};
    stored_put_u64(to, a->device);
    stored_put_u64(to, a->speeds);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        stored_put_double(to, numbers[i]);
#define FEATURE(name, field, transform, what) stored_put_double(to, a->features.field);
#include "learn/features.def"
#undef FEATURE
    save_requests(&a->requests, to);
}

static void save_program(const struct program *program, struct str *to)
{
    uint64_t words[NAME_WORDS];
    memcpy(words, program->name, sizeof words);
    stored_put_u64(to, program->key);
    stored_put_u64(to, program->family);
    for (size_t i = 0; i < NAME_WORDS; i++)
        stored_put_u64(to, words[i]);
    stored_put_u64(to, program->kind);
    stored_put_u64(to, program->batch);
    stored_put_double(to, program->share);
    stored_put_double(to, program->slo_ms);
    stored_put_u64(to, (uint64_t)program->seen_wall_ms);
    stored_put_u64(to, program->alone_count);
    for (size_t i = 0; i < program->alone_count; i++)
        save_alone(&program->alone[i], to);
    stored_put_u64(to, program->beside_count);
    for (size_t i = 0; i < program->beside_count; i++)
        save_beside(&program->besides[i], to);
}

void programs_save(const struct programs *p, struct str *to)
{
    size_t start = stored_begin(to, stored_kind, VERSION), count = 0;
    for (size_t i = 1; i < PROGRAMS_MAX; i++)
        count += p->items[i] && p->items[i]->alone_count > 0;
    stored_put_u64(to, FEATURES_OWN);
    stored_put_u64(to, count);
    for (size_t i = 1; i < PROGRAMS_MAX; i++)
        if (p->items[i] && p->items[i]->alone_count > 0)
            save_program(p->items[i], to);
    stored_end(to, start);
}

static double get_positive(struct stored_reader *r)
{
    double number = stored_get_double(r);
    if (number < 0)
        r->failed = true;
    return number;
}

static void load_requests(struct stored_reader *r, struct program_requests *q)
{
    q->p99 = get_positive(r);
    q->count = get_positive(r);
    q->measured_wall_ms = (int64_t)stored_get_size(r, INT64_MAX);
    if (q->count > 0 && !(q->p99 > 0))
        r->failed = true;
}

static void load_beside(struct stored_reader *r, struct program_beside *b)
{
    b->device = stored_get_u64(r);
    b->is_bound = stored_get_size(r, 1) == 1;
    b->count = stored_get_size(r, PROGRAM_NEIGHBOURS_MAX);
    for (size_t i = 0; i < b->count && !r->failed; i++)
        b->keys[i] = stored_get_u64(r);
    load_requests(r, &b->requests);
    if (b->count == 0 || !(b->requests.p99 > 0))
        r->failed = true;
}

static void load_alone(struct stored_reader *r, uint64_t family, uint32_t version,
                       struct program_alone *a)
{
    double *const numbers[] = {&a->watched_s,   &a->sm_activity,   &a->dram_rate,
                               &a->memory_part, &a->samples_per_s, &a->settled_s};
    a->device = stored_get_u64(r);
    a->speeds = (uint32_t)stored_get_size(r, UINT32_MAX);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        *numbers[i] = get_positive(r);
    a->features.family = family;
#define FEATURE(name, field, transform, what) a->features.field = get_positive(r);
#include "learn/features.def"
#undef FEATURE
    if (version >= VERSION_REQUESTS)
        load_requests(r, &a->requests);
}

static void load_program(struct stored_reader *r, uint32_t version, struct program *program)
{
    uint64_t words[NAME_WORDS];
    *program = (struct program){.key = stored_get_u64(r)};
    program->family = stored_get_u64(r);
    for (size_t i = 0; i < NAME_WORDS; i++)
        words[i] = stored_get_u64(r);
    memcpy(program->name, words, sizeof words);
    program->kind = (enum workload_kind)stored_get_size(r, WORKLOAD_KIND_END - 1);
    program->batch = (uint32_t)stored_get_size(r, UINT32_MAX);
    program->share = get_positive(r);
    program->slo_ms = get_positive(r);
    program->seen_wall_ms = (int64_t)stored_get_size(r, INT64_MAX);
    program->alone_count = stored_get_size(r, PROGRAM_DEVICES_MAX);
    if (program->key == 0 || program->name[PROGRAM_NAME_MAX - 1] != '\0')
        r->failed = true;
    for (size_t i = 0; i < program->alone_count && !r->failed; i++)
        load_alone(r, program->family, version, &program->alone[i]);
    if (version >= VERSION_REQUESTS)
        program->beside_count = stored_get_size(r, PROGRAM_BESIDES_MAX);
    for (size_t i = 0; i < program->beside_count && !r->failed; i++)
        load_beside(r, &program->besides[i]);
}

int programs_load(struct error *e, const void *bytes, size_t length, struct programs **ret_programs)
{
    struct stored_reader r;
    uint32_t version, number;
    int rc = stored_open(e, bytes, length, stored_kind, VERSION, &r, &version);
    if (rc < 0)
        return rc;
    if (stored_get_u64(&r) != FEATURES_OWN)
        return error_set(e, ERR_CORRUPT, "the programs are of other features");
    struct programs *p = programs_new();
    if (!p)
        return error_set(e, ERR_NO_MEMORY, "no memory for the programs");
    size_t count = stored_get_size(&r, PROGRAMS_MAX - 1);
    for (size_t i = 0; rc == 0 && i < count && !r.failed; i++) {
        struct program program;
        load_program(&r, version, &program);
        if (hash_map_get(&p->by_key, program.key))
            r.failed = true;
        if (!r.failed && add(p, &program, &number) < 0)
            rc = error_set(e, ERR_NO_MEMORY, "no memory for the programs");
    }
    if (rc == 0)
        rc = stored_close(e, &r);
    if (rc < 0) {
        programs_free(p);
        return rc;
    }
    *ret_programs = p;
    return 0;
}
