/*
 * A service: requests arrive at random times (Poisson) whether or not the last request is answered.
 * A request is one kernel or one graph of kernels. Its latency is device time from the moment when
 * the request was due. With `slips`, a request that the host launches late is due at its launch,
 * and later requests are delayed: on a busy machine, the device's part of the latency remains.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "workloads/burn_run.h"

enum {
    MARK_ORIGIN = 0,
    MARK_FIRST = 1,
    MARK_COUNT = BURN_MARKS - MARK_FIRST, /* requests in flight */
    LATENCIES_MAX = 1 << 20,              /* the newest latencies are kept */
};
#define PROGRESS_HOST_MS 1000.0

struct serving {
    struct burn_device *device;
    struct gpumux *gpumux;     /* gets reports of latencies; not owned; may be NULL */
    double due_ms[MARK_COUNT]; /* device time after the origin, of the requests in flight */
    uint64_t launched, answered;
    float *latencies_ms; /* LATENCIES_MAX, a ring */
};

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void print_latencies(const struct serving *s, const char *end)
{
    size_t count = s->answered < LATENCIES_MAX ? (size_t)s->answered : LATENCIES_MAX;
    float *sorted = malloc((count + 1) * sizeof(*sorted));
    if (!sorted)
        return;
    for (size_t i = 0; i < count; i++)
        sorted[i] = s->latencies_ms[i];
    qsort(sorted, count, sizeof(*sorted), compare);
    sorted[count] = 0;
    size_t last = count > 0 ? count - 1 : 0;
    printf("requests=%llu p50_ms=%.3f p95_ms=%.3f p99_ms=%.3f max_ms=%.3f%s\n",
           (unsigned long long)s->answered, (double)sorted[last * 50 / 100],
           (double)sorted[last * 95 / 100], (double)sorted[last * 99 / 100], (double)sorted[last],
           end);
    fflush(stdout);
    free(sorted);
}

/* Records the latencies of answered requests; with `wait`, waits for the oldest request first. */
static int collect(struct error *e, struct serving *s, bool wait)
{
    while (s->answered < s->launched) {
        unsigned place = (unsigned)(s->answered % MARK_COUNT), mark = MARK_FIRST + place;
        if (!burn_device_is_reached(s->device, mark)) {
            if (!wait)
                return 0;
            int r = burn_device_wait(e, s->device, mark);
            if (r < 0)
                return r;
            wait = false;
        }
        double at_ms;
        int r = burn_device_elapsed_ms(e, s->device, MARK_ORIGIN, mark, &at_ms);
        if (r < 0)
            return r;
        double latency_ms = at_ms - s->due_ms[place];
        s->latencies_ms[s->answered % LATENCIES_MAX] = (float)latency_ms;
        (void)gpumux_report_latency(s->gpumux, latency_ms > 0 ? (uint64_t)(latency_ms * 1e3) : 0);
        s->answered++;
    }
    return 0;
}

static int launch_request(struct error *e, struct serving *s, const struct burn_service *service,
                          double due_ms)
{
    unsigned place = (unsigned)(s->launched % MARK_COUNT);
    int r = 0;
    if (s->launched - s->answered == MARK_COUNT)
        r = collect(e, s, true);
    if (r == 0 && service->kernels)
        r = burn_device_launch_graph(e, s->device);
    else if (r == 0)
        r = burn_device_launch(e, s->device, &service->kernel);
    if (r == 0)
        r = burn_device_mark(e, s->device, MARK_FIRST + place);
    if (r < 0)
        return r;
    s->due_ms[place] = due_ms;
    s->launched++;
    return collect(e, s, false);
}

/* Marks the time from which both clocks count. The idle device reaches the mark at once; a try in
 * which the host was interrupted is repeated. */
static int mark_origin(struct error *e, struct serving *s, double *ret_host_ms)
{
    enum { TRIES_MAX = 100 };
    static const double near_ms = 0.05;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < TRIES_MAX; i++) {
        double before_ms = burn_host_ms();
        r = burn_device_mark(e, s->device, MARK_ORIGIN);
        *ret_host_ms = burn_host_ms();
        if (*ret_host_ms - before_ms < near_ms)
            break;
    }
    return r == 0 ? burn_device_wait(e, s->device, MARK_ORIGIN) : r;
}

static int serve(struct error *e, struct serving *s, const struct burn_service *service,
                 const volatile sig_atomic_t *stop)
{
    struct rng rng;
    rng_seed(&rng, service->seed);
    double speed = burn_device_speed(s->device), due_ms = 0, origin_ms = 0;
    int r = service->kernels ? burn_device_make_graph(e, s->device, service->kernels) : 0;
    if (r == 0)
        r = mark_origin(e, s, &origin_ms);
    double printed_ms = origin_ms;
    (void)gpumux_tell_ready(service->gpumux, 0);
    (void)gpumux_report_progress(service->gpumux, 0);
    while (r == 0 && !*stop && (service->requests == 0 || s->launched < service->requests)) {
        due_ms += -log(1 - rng_double(&rng)) / service->rate * 1e3;
        burn_host_sleep_until(origin_ms + due_ms / speed);
        if (*stop)
            break;
        double now_ms = (burn_host_ms() - origin_ms) * speed;
        if (service->slips && now_ms > due_ms)
            due_ms = now_ms;
        r = launch_request(e, s, service, due_ms);
        if (burn_host_ms() - printed_ms >= PROGRESS_HOST_MS) {
            print_latencies(s, "");
            (void)gpumux_report_progress(service->gpumux, s->answered);
            printed_ms = burn_host_ms();
        }
    }
    while (r == 0 && !service->leaves_queue && s->answered < s->launched)
        r = collect(e, s, true);
    return r;
}

int burn_serve(struct error *e, struct burn_device *device, const struct burn_service *service,
               const volatile sig_atomic_t *stop)
{
    struct serving *s = calloc(1, sizeof(*s));
    float *latencies_ms = calloc(LATENCIES_MAX, sizeof(*latencies_ms));
    int r = -ERR_NO_MEMORY;
    if (s && latencies_ms) {
        s->device = device;
        s->gpumux = service->gpumux;
        s->latencies_ms = latencies_ms;
        r = serve(e, s, service, stop);
        if (r == 0)
            print_latencies(s, *stop ? " stopped" : " done");
    } else {
        error_set(e, ERR_NO_MEMORY, "out of memory");
    }
    free(latencies_ms);
    free(s);
    return r;
}
