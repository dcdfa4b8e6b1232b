#include "shim/launch/rate.h"

enum {
    MS_NS = 1000000,
    PROPORTIONAL_PARTS = 4, /* inverse of the controller's gain */
    INTEGRAL_PARTS = 4,
};

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* The controller learns only from periods in which the rate, not the task, was the limit, and from
 * periods with excess use but no delay: otherwise a speed that was set too high would stay. */
static void end_period(struct rate *rate, uint64_t now_ns, int64_t granted,
                       struct rate_report *report)
{
    int64_t length_ns = (int64_t)(now_ns - rate->period_ns);
    int64_t used = (int64_t)((double)rate->used_ns / (double)length_ns * RATE_FULL);
    int64_t error = granted - used;
    if (rate->is_held || error < 0) {
        rate->integral = clamp(rate->integral + error / INTEGRAL_PARTS, -granted / 2, granted / 2);
        rate->speed = (uint64_t)clamp(granted + rate->integral + error / PROPORTIONAL_PARTS,
                                      granted / 2, granted + granted / 2);
        report->periods++;
        report->error_permille += (uint64_t)(error < 0 ? -error : error) / (RATE_FULL / 1000);
    }
    rate->period_ns = now_ns;
    rate->used_ns = 0;
    rate->is_held = false;
}

static int64_t burst_ns(int64_t granted)
{
    return (int64_t)RATE_BURST_MS * MS_NS * granted / RATE_FULL;
}

static void fill(struct rate *rate, uint64_t now_ns, int64_t granted)
{
    const int64_t most_ns = burst_ns(granted);
    uint64_t elapsed_ns = now_ns - rate->filled_ns;
    if (elapsed_ns > (uint64_t)RATE_DEBT_MS_MAX * MS_NS)
        elapsed_ns = (uint64_t)RATE_DEBT_MS_MAX * MS_NS;
    int64_t budget_ns = rate->budget_ns + (int64_t)(elapsed_ns * rate->speed / RATE_FULL);
    rate->budget_ns = budget_ns < most_ns ? budget_ns : most_ns;
    rate->filled_ns = now_ns;
}

uint64_t rate_charge(struct rate *rate, uint64_t now_ns, uint64_t cost_ns,
                     uint32_t granted_permille, struct rate_report *ret_report)
{
    const int64_t granted = (int64_t)granted_permille * (RATE_FULL / 1000);
    *ret_report = (struct rate_report){0};
    if (!lock_enter(&rate->lock))
        return 0;
    /* Threads read the clock before they take the lock, and may take it in another order. */
    if (now_ns < rate->filled_ns)
        now_ns = rate->filled_ns;
    if (rate->filled_ns == 0) {
        rate->filled_ns = rate->period_ns = now_ns;
        rate->speed = (uint64_t)granted;
        rate->budget_ns = burst_ns(granted);
    }
    if (now_ns - rate->period_ns >= (uint64_t)RATE_PERIOD_MS * MS_NS)
        end_period(rate, now_ns, granted, ret_report);
    fill(rate, now_ns, granted);
    const int64_t debt_ns_max = (int64_t)RATE_DEBT_MS_MAX * MS_NS / RATE_FULL * granted;
    rate->budget_ns = clamp(rate->budget_ns - (int64_t)cost_ns, -debt_ns_max, INT64_MAX);
    rate->used_ns += cost_ns;
    uint64_t wait_ns = 0;
    if (rate->budget_ns < 0 && rate->speed > 0) {
        wait_ns = (uint64_t)((double)-rate->budget_ns / (double)rate->speed * RATE_FULL);
        rate->is_held = true;
    }
    lock_release(&rate->lock);
    return wait_ns;
}
