#include "base/rng.h"
#include "policy/policy_internal.h"

/* Draws `wanted` of the node's fitting devices, each set equally likely (selection sampling).
 * Returns the number of fitting devices; fills `ret` only if they suffice. */
static size_t draw_devices(const struct policy_snapshot *snapshot,
                           const struct policy_device *scratch, const struct policy_node *node,
                           const struct policy_waiting *waiting, struct rng *rng, size_t *ret)
{
    size_t fitting[NODE_DEVICES_MAX], count = 0;
    size_t wanted = (size_t)waiting->needs->devices;
    for (size_t d = node->first_device; d < node->first_device + node->device_count; d++)
        if (policy_device_fit(snapshot, &scratch[d], waiting, snapshot->max_neighbours) ==
            POLICY_FITS)
            fitting[count++] = d;
    if (count < wanted)
        return count;
    for (size_t i = 0, taken = 0; taken < wanted; i++)
        if (rng_below(rng, count - i) < wanted - taken)
            ret[taken++] = fitting[i];
    return count;
}

/* Draws a single device from all that fit anywhere, so that a node counts by its fitting devices
 * (reservoir sampling). For several devices, or none, every node with room counts once. */
static bool draw(const struct policy_snapshot *snapshot, const struct policy_device *scratch,
                 const struct policy_waiting *waiting, struct rng *rng,
                 struct policy_decision *decision)
{
    size_t wanted = (size_t)waiting->needs->devices, weight_seen = 0;
    for (size_t n = 0; n < snapshot->node_count; n++) {
        size_t devices[WORKLOAD_DEVICES_MAX], weight = 1;
        if (policy_node_fit(&snapshot->nodes[n], waiting) != POLICY_FITS)
            continue;
        if (wanted > 0) {
            size_t fitting =
                draw_devices(snapshot, scratch, &snapshot->nodes[n], waiting, rng, devices);
            if (fitting < wanted)
                continue;
            weight = wanted == 1 ? fitting : 1;
        }
        weight_seen += weight;
        if (rng_below(rng, weight_seen) >= weight)
            continue;
        decision->node = n;
        decision->device_count = wanted;
        for (size_t i = 0; i < wanted; i++)
            decision->devices[i] = devices[i];
    }
    return weight_seen > 0;
}

static size_t decide(const struct policy_snapshot *snapshot, struct policy_device *scratch,
                     struct policy_decision *out)
{
    struct rng rng;
    size_t count = 0;
    rng_seed(&rng, snapshot->seed);
    for (size_t w = 0; w < snapshot->waiting_count; w++) {
        const struct policy_waiting *waiting = &snapshot->waiting[w];
        struct policy_decision decision = {.waiting = w};
        if (!draw(snapshot, scratch, waiting, &rng, &decision))
            continue;
        for (size_t i = 0; i < decision.device_count; i++)
            policy_device_take(&scratch[decision.devices[i]], waiting->needs);
        out[count++] = decision;
    }
    return count;
}

const struct policy policy_random = {
    .name = "random",
    .summary = "a random device among those with room",
    .decide = decide,
};
