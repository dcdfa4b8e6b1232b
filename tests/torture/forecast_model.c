/* Tasks of kind k use k quarters of a device, and are slowed by a total above one device. */
#include "world.h"

static const struct forecast_profile profiles[FORECAST_MODEL_KINDS] = {
    {.name = "nothing"},
    {.name = "quarter", .sm_activity = 0.25, .dram_rate = 0.1},
    {.name = "half", .sm_activity = 0.5, .dram_rate = 0.6},
    {.name = "most", .sm_activity = 0.75},
    {.name = "whole", .sm_activity = 1, .dram_rate = 1},
    {.name = "service", .kind = WORKLOAD_SERVICE, .sm_activity = 0.3, .slo_ms = 50},
};

static const struct forecast_profile *profile(void *context, const struct forecast_device *device,
                                              uint32_t kind)
{
    (void)context;
    (void)device;
    return kind > 0 && kind < FORECAST_MODEL_KINDS ? &profiles[kind] : NULL;
}

static void together(void *context, const struct forecast_set *set,
                     struct forecast_answer *ret_answer)
{
    double sum = 0;
    (void)context;
    for (size_t i = 0; i < set->count; i++)
        sum += profiles[set->kinds[i]].sm_activity;
    for (size_t i = 0; i < set->count; i++) {
        bool is_service = profiles[set->kinds[i]].kind == WORKLOAD_SERVICE;
        ret_answer->pd[i] = is_service || sum < 1 ? 1 : sum;
        ret_answer->p99_ms[i] = is_service ? 40 * sum : 0;
        ret_answer->is_p99_guess[i] = is_service && set->count == 2;
    }
}

const struct forecast forecast_model = {.profile = profile, .together = together};
