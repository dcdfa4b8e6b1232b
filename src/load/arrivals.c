/* The arrivals of a process: the integral of the rate grows by 1 (uniform) or by an exponential
 * number of mean 1 (Poisson) between two arrivals. */
#include "load/arrivals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "wire/csv.h"

/* Shorter steps would vanish in the rounding of times of up to ARRIVALS_SECONDS_MAX. */
static const double step_least_s = 1e-6;
static const double pi = 3.14159265358979323846;

static int copy_steps(struct error *e, const struct arrivals_step *steps, size_t count,
                      struct arrivals *a)
{
    a->steps = calloc(count, sizeof *a->steps);
    if (!a->steps)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    memcpy(a->steps, steps, count * sizeof *steps);
    a->step_count = count;
    return 0;
}

/* Returns the mean rate of the steps from 0 to end_s. */
static double mean_rate(const struct arrivals *a, double end_s)
{
    double sum = 0;
    for (size_t i = 0; i < a->step_count; i++) {
        double from = fmin(a->steps[i].at_s, end_s);
        double to = i + 1 < a->step_count ? fmin(a->steps[i + 1].at_s, end_s) : end_s;
        sum += a->steps[i].rate_per_s * (to - from);
    }
    return end_s > 0 ? sum / end_s : 0;
}

static int init_diurnal(struct error *e, const struct arrivals_words *words,
                        const struct arrivals_limits *limits, struct arrivals *a)
{
    struct arrivals_step steps[ARRIVALS_DIURNAL_STEPS];
    double run_s = limits->seconds;
    if (run_s <= 0)
        run_s = (double)limits->requests / limits->rate_per_s;
    a->period_s = words->period_s > 0 ? words->period_s : fmax(run_s, 1e-3);
    for (size_t i = 0; i < ARRIVALS_DIURNAL_STEPS; i++) {
        double middle = ((double)i + 0.5) / ARRIVALS_DIURNAL_STEPS;
        steps[i].at_s = (double)i / ARRIVALS_DIURNAL_STEPS * a->period_s;
        steps[i].rate_per_s = limits->rate_per_s * (1 - words->swing * cos(2 * pi * middle));
    }
    return copy_steps(e, steps, ARRIVALS_DIURNAL_STEPS, a);
}

static int init_generated(struct error *e, const struct arrivals_words *words,
                          const struct arrivals_limits *limits, struct arrivals *a)
{
    struct arrivals_step steps[1 + ARRIVALS_WORDS_STEPS_MAX] = {{0, limits->rate_per_s}};
    if (limits->rate_per_s <= 0)
        return error_set(e, ERR_INVALID, "no rate: give one with --rate, such as --rate 150/s");
    a->end_s = limits->seconds > 0 ? limits->seconds
               : limits->requests  ? INFINITY
                                   : ARRIVALS_RUN_DEFAULT_S;
    if (words->kind == ARRIVALS_DIURNAL) {
        struct arrivals_limits with_end = *limits;
        if (isfinite(a->end_s))
            with_end.seconds = a->end_s;
        return init_diurnal(e, words, &with_end, a);
    }
    memcpy(steps + 1, words->steps, words->step_count * sizeof *steps);
    a->is_uniform = words->kind == ARRIVALS_UNIFORM;
    return copy_steps(e, steps, 1 + words->step_count, a);
}

/* Room for a row more: grows an array of `count` elements of `size` bytes by doubling. */
static int reserve(struct error *e, void **array, size_t count, size_t size)
{
    if (count == ARRIVALS_TRACE_ROWS_MAX)
        return error_set(e, ERR_TOO_LARGE, "the trace has more than %d rows",
                         ARRIVALS_TRACE_ROWS_MAX);
    if (count & (count - 1))
        return 0; /* the capacity is the next power of two */
    void *larger = realloc(*array, (count ? 2 * count : 1) * size);
    if (!larger)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    *array = larger;
    return 0;
}

static int not_ascending(struct error *e, const struct csv *c)
{
    return error_set(e, ERR_SYNTAX, "line %u: t_s does not ascend", c->line);
}

static int read_times(struct error *e, struct csv *c, int time_column, double speed,
                      struct arrivals *a)
{
    int r;
    double first_s = 0, last_s = 0;
    while ((r = csv_next(e, c)) == 1) {
        double at_s;
        r = csv_number(e, c, time_column, 0, 1e15, &at_s);
        if (r == 0)
            r = reserve(e, (void **)&a->times, a->time_count, sizeof *a->times);
        if (r < 0)
            return r;
        if (a->time_count == 0)
            first_s = at_s;
        else if (at_s < last_s)
            return not_ascending(e, c);
        last_s = at_s;
        a->times[a->time_count++] = (at_s - first_s) / speed;
    }
    if (r == 0 && a->time_count == 0)
        return error_set(e, ERR_INVALID, "the trace has no rows");
    return r;
}

static int read_rates(struct error *e, struct csv *c, int time_column, int rate_column,
                      double speed, struct arrivals *a)
{
    int r;
    double first_s = 0;
    while ((r = csv_next(e, c)) == 1) {
        struct arrivals_step step;
        r = csv_number(e, c, time_column, 0, 1e15, &step.at_s);
        if (r == 0)
            r = csv_number(e, c, rate_column, 0, ARRIVALS_RATE_MAX, &step.rate_per_s);
        if (r == 0)
            r = reserve(e, (void **)&a->steps, a->step_count, sizeof *a->steps);
        if (r < 0)
            return r;
        if (a->step_count == 0)
            first_s = step.at_s;
        step.at_s = (step.at_s - first_s) / speed;
        if (a->step_count > 0 && !(step.at_s > a->steps[a->step_count - 1].at_s))
            return not_ascending(e, c);
        if (a->step_count > 0 && step.at_s < a->steps[a->step_count - 1].at_s + step_least_s)
            return error_set(e, ERR_INVALID,
                             "line %u: at this speed the row before lasts less than %g s", c->line,
                             step_least_s);
        a->steps[a->step_count++] = step;
    }
    if (r == 0 && a->step_count < 2)
        return error_set(e, ERR_INVALID,
                         "a trace of rates needs two rows: the last row is as long "
                         "as the row before");
    return r;
}

static int scale_rates(struct error *e, double rate_per_s, struct arrivals *a)
{
    const struct arrivals_step *last = &a->steps[a->step_count - 1];
    a->period_s = 2 * last->at_s - last[-1].at_s;
    double mean = mean_rate(a, a->period_s);
    if (!(mean > 0))
        return error_set(e, ERR_INVALID, "every rate of the trace is 0");
    double factor = rate_per_s > 0 ? rate_per_s / mean : 1;
    for (size_t i = 0; i < a->step_count; i++) {
        a->steps[i].rate_per_s *= factor;
        if (!(a->steps[i].rate_per_s <= ARRIVALS_RATE_MAX))
            return error_set(e, ERR_INVALID, "a rate of the trace is above %g requests per second",
                             ARRIVALS_RATE_MAX);
    }
    return 0;
}

/* A trace of arrivals with a rate: the gaps are scaled. */
static int scale_times(struct error *e, double rate_per_s, struct arrivals *a)
{
    double last_s = a->times[a->time_count - 1];
    if (rate_per_s <= 0)
        return 0;
    double factor = (double)(a->time_count - 1) / last_s / rate_per_s;
    if (!(last_s > 0) || !isfinite(factor))
        return error_set(e, ERR_INVALID, "--rate has no meaning for arrivals at the same time");
    for (size_t i = 0; i < a->time_count; i++)
        a->times[i] *= factor;
    return 0;
}

static int init_trace(struct error *e, const struct arrivals_words *words,
                      const struct arrivals_limits *limits, const char *trace, size_t length,
                      struct arrivals *a)
{
    struct csv c;
    bool has_column = *words->column;
    int r = csv_open(e, trace, length, &c);
    if (r < 0)
        return r;
    int time_column = csv_column_required(e, &c, "t_s");
    int rate_column =
        has_column ? csv_column_required(e, &c, words->column) : csv_column(&c, "rate");
    if (time_column < 0 || (has_column && rate_column < 0))
        return -ERR_SYNTAX;
    if (rate_column >= 0) {
        r = read_rates(e, &c, time_column, rate_column, limits->speed, a);
        if (r == 0)
            r = scale_rates(e, limits->rate_per_s, a);
        a->end_s = limits->seconds > 0 ? limits->seconds
                   : limits->requests  ? INFINITY
                                       : a->period_s;
    } else {
        r = read_times(e, &c, time_column, limits->speed, a);
        if (r == 0)
            r = scale_times(e, limits->rate_per_s, a);
        a->end_s = limits->seconds > 0 ? limits->seconds : INFINITY;
    }
    return r;
}

/* Sets the mean rate and, for a trace of arrivals, the end of the run. */
static void summarize(struct arrivals *a)
{
    if (a->time_count > 0) {
        double last_s = a->times[a->time_count - 1];
        a->end_s = fmin(a->end_s, last_s + 1e-9); /* the last arrival is part of the run */
        a->mean_per_s = last_s > 0 ? (double)a->time_count / last_s : 0;
    } else if (a->period_s > 0) {
        a->mean_per_s = mean_rate(a, a->period_s);
        if (isfinite(a->end_s) && a->end_s < a->period_s)
            a->mean_per_s = mean_rate(a, a->end_s);
    } else {
        a->mean_per_s = isfinite(a->end_s) ? mean_rate(a, a->end_s) : a->steps[0].rate_per_s;
    }
    a->per_cycle = mean_rate(a, a->period_s) * a->period_s;
    a->end_s = fmin(a->end_s, ARRIVALS_SECONDS_MAX);
}

int arrivals_init(struct error *e, const struct arrivals_words *words,
                  const struct arrivals_limits *limits, const char *trace, size_t trace_length,
                  struct arrivals *ret)
{
    struct arrivals a = {.requests = limits->requests};
    rng_seed(&a.rng, limits->seed);
    int r = words->kind == ARRIVALS_TRACE ? init_trace(e, words, limits, trace, trace_length, &a)
                                          : init_generated(e, words, limits, &a);
    if (r < 0) {
        arrivals_done(&a);
        return r;
    }
    summarize(&a);
    *ret = a;
    return 0;
}

void arrivals_done(struct arrivals *a)
{
    free(a->steps);
    free(a->times);
    a->steps = NULL;
    a->times = NULL;
}

/* Moves at_s on until the integral of the rate has grown by `need`. Returns false at the end. */
static bool advance(struct arrivals *a, double need)
{
    while (a->at_s < a->end_s) {
        double rate = a->steps[a->step].rate_per_s;
        bool is_last = a->step + 1 == a->step_count;
        double end_s = !is_last          ? a->cycle_s + a->steps[a->step + 1].at_s
                       : a->period_s > 0 ? a->cycle_s + a->period_s
                                         : INFINITY;
        if (rate > 0 && need <= rate * (end_s - a->at_s)) {
            a->at_s += need / rate;
            return a->at_s < a->end_s;
        }
        if (isinf(end_s))
            return false; /* the rate stays 0 */
        need -= rate * (end_s - a->at_s);
        a->step = is_last ? 0 : a->step + 1;
        if (is_last) { /* whole periods without an arrival cost one iteration */
            double cycles = floor(fmax(need, 0) / a->per_cycle);
            need -= cycles * a->per_cycle;
            end_s += cycles * a->period_s;
            a->cycle_s = end_s;
        }
        a->at_s = end_s;
    }
    return false;
}

bool arrivals_next(struct arrivals *a, int64_t *ret_due_ns)
{
    if (a->requests > 0 && a->count >= a->requests)
        return false;
    if (a->time_count > 0) {
        if (a->count >= a->time_count || !(a->times[a->count] < a->end_s))
            return false;
        a->at_s = a->times[a->count];
    } else if (!advance(a, a->is_uniform ? 1 : -log1p(-rng_double(&a->rng)))) {
        return false;
    }
    a->count++;
    *ret_due_ns = (int64_t)llround(a->at_s * 1e9);
    return true;
}
