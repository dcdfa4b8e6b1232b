#include "shim/launch/due.h"

#include <stddef.h>

/* Copies the deadlines of open requests. Returns their number. */
static uint32_t read_deadlines(const struct status_page *service, uint64_t now_ns,
                               uint64_t deadlines[PAGE_REQUESTS_MAX])
{
    uint32_t count = 0;
    for (int i = 0; i < PAGE_REQUESTS_MAX; i++) {
        uint64_t due_ns = atomic_load_explicit(&service->due_ns[i], memory_order_relaxed);
        if (due_ns != 0 && (due_ns >= now_ns || now_ns - due_ns < DUE_STALE_NS))
            deadlines[count++] = due_ns;
    }
    return count;
}

static bool has_near_deadline(const struct status_page *service, const struct due_rule *rule,
                              uint64_t now_ns)
{
    uint64_t deadlines[PAGE_REQUESTS_MAX];
    uint32_t count = read_deadlines(service, now_ns, deadlines);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t need_ns = rule->need_ns;
        for (uint32_t j = 0; j < count; j++)
            if (deadlines[j] < deadlines[i] || (deadlines[j] == deadlines[i] && j < i))
                need_ns += rule->each_ns;
        if (now_ns + need_ns >= deadlines[i])
            return true;
    }
    return false;
}

static bool has_long_burst(const struct status_page *service, const struct due_rule *rule,
                           uint64_t now_ns, bool is_busy)
{
    uint64_t begin_ns = atomic_load_explicit(&service->burst_begin_ns, memory_order_relaxed);
    uint64_t age_ns = now_ns > begin_ns ? now_ns - begin_ns : 0;
    return begin_ns != 0 && age_ns >= rule->burst_ns && (is_busy || age_ns < DUE_STALE_NS);
}

bool due_is_near(const struct status_page *service, const struct due_rule *rule, uint64_t now_ns,
                 bool is_busy)
{
    return atomic_load_explicit(&service->reports_requests, memory_order_relaxed)
               ? has_near_deadline(service, rule, now_ns)
               : has_long_burst(service, rule, now_ns, is_busy);
}
