#include "sim/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"
#include "wire/csv.h"

#define SECONDS_MAX 1e10
enum { MIX_TEXT_MAX = 64 };

/* VGG16, SqueezeNet, ResNet50, NCF, AD-GCL (gin), LSTM, BERT, YOLOv5, ResNet18. */
static const struct {
    const char *model;
    double batch, weight;
} iadeep_mix[] = {
    {"vgg16", 512, 14}, {"squeezenet", 512, 14}, {"resnet50", 1024, 14},
    {"ncf", 1024, 12},  {"gin", 32, 12},         {"lstm", 256, 12},
    {"bert", 8, 10},    {"yolo", 32, 10},        {"resnet18", 128, 2},
};

void trace_mix_default(const struct tables *t, struct trace_mix *ret_mix)
{
    *ret_mix = (struct trace_mix){0};
    for (size_t i = 0; i < sizeof iadeep_mix / sizeof *iadeep_mix; i++) {
        int model = tables_find(t, iadeep_mix[i].model);
        if (model < 0)
            continue;
        size_t part = ret_mix->count++;
        ret_mix->parts[part].model = (uint32_t)model;
        ret_mix->parts[part].batch = iadeep_mix[i].batch;
        ret_mix->parts[part].weight = iadeep_mix[i].weight;
    }
}

/* Returns the default batch size of a model. */
static double usual_batch(const struct tables *t, size_t model)
{
    for (size_t i = 0; i < sizeof iadeep_mix / sizeof *iadeep_mix; i++)
        if (str_equal(iadeep_mix[i].model, t->models[model].name))
            return iadeep_mix[i].batch;
    return t->models[model].sizes[t->models[model].size_count / 2].batch;
}

static int unknown_model(struct error *e, const struct tables *t, const char *name)
{
    struct str names;
    str_init(&names, ERROR_TEXT_MAX / 2);
    for (size_t i = 0; i < t->model_count; i++)
        str_printf(&names, "%s%s", i > 0 ? ", " : "", t->models[i].name);
    int r = error_set(e, ERR_INVALID, "the model '%s' was not measured; the measured models are %s",
                      name, str_text(&names));
    str_done(&names);
    return r;
}

static int parse_part(struct error *e, char *text, const struct tables *t, struct trace_mix *mix)
{
    char *equals = strchr(text, '='), *end;
    double weight = 1, batch = 0;
    if (equals) {
        *equals = '\0';
        weight = strtod(equals + 1, &end);
        if (*end || !(weight > 0 && weight < 1e9))
            return error_set(e, ERR_INVALID, "'%s' is not a weight", equals + 1);
    }
    char *colon = strchr(text, ':');
    if (colon) {
        *colon = '\0';
        batch = strtod(colon + 1, &end);
        if (*end || !(batch >= 1 && batch < 1e9))
            return error_set(e, ERR_INVALID, "'%s' is not a batch size", colon + 1);
    }
    int model = tables_find(t, text);
    if (model < 0)
        return unknown_model(e, t, text);
    size_t part = mix->count++;
    mix->parts[part].model = (uint32_t)model;
    mix->parts[part].batch = batch > 0 ? batch : usual_batch(t, (size_t)model);
    mix->parts[part].weight = weight;
    return 0;
}

int trace_mix_parse(struct error *e, const char *text, const struct tables *t,
                    struct trace_mix *ret_mix)
{
    struct trace_mix mix = {0};
    for (const char *at = text;; at++) {
        char part[MIX_TEXT_MAX];
        size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof part || mix.count == TRACE_MIX_MAX)
            return error_set(e, ERR_INVALID, "'%s' is not a list of models and weights", text);
        memcpy(part, at, length);
        part[length] = '\0';
        int r = parse_part(e, part, t, &mix);
        if (r < 0)
            return r;
        at += length;
        if (!*at)
            break;
    }
    *ret_mix = mix;
    return 0;
}

static void draw_model(const struct trace_mix *mix, struct rng *rng, struct trace_item *item)
{
    double total = 0;
    size_t part = 0;
    for (size_t i = 0; i < mix->count; i++)
        total += mix->parts[i].weight;
    double lot = rng_double(rng) * total;
    while (part + 1 < mix->count && lot >= mix->parts[part].weight)
        lot -= mix->parts[part++].weight;
    item->model = mix->parts[part].model;
    item->batch = mix->parts[part].batch;
}

struct trace_columns {
    int submit, gap, duration, devices, model, batch, kind;
};

static int find_columns(struct error *e, const struct csv *c, struct trace_columns *ret)
{
    *ret = (struct trace_columns){.submit = csv_column(c, "submit_s"),
                                  .gap = csv_column(c, "gap_s"),
                                  .duration = csv_column_required(e, c, "duration_s"),
                                  .devices = csv_column(c, "gpus"),
                                  .model = csv_column(c, "model"),
                                  .batch = csv_column(c, "batch"),
                                  .kind = csv_column(c, "kind")};
    if (ret->submit < 0 && ret->gap < 0)
        return error_set(e, ERR_SYNTAX, "the trace has neither a column 'submit_s' nor 'gap_s'");
    return ret->duration < 0 ? ret->duration : 0;
}

static int read_item(struct error *e, const struct csv *c, const struct trace_columns *columns,
                     const struct tables *t, double before_s, struct trace_item *item)
{
    bool has_submit = columns->submit >= 0;
    double when_s;
    int r = csv_number(e, c, has_submit ? columns->submit : columns->gap, 0, SECONDS_MAX, &when_s);
    if (r == 0)
        r = csv_number(e, c, columns->duration, 0, SECONDS_MAX, &item->duration_s);
    if (r < 0)
        return r;
    item->submit_s = has_submit ? when_s : before_s + when_s;
    item->duration_s = fmax(item->duration_s, 1);
    item->devices = 1;
    if (columns->devices >= 0) {
        int64_t devices;
        if ((r = csv_integer(e, c, columns->devices, 0, TRACE_DEVICES_MAX, &devices)) < 0)
            return r;
        item->devices = devices > 0 ? (int)devices : 1;
    }
    if (columns->model < 0)
        return 0;
    char name[TABLES_NAME_MAX];
    if ((r = csv_text(e, c, columns->model, name, sizeof name)) < 0)
        return r;
    int model = tables_find(t, name);
    if (model < 0)
        return error_set(e, ERR_SYNTAX, "line %u: the model '%s' was not measured", c->line, name);
    item->model = (uint32_t)model;
    item->batch = usual_batch(t, (size_t)model);
    return columns->batch < 0 ? 0 : csv_number(e, c, columns->batch, 1, 1e9, &item->batch);
}

static int compare_items(const void *a, const void *b)
{
    const struct trace_item *x = a, *y = b;
    if (x->submit_s != y->submit_s)
        return x->submit_s < y->submit_s ? -1 : 1;
    /* Makes the order independent of the sorting algorithm. */
    return memcmp(x, y, sizeof *x);
}

static int append(struct error *e, struct trace *t, size_t *capacity, const struct trace_item *item)
{
    if (t->count == TRACE_ITEMS_MAX)
        return error_set(e, ERR_TOO_LARGE, "more than %d rows", TRACE_ITEMS_MAX);
    if (t->count == *capacity) {
        size_t larger = *capacity ? 2 * *capacity : 1024;
        struct trace_item *items = realloc(t->items, larger * sizeof *items);
        if (!items)
            return error_set(e, ERR_NO_MEMORY, "no memory for %zu workloads", larger);
        t->items = items;
        *capacity = larger;
    }
    t->items[t->count++] = *item;
    return 0;
}

/* Sorts by submission, and shifts the first to 0. */
static void settle(struct trace *t)
{
    if (t->count == 0)
        return;
    qsort(t->items, t->count, sizeof *t->items, compare_items);
    double first_s = t->items[0].submit_s;
    for (size_t i = 0; i < t->count; i++)
        t->items[i].submit_s -= first_s;
}

/* A run lists its services with its tasks; a new run configures services separately. */
static bool is_service(const struct csv *c, const struct trace_columns *columns)
{
    char kind[CSV_CELL_MAX];
    return columns->kind >= 0 && csv_text(NULL, c, columns->kind, kind, sizeof kind) == 0 &&
           str_equal(kind, "service");
}

int trace_parse(struct error *e, const char *text, size_t length, const struct tables *t,
                const struct trace_mix *mix, uint64_t seed, struct trace *ret_trace)
{
    struct csv c;
    struct trace_columns columns;
    struct trace trace = {0};
    struct rng rng;
    size_t capacity = 0;
    double before_s = 0;
    rng_seed(&rng, seed);
    int r = csv_open(e, text, length, &c);
    if (r == 0)
        r = find_columns(e, &c, &columns);
    while (r == 0 && (r = csv_next(e, &c)) == 1) {
        struct trace_item item;
        memset(&item, 0, sizeof item);
        r = 0;
        if (is_service(&c, &columns))
            continue;
        r = read_item(e, &c, &columns, t, before_s, &item);
        before_s = item.submit_s;
        if (r == 0 && columns.model < 0)
            draw_model(mix, &rng, &item);
        if (r == 0)
            r = append(e, &trace, &capacity, &item);
    }
    if (r == 0 && trace.count == 0)
        r = error_set(e, ERR_INVALID, "the trace has no row");
    if (r < 0) {
        trace_done(&trace);
        return r;
    }
    settle(&trace);
    *ret_trace = trace;
    return 0;
}

/* Draws the duration of a task that a user waits for: median 15 minutes, 5 % above an hour. */
static double draw_duration_s(struct rng *rng)
{
    double u = 1 - rng_double(rng), v = rng_double(rng);
    double normal = sqrt(-2 * log(u)) * cos(2 * M_PI * v);
    return fmin(7200, fmax(120, round(900 * exp(0.8 * normal))));
}

static double exponential(struct rng *rng)
{
    return -log(1 - rng_double(rng));
}

/* Draws from two exponentials, mixed to mean 1 and coefficient of variation 2.8. */
static double bursty(struct rng *rng)
{
    static const double squared = 2.8 * 2.8;
    double part = (1 + sqrt((squared - 1) / (squared + 1))) / 2;
    bool is_first = rng_double(rng) < part;
    double mean = 1 / (2 * (is_first ? part : 1 - part));
    return exponential(rng) * mean;
}

/* Returns the rate at a time of day: 1 on average, three times as high at noon as at midnight. */
static double rate_at(double time_s)
{
    return 1 - 0.5 * cos(2 * M_PI * time_s / 86400);
}

int trace_generate(struct error *e, const char *kind, size_t count, double mean_gap_s,
                   const struct trace_mix *mix, uint64_t seed, struct trace *ret_trace)
{
    bool is_bursty = str_equal(kind, "bursty"), is_diurnal = str_equal(kind, "diurnal");
    struct trace trace = {0};
    struct rng rng;
    double now_s = 0;
    size_t capacity = 0;
    int r = 0;
    if (!is_bursty && !is_diurnal && !str_equal(kind, "poisson"))
        return error_set(e, ERR_INVALID, "'%s' is neither poisson, bursty nor diurnal", kind);
    if (count == 0)
        return error_set(e, ERR_INVALID, "a generated trace must have at least one workload");
    rng_seed(&rng, seed);
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct trace_item item;
        memset(&item, 0, sizeof item);
        item.submit_s = now_s;
        item.duration_s = draw_duration_s(&rng);
        item.devices = 1;
        draw_model(mix, &rng, &item);
        now_s += mean_gap_s * (is_bursty ? bursty(&rng) : exponential(&rng)) /
                 (is_diurnal ? rate_at(now_s) : 1);
        r = append(e, &trace, &capacity, &item);
    }
    if (r < 0) {
        trace_done(&trace);
        return r;
    }
    settle(&trace);
    *ret_trace = trace;
    return 0;
}

int trace_resize(struct trace *t, size_t count)
{
    if (count > t->count) {
        struct trace_item *items = realloc(t->items, count * sizeof *items);
        if (!items)
            return -ERR_NO_MEMORY;
        t->items = items;
        size_t had = t->count;
        double span_s = items[had - 1].submit_s;
        double gap_s = had > 1 ? span_s / (double)(had - 1) : 1;
        for (size_t i = had; i < count; i++) {
            items[i] = items[i - had];
            items[i].submit_s += span_s + gap_s;
        }
    }
    t->count = count;
    return 0;
}

void trace_hasten(struct trace *t, double rate)
{
    for (size_t i = 0; i < t->count; i++)
        t->items[i].submit_s /= rate;
}

double trace_load(const struct trace *t, size_t device_count)
{
    double wanted_s = 0, span_s = t->items[t->count - 1].submit_s;
    for (size_t i = 0; i < t->count; i++)
        wanted_s += t->items[i].duration_s * t->items[i].devices;
    return span_s > 0 ? wanted_s / (span_s * (double)device_count) : INFINITY;
}

void trace_done(struct trace *t)
{
    free(t->items);
    *t = (struct trace){0};
}
