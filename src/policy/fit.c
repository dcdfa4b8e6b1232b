#include <ctype.h>
#include <string.h>

#include "policy/policy.h"

enum { SHARE_TOTAL_PERCENT = 100 };

static bool is_filler(char c)
{
    return c == ' ' || c == '-' || c == '_';
}

/* Returns whether `text` starts with `wanted`, ignoring fillers and case. */
static bool starts_with_loosely(const char *text, const char *wanted)
{
    for (;; text++, wanted++) {
        while (is_filler(*wanted))
            wanted++;
        while (is_filler(*text))
            text++;
        if (!*wanted)
            return true;
        if (tolower((unsigned char)*text) != tolower((unsigned char)*wanted))
            return false;
    }
}

bool policy_model_matches(const char *model, const char *wanted)
{
    do {
        if (starts_with_loosely(model, wanted))
            return true;
    } while (*model++);
    return false;
}

const char *policy_misfit_text(enum policy_misfit misfit)
{
    static const char *const texts[POLICY_MISFIT_END] = {
        [POLICY_FITS] = "",
        [POLICY_NODE_UNUSABLE] = "the node is drained, held or not connected",
        [POLICY_NODE_DOUBTFUL] = "a start failed on the node",
        [POLICY_NODE_FULL] = "the node has as many attempts as it may have (attempts_max)",
        [POLICY_WRONG_MODEL] = "the workload requests another model",
        [POLICY_WRONG_LABELS] = "the node lacks the requested labels",
        [POLICY_NO_MEMORY] = "too little memory is left by others' quotas",
        [POLICY_NO_SHARE] = "too little free share",
        [POLICY_UNHEALTHY] = "the device takes no new workloads of this kind now",
        [POLICY_SUSPECT] = "the device has another suspect of a GPU fault",
        [POLICY_NEIGHBOURS] = "the device is in use",
        [POLICY_KEPT] = "the device is kept for a workload that waits for room",
    };
    return texts[misfit];
}

int policy_cpu_only_max(const struct policy_node *node)
{
    int most = node->attempts_max * 3 / 4;
    return node->cpu_tasks_max < most ? node->cpu_tasks_max : most;
}

enum policy_misfit policy_node_fit(const struct policy_node *node,
                                   const struct policy_waiting *waiting)
{
    if (!node->usable)
        return POLICY_NODE_UNUSABLE;
    if (node->doubtful && waiting->needs->wary)
        return POLICY_NODE_DOUBTFUL;
    if (waiting->node_labels && waiting->node_labels->count > 0 &&
        !pairs_contain(node->labels, waiting->node_labels))
        return POLICY_WRONG_LABELS;
    if (node->attempts >= node->attempts_max ||
        (waiting->needs->devices == 0 && node->cpu_only >= policy_cpu_only_max(node)))
        return POLICY_NODE_FULL;
    return POLICY_FITS;
}

enum policy_misfit policy_device_fit(const struct policy_snapshot *snapshot,
                                     const struct policy_device *device,
                                     const struct policy_waiting *waiting, int max_neighbours)
{
    const struct workload_needs *needs = waiting->needs;
    enum policy_misfit misfit = policy_node_fit(&snapshot->nodes[device->node], waiting);
    if (misfit != POLICY_FITS)
        return misfit;
    if (needs->model[0] && !policy_model_matches(device->model, needs->model))
        return POLICY_WRONG_MODEL;
    misfit = policy_device_room(device, needs, max_neighbours);
    return misfit == POLICY_FITS && device->kept_for && !waiting->takes_kept ? POLICY_KEPT : misfit;
}

/* Returns the memory that is booked for others. Swappable tasks give way to a service, so their
 * quotas do not keep a service away. No task is placed where quotas already exceed the memory. */
static uint64_t booked_for_others(const struct policy_device *device,
                                  const struct workload_needs *needs)
{
    return needs->kind == WORKLOAD_SERVICE ? device->quota_bytes - device->swappable_bytes
                                           : device->quota_bytes;
}

enum policy_misfit policy_device_room(const struct policy_device *device,
                                      const struct workload_needs *needs, int max_neighbours)
{
    if (device->admits == ADMIT_NONE ||
        (device->admits == ADMIT_SERVICES && needs->kind != WORKLOAD_SERVICE))
        return POLICY_UNHEALTHY;
    if (needs->suspect && device->suspects > 0)
        return POLICY_SUSPECT;
    if (needs->quota_bytes > device->memory_bytes) /* regardless of neighbours */
        return POLICY_NO_MEMORY;
    if (device->exclusive || device->neighbours >= max_neighbours)
        return POLICY_NEIGHBOURS;
    if (needs->quota_bytes == 0)
        return device->neighbours == 0 ? POLICY_FITS : POLICY_NEIGHBOURS;
    uint64_t booked_bytes = booked_for_others(device, needs);
    if (booked_bytes > device->memory_bytes ||
        needs->quota_bytes > device->memory_bytes - booked_bytes)
        return POLICY_NO_MEMORY;
    if (device->share_min_percent + needs->share_min_percent > SHARE_TOTAL_PERCENT)
        return POLICY_NO_SHARE;
    return POLICY_FITS;
}

bool policy_device_could(const struct policy_snapshot *snapshot, const struct policy_device *device,
                         const struct policy_waiting *waiting)
{
    const struct policy_device empty = {.model = device->model,
                                        .node = device->node,
                                        .memory_bytes = device->memory_bytes,
                                        .admits = device->admits};
    return policy_device_fit(snapshot, &empty, waiting, 1) == POLICY_FITS;
}

/* A workload without a quota holds the whole device. */
static uint64_t quota_on(const struct policy_device *device, const struct workload_needs *needs)
{
    return needs->quota_bytes ? needs->quota_bytes : device->memory_bytes;
}

void policy_device_take(struct policy_device *device, const struct workload_needs *needs)
{
    device->quota_bytes += quota_on(device, needs);
    device->swappable_bytes += needs->swappable ? quota_on(device, needs) : 0;
    device->share_min_percent += needs->share_min_percent;
    device->neighbours++;
    device->services += needs->kind == WORKLOAD_SERVICE;
    device->suspects += needs->suspect;
    device->exclusive = device->exclusive || needs->quota_bytes == 0;
}

void policy_device_release(struct policy_device *device, const struct workload_needs *needs)
{
    device->quota_bytes -= quota_on(device, needs);
    device->swappable_bytes -= needs->swappable ? quota_on(device, needs) : 0;
    device->share_min_percent -= needs->share_min_percent;
    device->neighbours--;
    device->services -= needs->kind == WORKLOAD_SERVICE;
    device->suspects -= needs->suspect;
    if (needs->quota_bytes == 0)
        device->exclusive = false;
}

static bool first_on_node(const struct policy_snapshot *snapshot,
                          const struct policy_device *scratch, const struct policy_node *node,
                          const struct policy_waiting *waiting, int max_neighbours,
                          struct policy_decision *decision)
{
    size_t wanted = (size_t)waiting->needs->devices, found = 0;
    for (size_t i = 0; i < node->device_count && found < wanted; i++) {
        size_t d = node->first_device + i;
        if (policy_device_fit(snapshot, &scratch[d], waiting, max_neighbours) == POLICY_FITS)
            decision->devices[found++] = d;
    }
    decision->device_count = found;
    return found == wanted;
}

size_t policy_decide_first(const struct policy_snapshot *snapshot, struct policy_device *scratch,
                           int max_neighbours, struct policy_decision *out)
{
    size_t count = 0;
    for (size_t w = 0; w < snapshot->waiting_count; w++) {
        const struct policy_waiting *waiting = &snapshot->waiting[w];
        struct policy_decision decision = {.waiting = w};
        size_t n = 0;
        for (; n < snapshot->node_count; n++)
            if (policy_node_fit(&snapshot->nodes[n], waiting) == POLICY_FITS &&
                first_on_node(snapshot, scratch, &snapshot->nodes[n], waiting, max_neighbours,
                              &decision))
                break;
        if (n == snapshot->node_count)
            continue;
        decision.node = n;
        for (size_t i = 0; i < decision.device_count; i++)
            policy_device_take(&scratch[decision.devices[i]], waiting->needs);
        out[count++] = decision;
    }
    return count;
}
