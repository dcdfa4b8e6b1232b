#include "sim/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "wire/csv.h"

#define BATCH_MAX  1e9
#define ITER_MAX   1e8
#define MEMORY_MAX 1e7 /* MiB */
static const double mib = 1 << 20;

int tables_find(const struct tables *t, const char *name)
{
    for (size_t i = 0; i < t->model_count; i++)
        if (str_equal(t->models[i].name, name))
            return (int)i;
    return -1;
}

static int model_of(struct error *e, struct tables *t, const char *name)
{
    int found = tables_find(t, name);
    if (found >= 0)
        return found;
    if (t->model_count == TABLES_MODELS_MAX)
        return error_set(e, ERR_TOO_LARGE, "more than %d models", TABLES_MODELS_MAX);
    (void)str_copy(t->models[t->model_count].name, TABLES_NAME_MAX, name);
    return (int)t->model_count++;
}

static int insert_size(struct error *e, struct table_model *m, const struct table_size *size)
{
    size_t at = 0;
    while (at < m->size_count && m->sizes[at].batch < size->batch)
        at++;
    if (at < m->size_count && m->sizes[at].batch == size->batch)
        return error_set(e, ERR_SYNTAX, "duplicate row: %s at batch %g", m->name, size->batch);
    if (m->size_count == TABLES_SIZES_MAX)
        return error_set(e, ERR_TOO_LARGE, "%s has more than %d batch sizes", m->name,
                         TABLES_SIZES_MAX);
    memmove(&m->sizes[at + 1], &m->sizes[at], (m->size_count - at) * sizeof *m->sizes);
    m->sizes[at] = *size;
    m->size_count++;
    return 0;
}

/* A column of numbers and its destination. */
struct number_column {
    const char *name;
    double least, most, scale;
    size_t offset; /* in the row's struct */
};

static int read_numbers(struct error *e, const struct csv *c, const struct number_column *columns,
                        size_t count, void *row)
{
    for (size_t i = 0; i < count; i++) {
        const struct number_column *n = &columns[i];
        double number;
        int column = csv_column_required(e, c, n->name);
        int r = column < 0 ? column : csv_number(e, c, column, n->least, n->most, &number);
        if (r < 0)
            return r;
        number *= n->scale;
        memcpy((char *)row + n->offset, &number, sizeof number);
    }
    return 0;
}

#define SIZE_PERCENT(name, member)                                                                 \
    {                                                                                              \
        name, 0, 100, 0.01, offsetof(struct table_size, member)                                    \
    }

static int read_solo(struct error *e, const struct csv *c, struct tables *t)
{
    static const struct number_column columns[] = {
        {"batch", 1, BATCH_MAX, 1, offsetof(struct table_size, batch)},
        {"iter_ms", 1e-6, ITER_MAX, 1, offsetof(struct table_size, iter_ms)},
        {"mem_mib", 0, MEMORY_MAX, 1 << 20, offsetof(struct table_size, memory_bytes)},
        SIZE_PERCENT("gr_active_pct", busy),
        SIZE_PERCENT("sm_active_pct", sm),
        SIZE_PERCENT("sm_occupancy_pct", occupancy),
        SIZE_PERCENT("tensor_pct", tensor),
        SIZE_PERCENT("dram_pct", dram),
    };
    static const struct number_column parameters = {"params", 0, 1e15, 1,
                                                    offsetof(struct table_model, parameters)};
    char name[TABLES_NAME_MAX];
    struct table_size size;
    int column = csv_column_required(e, c, "model");
    int r = column < 0 ? column : csv_text(e, c, column, name, sizeof name);
    if (r == 0)
        r = read_numbers(e, c, columns, sizeof columns / sizeof *columns, &size);
    if (r < 0)
        return r;
    int model = model_of(e, t, name);
    if (model < 0)
        return model;
    r = read_numbers(e, c, &parameters, 1, &t->models[model]);
    return r < 0 ? r : insert_size(e, &t->models[model], &size);
}

int tables_add_solo(struct error *e, const char *text, size_t length, struct tables *t)
{
    struct csv c;
    int r = csv_open(e, text, length, &c);
    if (r < 0)
        return r;
    while ((r = csv_next(e, &c)) == 1)
        if ((r = read_solo(e, &c, t)) < 0)
            return r;
    return r;
}

static int add_pair(struct error *e, struct tables *t, const struct table_pair *pair)
{
    if (t->pair_count == TABLES_PAIRS_MAX)
        return error_set(e, ERR_TOO_LARGE, "more than %d pairs", TABLES_PAIRS_MAX);
    if (t->pair_count == t->pair_capacity) {
        size_t capacity = t->pair_capacity ? 2 * t->pair_capacity : 128;
        struct table_pair *pairs = realloc(t->pairs, capacity * sizeof *pairs);
        if (!pairs)
            return error_set(e, ERR_NO_MEMORY, "no memory for %zu pairs", capacity);
        t->pairs = pairs;
        t->pair_capacity = capacity;
    }
    t->pairs[t->pair_count++] = *pair;
    return 0;
}

/* Returns 1 if a pair was read, 0 if a model is unknown. */
static int read_pair(struct error *e, const struct csv *c, const struct tables *t,
                     struct table_pair *ret)
{
    static const char *const names[2][3] = {{"model_a", "batch_a", "kept_a"},
                                            {"model_b", "batch_b", "kept_b"}};
    for (int k = 0; k < 2; k++) {
        const struct number_column columns[] = {
            {names[k][1], 1, BATCH_MAX, 1, (size_t)((char *)&ret->batches[k] - (char *)ret)},
            {names[k][2], 1e-3, 10, 1, (size_t)((char *)&ret->kept[k] - (char *)ret)},
        };
        char name[TABLES_NAME_MAX];
        int column = csv_column_required(e, c, names[k][0]);
        int r = column < 0 ? column : csv_text(e, c, column, name, sizeof name);
        if (r == 0)
            r = read_numbers(e, c, columns, 2, ret);
        if (r < 0)
            return r;
        int model = tables_find(t, name);
        if (model < 0) {
            (void)error_set(e, ERR_NOT_FOUND, "line %u: '%s' was not measured alone", c->line,
                            name);
            return 0;
        }
        ret->models[k] = (size_t)model;
    }
    return 1;
}

int tables_add_pairs(struct error *e, const char *text, size_t length, struct tables *t,
                     size_t *ret_unknown)
{
    struct csv c;
    size_t unknown = 0;
    int r = csv_open(e, text, length, &c);
    if (r < 0)
        return r;
    while ((r = csv_next(e, &c)) == 1) {
        struct table_pair pair;
        r = read_pair(e, &c, t, &pair);
        if (r == 1)
            r = add_pair(e, t, &pair);
        else if (r == 0 && !ret_unknown)
            r = -ERR_NOT_FOUND;
        else
            unknown++;
        if (r < 0)
            return r;
    }
    if (r == 0 && ret_unknown)
        *ret_unknown = unknown;
    return r;
}

int tables_add_noise_scales(struct error *e, const char *text, size_t length, struct tables *t)
{
    static const struct number_column scale = {"noise_scale", 0, 1e15, 1,
                                               offsetof(struct table_model, noise_scale)};
    struct csv c;
    int r = csv_open(e, text, length, &c);
    int column = r < 0 ? r : csv_column_required(e, &c, "model");
    if (column < 0)
        return column;
    while ((r = csv_next(e, &c)) == 1) {
        char name[TABLES_NAME_MAX];
        if ((r = csv_text(e, &c, column, name, sizeof name)) < 0)
            return r;
        int model = tables_find(t, name);
        if (model >= 0 && (r = read_numbers(e, &c, &scale, 1, &t->models[model])) < 0)
            return r;
    }
    return r;
}

void tables_done(struct tables *t)
{
    free(t->pairs);
    t->pairs = NULL;
    t->pair_count = t->pair_capacity = 0;
}

static double between(double low, double high, double part)
{
    return low + (high - low) * part;
}

struct table_size tables_at(const struct table_model *m, double batch)
{
    size_t last = m->size_count - 1, high = 1;
    if (last == 0)
        return m->sizes[0];
    while (high < last && m->sizes[high].batch < batch)
        high++;
    const struct table_size *a = &m->sizes[high - 1], *b = &m->sizes[high];
    double part = log(batch / a->batch) / log(b->batch / a->batch);
    double inside = fmin(1, fmax(0, part));
    double linear = (batch - a->batch) / (b->batch - a->batch);
    /* When extrapolating, a larger batch takes neither less time nor more time per sample. */
    double slope = log(b->iter_ms / a->iter_ms) / log(b->batch / a->batch);
    if (part != inside)
        slope = fmin(1, fmax(0, slope));
    const struct table_size *near = part > 1 ? b : a;
    return (struct table_size){
        .batch = batch,
        .iter_ms = near->iter_ms * exp(slope * log(batch / near->batch)),
        .memory_bytes = fmax(mib, between(a->memory_bytes, b->memory_bytes, linear)),
        .busy = between(a->busy, b->busy, inside),
        .sm = between(a->sm, b->sm, inside),
        .occupancy = between(a->occupancy, b->occupancy, inside),
        .tensor = between(a->tensor, b->tensor, inside),
        .dram = between(a->dram, b->dram, inside),
    };
}
