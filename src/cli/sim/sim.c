/* gpumux sim: policies on a simulated cluster. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "cli/submit/draft.h"
#include "cli/frame/explanation.h"
#include "cli/frame/output.h"
#include "cli/sim/sim.h"
#include "cli/sim/sim_report.h"
#include "sim/campaign.h"
#include "sim/result_file.h"
#include "sim/scenario.h"
#include "sim/shipped.h"
#include "wire/json_writer.h"

enum { LIST_PART_MAX = 96, BAR_WIDTH = 24, LOOK_MS = 200 };

/* ---- options ---- */

static int fail(const struct error *e)
{
    fprintf(stderr, "gpumux: sim: %s\n", e->text);
    return e->code == ERR_INVALID || e->code == ERR_SYNTAX ? COMMAND_USAGE : COMMAND_FAILED;
}

static int number_option(struct error *e, const struct invocation *in, const char *name,
                         double least, double most, double *value)
{
    const char *text = option_value(in, name);
    char *end;
    if (!text)
        return 0;
    double number = strtod(text, &end);
    if (!*text || *end || !(number >= least && number <= most))
        return error_set(e, ERR_INVALID, "--%s must be a number from %g to %g, not '%s'", name,
                         least, most, text);
    *value = number;
    return 0;
}

/* Reads an option that must be a whole number. */
static int count_option(struct error *e, const struct invocation *in, const char *name,
                        double least, double most, double *value)
{
    double count = *value;
    int r = number_option(e, in, name, least, most, &count);
    if (r == 0 && count != floor(count))
        return error_set(e, ERR_INVALID, "--%s must be a whole number, not '%s'", name,
                         option_value(in, name));
    if (r == 0)
        *value = count;
    return r;
}

/* Calls `take` with every part of a comma-separated list. */
static int for_each_part(struct error *e, const char *list, void *to,
                         int (*take)(struct error *e, const char *part, void *to))
{
    for (const char *at = list;; at++) {
        char part[LIST_PART_MAX];
        size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof part)
            return error_set(e, ERR_INVALID, "'%s' is not a list separated by commas", list);
        memcpy(part, at, length);
        part[length] = '\0';
        int r = take(e, part, to);
        if (r < 0)
            return r;
        at += length;
        if (!*at)
            return 0;
    }
}

static int take_variant(struct error *e, const char *part, void *to)
{
    struct campaign_config *c = to;
    if (c->variant_count == CAMPAIGN_VARIANTS_MAX)
        return error_set(e, ERR_TOO_LARGE, "more than %d policies", CAMPAIGN_VARIANTS_MAX);
    struct campaign_variant *variant = &c->variants[c->variant_count++];
    int r = campaign_variant_parse(e, part, variant);
    for (enum policy_part p = 0; r == 0 && p < POLICY_PART_END; p++)
        if (variant->options.without[p] && !policy_has_part(variant->policy, p))
            return error_set(e, ERR_INVALID, "'%s': the policy %s has no part '%s' to leave out",
                             part, variant->policy->name, policy_part_name(p));
    return r;
}

/* Adds one part to the struct policy_options that a policy goes without. */
static int take_part(struct error *e, const char *part, void *to)
{
    struct policy_options *options = to;
    enum policy_part left_out;
    if (policy_part_parse(part, &left_out) < 0)
        return error_set(
            e, ERR_INVALID,
            "'%s' is not a part of a policy: 'gpumux help sim' lists the parts under --without",
            part);
    options->without[left_out] = true;
    return 0;
}

/* Removes these parts from all policies that have them. */
static int read_without(struct error *e, const char *list, struct campaign_config *c)
{
    struct policy_options options = {0};
    int r = for_each_part(e, list, &options, take_part);
    for (enum policy_part part = 0; r == 0 && part < POLICY_PART_END; part++) {
        bool is_there = false;
        for (size_t i = 0; options.without[part] && i < c->variant_count; i++)
            if (policy_has_part(c->variants[i].policy, part))
                c->variants[i].options.without[part] = is_there = true;
        if (options.without[part] && !is_there)
            r = error_set(e, ERR_INVALID, "--without: none of these policies has a part '%s'",
                          policy_part_name(part));
    }
    return r;
}

static int add_variant(struct error *e, struct campaign_config *c, const struct policy *policy,
                       const struct policy_options *options)
{
    for (size_t i = 0; i < c->variant_count; i++)
        if (c->variants[i].policy == policy &&
            memcmp(&c->variants[i].options, options, sizeof *options) == 0)
            return 0; /* named explicitly as well */
    if (c->variant_count == CAMPAIGN_VARIANTS_MAX)
        return error_set(e, ERR_TOO_LARGE, "more than %d policies, including those without a part",
                         CAMPAIGN_VARIANTS_MAX);
    c->variants[c->variant_count++] =
        (struct campaign_variant){.policy = policy, .options = *options};
    return 0;
}

/* Adds a policy, then variants without each of these parts that the policy has, and one without
 * all. */
static int add_with_ablations(struct error *e, const struct campaign_variant *whole,
                              const struct policy_options *parts, struct campaign_config *c)
{
    struct policy_options all = whole->options;
    size_t count = 0;
    int r = add_variant(e, c, whole->policy, &whole->options);
    for (enum policy_part part = 0; r == 0 && part < POLICY_PART_END; part++) {
        struct policy_options one = whole->options;
        if (!parts->without[part] || !policy_has_part(whole->policy, part))
            continue;
        one.without[part] = all.without[part] = true;
        count++;
        r = add_variant(e, c, whole->policy, &one);
    }
    if (r == 0 && count > 1)
        r = add_variant(e, c, whole->policy, &all);
    return r;
}

static int read_ablate(struct error *e, const char *list, struct campaign_config *c)
{
    struct policy_options parts = {0};
    struct campaign_variant whole[CAMPAIGN_VARIANTS_MAX];
    size_t count = c->variant_count;
    int r = for_each_part(e, list, &parts, take_part);
    memcpy(whole, c->variants, count * sizeof *whole);
    c->variant_count = 0;
    bool has_some = false;
    for (size_t i = 0; r == 0 && i < count; i++) {
        for (enum policy_part part = 0; part < POLICY_PART_END; part++)
            has_some |= parts.without[part] && policy_has_part(whole[i].policy, part);
        r = add_with_ablations(e, &whole[i], &parts, c);
    }
    if (r == 0 && !has_some)
        return error_set(e, ERR_INVALID, "--ablate: none of these policies has any part of '%s'",
                         list);
    return r;
}

static int take_rate(struct error *e, const char *part, void *to)
{
    struct campaign_config *c = to;
    char *end;
    double rate = strtod(part, &end);
    if (*end || !(rate > 0 && rate <= 1e9))
        return error_set(e, ERR_INVALID, "'%s' is not a rate or load, which is a number above 0",
                         part);
    if (c->rate_count == CAMPAIGN_LOADS_MAX)
        return error_set(e, ERR_TOO_LARGE, "more than %d rates", CAMPAIGN_LOADS_MAX);
    c->rates[c->rate_count++] = rate;
    return 0;
}

static int read_policies(struct error *e, const struct invocation *in, struct campaign_config *c)
{
    const char *policies = option_value(in, "policy"), *without = option_value(in, "without");
    const char *ablate = option_value(in, "ablate");
    int r = 0;
    if (without && ablate)
        return error_set(e, ERR_INVALID, "--without and --ablate cannot be combined");
    if (policies && strcmp(policies, "all") != 0)
        r = for_each_part(e, policies, c, take_variant);
    else if (policies)
        for (size_t i = 0; policy_at(i); i++)
            c->variants[c->variant_count++].policy = policy_at(i);
    else
        r = take_variant(e, policy_find("gpumux") ? "gpumux" : "firstfit", c);
    if (r == 0 && without)
        r = read_without(e, without, c);
    if (r == 0 && ablate)
        r = read_ablate(e, ablate, c);
    return r;
}

/* --rate is used as given; --load is relative to what the trace needs on these devices. */
static int read_rates(struct error *e, const struct invocation *in, const struct scenario *s,
                      struct campaign_config *c)
{
    const char *rates = option_value(in, "rate"), *loads = option_value(in, "load");
    if (rates && loads)
        return error_set(e, ERR_INVALID, "--rate and --load cannot be combined");
    int r = for_each_part(e, loads ? loads : rates ? rates : "1", c, take_rate);
    double load = trace_load(&s->trace, s->hardware.device_count);
    if (r == 0 && loads && !isfinite(load))
        return error_set(
            e, ERR_INVALID,
            "--load has no meaning for this trace, whose workloads all arrive at once");
    for (size_t i = 0; r == 0 && loads && i < c->rate_count; i++)
        c->rates[i] /= load;
    return r;
}

static const char *trace_of(const struct invocation *in)
{
    return option_given(in, "trace") ? option_value(in, "trace") : "tasks-300";
}

static const char *nodes_of(const struct invocation *in)
{
    return option_given(in, "nodes") ? option_value(in, "nodes") : "5x4xH200:24g";
}

static int open_scenario(struct error *e, const struct invocation *in, uint64_t seed,
                         struct scenario *ret)
{
    double jobs = 0, noise = 0.05;
    struct str text;
    int r = count_option(e, in, "jobs", 1, TRACE_ITEMS_MAX, &jobs);
    if (r == 0)
        r = number_option(e, in, "noise", 0, 1, &noise);
    if (r < 0)
        return r;
    struct scenario_words words = {.nodes = nodes_of(in),
                                   .trace = trace_of(in),
                                   .mix = option_value(in, "mix"),
                                   .jobs = (size_t)jobs,
                                   .noise = noise,
                                   .seed = seed};
    str_init(&text, SCENARIO_TEXT_MAX);
    if (!scenario_has_trace(words.trace)) {
        r = draft_read_file(e, words.trace, &text);
        if (r == -ERR_NOT_FOUND)
            error_set(e, ERR_NOT_FOUND,
                      "there is no file %s; traces without a file are philly, tasks-300, poisson, "
                      "bursty and diurnal",
                      words.trace);
        words.trace_text = str_text(&text);
        words.trace_length = text.length;
    }
    if (r == 0)
        r = scenario_open(e, &words, ret);
    str_done(&text);
    return r;
}

static int read_numbers(struct error *e, const struct invocation *in, struct campaign_config *c)
{
    double seeds = 1, services = 0, neighbours = c->engine.max_neighbours;
    double threads = (double)sysconf(_SC_NPROCESSORS_ONLN);
    double outage_minutes = c->engine.outage_mean_s / 60;
    int r = count_option(e, in, "seeds", 1, CAMPAIGN_SEEDS_MAX, &seeds);
    if (r == 0)
        r = count_option(e, in, "threads", 1, CAMPAIGN_THREADS_MAX, &threads);
    if (r == 0)
        r = count_option(e, in, "max-neighbours", 1, FORECAST_MEMBERS_MAX, &neighbours);
    if (r == 0)
        r = number_option(e, in, "faults", 0, 1e4, &c->engine.faults_per_device_day);
    if (r == 0)
        r = number_option(e, in, "outages", 0, 1e4, &c->engine.outages_per_node_day);
    if (r == 0)
        r = number_option(e, in, "outage-minutes", 0, 1e6, &outage_minutes);
    if (r == 0)
        r = count_option(e, in, "services", 0, HARDWARE_DEVICES_MAX, &services);
    if (r == 0)
        r = number_option(e, in, "estimate-error", 0, 3, &c->engine.estimate_error);
    c->seed_count = (size_t)seeds;
    c->engine.service_count = (size_t)services;
    c->thread_count = threads < 1 ? 1 : (int)fmin(threads, CAMPAIGN_THREADS_MAX);
    c->engine.max_neighbours = (int)neighbours;
    c->engine.outage_mean_s = outage_minutes * 60;
    return r;
}

/* ---- progress ---- */

/* begun: the fraction that was finished before the start and took none of the elapsed time. */
static void show_progress(double part, double begun, int64_t elapsed_ms, bool utf8)
{
    struct str line;
    str_init(&line, 512);
    str_append(&line, "\r");
    output_bar(&line, part, BAR_WIDTH, utf8);
    str_printf(&line, " %3.0f %%", 100 * part);
    if (part - begun > 0.01)
        str_printf(&line, ", %.0f s left ",
                   (double)elapsed_ms / 1000 * (1 - part) / (part - begun));
    str_append(&line, "\033[K");
    fputs(str_text(&line), stderr);
    str_done(&line);
}

/* Returns when all runs are done; a signal stops them. */
static void watch(struct campaign *c, const sigset_t *signals)
{
    bool shows = isatty(STDERR_FILENO), utf8 = output_has_utf8();
    int64_t begun_ms = clock_boot_ms();
    double resumed = campaign_resumed(c);
    const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
    while (campaign_is_running(c)) {
        if (shows)
            show_progress(campaign_progress(c), resumed, clock_boot_ms() - begun_ms, utf8);
        if (campaign_is_running(c) && sigtimedwait(signals, NULL, &look) > 0)
            campaign_stop(c);
    }
    if (shows)
        fputs("\r\033[K", stderr);
}

static int run_campaign(struct error *e, struct campaign *c)
{
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    int r = campaign_start(e, c);
    if (r == 0) {
        watch(c, &signals);
        r = campaign_join(e, c);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

/* ---- results ---- */

/* One line of the table: means of a policy at a rate, over the seeds. */
struct line {
    const struct result *first;
    double completion, p50, p95, p99, waiting, makespan, pd, sm, memory, evictions, late,
        unfinished;
    bool has_ended; /* at least one task ended, so there are times */
};

static struct line mean_of(const struct campaign_run *runs, size_t stride, size_t seeds)
{
    struct line l = {.first = &runs[0].result};
    double part = 1 / (double)seeds;
    for (size_t i = 0; i < seeds; i++) {
        const struct result_summary *s = &runs[i * stride].result.summary;
        l.completion += part * s->completion.mean_s;
        l.p50 += part * s->completion.p50_s;
        l.p95 += part * s->completion.p95_s;
        l.p99 += part * s->completion.p99_s;
        l.waiting += part * s->waiting.mean_s;
        l.makespan += part * s->makespan_s;
        l.pd += part * s->pd_mean;
        l.sm += part * s->sm_mean;
        l.memory += part * s->memory_mean;
        l.evictions += part * (double)s->evictions;
        l.late += part * (s->requests > 0 ? s->late_requests / s->requests : 0);
        l.unfinished += part * (double)(s->unfinished + s->failed);
        l.has_ended |= s->succeeded > 0;
    }
    return l;
}

/* Prints to standard error, because the pace depends on the machine and differs between runs. */
static void show_pace(const struct campaign_run *runs, size_t count, int64_t elapsed_ms)
{
    double decisions = 0;
    for (size_t i = 0; i < count; i++)
        decisions += runs[i].is_resumed ? 0 : (double)runs[i].result.summary.decisions;
    if (isatty(STDERR_FILENO) && decisions > 0 && elapsed_ms > 0)
        fprintf(stderr, "%.0f decisions in %.1f s: %.0f a second, including all simulated events\n",
                decisions, (double)elapsed_ms / 1000, decisions * 1000 / (double)elapsed_ms);
}

/* Adds the cells from COMPLETION to PD. */
static void add_times(struct output_table *t, const struct line *l,
                      const struct duration_unit *unit)
{
    enum { TIMES = 7 };
    if (!l->has_ended) {
        for (int i = 0; i < TIMES; i++)
            output_cell(t, OUTPUT_FAINT, "-");
        return;
    }
    double in = unit->seconds;
    output_cell(t, OUTPUT_PLAIN, "%.1f %s", l->completion / in, unit->name);
    output_cell(t, OUTPUT_PLAIN, "%.1f", l->p50 / in);
    output_cell(t, OUTPUT_PLAIN, "%.1f", l->p95 / in);
    output_cell(t, OUTPUT_PLAIN, "%.1f", l->p99 / in);
    output_cell(t, OUTPUT_PLAIN, "%.1f", l->waiting / in);
    output_cell(t, OUTPUT_PLAIN, "%.1f", l->makespan / in);
    output_cell(t, OUTPUT_PLAIN, "%.2f", l->pd);
}

static int show_table(const struct campaign_config *c, const struct campaign_run *runs)
{
    static const char *const titles[] = {"LOAD",   "POLICY",  "COMPLETION", "P50",      "P95",
                                         "P99",    "WAITING", "MAKESPAN",   "PD",       "SM",
                                         "MEMORY", "EVICTED", "LATE",       "NOT DONE", NULL};
    struct output_table t;
    size_t variants = c->variant_count;
    const struct duration_unit *unit = duration_unit_for(runs[0].result.summary.completion.mean_s);
    output_table_init(&t, titles);
    for (size_t rate = 0; rate < c->rate_count; rate++)
        for (size_t v = 0; v < variants; v++) {
            struct line l =
                mean_of(&runs[rate * c->seed_count * variants + v], variants, c->seed_count);
            if (isfinite(l.first->load))
                output_cell(&t, OUTPUT_PLAIN, "%.2f", l.first->load);
            else
                output_cell(&t, OUTPUT_PLAIN, "-"); /* all workloads arrive at once */
            output_cell(&t, OUTPUT_BOLD, "%s", l.first->policy);
            add_times(&t, &l, unit);
            output_cell(&t, OUTPUT_PLAIN, "%.0f %%", 100 * l.sm);
            output_cell(&t, OUTPUT_PLAIN, "%.0f %%", 100 * l.memory);
            output_cell(&t, OUTPUT_PLAIN, "%.0f", l.evictions);
            if (l.first->summary.requests > 0)
                output_cell(&t, OUTPUT_PLAIN, "%.2f %%", 100 * l.late);
            else
                output_cell(&t, OUTPUT_PLAIN, "-");
            output_cell(&t, OUTPUT_PLAIN, "%.0f", l.unfinished);
        }
    int status = output_table_print(&t);
    if (runs[0].result.is_extrapolated)
        printf("extrapolated: speeds of GPUs that were not measured are scaled by SMs and "
               "bandwidth\n");
    return status;
}

/* Prints the services that could not be placed, which LATE leaves out: of each policy, the first
 * run with any. */
static void tell_unplaced(const struct campaign_config *c, const struct campaign_run *runs,
                          size_t count)
{
    for (size_t v = 0; v < c->variant_count; v++)
        for (size_t i = v; i < count; i += c->variant_count) {
            const struct result *r = &runs[i].result;
            size_t unplaced = 0;
            for (size_t w = 0; w < r->workload_count; w++)
                unplaced += r->workloads[w].kind == WORKLOAD_SERVICE && r->workloads[w].start_s < 0;
            if (unplaced == 0)
                continue;
            fprintf(stderr, "gpumux: sim: %zu of %zu services could not be placed under %s\n",
                    unplaced, c->engine.service_count, r->policy);
            break;
        }
}

static void put_times(struct json_writer *w, const char *key, const struct result_times *t)
{
    json_begin_object(json_key(w, key));
    json_put_real(json_key(w, "mean_s"), t->mean_s);
    json_put_real(json_key(w, "p50_s"), t->p50_s);
    json_put_real(json_key(w, "p95_s"), t->p95_s);
    json_put_real(json_key(w, "p99_s"), t->p99_s);
    json_end_object(w);
}

static void put_run(struct json_writer *w, const struct campaign_run *run)
{
    const struct result *r = &run->result;
    const struct result_summary *s = &r->summary;
    json_begin_object(w);
    json_put_string(json_key(w, "policy"), r->policy);
    json_put_uint(json_key(w, "seed"), r->seed);
    json_put_real(json_key(w, "rate"), r->rate);
    json_put_real(json_key(w, "load"), r->load);
    json_put_bool(json_key(w, "extrapolated"), r->is_extrapolated);
    json_put_uint(json_key(w, "devices"), r->device_count);
    json_put_uint(json_key(w, "submitted"), s->submitted);
    json_put_uint(json_key(w, "succeeded"), s->succeeded);
    json_put_uint(json_key(w, "failed"), s->failed);
    json_put_uint(json_key(w, "unfinished"), s->unfinished);
    put_times(w, "completion", &s->completion);
    put_times(w, "completion_single", &s->completion_single);
    put_times(w, "waiting", &s->waiting);
    json_put_real(json_key(w, "makespan_s"), s->makespan_s);
    json_put_real(json_key(w, "pd"), s->pd_mean);
    json_put_real(json_key(w, "speed"), s->speed_mean);
    json_put_real(json_key(w, "sm"), s->sm_mean);
    json_put_real(json_key(w, "memory"), s->memory_mean);
    json_put_uint(json_key(w, "multi"), s->multi_count);
    json_put_uint(json_key(w, "split"), s->split_count);
    json_put_uint(json_key(w, "evictions"), s->evictions);
    json_put_uint(json_key(w, "faults"), s->faults);
    json_put_uint(json_key(w, "outages"), s->outages);
    json_put_uint(json_key(w, "placements"), s->placements);
    json_put_uint(json_key(w, "decisions"), s->decisions);
    json_put_real(json_key(w, "requests"), s->requests);
    json_put_real(json_key(w, "late_requests"), s->late_requests);
    json_end_object(w);
}

/* Prints the text and frees it. */
static int print_json(struct str *out)
{
    bool failed = str_failed(out);
    if (!failed)
        printf("%s\n", str_text(out));
    str_done(out);
    return failed ? COMMAND_FAILED : COMMAND_OK;
}

static int show_json(const struct campaign_run *runs, size_t count)
{
    struct str out;
    struct json_writer w;
    str_init(&out, RESULT_FILE_MAX);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_begin_array(json_key(&w, "runs"));
    for (size_t i = 0; i < count; i++)
        put_run(&w, &runs[i]);
    json_end_array(&w);
    json_end_object(&w);
    return print_json(&out);
}

static int validate(const struct invocation *in, const char *path)
{
    struct error e = {0};
    struct truth *truth = NULL;
    struct truth_validation v;
    struct str text;
    size_t length = 0;
    const char *table = shipped_find(path, &length);
    str_init(&text, SCENARIO_TEXT_MAX);
    int r = table ? 0 : draft_read_file(&e, path, &text);
    if (r == 0)
        r = scenario_truth(&e, 0, &truth);
    if (r == 0)
        r = truth_validate(&e, truth, table ? table : str_text(&text), table ? length : text.length,
                           &v);
    str_done(&text);
    truth_free(truth);
    if (r < 0)
        return fail(&e);
    if (option_given(in, "json")) {
        printf("{\"values\":%zu,\"unknown_rows\":%zu,\"error_mean\":%.6f,\"error_p90\":%.6f,"
               "\"error_max\":%.6f,\"bias\":%.6f,\"fitted_error_mean\":%.6f}\n",
               v.values, v.unknown_rows, v.error_mean, v.error_p90, v.error_max, v.bias,
               v.fitted_error_mean);
        return COMMAND_OK;
    }
    printf("speeds beside a neighbour: %zu measured, each predicted by a fit without its pair of "
           "models\n",
           v.values);
    printf("mean error %.3f, 90th percentile %.3f, largest %.3f, bias %+.3f\n", v.error_mean,
           v.error_p90, v.error_max, v.bias);
    printf("mean error of a fit to all pairs: %.3f\n", v.fitted_error_mean);
    if (v.unknown_rows > 0)
        printf("left out: %zu rows of models that were not measured alone\n", v.unknown_rows);
    return COMMAND_OK;
}

/* ---- explain ---- */

/* Prints what an explanation with the keys of the API says. */
static int print_explanation(struct str *out)
{
    json_t *answer = str_failed(out) ? NULL : json_loads(str_text(out), 0, NULL);
    int status = answer ? explanation_print(answer) : COMMAND_FAILED;
    json_decref(answer);
    str_done(out);
    return status;
}

static int show_explanation(const char *policy, uint64_t workload,
                            const struct cluster_explanation *x, bool is_json)
{
    struct str out;
    struct json_writer w;
    str_init(&out, RESULT_FILE_MAX);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_put_uint(json_key(&w, "id"), workload);
    json_put_string(json_key(&w, "policy"), policy);
    json_put_string(json_key(&w, "text"), x->text);
    json_begin_array(json_key(&w, "candidates"));
    for (size_t i = 0; i < x->count; i++) {
        const struct cluster_candidate *c = &x->candidates[i];
        json_begin_object(&w);
        json_put_string(json_key(&w, "node"), c->node);
        json_put_string(json_key(&w, "device"), c->device);
        json_put_string(json_key(&w, "device_name"), c->name);
        json_put_string(json_key(&w, "model"), c->model);
        json_put_uint(json_key(&w, "alike"), c->devices);
        json_put_uint(json_key(&w, "neighbours"), c->neighbours);
        if (c->judged) {
            json_put_real(json_key(&w, "speed"), c->speed);
            json_put_real(json_key(&w, "pd"), c->pd);
            json_put_real(json_key(&w, "gain"), c->gain);
        }
        if (c->judged && c->p99_ms > 0)
            json_put_real(json_key(&w, "p99_ms"), c->p99_ms);
        if (c->judged && c->slo_ms > 0)
            json_put_real(json_key(&w, "slo_ms"), c->slo_ms);
        json_put_bool(json_key(&w, "chosen"), c->chosen);
        json_put_string(json_key(&w, "reason"), c->reason);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    return is_json ? print_json(&out) : print_explanation(&out);
}

/* Runs the first policy until the workload arrives, prints the explanation, and completes the
 * run. */
static int explain(struct campaign_config *c, const struct scenario *s, uint64_t workload,
                   bool is_json)
{
    struct error e = {0};
    struct result result = {0};
    struct trace trace = s->trace;
    struct cluster_explanation *explanation = calloc(1, sizeof *explanation);
    size_t most = trace.count + c->engine.service_count;
    int status = COMMAND_FAILED;
    if (!explanation) {
        (void)error_set(&e, ERR_NO_MEMORY, "out of memory");
    } else if (workload < 1 || workload > most) {
        (void)error_set(&e, ERR_INVALID,
                        "--explain must be the number of a workload, from 1 to %zu", most);
    } else {
        trace_hasten(&trace, c->rates[0]);
        c->engine.trace = &trace;
        c->engine.policy = c->variants[0].policy;
        c->engine.options = c->variants[0].options;
        c->engine.seed = c->seed;
        c->engine.explain = workload;
        c->engine.explanation = explanation;
        if (engine_run(&e, &c->engine, &result) == 0 && !*explanation->text)
            (void)error_set(&e, ERR_NOT_FOUND,
                            "workload %llu is larger than every node, and is never placed",
                            (unsigned long long)workload);
        else if (!e.code)
            status = show_explanation(result.policy, workload, explanation, is_json);
    }
    if (e.code)
        status = fail(&e);
    result_done(&result);
    free(explanation);
    return status;
}

static int simulate(const struct invocation *in, const struct scenario *s, uint64_t seed)
{
    struct error e = {0};
    struct campaign *campaign = NULL;
    struct campaign_config config = {.trace = &s->trace, .seed = seed, .seed_count = 1};
    engine_config_default(&config.engine);
    config.engine.truth = s->truth;
    config.engine.hardware = &s->hardware;
    config.engine.serving = s->serving;
    config.directory = option_value(in, "out");
    int r = read_policies(&e, in, &config);
    if (r == 0)
        r = read_rates(&e, in, s, &config);
    if (r == 0)
        r = read_numbers(&e, in, &config);
    double workload = 0;
    if (r == 0)
        r = count_option(&e, in, "explain", 1, TRACE_ITEMS_MAX, &workload);
    if (r == 0 && workload > 0)
        return explain(&config, s, (uint64_t)workload, option_given(in, "json"));
    if (r == 0)
        r = campaign_new(&e, &config, &campaign);
    int64_t begun_ms = clock_boot_ms();
    if (r == 0)
        r = run_campaign(&e, campaign);
    int status = COMMAND_OK;
    if (r < 0) {
        status = fail(&e);
        if (e.code == ERR_UNAVAILABLE && config.directory)
            fprintf(stderr,
                    "gpumux: sim: finished runs are in %s: the same command continues from there\n",
                    config.directory);
    } else {
        size_t count;
        const struct campaign_run *runs = campaign_runs(campaign, &count);
        status = option_given(in, "json") ? show_json(runs, count) : show_table(&config, runs);
        if (config.directory &&
            sim_report_write(&e, in, trace_of(in), nodes_of(in), &config, runs) < 0)
            status = fail(&e);
        else if (config.directory)
            fprintf(stderr, "gpumux: sim: the report is %s/report.html\n", config.directory);
        tell_unplaced(&config, runs, count);
        show_pace(runs, count, clock_boot_ms() - begun_ms);
    }
    campaign_free(campaign);
    return status;
}

int sim_command(const struct invocation *in)
{
    struct error e = {0};
    struct scenario s;
    double seed = 1;
    bool validates = option_given(in, "validate");
    int r;
    if (validates && in->given_count > 1u + option_given(in, "json"))
        r = error_set(&e, ERR_INVALID,
                      "--validate simulates nothing, and can be combined only with --json");
    else if (validates)
        return validate(in, option_value(in, "validate"));
    else if (option_given(in, "explain") && option_given(in, "out"))
        r = error_set(&e, ERR_INVALID, "--explain and --out cannot be combined");
    else
        r = count_option(&e, in, "seed", 0, 1e15, &seed);
    if (r == 0)
        r = open_scenario(&e, in, (uint64_t)seed, &s);
    if (r < 0)
        return fail(&e);
    int status = simulate(in, &s, (uint64_t)seed);
    scenario_done(&s);
    return status;
}
