#include "device/controller.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "device/controller_internal.h"

enum {
    LOOK_MS_MAX = 2000, /* a longer gap says nothing about loads */
    SMOOTH_MS = 700,    /* of the load */
    SMOOTH_COUNT = 16,  /* requests that the load is at least smoothed over */
    SMOOTH_MS_MAX = 20000,
    SILENCE_MS = 1000,
    REST_MS = 600,       /* a task with longer kernels than this has no gate */
    SILENCE_COUNT = 4,   /* requests that would have been expected */
    LOWER_MS = 5000,     /* before a lower octave is believed */
    FIRST_LOAD_MS = 300, /* before the first octave is chosen */
    SETTLE_MS = 200,     /* requests of the last setting are still being answered */
    SETTLE_MS_MAX = 800,
    BACKLOG_MS_MAX = 1000,
    CALM_MS = 2000, /* before the next faster setting is tried */
    CALM_SLOW_MS = 5000,
    CALM_REQUESTS = 50,
    CALM_REQUESTS_SLOW = 12,
    WAIT_MS = 4000, /* after the first failed trial */
    WAIT_SEVERE_MS = 60000,
    WAIT_MS_MAX = 600 * 1000,
    FALL_MS = 15000,    /* in which a safer setting must help */
    FORGIVE_MS = 30000, /* without danger, before the wait is short again */
    SPEED_MS_SURE = 3000,
    SPEED_MS_MAX = 20000, /* older work loses weight */
    PROBE_MS_LEAST = 300,
    PROBE_MS = 1000,
    PROBE_AGAIN_MS = 5000,
    PROBES_MAX = 8,
    PROBE_SLOW_BURSTS = 8,
    PROBE_BURSTS = 20,
    KERNEL_MS = 10000,
};

/* Pairs without MPS, and pairs judged by bursts, are pairs of their own. */
static const uint64_t WITHOUT_MPS = UINT64_C(0x9e3779b97f4a7c15);
static const uint64_t BY_BURSTS = UINT64_C(0xd1b54a32d192ed03);
static const double OCTAVE_SLACK = 0.9;
static const double RELIEF = 0.5;      /* × the late requests before, if a safer setting helps */
static const double RECORD_MAX = 3000; /* requests */
static const double FASTER = 1.01;     /* that justifies a less safe setting */
static const double SLOWER = 0.9;      /* × another speed: decided at once */
static const double SWAP = 1.02;       /* × the speed of the present setting */
static const double LATE_LEAST = 0.01; /* decayed weight of late requests that is shown */
static const double TRIAL_PART = 0.1;  /* of the allowed late requests */
static const double TRIAL_CREDIT_FIRST = 8, TRIAL_CREDIT_MAX = 8, TRIAL_COST = 1;
static const double OCCUPIED_LOOK_MAX = 2; /* a burst may have begun before the look */
static const double PROBE_RATE = 1;        /* requests or bursts per second worth a measurement */
static const double TESTED_LATE = 3;       /* late requests that a setting was allowed so far */
static const double BUDGET_MAX = 20;
static const double CHANGES_MAX = 10, CHANGES_PER_MINUTE = 6;
static const double COUNT_MAX = 1e9;

void controller_init(struct controller *c, struct controller_memory *memory)
{
    *c = (struct controller){.memory = memory,
                             .setting = CONTROLLER_FREE,
                             .fell_from = -1,
                             .credit = TRIAL_CREDIT_FIRST,
                             .changes = CHANGES_MAX};
}

__attribute__((format(printf, 2, 3))) static void explain(struct controller *c, const char *format,
                                                          ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(c->cause, sizeof c->cause, format, args);
    va_end(args);
}

/* ---- speeds ---- */

/* Returns the measured speed, or the assumed one relative to the setting in force. */
static double speed_of(struct controller *c, int s)
{
    const struct controller_record *r = controller_record_of(c, s),
                                   *now = controller_record_of(c, c->setting);
    double prior = controller_prior_speed(s), prior_now = controller_prior_speed(c->setting);
    if (controller_is_measured(now) && controller_is_measured(r))
        return r->work / r->work_ms;
    if (controller_is_measured(now) && prior_now > 0)
        return now->work / now->work_ms * prior / prior_now;
    return prior;
}

/* ---- changes ---- */

static void enter(struct controller *c, int setting)
{
    if (setting == CONTROLLER_PAUSE && c->setting != CONTROLLER_PAUSE)
        c->paused_ms = c->now_ms;
    if (setting != CONTROLLER_PAUSE)
        c->paused_ms = 0;
    c->setting = setting;
    c->since_ms = c->calm_ms = c->now_ms;
    c->evidence = (struct controller_evidence){0};
    c->is_trial = false;
    c->backlog_ms = 0;
}

static void settle(struct controller *c, int setting)
{
    enter(c, setting);
    controller_pair_of(c)->setting = setting;
}

/* Returns the fastest setting that keeps the target, as far as is known, for the present pair. */
static int remembered(struct controller *c, const struct controller_look *look)
{
    int best = controller_pair_of(c)->setting;
    bool is_found = best <= controller_safest(c, look) &&
                    controller_record_of(c, best)->trust == CONTROLLER_SAFE;
    for (int s = 0; s < CONTROLLER_PAUSE && !is_found; s++)
        if (controller_is_possible(c, look, s) &&
            controller_record_of(c, s)->trust == CONTROLLER_SAFE) {
            best = s;
            is_found = true;
        }
    return is_found ? best : -1;
}

static int first_setting(struct controller *c, const struct controller_look *look)
{
    int known = remembered(c, look);
    if (known >= 0)
        return known;
    for (int s = CONTROLLER_DUE; s < controller_safest(c, look); s++)
        if (controller_is_possible(c, look, s) &&
            controller_record_of(c, s)->trust != CONTROLLER_UNSAFE)
            return s;
    return controller_safest(c, look) < CONTROLLER_PAUSE ? controller_safest(c, look)
                                                         : CONTROLLER_RATE_100;
}

/* Enters the pair of the present programs and load. */
static bool enter_pair(struct controller *c)
{
    bool is_new = false;
    struct controller_pair left = *controller_pair_of(c);
    int32_t from = controller_pair_nearest(c->memory, c->service, c->neighbours, c->octave);
    struct controller_pair old = {0};
    if (from >= 0)
        old = c->memory->pairs[from];
    c->pair = controller_pair_place(c->memory, c->service, c->neighbours, c->octave, &is_new);
    if (is_new && from >= 0)
        controller_pair_inherit(controller_pair_of(c), &old);
    if (left.service == c->service && left.neighbours == c->neighbours)
        controller_pair_fill_speeds(controller_pair_of(c), &left, SPEED_MS_LEAST);
    for (int s = 0; s < CONTROLLER_SETTINGS; s++)
        c->failed_ms[s] = c->now_ms;
    return is_new;
}

static void begin_pair(struct controller *c, const struct controller_look *look)
{
    bool is_service = c->service == look->service;
    c->service = look->service;
    c->neighbours = look->neighbours;
    c->solo = controller_solo_place(c->memory, c->service);
    if (!is_service) {
        c->rate = c->busy_fraction = c->occupied = 0;
        c->probes = 0;
        c->octave = 0;
        c->has_looked = false;
    }
    int32_t place = controller_pair_recent(c->memory, c->service, c->neighbours);
    if (!is_service && place >= 0) /* until the load is known */
        c->octave = c->memory->pairs[place].octave;
    c->pair_ms = c->now_ms;
    c->fell_from = -1;
    (void)enter_pair(c);
    c->is_unreachable = false;
    c->kernel_us = 0;
    c->credit = TRIAL_CREDIT_FIRST;
    c->budget = 0;
    bool is_known = controller_need_us(controller_solo_of(c), look->reports_requests) > 0;
    c->is_learning = c->neighbours != 0 && !is_known && remembered(c, look) < 0;
    enter(c, c->neighbours == 0 ? CONTROLLER_FREE : first_setting(c, look));
    explain(c, c->neighbours == 0 ? "no tasks"
               : c->is_learning   ? "measuring the service with "
                                    "tasks held"
                                  : "new neighbours");
}

static void enter_load(struct controller *c, const struct controller_look *look)
{
    int before = c->setting;
    bool is_new = enter_pair(c);
    if (c->neighbours == 0 || c->is_learning)
        return;
    int known = is_new ? -1 : remembered(c, look);
    if (known >= 0 && controller_record_of(c, before)->trust == CONTROLLER_SAFE &&
        controller_is_possible(c, look, before) && speed_of(c, known) <= speed_of(c, before) * SWAP)
        known = before;
    if (known < 0 || known == before || (known < before && c->changes < 1)) {
        c->is_trial = false;
        return;
    }
    c->changes -= known < before;
    enter(c, known);
    explain(c, "kept the target at this load before");
}

/* ---- danger ---- */

static void mark_unsafe(struct controller *c, enum controller_verdict verdict)
{
    struct controller_record *r = controller_record_of(c, c->setting);
    int least = verdict == CONTROLLER_SEVERE ? WAIT_SEVERE_MS : WAIT_MS;
    if (r->trust != CONTROLLER_SAFE || c->is_trial)
        r->wait_ms = r->wait_ms > WAIT_MS_MAX / 2 ? WAIT_MS_MAX : 2 * r->wait_ms;
    if (r->wait_ms < least)
        r->wait_ms = least;
    r->trust = CONTROLLER_UNSAFE;
    c->failed_ms[c->setting] = c->now_ms;
}

/* Returns the fastest safer setting believed safe; -1: none. */
static int safer(struct controller *c, const struct controller_look *look,
                 enum controller_verdict verdict)
{
    int best = -1, last = -1;
    double best_speed = -1;
    if (c->is_trial && controller_record_of(c, c->back)->trust != CONTROLLER_UNSAFE &&
        controller_is_possible(c, look, c->back))
        return c->back;
    for (int s = c->setting + 1; s <= controller_safest(c, look); s++) {
        const struct controller_record *r = controller_record_of(c, s);
        bool is_near = verdict == CONTROLLER_SEVERE && s == c->setting + 1;
        if (!controller_is_possible(c, look, s))
            continue;
        last = s;
        if (r->trust == CONTROLLER_UNSAFE || (is_near && r->trust != CONTROLLER_SAFE))
            continue;
        double speed = speed_of(c, s);
        if (speed > best_speed * FASTER || best < 0) {
            best = s;
            best_speed = speed;
        }
    }
    return best >= 0 ? best : last;
}

/* Restores the setting before the last fall if the safer one did not help: the requests were late
 * for a reason of the service or its host, not for the tasks. */
static void forgive(struct controller *c, double late)
{
    if (c->fell_from < 0 || c->now_ms - c->fell_ms > FALL_MS || late < RELIEF * c->fell_late)
        return;
    struct controller_record *r = controller_record_of(c, c->fell_from);
    r->trust = CONTROLLER_UNTRIED;
    r->wait_ms = 0;
    c->fell_from = -1;
}

static void fall(struct controller *c, const struct controller_look *look,
                 const struct controller_aim *aim, enum controller_verdict verdict)
{
    double late = c->evidence.late / fmax(1, c->evidence.answered);
    const char *name = controller_setting_name(c->setting);
    int from = c->setting;
    if (aim->by_requests)
        explain(c, "%s was %.1f %% late", name, 100 * late);
    else
        explain(c, "%s stretched bursts %.2f times", name, controller_stretch(&c->evidence));
    int next = safer(c, look, verdict);
    if (next < 0) { /* no safer setting: judge this one anew */
        c->evidence.alarm = 0;
        c->calm_ms = c->now_ms;
        return;
    }
    if (aim->by_requests)
        forgive(c, late);
    mark_unsafe(c, verdict);
    c->fell_from = aim->by_requests ? from : -1;
    c->fell_ms = c->now_ms;
    c->fell_late = late;
    bool was_trial = c->is_trial;
    int64_t passed_ms = c->now_ms - c->since_ms;
    settle(c, next);
    if (controller_record_of(c, next)->trust == CONTROLLER_SAFE)
        c->backlog_ms = passed_ms < BACKLOG_MS_MAX ? passed_ms : BACKLOG_MS_MAX;
    if (was_trial && next > from)
        c->credit -= TRIAL_COST;
}

/* ---- calm ---- */

/* Returns the setting to try next; -1: none. */
static int next_faster(struct controller *c, const struct controller_look *look)
{
    double now = speed_of(c, c->setting);
    for (int s = c->setting - 1; s >= 0; s--) {
        const struct controller_record *r = controller_record_of(c, s);
        if (!controller_is_possible(c, look, s))
            continue;
        if (r->trust == CONTROLLER_UNSAFE && c->now_ms - c->failed_ms[s] < r->wait_ms)
            return -1;
        if (speed_of(c, s) > now * FASTER)
            return s;
    }
    return -1;
}

/* Returns a safer setting whose speed is worth a measurement; -1: none. The strict gate may be the
 * faster one, because the service then needs less time. If it is, a smaller window may be, too. */
static int next_unmeasured(struct controller *c, const struct controller_look *look)
{
    const struct controller_record *now = controller_record_of(c, c->setting);
    if (!controller_is_measured(now))
        return -1;
    if (c->setting < CONTROLLER_STRICT_1000)
        return controller_record_of(c, CONTROLLER_STRICT_1000)->work_ms < SPEED_MS_LEAST
                   ? CONTROLLER_STRICT_1000
                   : -1;
    int next = c->setting + 1;
    if (next > CONTROLLER_STRICT_100 || next > controller_safest(c, look) ||
        controller_record_of(c, next)->work_ms >= SPEED_MS_LEAST)
        return -1;
    for (int s = c->setting - 1; s >= 0; s--)
        if (controller_is_measured(controller_record_of(c, s)))
            return speed_of(c, s) * FASTER < speed_of(c, c->setting) ? next : -1;
    return -1;
}

/* Returns a setting that kept the target and was measured to be faster; -1: none. */
static int measured_faster(struct controller *c, const struct controller_look *look)
{
    const struct controller_record *now = controller_record_of(c, c->setting);
    int best = -1;
    double best_speed = now->work / fmax(1, now->work_ms) * SWAP;
    if (!controller_is_measured(now))
        return -1;
    for (int s = 0; s < CONTROLLER_PAUSE; s++) {
        const struct controller_record *r = controller_record_of(c, s);
        if (s == c->setting || r->trust != CONTROLLER_SAFE || !controller_is_measured(r) ||
            !controller_is_possible(c, look, s) || r->work / r->work_ms <= best_speed)
            continue;
        best = s;
        best_speed = r->work / r->work_ms;
    }
    return best;
}

/* Returns whether a trial of the speed is decided; similar speeds need more time. */
static bool has_speed(struct controller *c)
{
    const struct controller_record *r = controller_record_of(c, c->setting);
    bool is_slower = speed_of(c, c->setting) < SLOWER * speed_of(c, c->back);
    return r->work_ms >= (is_slower ? SPEED_MS_LEAST : SPEED_MS_SURE);
}

static bool has_evidence(struct controller *c)
{
    double count = fmax(c->evidence.answered, c->evidence.bursts);
    int64_t passed_ms = c->now_ms - c->since_ms;
    if (c->is_trial && c->back < c->setting) /* a trial of the speed alone */
        return has_speed(c);
    return passed_ms >= CALM_MS &&
           (count >= CALM_REQUESTS || (passed_ms >= CALM_SLOW_MS && count >= CALM_REQUESTS_SLOW));
}

static void pass_trial(struct controller *c)
{
    const struct controller_record *back = controller_record_of(c, c->back);
    const struct controller_record *r = controller_record_of(c, c->setting);
    c->is_trial = false;
    double least = c->back > c->setting ? (1 + FASTER) / 2 : 1;
    if (controller_is_measured(back) && controller_is_measured(r) &&
        r->work / r->work_ms < back->work / back->work_ms * least) {
        explain(c, "%s was no faster for tasks", controller_setting_name(c->setting));
        settle(c, c->back);
        return;
    }
    controller_pair_of(c)->setting = c->setting;
}

static void in_calm(struct controller *c, const struct controller_look *look)
{
    struct controller_record *r = controller_record_of(c, c->setting);
    if (!has_evidence(c))
        return;
    if (r->trust != CONTROLLER_SAFE) {
        r->trust = CONTROLLER_SAFE;
        controller_pair_of(c)->setting = c->setting;
    }
    if (c->is_trial) {
        pass_trial(c);
        return;
    }
    if (c->now_ms - c->calm_ms >= FORGIVE_MS)
        r->wait_ms = 0;
    int swap = measured_faster(c, look), next = next_faster(c, look);
    if (next < 0 || c->credit < TRIAL_COST)
        next = next_unmeasured(c, look);
    if (c->changes < 1 || (swap < 0 && next < 0))
        return;
    c->changes -= 1;
    c->back = c->setting;
    if (swap >= 0) {
        explain(c, "measured faster for tasks than %s", controller_setting_name(c->setting));
        settle(c, swap);
        return;
    }
    explain(c, "trial, because %s kept the target", controller_setting_name(c->setting));
    enter(c, next);
    c->is_trial = true;
}

/* ---- looks ---- */

static double bursts_of(const struct controller_bursts bursts[CONTROLLER_KINDS])
{
    double sum = 0;
    for (int k = 0; k < CONTROLLER_KINDS; k++)
        sum += fmin((double)bursts[k].count, COUNT_MAX);
    return sum;
}

static double total_us(const struct controller_bursts bursts[CONTROLLER_KINDS])
{
    double sum = 0;
    for (int k = 0; k < CONTROLLER_KINDS; k++)
        sum += (double)bursts[k].total_us;
    return sum;
}

static void follow_load(struct controller *c, const struct controller_look *look, double passed_ms)
{
    double count = look->has_requests ? fmin((double)look->answered, COUNT_MAX)
                                      : bursts_of(look->alone) + bursts_of(look->beside);
    if (!(passed_ms > 0))
        return;
    /* A service that nobody asks keeps its load: its next request finds the setting of the last
     * ones, and silence teaches nothing about settings. */
    double silence_ms = fmax(SILENCE_MS, SILENCE_COUNT * 1000 / c->rate);
    if (!(count > 0)) {
        c->silent_ms += passed_ms;
        return;
    }
    passed_ms += c->silent_ms <= silence_ms ? c->silent_ms : 0;
    c->silent_ms = 0;
    /* A slow load needs more time for the same precision. */
    double smooth_ms = fmin(SMOOTH_MS_MAX, fmax(SMOOTH_MS, SMOOTH_COUNT * 1000 / c->rate));
    double part = passed_ms / (passed_ms + (c->rate > 0 ? smooth_ms : SMOOTH_MS));
    double rate = count * 1000 / passed_ms;
    c->rate += (rate - c->rate) * (c->rate > 0 ? part : 1);
    double occupied = (total_us(look->alone) + total_us(look->beside)) / (passed_ms * 1000);
    c->occupied += (fmin(OCCUPIED_LOOK_MAX, occupied) - c->occupied) * part;
    if (look->busy_fraction >= 0)
        c->busy_fraction += (fmin(1, look->busy_fraction) - c->busy_fraction) * part;
    c->kernel_us *= 1 - fmin(1, passed_ms / KERNEL_MS);
    if (look->kernel_us > c->kernel_us)
        c->kernel_us = fmin(look->kernel_us, COUNT_MAX);
    c->credit = fmin(TRIAL_CREDIT_MAX,
                     c->credit + (look->has_requests ? count * controller_allowed(look) * TRIAL_PART
                                                     : passed_ms / 1000 * TRIAL_PART));
    c->changes = fmin(CHANGES_MAX, c->changes + passed_ms / 60000 * CHANGES_PER_MINUTE);
}

/* Returns whether the load moved to another octave. */
static bool moves(struct controller *c, double passed_ms)
{
    if (!(c->rate > 0.01))
        return false;
    double octave = log2(c->rate);
    bool is_first = c->now_ms - c->pair_ms < LOWER_MS;
    c->lower_ms = octave < c->octave ? c->lower_ms + passed_ms : 0;
    if (fabs(octave - c->octave) <= OCTAVE_SLACK)
        return false;
    if (octave < c->octave && c->lower_ms < LOWER_MS && !is_first)
        return false;
    c->lower_ms = 0;
    c->octave = (int32_t)lround(octave);
    return true;
}

/* Time after a change for which requests suffer from the last setting: the queue that a failed
 * trial has left shrinks slowly. */
static int64_t settle_ms(const struct controller *c, const struct controller_look *look)
{
    if (c->is_trial) /* of a faster setting: the last one left no queue */
        return 0;
    double ms = SETTLE_MS + fmin(2 * look->slo_us / 1000, SETTLE_MS_MAX);
    return (ms < SETTLE_MS_MAX ? (int64_t)ms : SETTLE_MS_MAX) + c->backlog_ms;
}

/* Adds to the measured speed of the tasks. Speeds are compared beside a service that works: time in
 * which the service is silent, or the tasks rest by themselves, says nothing about a setting. */
static void add_speed(struct controller *c, const struct controller_look *look, double passed_ms,
                      struct controller_record *r)
{
    double rested_ms = c->resting_ms;
    c->resting_ms = look->work > 0 ? 0 : rested_ms + passed_ms;
    if (!(look->work > 0) || rested_ms >= REST_MS || c->silent_ms > SILENCE_MS)
        return;
    r->work += look->work;
    r->work_ms += passed_ms + rested_ms;
    if (r->work_ms > SPEED_MS_MAX) {
        r->work *= SPEED_MS_MAX / r->work_ms;
        r->work_ms = SPEED_MS_MAX;
    }
}

static void remember(struct controller *c, const struct controller_look *look, double passed_ms)
{
    bool is_held = c->neighbours == 0 || c->is_learning;
    struct controller_record *r = controller_record_of(c, is_held ? CONTROLLER_PAUSE : c->setting);
    double answered = look->has_requests ? fmin((double)look->answered, COUNT_MAX) : 0;
    double late = fmin((double)look->late, answered);
    r->answered += answered;
    r->late += late;
    if (r->answered > RECORD_MAX) {
        r->late *= RECORD_MAX / r->answered;
        r->answered = RECORD_MAX;
    }
    if (is_held)
        return;
    add_speed(c, look, passed_ms, r);
    double spare = controller_allowed(look) * answered - late;
    if (!c->is_trial)
        c->budget = fmax(-BUDGET_MAX, fmin(BUDGET_MAX, c->budget + spare));
    if (c->is_trial && spare < 0)
        c->credit += spare;
}

static void end_learning(struct controller *c, const struct controller_look *look)
{
    int64_t passed_ms = c->now_ms - c->since_ms;
    double bursts = 0;
    for (int k = 0; k < CONTROLLER_KINDS; k++)
        bursts += controller_solo_of(c)->bursts[k];
    bool is_enough = bursts >= PROBE_BURSTS &&
                     (!look->has_requests || controller_solo_of(c)->requests >= PROBE_BURSTS);
    bool is_slow = bursts > 0 && bursts < PROBE_SLOW_BURSTS && !look->has_requests;
    int64_t most_ms = is_slow ? CONTROLLER_PROBE_MS : PROBE_MS;
    if (passed_ms < PROBE_MS_LEAST || (passed_ms < most_ms && !is_enough))
        return;
    c->probed_ms = c->now_ms;
    if (c->probes < PROBES_MAX)
        c->probes++;
    c->is_learning = false;
    explain(c, "new neighbours");
    settle(c, first_setting(c, look));
}

static bool is_tested(struct controller *c, double allowed)
{
    const struct controller_record *r = controller_record_of(c, c->setting);
    if (c->is_trial && c->back < c->setting) /* a trial of the speed alone */
        return true;
    return !c->is_trial && r->trust == CONTROLLER_SAFE && r->answered * allowed >= TESTED_LATE;
}

/* Returns whether a service that was idle when its neighbours came is measured now. The time
 * between measurements doubles, because some services cannot be measured. */
static bool is_worth_a_probe(const struct controller *c, const struct controller_look *look)
{
    bool is_known = controller_need_us(controller_solo_of(c), look->reports_requests) > 0;
    return !is_known && c->setting != CONTROLLER_PAUSE && c->rate > PROBE_RATE &&
           (look->reports_requests || c->occupied > 0) &&
           c->now_ms - c->probed_ms >= (int64_t)PROBE_AGAIN_MS << c->probes;
}

static void decide(struct controller *c, const struct controller_look *look,
                   const struct controller_aim *aim)
{
    if (c->setting > controller_safest(c, look) || !controller_is_possible(c, look, c->setting)) {
        explain(c, "the target is missed while tasks are held");
        settle(c, c->setting > controller_safest(c, look) ? CONTROLLER_STRICT_250
                                                          : first_setting(c, look));
        return;
    }
    bool is_tested = !c->is_trial && controller_record_of(c, c->setting)->trust == CONTROLLER_SAFE;
    enum controller_verdict verdict = controller_judge(&c->evidence, aim, is_tested, c->budget < 0);
    if (verdict >= CONTROLLER_DANGER)
        fall(c, look, aim, verdict);
    else if (verdict == CONTROLLER_CALM)
        in_calm(c, look);
}

static void advance(struct controller *c, const struct controller_look *look, double passed_ms)
{
    bool is_alone = c->neighbours == 0 || c->is_learning || c->setting == CONTROLLER_PAUSE;
    bool is_settled = c->now_ms - c->since_ms > settle_ms(c, look);
    if (!is_alone || c->alone_ms == 0)
        c->alone_ms = c->now_ms;
    follow_load(c, look, passed_ms);
    double alone_ms = (double)(c->now_ms - c->alone_ms);
    controller_solo_learn(&c->memory->solos[c->solo], look, passed_ms, alone_ms,
                          is_alone && (c->neighbours == 0 || alone_ms > PROBE_MS_LEAST / 2.0));
    if (c->now_ms - c->since_ms >= FIRST_LOAD_MS && moves(c, passed_ms))
        enter_load(c, look);
    if (is_settled || c->neighbours == 0)
        remember(c, look, passed_ms);
    controller_judge_reach(c, look);
    if (c->neighbours == 0)
        return;
    if (c->is_learning) {
        end_learning(c, look);
        return;
    }
    if (is_worth_a_probe(c, look)) {
        explain(c, "measuring the service with tasks held");
        enter(c, c->setting);
        c->is_learning = true;
        return;
    }
    struct controller_aim aim = controller_aim_of(c, look);
    if (!is_settled)
        return;
    controller_evidence_add(&c->evidence, &aim, look, controller_solo_of(c), c->rate,
                            is_tested(c, aim.allowed));
    decide(c, look, &aim);
}

/* ---- the answer ---- */

static void say_why(const struct controller *c, struct controller_answer *ret)
{
    const char *name = c->is_learning ? "pause" : controller_setting_name(ret->setting);
    const char *unreachable = c->is_unreachable ? "; the target is missed without tasks, too" : "";
    if (ret->late_fraction >= 0 && ret->target_us > 0)
        (void)snprintf(
            ret->why, sizeof ret->why, "%s: %.2g %% of requests late of %.2g %% allowed%s; %.64s",
            name, 100 * ret->late_fraction, 100 * ret->allowed_fraction, unreachable, c->cause);
    else if (ret->stretch > 0)
        (void)snprintf(ret->why, sizeof ret->why,
                       "%s: bursts last %.2f times as long as alone, %.2f allowed%s; %.64s", name,
                       ret->stretch, ret->allowed_stretch, unreachable, c->cause);
    else
        (void)snprintf(ret->why, sizeof ret->why, "%s: %.100s", name, c->cause);
}

static void answer(struct controller *c, const struct controller_look *look, int before,
                   bool was_learning, struct controller_answer *ret)
{
    struct controller_aim aim = controller_aim_of(c, look);
    bool is_beside = c->neighbours != 0;
    const struct controller_record *r = controller_record_of(c, c->setting);
    struct controller_facts facts = {.reports_requests = look->reports_requests,
                                     .allowed_stretch = aim.stretch,
                                     .target_us = look->slo_us,
                                     .kernel_us = c->kernel_us};
    int setting = c->is_learning ? CONTROLLER_PAUSE : c->setting;
    bool has_failed =
        c->setting == CONTROLLER_PAUSE && c->paused_ms > 0 && !c->is_unreachable &&
        c->now_ms - c->paused_ms >= CONTROLLER_GIVE_UP_MS &&
        controller_late_evidence(aim.allowed, c->evidence.recent, c->evidence.recent_late) > 0;
    *ret = (struct controller_answer){
        .setting = setting,
        .limits = controller_limits_of(setting, controller_solo_of(c), &facts),
        .is_changed = c->setting != before || c->is_learning != was_learning,
        .is_learning = c->is_learning,
        .is_trial = c->is_trial,
        .is_unreachable = c->is_unreachable,
        .gives_up = has_failed,
        .target_us = look->slo_us > 0 ? look->slo_us : 0,
        .allowed_fraction = look->has_requests && look->slo_us > 0 ? aim.allowed : 0,
        .late_fraction = -1,
        .stretch = controller_stretch(&c->evidence),
        .allowed_stretch = aim.stretch,
        .solo_latency_us = controller_solo_of(c)->latency_us,
        .task_speed = is_beside && controller_is_measured(r) ? 1000 * r->work / r->work_ms : -1,
        .task_fraction = is_beside ? controller_pair_fraction(controller_pair_of(c), setting) : -1};
    if (look->slo_us > 0 && c->evidence.recent > 0)
        ret->late_fraction =
            c->evidence.recent_late < LATE_LEAST ? 0 : c->evidence.recent_late / c->evidence.recent;
    say_why(c, ret);
}

static double bounded(double value, double otherwise)
{
    return value >= 0 && value <= COUNT_MAX ? value : otherwise; /* false for NaN */
}

static struct controller_look sane(const struct controller_look *claims)
{
    struct controller_look look = *claims;
    look.slo_us = bounded(look.slo_us, 0);
    look.percentile = bounded(look.percentile, 0);
    look.latency_us = bounded(look.latency_us, 0);
    look.busy_fraction = bounded(look.busy_fraction, -1);
    look.work = bounded(look.work, -1);
    look.kernel_us = bounded(look.kernel_us, 0);
    if (look.late > look.answered)
        look.late = look.answered;
    if (look.neighbours != 0) {
        uint64_t key = look.neighbours ^ (look.has_mps ? 0 : WITHOUT_MPS) ^
                       (look.has_requests ? 0 : BY_BURSTS);
        look.neighbours = key != 0 ? key : 1;
    }
    return look;
}

void controller_look(struct controller *c, const struct controller_look *claims,
                     struct controller_answer *ret)
{
    const struct controller_look clean = sane(claims), *look = &clean;
    int before = c->setting;
    bool was_learning = c->is_learning;
    int64_t now_ms = look->now_ms > c->now_ms ? look->now_ms : c->now_ms;
    double passed_ms = c->has_looked ? (double)(now_ms - c->now_ms) : 0;
    c->now_ms = now_ms;
    if (!c->has_looked || look->service != c->service || look->neighbours != c->neighbours) {
        begin_pair(c, look);
    } else {
        /* Another controller may have taken the places. */
        c->pair = controller_pair_place(c->memory, c->service, c->neighbours, c->octave, NULL);
        c->solo = controller_solo_place(c->memory, c->service);
        if (passed_ms <= LOOK_MS_MAX)
            advance(c, look, passed_ms);
        else
            enter(c, c->setting);
    }
    c->has_looked = true;
    answer(c, look, before, was_learning, ret);
}
