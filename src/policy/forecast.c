#include "policy/forecast.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"

#define BLIND_SLOWDOWN 0.5
/* SM activity assumed for a profile without one. */
#define UNKNOWN_ACTIVITY 0.75

void forecast_device_make(const struct device *device, struct forecast_device *ret_device)
{
    struct forecast_device d = {.memory_bytes = device->memory_bytes, .sm_count = device->sm_count};
    (void)str_copy(d.model, sizeof d.model, device->model);
    d.hash = hash_u64(hash_string(d.model) ^ hash_u64(d.memory_bytes + (uint64_t)d.sm_count));
    *ret_device = d;
}

size_t forecast_set_add(struct forecast_set *set, uint32_t kind)
{
    size_t at = set->count;
    assert(at < FORECAST_MEMBERS_MAX);
    for (; at > 0 && set->kinds[at - 1] > kind; at--)
        set->kinds[at] = set->kinds[at - 1];
    set->kinds[at] = kind;
    set->count++;
    return at;
}

void forecast_set_remove(struct forecast_set *set, size_t position)
{
    set->count--;
    memmove(&set->kinds[position], &set->kinds[position + 1],
            (set->count - position) * sizeof set->kinds[0]);
}

static const struct forecast_profile *
blind_profile(void *context, const struct forecast_device *device, uint32_t kind)
{
    (void)context;
    (void)device;
    (void)kind;
    return NULL;
}

static void blind_together(void *context, const struct forecast_set *set,
                           struct forecast_answer *ret_answer)
{
    (void)context;
    for (size_t i = 0; i < set->count; i++) {
        ret_answer->pd[i] = 1 + BLIND_SLOWDOWN * (double)(set->count - 1);
        ret_answer->p99_ms[i] = 0;
        ret_answer->is_p99_guess[i] = false;
    }
}

const struct forecast forecast_blind = {.profile = blind_profile, .together = blind_together};

static const struct forecast_profile *
cold_profile(void *context, const struct forecast_device *device, uint32_t kind)
{
    const struct forecast *known = context;
    return known->profile(known->context, device, kind);
}

static void cold_together(void *context, const struct forecast_set *set,
                          struct forecast_answer *ret_answer)
{
    double sm = 0, dram = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct forecast_profile *p = cold_profile(context, set->device, set->kinds[i]);
        sm += p && p->sm_activity > 0 ? p->sm_activity : UNKNOWN_ACTIVITY;
        dram += p ? p->dram_rate : 0;
    }
    for (size_t i = 0; i < set->count; i++) {
        const struct forecast_profile *p = cold_profile(context, set->device, set->kinds[i]);
        bool is_service = p && p->kind == WORKLOAD_SERVICE;
        ret_answer->pd[i] = is_service || set->count == 1 ? 1 : fmax(1, fmax(sm, dram));
        ret_answer->p99_ms[i] = 0;
        ret_answer->is_p99_guess[i] = false;
    }
}

void forecast_cold_make(const struct forecast *known, struct forecast *ret_forecast)
{
    *ret_forecast = (struct forecast){
        .context = (void *)(uintptr_t)known, .profile = cold_profile, .together = cold_together};
}

static void remove_ended(struct forecast_set *set, double *left_ms, size_t position)
{
    forecast_set_remove(set, position);
    memmove(&left_ms[position], &left_ms[position + 1],
            (set->count - position) * sizeof left_ms[0]);
}

double forecast_finish_sum(const struct forecast *f, const struct forecast_set *set,
                           const double *remaining_ms, double *ret_first_ms)
{
    struct forecast_set now = *set;
    double left_ms[FORECAST_MEMBERS_MAX], clock_ms = 0, sum_ms = 0, first_ms = INFINITY;
    for (size_t i = 0; i < set->count; i++)
        left_ms[i] = remaining_ms[i];
    for (;;) {
        struct forecast_answer answer;
        size_t next = 0;
        double step_ms = INFINITY;
        f->together(f->context, &now, &answer);
        for (size_t i = 0; i < now.count; i++) {
            if (!(left_ms[i] * answer.pd[i] < step_ms))
                continue;
            step_ms = left_ms[i] * answer.pd[i];
            next = i;
        }
        if (isinf(step_ms))
            break;
        for (size_t i = 0; i < now.count; i++)
            left_ms[i] = fmax(0, left_ms[i] - step_ms / answer.pd[i]);
        clock_ms += step_ms;
        sum_ms += clock_ms;
        first_ms = fmin(first_ms, clock_ms);
        remove_ended(&now, left_ms, next);
    }
    if (ret_first_ms)
        *ret_first_ms = first_ms;
    return sum_ms;
}
