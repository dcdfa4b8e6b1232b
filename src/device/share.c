#include "device/share.h"

#include <string.h>

static const double SOLO_WEIGHT = 0.1; /* of a new sample */
static const double SOLO_BUSY_LEAST =
    0.01; /* less busy says nothing about what it does when busy */
static const double SPACE_BUSY_LEAST = 0.5; /* busier than this: space */
static const double PERCENTILE = 0.95;

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
    if (alone && sm_percent >= 0) {
        double solo = busy >= SOLO_BUSY_LEAST ? clip(sm_percent / busy, 0, 100) : a->solo_percent;
        a->solo_percent =
            a->solo_percent < 0 ? solo : a->solo_percent + SOLO_WEIGHT * (solo - a->solo_percent);
        return clip(sm_percent, 0, 100);
    }
    return a->solo_percent < 0 ? -1 : a->solo_percent * busy;
}

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
    /* Yesterday's intervals that the coming five minutes lie in; the first one's slot is also today's. */
    int same = measured_in(f, interval - SHARE_INTERVALS);
    int next = measured_in(f, interval + 1 - SHARE_INTERVALS);
    int yesterday = same > next ? same : next;
    return last > yesterday ? last : yesterday;
}

int share_of_task_percent(int forecast_percent)
{
    return (int)clip(100 - forecast_percent, SHARE_LEAST_PERCENT, SHARE_MOST_PERCENT);
}

void share_choice_init(struct share_choice *c)
{
    *c = (struct share_choice){.mode = SHARE_TIME, .since_ms = -1};
}

enum share_mode share_choose(struct share_choice *c, int64_t now_ms,
                             const struct share_facts *facts)
{
    bool space =
        facts->coarse || (!facts->streams_tokens && facts->busy_fraction >= SPACE_BUSY_LEAST);
    enum share_mode wanted = space ? SHARE_SPACE : SHARE_TIME;
    if (c->since_ms >= 0 && (wanted == c->mode || now_ms - c->since_ms < SHARE_MODE_KEPT_MS))
        return c->mode;
    *c = (struct share_choice){.mode = wanted, .since_ms = now_ms};
    return c->mode;
}
