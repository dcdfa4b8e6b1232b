/* The settings, and the numbers for the limits pages. */
#include <math.h>

#include "device/controller_internal.h"

static const double LIMIT_US_MAX = 1e9;
static const double KIND_PART_LEAST = 0.05;    /* of the bursts that a request may be */
static const double REQUEST_BURSTS_MOST = 1.5; /* if a burst stands for a request */
static const double REQUEST_SPREAD = 1.2;      /* of a request of several bursts */

struct setting {
    const char *name;
    bool has_gate;
    enum controller_rule rule;
    uint32_t window_us, rate_permille;
    double prior_speed;
    /* For the rule DUE: parts of the time alone that a request still needs when the gate shuts, and
     * of the slack that the request may use before. */
    double margin, slack;
};

static const struct setting SETTINGS[CONTROLLER_SETTINGS] = {
    [CONTROLLER_FREE] = {"no gate", false, CONTROLLER_RULE_BUSY, 20000, 0, 1, 0, 0},
    [CONTROLLER_DUE_RELAXED] = {"gate by deadline, relaxed", true, CONTROLLER_RULE_DUE, 1000, 0,
                                0.96, 0.7, 0.8},
    [CONTROLLER_DUE] = {"gate by deadline", true, CONTROLLER_RULE_DUE, 500, 0, 0.94, 1, 0.5},
    [CONTROLLER_DUE_CAREFUL] = {"gate by deadline, careful", true, CONTROLLER_RULE_DUE, 250, 0,
                                0.91, 1.3, 0.2},
    [CONTROLLER_STRICT_1000] = {"gate, window 1000 us", true, CONTROLLER_RULE_BUSY, 1000, 0, 0.87,
                                0, 0},
    [CONTROLLER_STRICT_250] = {"gate, window 250 us", true, CONTROLLER_RULE_BUSY, 250, 0, 0.82, 0,
                               0},
    [CONTROLLER_STRICT_100] = {"gate, window 100 us", true, CONTROLLER_RULE_BUSY, 100, 0, 0.76, 0,
                               0},
    [CONTROLLER_RATE_500] = {"gate, rate 50 %", true, CONTROLLER_RULE_BUSY, 250, 500, 0.45, 0, 0},
    [CONTROLLER_RATE_250] = {"gate, rate 25 %", true, CONTROLLER_RULE_BUSY, 250, 250, 0.22, 0, 0},
    [CONTROLLER_RATE_100] = {"gate, rate 10 %", true, CONTROLLER_RULE_BUSY, 250, 100, 0.09, 0, 0},
    [CONTROLLER_PAUSE] = {"pause", true, CONTROLLER_RULE_BUSY, 100, 100, 0, 0, 0},
};

const char *controller_setting_name(int setting)
{
    return setting >= 0 && setting < CONTROLLER_SETTINGS ? SETTINGS[setting].name : "?";
}

double controller_prior_speed(int setting)
{
    return SETTINGS[setting].prior_speed;
}

bool controller_uses_due(int setting)
{
    return SETTINGS[setting].rule == CONTROLLER_RULE_DUE;
}

/* Rounds to two digits, so that small changes of an estimate do not change the limits. */
static uint32_t limit_us(double us)
{
    if (!(us > 0))
        return 0;
    double capped = fmin(us, LIMIT_US_MAX);
    double digit = fmax(1, pow(10, floor(log10(fmax(capped, 1))) - 1));
    return (uint32_t)(ceil(capped / digit) * digit);
}

/* Returns the mean duration of the longest usual kind, or of the kind with most of the time. */
static double burst_us(const struct controller_solo *solo, bool longest)
{
    double sum = 0, most = 0, us = 0;
    for (int k = 0; k < CONTROLLER_KINDS; k++)
        sum += solo->bursts[k];
    for (int k = 0; k < CONTROLLER_KINDS; k++) {
        double weight = longest ? solo->bursts_us[k] : solo->bursts[k] * solo->bursts_us[k];
        if (solo->bursts[k] < KIND_PART_LEAST * sum || weight <= most)
            continue;
        most = weight;
        us = solo->bursts_us[k];
    }
    return us;
}

double controller_need_us(const struct controller_solo *solo, bool reports_requests)
{
    double bursts = 0;
    for (int k = 0; k < CONTROLLER_KINDS; k++)
        bursts += solo->bursts[k];
    if (!reports_requests)
        return burst_us(solo, false);
    if (bursts > 0 && solo->requests > 0 && bursts <= REQUEST_BURSTS_MOST * solo->requests)
        return burst_us(solo, true);
    double us = fmax(REQUEST_SPREAD * solo->request_us, solo->latency_us);
    return us > 0 ? us : burst_us(solo, true);
}

struct controller_limits controller_limits_of(int setting, const struct controller_solo *solo,
                                              const struct controller_facts *facts)
{
    const struct setting *s = &SETTINGS[setting];
    struct controller_limits limits = {.has_gate = s->has_gate,
                                       .is_paused = setting == CONTROLLER_PAUSE,
                                       .rule = s->rule,
                                       .window_us = s->window_us,
                                       .rate_permille = s->rate_permille};
    if (s->rule != CONTROLLER_RULE_DUE)
        return limits;
    double alone_us = controller_need_us(solo, facts->reports_requests);
    double need_us = s->margin * alone_us + s->window_us + facts->kernel_us;
    /* The rest of the slack is kept for requests that arrive meanwhile: slack moves work, and at a
     * high load every request would end up at its deadline. */
    double kept_us = (1 - s->slack) * fmax(0, facts->target_us - need_us);
    limits.need_us = limit_us(need_us + kept_us);
    limits.each_us = limit_us(solo->request_us > 0 ? solo->request_us : alone_us);
    limits.burst_us =
        limit_us(s->slack * (facts->allowed_stretch * burst_us(solo, false) - need_us));
    return limits;
}

static uint32_t smaller_but_not_zero(uint32_t a, uint32_t b)
{
    return a == 0 ? b : b == 0 || a < b ? a : b;
}

struct controller_limits controller_stricter(const struct controller_limits *a,
                                             const struct controller_limits *b)
{
    const struct controller_limits *due = a->rule == CONTROLLER_RULE_DUE ? a : b;
    const struct controller_limits *other = due == a ? b : a;
    bool both_due = other->rule == CONTROLLER_RULE_DUE || !other->has_gate;
    struct controller_limits limits = {
        .has_gate = a->has_gate || b->has_gate,
        .is_paused = a->is_paused || b->is_paused,
        .rule = due->rule == CONTROLLER_RULE_DUE && both_due ? CONTROLLER_RULE_DUE
                                                             : CONTROLLER_RULE_BUSY,
        .window_us = smaller_but_not_zero(a->window_us, b->window_us),
        .rate_permille = smaller_but_not_zero(a->rate_permille, b->rate_permille)};
    if (limits.rule != CONTROLLER_RULE_DUE)
        return limits;
    bool is_other = other->rule == CONTROLLER_RULE_DUE;
    limits.need_us = is_other && other->need_us > due->need_us ? other->need_us : due->need_us;
    limits.each_us = is_other && other->each_us > due->each_us ? other->each_us : due->each_us;
    limits.burst_us = is_other && other->burst_us < due->burst_us ? other->burst_us : due->burst_us;
    return limits;
}
