/* Knowledge about pairs and services, which outlives the controller. */
#include <math.h>
#include <stdlib.h>

#include "device/controller_internal.h"

static const double FIGURE_MAX = 1e15;
enum { OCTAVE_MAX = 64, WAIT_MS_MAX = 3600 * 1000, INHERITED_WAIT_MS = 8000 };
static const double SOLO_WEIGHT_MAX = 1000; /* bursts of a kind that count */
static const double SOLO_NEW = 0.1;         /* weight of a new figure */
static const double COUNT_MAX = 1e9;        /* of a look */
static const double INHERITED_HELD = 40;    /* requests with tasks held, at another load */

void controller_memory_init(struct controller_memory *m)
{
    *m = (struct controller_memory){0};
}

static bool is_figure(double value)
{
    return value >= 0 && value <= FIGURE_MAX; /* false for NaN */
}

static bool record_is_sane(const struct controller_record *r)
{
    return is_figure(r->answered) && is_figure(r->late) && r->late <= r->answered &&
           is_figure(r->work) && is_figure(r->work_ms) && r->trust >= CONTROLLER_UNTRIED &&
           r->trust <= CONTROLLER_UNSAFE && r->wait_ms >= 0 && r->wait_ms <= WAIT_MS_MAX;
}

static bool solo_is_sane(const struct controller_solo *s)
{
    bool is_sane = is_figure(s->latency_us) && is_figure(s->request_us) &&
                   is_figure(s->busy_fraction) && is_figure(s->requests);
    for (int k = 0; k < CONTROLLER_KINDS; k++)
        is_sane = is_sane && is_figure(s->bursts[k]) && is_figure(s->bursts_us[k]);
    return is_sane;
}

bool controller_memory_is_sane(const struct controller_memory *m)
{
    for (int i = 0; i < CONTROLLER_PAIRS_MAX; i++) {
        const struct controller_pair *p = &m->pairs[i];
        if (m->solos[i].used > m->used || !solo_is_sane(&m->solos[i]))
            return false;
        if (p->used > m->used || p->octave < -OCTAVE_MAX || p->octave > OCTAVE_MAX ||
            p->setting < 0 || p->setting >= CONTROLLER_SETTINGS)
            return false;
        for (int s = 0; s < CONTROLLER_SETTINGS; s++)
            if (!record_is_sane(&p->records[s]))
                return false;
    }
    return true;
}

int32_t controller_pair_place(struct controller_memory *m, uint64_t service, uint64_t neighbours,
                              int octave, bool *ret_is_new)
{
    int32_t oldest = 0;
    m->used++;
    for (int32_t i = 0; i < CONTROLLER_PAIRS_MAX; i++) {
        struct controller_pair *p = &m->pairs[i];
        if (p->service == service && p->neighbours == neighbours && p->octave == octave) {
            p->used = m->used;
            return i;
        }
        if (p->used < m->pairs[oldest].used)
            oldest = i;
    }
    m->pairs[oldest] = (struct controller_pair){.service = service,
                                                .neighbours = neighbours,
                                                .octave = octave,
                                                .setting = CONTROLLER_DUE,
                                                .used = m->used};
    if (ret_is_new)
        *ret_is_new = true;
    return oldest;
}

bool controller_is_measured(const struct controller_record *r)
{
    return r->work_ms >= SPEED_MS_LEAST && r->work > 0;
}

double controller_pair_fraction(const struct controller_pair *p, int setting)
{
    const struct controller_record *now = &p->records[setting];
    double fastest = 0;
    if (setting == CONTROLLER_PAUSE)
        return 0;
    for (int s = 0; s < CONTROLLER_SETTINGS; s++)
        if (controller_is_measured(&p->records[s]))
            fastest = fmax(fastest, p->records[s].work / p->records[s].work_ms);
    return controller_is_measured(now) ? now->work / now->work_ms / fastest : -1;
}

int32_t controller_solo_place(struct controller_memory *m, uint64_t service)
{
    int32_t oldest = 0;
    m->used++;
    for (int32_t i = 0; i < CONTROLLER_PAIRS_MAX; i++) {
        if (m->solos[i].service == service) {
            m->solos[i].used = m->used;
            return i;
        }
        if (m->solos[i].used < m->solos[oldest].used)
            oldest = i;
    }
    m->solos[oldest] = (struct controller_solo){.service = service, .used = m->used};
    return oldest;
}

int32_t controller_pair_nearest(const struct controller_memory *m, uint64_t service,
                                uint64_t neighbours, int octave)
{
    int32_t nearest = -1;
    for (int32_t i = 0; i < CONTROLLER_PAIRS_MAX; i++) {
        const struct controller_pair *p = &m->pairs[i];
        if (p->service != service || p->neighbours != neighbours)
            continue;
        if (nearest < 0 || abs(p->octave - octave) < abs(m->pairs[nearest].octave - octave))
            nearest = i;
    }
    return nearest;
}

int32_t controller_pair_recent(const struct controller_memory *m, uint64_t service,
                               uint64_t neighbours)
{
    int32_t recent = -1;
    for (int32_t i = 0; i < CONTROLLER_PAIRS_MAX; i++) {
        const struct controller_pair *p = &m->pairs[i];
        if (p->service == service && p->neighbours == neighbours &&
            (recent < 0 || p->used > m->pairs[recent].used))
            recent = i;
    }
    return recent;
}

void controller_pair_inherit(struct controller_pair *to, const struct controller_pair *from)
{
    bool has_grown = to->octave > from->octave;
    const struct controller_record *held = &from->records[CONTROLLER_PAUSE];
    double part = held->answered > INHERITED_HELD ? INHERITED_HELD / held->answered : 1;
    to->setting = from->setting;
    to->records[CONTROLLER_PAUSE].answered = held->answered * part;
    to->records[CONTROLLER_PAUSE].late = held->late * part;
    for (int s = 0; s < CONTROLLER_SETTINGS; s++) {
        const struct controller_record *r = &from->records[s];
        to->records[s].trust = r->trust;
        to->records[s].wait_ms = r->wait_ms;
        if (has_grown && r->trust == CONTROLLER_SAFE)
            to->records[s].trust = CONTROLLER_UNTRIED;
        else if (!has_grown && r->trust == CONTROLLER_UNSAFE)
            to->records[s].wait_ms =
                r->wait_ms / 4 > INHERITED_WAIT_MS ? r->wait_ms / 4 : INHERITED_WAIT_MS;
    }
}

void controller_pair_fill_speeds(struct controller_pair *to, const struct controller_pair *from,
                                 double least_ms)
{
    for (int s = 0; s < CONTROLLER_SETTINGS; s++) {
        const struct controller_record *r = &from->records[s];
        if (to->records[s].work_ms >= least_ms || r->work_ms < least_ms)
            continue;
        to->records[s].work = r->work * least_ms / r->work_ms;
        to->records[s].work_ms = least_ms;
    }
}

/* ---- services ---- */

static double mix(double old, double new, double part)
{
    return old > 0 ? old + part * (new - old) : new;
}

void controller_solo_learn(struct controller_solo *s, const struct controller_look *look,
                           double passed_ms, double alone_ms, bool is_whole)
{
    double total_us = 0, requests = fmin((double)look->answered, COUNT_MAX);
    for (int k = 0; k < CONTROLLER_KINDS; k++) {
        double count = fmin((double)look->alone[k].count, COUNT_MAX);
        double us = fmin((double)look->alone[k].total_us, FIGURE_MAX);
        if (count < 1)
            continue;
        total_us += us;
        double weight = fmin(s->bursts[k] + count, fmax(SOLO_WEIGHT_MAX, count));
        s->bursts_us[k] += (us / count - s->bursts_us[k]) * fmin(1, count / weight);
        s->bursts[k] = weight;
    }
    if (!is_whole)
        return;
    double part = fmax(SOLO_NEW, alone_ms > 0 ? fmin(1, passed_ms / alone_ms) : 1);
    if (look->has_requests && requests > 0) {
        double busy_us = look->busy_fraction > 0 ? look->busy_fraction * passed_ms * 1000 : 0;
        if (total_us > 0 || busy_us > 0)
            s->request_us =
                mix(s->request_us, (total_us > 0 ? total_us : busy_us) / requests, part);
        s->requests = fmin(s->requests + requests, fmax(SOLO_WEIGHT_MAX, requests));
    }
    if (passed_ms > 0 && total_us > 0)
        s->busy_fraction = mix(s->busy_fraction, fmin(1, total_us / (passed_ms * 1000)), part);
    if (look->latency_us > 0 && alone_ms >= (double)look->latency_window_ms)
        s->latency_us = mix(s->latency_us, fmin(look->latency_us, FIGURE_MAX), part);
}
