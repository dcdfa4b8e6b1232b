/*
 * The handle: facts from the environment, read once, and the rate of reports.
 *
 * No lock is needed: the facts do not change, the counts are atomics, and of several threads that
 * report at the same time only one sends.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/control.h"
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

struct gpumux {
    uint64_t workload_id, quota_bytes;
    uint64_t batch_size, batch_min, batch_max, batch_step;
    int attempt, array_index, share_min_percent, share_max_percent;
    pid_t opened_by;
    const char *control_path, *workload_name, *node_name; /* in texts */
    _Atomic int64_t next_report_ms;                       /* sooner counts are not sent */
    _Atomic uint64_t done, sent;
    _Atomic int64_t next_latency_ms;
    _Atomic uint32_t latencies[CONTROL_LATENCY_PLACES]; /* not sent yet */
    char texts[];
};

/* Digits and nothing else, at most `max`. */
static bool read_number(const char *name, uint64_t max, uint64_t *ret)
{
    const char *text = secure_getenv(name);
    if (!text || *text == '\0')
        return false;
    uint64_t number = 0;
    for (; *text; text++) {
        unsigned digit = (unsigned char)*text - (unsigned)'0';
        if (digit > 9 || number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (number > max)
        return false;
    *ret = number;
    return true;
}

static uint64_t number_or(const char *name, uint64_t max, uint64_t otherwise)
{
    uint64_t number;
    return read_number(name, max, &number) ? number : otherwise;
}

static int int_or(const char *name, int max, int otherwise)
{
    uint64_t number;
    return read_number(name, (uint64_t)max, &number) ? (int)number : otherwise;
}

static const char *text_of(const char *name)
{
    const char *text = secure_getenv(name);
    return text ? text : "";
}

static const char *keep_text(char **place, const char *text)
{
    char *kept = *place;
    size_t size = strlen(text) + 1;
    memcpy(kept, text, size);
    *place += size;
    return kept;
}

struct gpumux *gpumux_open(void)
{
    const int errno_before = errno;
    uint64_t id = number_or("GPUMUX_WORKLOAD_ID", UINT64_MAX, 0);
    int attempt = int_or("GPUMUX_ATTEMPT", INT_MAX, 0);
    const char *control = text_of("GPUMUX_CONTROL");
    if (id == 0 || attempt == 0 || *control == '\0')
        return NULL;
    const char *name = text_of("GPUMUX_WORKLOAD_NAME"), *node = text_of("GPUMUX_NODE");
    size_t texts_size = strlen(control) + strlen(name) + strlen(node) + 3;
    struct gpumux *g = calloc(1, sizeof *g + texts_size);
    errno = errno_before;
    if (!g)
        return NULL;
    char *place = g->texts;
    g->control_path = keep_text(&place, control);
    g->workload_name = keep_text(&place, name);
    g->node_name = keep_text(&place, node);
    g->workload_id = id;
    g->attempt = attempt;
    g->opened_by = getpid();
    g->array_index = int_or("GPUMUX_ARRAY_INDEX", INT_MAX, -1);
    g->quota_bytes = number_or("GPUMUX_QUOTA_BYTES", UINT64_MAX, 0);
    g->share_min_percent = int_or("GPUMUX_SHARE_MIN", 100, 0);
    g->share_max_percent = int_or("GPUMUX_SHARE_MAX", 100, 100);
    g->batch_size = number_or("GPUMUX_BATCH_SIZE", UINT64_MAX, 0);
    g->batch_min = number_or("GPUMUX_BATCH_SIZE_MIN", UINT64_MAX, 0);
    g->batch_max = number_or("GPUMUX_BATCH_SIZE_MAX", UINT64_MAX, 0);
    g->batch_step = number_or("GPUMUX_BATCH_SIZE_STEP", UINT64_MAX, 0);
    return g;
}

static int send_progress(struct gpumux *g, uint64_t done)
{
    char command[COMMAND_MAX];
    snprintf(command, sizeof command, CONTROL_WORD_PROGRESS " %" PRIu64, done);
    int r = gpumux_client_send(g->control_path, command, 0);
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
        report->taken[i] = atomic_exchange(&g->latencies[i], 0);
        if (report->taken[i] == 0)
            continue;
        is_any = true;
        end += snprintf(end, LATENCY_LINE_MAX, "%" PRIu64 " %" PRIu32 "\n", control_latency_us(i),
                        report->taken[i]);
    }
    return is_any;
}

static int send_latencies(struct gpumux *g)
{
    struct latency_report *report = malloc(sizeof *report);
    if (!report)
        return -ENOMEM;
    int r = take_latencies(g, report) ? gpumux_client_send(g->control_path, report->command, 0) : 0;
    for (unsigned i = 0; r < 0 && i < CONTROL_LATENCY_PLACES; i++)
        atomic_fetch_add(&g->latencies[i], report->taken[i]);
    free(report);
    return r;
}

void gpumux_close(struct gpumux *g)
{
    if (!g)
        return;
    const int errno_before = errno;
    uint64_t done = atomic_load(&g->done);
    /* A child of fork() must not send its copy of the parent's count: the parent may have sent a
     * higher count since. */
    if (done != atomic_load(&g->sent) && g->opened_by == getpid())
        (void)send_progress(g, done);
    if (g->opened_by == getpid())
        (void)send_latencies(g);
    free(g);
    errno = errno_before;
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
        atomic_compare_exchange_strong(&g->next_report_ms, &due_ms, now_ms + REPORT_EVERY_MS))
        r = send_progress(g, done);
    errno = errno_before;
    return r;
}

int gpumux_report_latency(struct gpumux *g, uint64_t latency_us)
{
    if (!g)
        return 0;
    const int errno_before = errno;
    if (latency_us > GPUMUX_LATENCY_MAX)
        latency_us = GPUMUX_LATENCY_MAX;
    atomic_fetch_add_explicit(&g->latencies[control_latency_place(latency_us)], 1,
                              memory_order_relaxed);
    int64_t now_ms = gpumux_client_clock_ms(), due_ms = atomic_load(&g->next_latency_ms);
    int r = 0;
    if (now_ms >= due_ms &&
        atomic_compare_exchange_strong(&g->next_latency_ms, &due_ms, now_ms + REPORT_EVERY_MS))
        r = send_latencies(g);
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

uint64_t gpumux_batch_size(const struct gpumux *g, uint64_t otherwise)
{
    return g && g->batch_size ? g->batch_size : otherwise;
}

uint64_t gpumux_batch_size_min(const struct gpumux *g)
{
    return g ? g->batch_min : 0;
}

uint64_t gpumux_batch_size_max(const struct gpumux *g)
{
    return g ? g->batch_max : 0;
}

uint64_t gpumux_batch_size_step(const struct gpumux *g)
{
    return g ? g->batch_step : 0;
}

uint64_t gpumux_workload_id(const struct gpumux *g)
{
    return g ? g->workload_id : 0;
}

const char *gpumux_workload_name(const struct gpumux *g)
{
    return g ? g->workload_name : "";
}

int gpumux_attempt(const struct gpumux *g)
{
    return g ? g->attempt : 0;
}

int gpumux_array_index(const struct gpumux *g)
{
    return g ? g->array_index : -1;
}

const char *gpumux_node_name(const struct gpumux *g)
{
    return g ? g->node_name : "";
}

uint64_t gpumux_quota_bytes(const struct gpumux *g)
{
    return g ? g->quota_bytes : 0;
}

int gpumux_share_min_percent(const struct gpumux *g)
{
    return g ? g->share_min_percent : 0;
}

int gpumux_share_max_percent(const struct gpumux *g)
{
    return g ? g->share_max_percent : 100;
}

const char *gpumux_library_version(void)
{
    return GPUMUX_LIBRARY_VERSION;
}
