/* Reports: progress, latencies and readiness, and how often the library sends them. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/client_internal.h"
#include "client/gpumux.h"

enum {
    REPORT_EVERY_MS = 250, /* a supervisor measures speed over a second or more */
    COMMAND_MAX = 64,
    LATENCY_LINE_MAX = 32, /* with two numbers, the larger of 10 digits, and a NUL */
    LATENCY_COMMAND_MAX = 16 + CONTROL_LATENCY_PLACES * LATENCY_LINE_MAX,
};

static_assert(GPUMUX_PROGRESS_MAX == CONTROL_SAMPLES_MAX,
              "supervisors accept every count that the library promises to send");

int gpumux_client_send_progress(struct gpumux *g, uint64_t done)
{
    char command[COMMAND_MAX];
    snprintf(command, sizeof command, CONTROL_WORD_PROGRESS " %" PRIu64, done);
    int r = gpumux_client_report(g, command, false);
    if (r == 0)
        atomic_store(&g->sent, done);
    return r;
}

/* Counts that are being sent; on the heap, because a thread's stack may be small. */
struct latency_report {
    uint32_t taken[CONTROL_LATENCY_PLACES];
    char command[LATENCY_COMMAND_MAX];
};

/* False: no count is above 0. */
static bool take_latencies(struct gpumux *g, struct latency_report *report)
{
    char *end = report->command;
    bool is_any = false;
    end += snprintf(end, LATENCY_LINE_MAX, CONTROL_WORD_LATENCY "\n");
    for (unsigned i = 0; i < CONTROL_LATENCY_PLACES; i++) {
        report->taken[i] = atomic_load(&g->latencies[i]);
        if (report->taken[i] == 0)
            continue;
        report->taken[i] = atomic_exchange(&g->latencies[i], 0);
        is_any = true;
        end += snprintf(end, LATENCY_LINE_MAX, "%" PRIu64 " %" PRIu32 "\n", control_latency_us(i),
                        report->taken[i]);
    }
    return is_any;
}

int gpumux_client_send_latencies(struct gpumux *g)
{
    struct latency_report *report = malloc(sizeof *report);
    if (!report)
        return -ENOMEM;
    int r = take_latencies(g, report) ? gpumux_client_report(g, report->command, false) : 0;
    for (unsigned i = 0; r < 0 && i < CONTROL_LATENCY_PLACES; i++)
        atomic_fetch_add(&g->latencies[i], report->taken[i]);
    free(report);
    return r;
}

int gpumux_report_progress(struct gpumux *g, uint64_t done)
{
    if (!g)
        return 0;
    if (done > GPUMUX_PROGRESS_MAX)
        return -EINVAL;
    const int errno_before = errno;
    bool went_back = done < atomic_exchange(&g->done, done);
    int64_t now_ms = gpumux_client_clock_ms(), due_ms = atomic_load(&g->next_report_ms);
    int r = 0;
    if ((went_back || now_ms >= due_ms) &&
        atomic_compare_exchange_strong(&g->next_report_ms, &due_ms, now_ms + REPORT_EVERY_MS)) {
        r = gpumux_client_send_progress(g, done);
        gpumux_client_ask_advice(g);
    }
    errno = errno_before;
    return r;
}

int gpumux_client_count_latency(struct gpumux *g, uint64_t latency_us, uint64_t now_ns)
{
    if (latency_us > GPUMUX_LATENCY_MAX)
        latency_us = GPUMUX_LATENCY_MAX;
    atomic_fetch_add_explicit(&g->latencies[control_latency_place(latency_us)], 1,
                              memory_order_relaxed);
    int64_t now_ms = (int64_t)(now_ns / GPUMUX_CLIENT_MS_NS);
    int64_t due_ms = atomic_load(&g->next_latency_ms);
    if (now_ms < due_ms ||
        !atomic_compare_exchange_strong(&g->next_latency_ms, &due_ms, now_ms + REPORT_EVERY_MS))
        return 0;
    int r = gpumux_client_send_latencies(g);
    gpumux_client_ask_advice(g);
    return r;
}

int gpumux_report_latency(struct gpumux *g, uint64_t latency_us)
{
    if (!g)
        return 0;
    const int errno_before = errno;
    int r = gpumux_client_count_latency(g, latency_us, gpumux_client_clock_ns());
    errno = errno_before;
    return r;
}

int gpumux_tell_ready(struct gpumux *g, int wait_ms)
{
    if (!g)
        return 0;
    if (wait_ms < 0)
        return -EINVAL;
    const int errno_before = errno;
    int r = gpumux_client_send(g->control_path, CONTROL_WORD_READY, wait_ms);
    errno = errno_before;
    return r;
}
