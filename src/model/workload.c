#include "model/workload.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

DEFINE_NAMES(enum workload_kind,
             workload_kind, [WORKLOAD_TASK] = "task", [WORKLOAD_SERVICE] = "service")
DEFINE_NAMES(enum workload_state, workload_state, [WORKLOAD_QUEUED] = "queued",
             [WORKLOAD_PLACED] = "placed", [WORKLOAD_STARTING] = "starting",
             [WORKLOAD_RUNNING] = "running", [WORKLOAD_STOPPING] = "stopping",
             [WORKLOAD_SUSPENDED] = "suspended", [WORKLOAD_SUCCEEDED] = "succeeded",
             [WORKLOAD_FAILED] = "failed", [WORKLOAD_CANCELLED] = "cancelled",
             [WORKLOAD_SUSPENDING] = "suspending", [WORKLOAD_RESUMING] = "resuming")
DEFINE_NAMES(enum failure_reason, failure_reason, [FAILURE_NONE] = "none", [FAILURE_EXIT] = "exit",
             [FAILURE_SIGNAL] = "signal", [FAILURE_START] = "start", [FAILURE_TIMEOUT] = "timeout",
             [FAILURE_DEPENDENCY] = "dependency", [FAILURE_FAULT] = "fault")
DEFINE_NAMES(enum on_node_lost,
             on_node_lost, [ON_NODE_LOST_REQUEUE] = "requeue", [ON_NODE_LOST_WAIT] = "wait")
DEFINE_NAMES(enum protection, protection, [PROTECTION_ON] = "on", [PROTECTION_OFF] = "off")
DEFINE_NAMES(enum proxy_kind, proxy_kind, [PROXY_OFF] = "off", [PROXY_HTTP] = "http")
DEFINE_NAMES(enum latency_source,
             latency_source, [LATENCY_SOURCE_NONE] = "none", [LATENCY_SOURCE_AUTO] = "auto",
             [LATENCY_SOURCE_VLLM] = "vllm", [LATENCY_SOURCE_SGLANG] = "sglang",
             [LATENCY_SOURCE_TRITON] = "triton", [LATENCY_SOURCE_PROMETHEUS] = "prometheus")
DEFINE_NAMES(enum ready_kind, ready_kind, [READY_STARTED] = "started", [READY_COMMAND] = "command",
             [READY_PORT] = "port", [READY_CLIENT] = "client")
DEFINE_NAMES(enum stop_cause,
             stop_cause, [STOP_NONE] = "none", [STOP_CANCEL] = "cancel", [STOP_REQUEUE] = "requeue")
DEFINE_NAMES(enum hold, hold, [HOLD_NONE] = "none", [HOLD_USER] = "user", [HOLD_ROOM] = "room")

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

const char *pairs_get(const struct pairs *pairs, const char *key)
{
    if (pairs->count == 0)
        return NULL;
    struct pair wanted = {.key = key};
    const struct pair *found =
        bsearch(&wanted, pairs->items, pairs->count, sizeof wanted, compare_keys);
    return found ? found->value : NULL;
}

bool pairs_contain(const struct pairs *have, const struct pairs *wanted)
{
    for (size_t i = 0; i < wanted->count; i++)
        if (!str_equal(pairs_get(have, wanted->items[i].key), wanted->items[i].value))
            return false;
    return true;
}

int pairs_sort(struct error *e, struct pairs *pairs)
{
    if (pairs->count < 2)
        return 0;
    qsort(pairs->items, pairs->count, sizeof pairs->items[0], compare_keys);
    for (size_t i = 1; i < pairs->count; i++)
        if (compare_keys(&pairs->items[i - 1], &pairs->items[i]) == 0)
            return error_set_field(e, ERR_INVALID, pairs->items[i].key, "duplicate name '%s'",
                                   pairs->items[i].key);
    return 0;
}

int pairs_set(struct arena *arena, struct pairs *pairs, const char *key, const char *value)
{
    size_t at = 0;
    while (at < pairs->count && strcmp(pairs->items[at].key, key) < 0)
        at++;
    bool replaces = at < pairs->count && str_equal(pairs->items[at].key, key);
    size_t count = pairs->count + !replaces;
    struct pair *items = arena_array(arena, count, sizeof *items);
    struct pair added = {arena_strdup(arena, key), arena_strdup(arena, value)};
    if (!items || !added.key || !added.value)
        return -ERR_NO_MEMORY;
    size_t after = at + replaces;
    if (at)
        memcpy(items, pairs->items, at * sizeof *items);
    items[at] = added;
    if (after < pairs->count)
        memcpy(items + at + 1, pairs->items + after, (pairs->count - after) * sizeof *items);
    *pairs = (struct pairs){.count = count, .items = items};
    return 0;
}

struct attempt *workload_status_attempt(const struct workload_status *status)
{
    return status->attempts_kept > 0 ? &status->attempts[status->attempts_kept - 1] : NULL;
}

bool workload_status_ran_before(const struct workload_status *status)
{
    for (int i = 0; i < status->attempts_kept - 1; i++) {
        const struct attempt *a = &status->attempts[i];
        if (a->lost || (a->started_wall_ms != 0 && a->failure != FAILURE_START))
            return true;
    }
    /* For attempts that are not kept, only this start time is left. */
    return status->attempts_total > status->attempts_kept && status->started_wall_ms != 0;
}

void workload_spec_init(struct workload_spec *spec)
{
    *spec = (struct workload_spec){
        .needs = {.devices = WORKLOAD_UNSET, .grace_ms = WORKLOAD_UNSET},
    };
}
