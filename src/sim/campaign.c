#include "sim/campaign.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durable.h"
#include "base/hash.h"
#include "base/str.h"
#include "sim/result_file.h"

enum { VERSION = 4 }; /* of the computation; results of other versions are not resumed */

struct campaign {
    struct campaign_config config;
    const char *models[TABLES_MODELS_MAX + SERVING_PROFILES_MAX]; /* models and services */
    size_t model_count;
    int directory_fd; /* -1: none */
    size_t run_count;
    struct campaign_run *runs; /* owned */
    _Atomic size_t *ended;     /* ended workloads of each run; owned */
    _Atomic size_t next_run;
    _Atomic bool stop;
    _Atomic size_t working; /* running threads */
    pthread_mutex_t lock;   /* protects error and failed */
    int failed;
    struct error error;
    size_t thread_count;
    pthread_t threads[CAMPAIGN_THREADS_MAX];
};

int campaign_variant_parse(struct error *e, const char *text, struct campaign_variant *ret_variant)
{
    struct campaign_variant v = {0};
    char name[RESULT_NAME_MAX];
    if (!str_copy(name, sizeof name, text))
        return error_set(e, ERR_INVALID, "'%s' is not a policy", text);
    for (char *part = strchr(name, '-'), *next; part; part = next) {
        enum policy_part left_out;
        *part++ = '\0';
        next = strchr(part, '-');
        if (next)
            *next = '\0';
        if (policy_part_parse(part, &left_out) < 0)
            return error_set(e, ERR_INVALID, "'%s' is not a part of a policy", part);
        v.options.without[left_out] = true;
        if (next)
            *next = '-';
    }
    v.policy = policy_find(name);
    if (v.policy) {
        *ret_variant = v;
        return 0;
    }
    struct str names;
    str_init(&names, ERROR_TEXT_MAX / 2);
    for (size_t i = 0; policy_at(i); i++)
        str_printf(&names, "%s%s", i > 0 ? ", " : "", policy_at(i)->name);
    int r = error_set(e, ERR_INVALID, "there is no policy '%s'; the policies are %s", name,
                      str_text(&names));
    str_done(&names);
    return r;
}

static void name_run(const struct campaign *c, struct campaign_run *run)
{
    size_t length = 0;
    length += (size_t)snprintf(run->name, sizeof run->name, "%s", run->variant->policy->name);
    for (enum policy_part part = 0; part < POLICY_PART_END; part++)
        if (run->variant->options.without[part])
            length += (size_t)snprintf(run->name + length, sizeof run->name - length, "-%s",
                                       policy_part_name(part));
    double load = trace_load(c->config.trace, c->config.engine.hardware->device_count) * run->rate;
    (void)snprintf(run->name + length, sizeof run->name - length, "_load-%.3g_seed-%llu", load,
                   (unsigned long long)run->seed);
}

/* Returns a fingerprint of all inputs of a run. */
static uint64_t fingerprint_of(const struct campaign *c, const struct campaign_run *run)
{
    const struct engine_config *engine = &c->config.engine;
    const struct tables *tables = truth_tables(engine->truth);
    uint64_t hash = hash_u64(VERSION + (engine->keeps_spans ? 1000 : 0));
    hash = hash_bytes(c->config.trace->items, c->config.trace->count * sizeof(struct trace_item),
                      hash);
    hash = hash_bytes(tables->models, sizeof tables->models, hash);
    hash = hash_bytes(tables->pairs, tables->pair_count * sizeof *tables->pairs, hash);
    for (size_t i = 0; i < engine->hardware->group_count; i++) {
        const struct hardware_group *g = &engine->hardware->groups[i];
        uint64_t numbers[] = {g->memory_bytes, g->node_count, (uint64_t)g->devices_per_node};
        hash = hash_bytes(numbers, sizeof numbers, hash ^ hash_string(g->gpu->name));
    }
    if (engine->service_count > 0)
        hash = hash_bytes(engine->serving, sizeof *engine->serving, hash);
    double numbers[] = {run->rate,
                        engine->estimate_error,
                        engine->start_s,
                        truth_noise(engine->truth),
                        (double)engine->service_count,
                        engine->faults_per_device_day,
                        engine->outages_per_node_day,
                        engine->outage_mean_s};
    hash = hash_bytes(numbers, sizeof numbers, hash + (uint64_t)engine->max_neighbours);
    return hash_bytes(run->name, strlen(run->name), hash);
}

/* ---- files ---- */

static int open_directory(struct error *e, const char *path)
{
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return error_set_errno(e, ERR_IO, errno, "cannot create the directory %s", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot open the directory %s", path);
    if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0) { /* fail now, not after hours */
        int r = error_set_errno(e, ERR_IO, errno, "cannot write into the directory %s", path);
        (void)close(fd);
        return r;
    }
    return fd;
}

static int write_file(struct error *e, const struct campaign *c, const struct campaign_run *run,
                      const char *suffix, const struct str *text)
{
    char name[CAMPAIGN_NAME_MAX + 32];
    (void)snprintf(name, sizeof name, "%s.%s", run->name, suffix);
    if (str_failed(text))
        return error_set(e, ERR_NO_MEMORY, "%s is too large", name);
    return durable_replace(e, c->directory_fd, name, text->data ? text->data : "", text->length);
}

static int keep(struct error *e, const struct campaign *c, const struct campaign_run *run)
{
    static const struct {
        const char *suffix;
        void (*write)(const struct result *r, struct str *out);
    } tables[] = {{"workloads.csv", result_write_workloads},
                  {"course.csv", result_write_course},
                  {"devices.csv", result_write_spans}};
    struct str text;
    int r = 0;
    str_init(&text, RESULT_FILE_MAX);
    for (size_t i = 0; r == 0 && i < sizeof tables / sizeof *tables; i++) {
        str_clear(&text);
        tables[i].write(&run->result, &text);
        r = write_file(e, c, run, tables[i].suffix, &text);
    }
    str_clear(&text);
    result_save(&run->result, fingerprint_of(c, run), &text);
    if (r == 0) /* last, because its presence means that all files are complete */
        r = write_file(e, c, run, "result", &text);
    str_done(&text);
    return r;
}

static void name_models(const struct campaign *c, struct result *r)
{
    r->models = c->models;
    r->model_count = c->model_count;
}

/* Loads the result of an earlier campaign, if its fingerprint matches. */
static void take_up(struct campaign *c, size_t index)
{
    struct campaign_run *run = &c->runs[index];
    char name[CAMPAIGN_NAME_MAX + 32];
    struct str bytes;
    (void)snprintf(name, sizeof name, "%s.result", run->name);
    str_init(&bytes, RESULT_FILE_MAX);
    if (durable_read(NULL, c->directory_fd, name, getuid(), &bytes) == 0 &&
        result_load(NULL, bytes.data, bytes.length, fingerprint_of(c, run), &run->result) == 0) {
        name_models(c, &run->result);
        run->is_done = run->is_resumed = true;
        atomic_store(&c->ended[index], c->config.trace->count);
    }
    str_done(&bytes);
}

/* ---- runs ---- */

static void fail(struct campaign *c, const struct error *error)
{
    pthread_mutex_lock(&c->lock);
    if (c->failed == 0) {
        c->failed = -error->code;
        c->error = *error;
    }
    pthread_mutex_unlock(&c->lock);
    atomic_store(&c->stop, true);
}

static void run_one(struct campaign *c, size_t index)
{
    struct campaign_run *run = &c->runs[index];
    struct trace trace = {.count = c->config.trace->count};
    struct error error = {0};
    struct engine_config engine = c->config.engine;
    trace.items = malloc(trace.count * sizeof *trace.items);
    int r = trace.items ? 0 : error_set(&error, ERR_NO_MEMORY, "no memory for the trace");
    if (r == 0) {
        memcpy(trace.items, c->config.trace->items, trace.count * sizeof *trace.items);
        trace_hasten(&trace, run->rate);
        engine.trace = &trace;
        engine.policy = run->variant->policy;
        engine.options = run->variant->options;
        engine.seed = run->seed;
        engine.ended = &c->ended[index];
        engine.stop = &c->stop;
        r = engine_run(&error, &engine, &run->result);
    }
    trace_done(&trace);
    if (r == 0) {
        run->result.rate = run->rate;
        name_models(c, &run->result);
        run->is_done = true;
        if (c->directory_fd >= 0)
            r = keep(&error, c, run);
    }
    if (r < 0)
        fail(c, &error);
}

static void *work(void *arg)
{
    struct campaign *c = arg;
    for (;;) {
        size_t index = atomic_fetch_add(&c->next_run, 1);
        if (index >= c->run_count || atomic_load(&c->stop))
            break;
        if (!c->runs[index].is_done)
            run_one(c, index);
    }
    atomic_fetch_sub(&c->working, 1);
    return NULL;
}

/* Checks that no two runs have the same name, because files are named after runs. The runs of one
 * seed suffice for the check. */
static int tell_apart(struct error *e, const struct campaign *c)
{
    size_t variants = c->config.variant_count, stride = variants * c->config.seed_count;
    for (size_t i = 0; i < c->config.rate_count * variants; i++)
        for (size_t j = 0; j < i; j++) {
            const char *name = c->runs[i / variants * stride + i % variants].name;
            if (str_equal(name, c->runs[j / variants * stride + j % variants].name))
                return error_set(e, ERR_INVALID,
                                 "two runs would have the name %s: give each policy once, and "
                                 "loads that differ in their first three digits",
                                 name);
        }
    return 0;
}

int campaign_new(struct error *e, const struct campaign_config *config, struct campaign **ret)
{
    const struct tables *tables = truth_tables(config->engine.truth);
    struct campaign *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(e, ERR_NO_MEMORY, "no memory for a campaign");
    c->config = *config;
    c->directory_fd = -1;
    pthread_mutex_init(&c->lock, NULL);
    for (size_t i = 0; i < tables->model_count; i++)
        c->models[c->model_count++] = tables->models[i].name;
    for (size_t i = 0; config->engine.serving && i < config->engine.serving->profile_count; i++)
        c->models[c->model_count++] = config->engine.serving->profiles[i].name;
    c->run_count = config->rate_count * config->seed_count * config->variant_count;
    c->runs = calloc(c->run_count, sizeof *c->runs);
    c->ended = calloc(c->run_count, sizeof *c->ended);
    if (!c->runs || !c->ended) {
        campaign_free(c);
        return error_set(e, ERR_NO_MEMORY, "no memory for %zu runs", c->run_count);
    }
    if (config->directory && (c->directory_fd = open_directory(e, config->directory)) < 0) {
        campaign_free(c);
        return -ERR_IO;
    }
    for (size_t i = 0; i < c->run_count; i++) {
        struct campaign_run *run = &c->runs[i];
        run->variant = &c->config.variants[i % config->variant_count];
        run->seed = config->seed + i / config->variant_count % config->seed_count;
        run->rate = config->rates[i / config->variant_count / config->seed_count];
        name_run(c, run);
    }
    int r = tell_apart(e, c);
    if (r < 0) {
        campaign_free(c);
        return r;
    }
    for (size_t i = 0; c->directory_fd >= 0 && i < c->run_count; i++)
        take_up(c, i);
    *ret = c;
    return 0;
}

int campaign_start(struct error *e, struct campaign *c)
{
    size_t wanted = (size_t)c->config.thread_count;
    if (wanted > c->run_count)
        wanted = c->run_count;
    atomic_store(&c->working, wanted);
    while (c->thread_count < wanted &&
           pthread_create(&c->threads[c->thread_count], NULL, work, c) == 0)
        c->thread_count++;
    atomic_fetch_sub(&c->working, wanted - c->thread_count);
    return c->thread_count > 0 ? 0 : error_set(e, ERR_UNAVAILABLE, "cannot start a thread");
}

double campaign_progress(const struct campaign *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->run_count; i++)
        sum += (double)atomic_load_explicit(&c->ended[i], memory_order_relaxed);
    return sum / ((double)c->run_count * (double)c->config.trace->count);
}

double campaign_resumed(const struct campaign *c)
{
    size_t count = 0;
    for (size_t i = 0; i < c->run_count; i++)
        count += c->runs[i].is_resumed;
    return (double)count / (double)c->run_count;
}

bool campaign_is_running(const struct campaign *c)
{
    return atomic_load(&c->working) > 0;
}

void campaign_stop(struct campaign *c)
{
    atomic_store(&c->stop, true);
}

static int write_summary(struct error *e, const struct campaign *c)
{
    struct str text;
    str_init(&text, RESULT_FILE_MAX);
    result_write_summary_head(&text);
    for (size_t i = 0; i < c->run_count; i++)
        result_write_summary(&c->runs[i].result, &text);
    int r = str_failed(&text)
                ? error_set(e, ERR_NO_MEMORY, "summary.csv is too large")
                : durable_replace(e, c->directory_fd, "summary.csv", text.data, text.length);
    str_done(&text);
    return r;
}

int campaign_join(struct error *e, struct campaign *c)
{
    for (size_t i = 0; i < c->thread_count; i++)
        (void)pthread_join(c->threads[i], NULL);
    c->thread_count = 0;
    if (c->failed < 0) {
        if (e)
            *e = c->error;
        return c->failed;
    }
    for (size_t i = 0; i < c->run_count; i++)
        if (!c->runs[i].is_done)
            return error_set(e, ERR_UNAVAILABLE, "the simulation was interrupted");
    return c->directory_fd >= 0 ? write_summary(e, c) : 0;
}

const struct campaign_run *campaign_runs(const struct campaign *c, size_t *ret_count)
{
    *ret_count = c->run_count;
    return c->runs;
}

void campaign_free(struct campaign *c)
{
    if (!c)
        return;
    for (size_t i = 0; c->runs && i < c->run_count; i++)
        result_done(&c->runs[i].result);
    if (c->directory_fd >= 0)
        (void)close(c->directory_fd);
    pthread_mutex_destroy(&c->lock);
    free(c->runs);
    free(c->ended);
    free(c);
}
