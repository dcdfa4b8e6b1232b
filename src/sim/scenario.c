#include "sim/scenario.h"

#include <assert.h>
#include <stdlib.h>

#include "base/str.h"
#include "sim/shipped.h"

enum { GENERATED_JOBS = 300, NOISE_SEED = 1 };

/* Shipped traces, by the names of the command line. */
static const struct {
    const char *name, *file;
} traces[] = {{"philly", "philly.csv"}, {"tasks-300", "tasks_300.csv"}};
static const char *const generators[] = {"poisson", "bursty", "diurnal"};
/* Mean gap between two submissions of a generator at rate 1. */
static const double generated_gap_s = 60;

static const char *file_of(const char *name)
{
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++)
        if (str_equal(traces[i].name, name))
            return traces[i].file;
    return NULL;
}

static bool is_generator(const char *name)
{
    for (size_t i = 0; i < sizeof generators / sizeof *generators; i++)
        if (str_equal(generators[i], name))
            return true;
    return false;
}

bool scenario_has_trace(const char *name)
{
    return file_of(name) != NULL || is_generator(name);
}

int scenario_truth(struct error *e, double noise, struct truth **ret_truth)
{
    struct tables tables = {0};
    size_t solo_length, pairs_length, scales_length;
    const char *solo = shipped_find("h200_train_solo.csv", &solo_length);
    const char *pairs = shipped_find("h200_train_pairs.csv", &pairs_length);
    const char *scales = shipped_find("noise_scales.csv", &scales_length);
    assert(solo && pairs && scales);
    int r = tables_add_solo(e, solo, solo_length, &tables);
    if (r == 0)
        r = tables_add_pairs(e, pairs, pairs_length, &tables, NULL);
    if (r == 0)
        r = tables_add_noise_scales(e, scales, scales_length, &tables);
    if (r < 0) {
        tables_done(&tables);
        return r;
    }
    return truth_new(e, &tables, noise, NOISE_SEED, ret_truth);
}

static int open_trace(struct error *e, const struct scenario_words *words, struct scenario *s)
{
    const struct tables *tables = truth_tables(s->truth);
    struct trace_mix mix;
    const char *text = words->trace_text;
    size_t length = words->trace_length;
    int r = 0;
    trace_mix_default(tables, &mix);
    if (words->mix)
        r = trace_mix_parse(e, words->mix, tables, &mix);
    if (r < 0)
        return r;
    if (!text && is_generator(words->trace))
        return trace_generate(e, words->trace, words->jobs ? words->jobs : GENERATED_JOBS,
                              generated_gap_s, &mix, words->seed, &s->trace);
    if (!text) {
        const char *file = file_of(words->trace);
        if (!file)
            return error_set(e, ERR_INVALID, "there is no trace '%s'", words->trace);
        text = shipped_find(file, &length);
        assert(text);
    }
    r = trace_parse(e, text, length, tables, &mix, words->seed, &s->trace);
    if (r < 0 && words->trace_text && !str_equal(words->trace, "-")) {
        struct error told = *e;
        error_set(e, (enum error_code)told.code, "%.300s: %.300s", words->trace, told.text);
    }
    if (r == 0 && words->jobs > 0 && trace_resize(&s->trace, words->jobs) < 0)
        r = error_set(e, ERR_NO_MEMORY, "no memory for %zu workloads", words->jobs);
    return r;
}

static int open_services(struct error *e, struct scenario *s)
{
    size_t services_length, rates_length;
    const char *services = shipped_find("services.csv", &services_length);
    const char *rates = shipped_find("request_rates.csv", &rates_length);
    assert(services && rates);
    s->serving = calloc(1, sizeof *s->serving);
    if (!s->serving)
        return error_set(e, ERR_NO_MEMORY, "no memory for services");
    return serving_load(e, truth_tables(s->truth), services, services_length, rates, rates_length,
                        s->serving);
}

int scenario_open(struct error *e, const struct scenario_words *words,
                  struct scenario *ret_scenario)
{
    struct scenario s = {0};
    int r = hardware_parse(e, words->nodes, &s.hardware);
    if (r == 0)
        r = scenario_truth(e, words->noise, &s.truth);
    if (r == 0)
        r = open_services(e, &s);
    if (r == 0)
        r = open_trace(e, words, &s);
    if (r < 0) {
        scenario_done(&s);
        return r;
    }
    *ret_scenario = s;
    return 0;
}

void scenario_done(struct scenario *s)
{
    trace_done(&s->trace);
    truth_free(s->truth);
    free(s->serving);
    s->serving = NULL;
    s->truth = NULL;
}
