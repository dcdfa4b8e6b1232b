/* The target of a service, and whether the service can reach the target. */
#include <math.h>

#include "device/controller_internal.h"

enum {
    HELD_LEAST = 20,     /* requests that judge a target with tasks held */
    REACHED_LEAST = 100, /* requests that show that a target is kept */
};

static const double UNREACHABLE_AT = 3, REACHABLE_AT = 1; /* evidence */
static const double UNREACHABLE_SLACK = 1.2;              /* × the late requests with tasks held */
static const double DEFAULT_TARGET = 1.10;
static const double BUSY_CLOSED = 0.85, BUSY_MAX = 0.84, OCCUPIED_CLOSED = 0.93;

double controller_allowed(const struct controller_look *look)
{
    double percentile = look->percentile > 0 ? look->percentile : 99;
    return fmin(0.5, fmax(1e-4, 1 - percentile / 100));
}

/* Part of the time that requests or bursts would take alone at the present load. */
static double utilisation(const struct controller *c)
{
    const struct controller_solo *solo = controller_solo_of(c);
    bool is_closed = solo->busy_fraction >= BUSY_CLOSED || c->occupied >= OCCUPIED_CLOSED;
    if (is_closed) /* the next burst follows the last one */
        return 1;
    if (solo->request_us > 0 && solo->requests > 0)
        return fmin(BUSY_MAX, c->rate * solo->request_us / 1e6);
    return fmin(BUSY_MAX, solo->busy_fraction > 0 ? solo->busy_fraction : c->busy_fraction);
}

static double held_part(struct controller *c)
{
    const struct controller_record *r = controller_record_of(c, CONTROLLER_PAUSE);
    return r->answered > 0 ? r->late / r->answered : 0;
}

struct controller_aim controller_aim_of(struct controller *c, const struct controller_look *look)
{
    const struct controller_solo *solo = controller_solo_of(c);
    struct controller_aim aim = {.allowed = controller_allowed(look)};
    bool has_bursts = false;
    double alone_us = solo->latency_us;
    for (int k = 0; k < CONTROLLER_KINDS; k++)
        has_bursts = has_bursts || solo->bursts[k] >= 1;
    if (!(alone_us > 0))
        alone_us = controller_need_us(solo, look->reports_requests);
    double target = DEFAULT_TARGET;
    if (look->slo_us > 0 && alone_us > 0 && !c->is_unreachable)
        target = fmax(1, look->slo_us / alone_us);
    if (alone_us > 0)
        aim.stretch = controller_stretch_allowed(target, utilisation(c));
    aim.by_requests = look->slo_us > 0 && look->has_requests;
    if (c->is_unreachable && (has_bursts || solo->latency_us > 0))
        aim.by_requests = false;
    else if (c->is_unreachable)
        aim.allowed = fmin(0.9, fmax(aim.allowed, UNREACHABLE_SLACK * held_part(c)));
    return aim;
}

int controller_safest(const struct controller *c, const struct controller_look *look)
{
    bool has_target = look->slo_us > 0 && look->has_requests && !c->is_unreachable;
    return has_target ? CONTROLLER_PAUSE : CONTROLLER_STRICT_100;
}

bool controller_is_possible(const struct controller *c, const struct controller_look *look, int s)
{
    return s <= controller_safest(c, look) &&
           (!controller_uses_due(s) ||
            controller_need_us(controller_solo_of(c), look->reports_requests) > 0);
}

void controller_judge_reach(struct controller *c, const struct controller_look *look)
{
    if (!(look->slo_us > 0) || !look->has_requests) {
        c->is_unreachable = false;
        return;
    }
    int32_t place = controller_pair_nearest(c->memory, c->service, 0, c->octave);
    struct controller_pair *absent = place >= 0 ? &c->memory->pairs[place] : NULL;
    struct controller_record *held = controller_record_of(c, CONTROLLER_PAUSE);
    if (c->is_unreachable && c->evidence.recent >= REACHED_LEAST &&
        c->evidence.recent_late <= controller_allowed(look) * c->evidence.recent) {
        /* Kept even beside tasks: the measurement with tasks held is out of date. */
        held->answered = held->late = 0;
        if (absent)
            absent->records[CONTROLLER_PAUSE].answered = absent->records[CONTROLLER_PAUSE].late = 0;
        c->is_unreachable = false;
        return;
    }
    double answered = held->answered, late = held->late;
    if (absent && absent->octave == c->octave &&
        absent->records[CONTROLLER_PAUSE].answered >= HELD_LEAST) {
        answered = absent->records[CONTROLLER_PAUSE].answered;
        late = absent->records[CONTROLLER_PAUSE].late;
    }
    double evidence = controller_late_evidence(controller_allowed(look), answered, late);
    if (answered >= HELD_LEAST && evidence >= UNREACHABLE_AT)
        c->is_unreachable = true;
    else if (evidence < REACHABLE_AT)
        c->is_unreachable = false;
}
