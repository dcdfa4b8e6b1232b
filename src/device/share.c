#include "device/share.h"

#include <stdlib.h>
#include <string.h>

static const double SOLO_WEIGHT = 0.1; /* of a new sample */
static const double SOLO_BUSY_LEAST =
    0.01; /* less busy says nothing about what it does when busy */
static const double SPACE_BUSY_LEAST = 0.5; /* busier than this: space */
static const double KNOWN_LEAST = 0.5;      /* of the time, or nothing is said about it */
static const double MILLISECONDS_MAX = 1e15;
static const double PERCENTILE = 0.95;

/* ---- activity ---- */

static double clip(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

void share_activity_init(struct share_activity *a)
{
    a->solo_percent = -1;
}

double share_activity_sample(struct share_activity *a, double sm_percent, double busy_fraction,
                             bool alone)
{
    double busy = clip(busy_fraction, 0, 1);
    if (busy_fraction < 0)
        return -1;
    if (alone && sm_percent >= 0) {
        double solo = busy >= SOLO_BUSY_LEAST ? clip(sm_percent / busy, 0, 100) : a->solo_percent;
        a->solo_percent =
            a->solo_percent < 0 ? solo : a->solo_percent + SOLO_WEIGHT * (solo - a->solo_percent);
        return clip(sm_percent, 0, 100);
    }
    return (a->solo_percent < 0 ? 100 : a->solo_percent) * busy;
}

/* ---- forecast ---- */

void share_forecast_init(struct share_forecast *f)
{
    *f = (struct share_forecast){0};
    memset(f->p95_percent, -1, sizeof f->p95_percent);
}

static int p95_of(const struct share_forecast *f)
{
    uint32_t seen = 0;
    for (int percent = 0; percent <= 100; percent++) {
        seen += f->histogram[percent];
        if (f->samples && seen >= PERCENTILE * f->samples)
            return percent;
    }
    return -1;
}

void share_forecast_sample(struct share_forecast *f, int64_t wall_ms, double percent)
{
    int64_t interval = wall_ms / SHARE_INTERVAL_MS;
    if (interval != f->interval) {
        memset(f->histogram, 0, sizeof f->histogram);
        f->samples = 0;
        f->interval = interval;
    }
    f->histogram[(int)(clip(percent, 0, 100) + 0.5)]++;
    f->samples++;
    f->p95_percent[interval % SHARE_INTERVALS] = (int8_t)p95_of(f);
    f->measured[interval % SHARE_INTERVALS] = interval;
}

static int measured_in(const struct share_forecast *f, int64_t interval)
{
    if (interval < 0 || f->measured[interval % SHARE_INTERVALS] != interval)
        return -1;
    return f->p95_percent[interval % SHARE_INTERVALS];
}

int share_forecast_percent(const struct share_forecast *f, int64_t wall_ms)
{
    int64_t interval = wall_ms / SHARE_INTERVAL_MS;
    int now = measured_in(f, interval), before = measured_in(f, interval - 1);
    int last = now > before ? now : before;
    /* Yesterday's intervals that the coming five minutes lie in; the first one's slot is
     * also today's. */
    int same = measured_in(f, interval - SHARE_INTERVALS);
    int next = measured_in(f, interval + 1 - SHARE_INTERVALS);
    int yesterday = same > next ? same : next;
    return last > yesterday ? last : yesterday;
}

/* ---- modes ---- */

void share_choice_init(struct share_choice *c)
{
    *c = (struct share_choice){.mode = SHARE_TIME, .busy_fraction = -1};
}

bool share_choose(struct share_choice *c, int64_t wall_ms, const struct share_facts *facts)
{
    bool is_first = c->since_ms == 0 || facts->elapsed_ms == 0;
    if (is_first || wall_ms < c->since_ms) { /* or the clock was set back */
        c->since_ms = wall_ms;
        c->busy_ms = c->known_ms = 0;
    }
    if (facts->busy_fraction >= 0 && facts->elapsed_ms > 0) {
        c->known_ms += (double)facts->elapsed_ms;
        c->busy_ms += (double)facts->elapsed_ms * clip(facts->busy_fraction, 0, 1);
    }
    int64_t passed_ms = wall_ms - c->since_ms;
    if (passed_ms < facts->kept_ms)
        return false;
    bool is_known = c->known_ms > 0 && c->known_ms >= KNOWN_LEAST * (double)passed_ms;
    double busy = is_known ? c->busy_ms / c->known_ms : -1;
    enum share_mode mode = busy >= SPACE_BUSY_LEAST ? SHARE_SPACE : SHARE_TIME;
    bool has_changed = c->mode != (int32_t)mode;
    *c = (struct share_choice){.mode = (int32_t)mode, .since_ms = wall_ms, .busy_fraction = busy};
    return has_changed;
}

/* ---- services ---- */

void share_service_init(struct share_service *s, uint64_t workload)
{
    *s = (struct share_service){.workload = workload};
    share_activity_init(&s->activity);
    share_forecast_init(&s->forecast);
    share_choice_init(&s->choice);
}

bool share_service_is_sane(const struct share_service *s)
{
    const struct share_choice *c = &s->choice;
    return s->activity.solo_percent >= -1 && s->activity.solo_percent <= 100 && s->seen_ms >= 0 &&
           (c->mode == SHARE_TIME || c->mode == SHARE_SPACE) && c->since_ms >= 0 &&
           c->known_ms >= 0 && c->known_ms < MILLISECONDS_MAX && c->busy_ms >= 0 &&
           c->busy_ms <= c->known_ms && c->busy_fraction >= -1 && c->busy_fraction <= 1;
}

bool share_service_look(struct share_service *s, int64_t wall_ms, const struct share_look *look)
{
    double percent = share_activity_sample(&s->activity, look->sm_percent,
                                           look->facts.busy_fraction, look->alone);
    s->seen_ms = wall_ms;
    if (percent >= 0)
        share_forecast_sample(&s->forecast, wall_ms, percent);
    return share_choose(&s->choice, wall_ms, &look->facts);
}

/* ---- a device and its tasks ---- */

void share_divide(const struct share_service *const services[], size_t count, int64_t wall_ms,
                  struct share_division *ret)
{
    bool space = count > 0;
    int sum = -1;
    for (size_t i = 0; i < count; i++) {
        int percent = share_forecast_percent(&services[i]->forecast, wall_ms);
        if (percent >= 0)
            sum = (sum < 0 ? 0 : sum) + percent;
        space = space && services[i]->choice.mode == SHARE_SPACE;
    }
    *ret = (struct share_division){.mode = space ? SHARE_SPACE : SHARE_TIME,
                                   .forecast_percent = sum < 100 ? sum : 100};
}

int share_of_task_percent(int forecast_percent, int task_count)
{
    int left_percent = (int)clip(100 - forecast_percent, SHARE_LEAST_PERCENT, SHARE_MOST_PERCENT);
    int percent = task_count > 1 ? left_percent / task_count : left_percent;
    return percent > SHARE_LEAST_PERCENT ? percent : SHARE_LEAST_PERCENT;
}

int share_in_whole_sms(int percent, int sm_count)
{
    if (sm_count <= 0)
        return percent;
    int sms = (percent * sm_count + 99) / 100;
    int whole = (sms * 100 + sm_count - 1) / sm_count;
    return whole < 100 ? whole : 100;
}

enum share_mode share_mode_of_task(enum share_mode mode, bool is_coarse)
{
    return is_coarse ? SHARE_SPACE : mode;
}

int share_rate_permille(const struct share_division *division, int started_percent)
{
    if (division->forecast_percent < 0)
        return 0;
    int percent = share_of_task_percent(division->forecast_percent, division->task_count);
    return percent + SHARE_RATE_SLACK_PERCENT < started_percent ? percent * 10 : 0;
}

bool share_drifts(struct share_drift *d, int64_t wall_ms, int64_t kept_ms, int started_percent,
                  int wanted_percent)
{
    if (abs(wanted_percent - started_percent) < SHARE_OFF_PERCENT) {
        d->since_ms = 0;
        return false;
    }
    if (d->since_ms == 0 || wall_ms < d->since_ms) /* or somebody set the clock back */
        d->since_ms = wall_ms;
    return wall_ms - d->since_ms >= kept_ms;
}
