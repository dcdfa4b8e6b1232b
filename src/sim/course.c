#include "sim/course.h"

#include <math.h>

static const double width_first_s = 10;

void course_init(struct course *c)
{
    *c = (struct course){.width_s = width_first_s};
}

static void add_point(struct result_point *to, const struct result_point *from)
{
    to->sm += from->sm;
    to->dram += from->dram;
    to->memory += from->memory;
    to->running += from->running;
    to->waiting += from->waiting;
    to->requests += from->requests;
    to->late_requests += from->late_requests;
}

static void halve(struct course *c)
{
    for (size_t i = 0; i < c->count; i += 2) {
        struct result_point sum = c->sums[i];
        if (i + 1 < c->count)
            add_point(&sum, &c->sums[i + 1]);
        c->sums[i / 2] = sum;
    }
    c->count = (c->count + 1) / 2;
    c->width_s *= 2;
}

/* Returns the interval of that time, creating it if necessary. */
static struct result_point *interval(struct course *c, double at_s)
{
    while (at_s >= c->width_s * RESULT_SERIES_MAX)
        halve(c);
    size_t index = (size_t)(at_s / c->width_s);
    while (c->count <= index)
        c->sums[c->count++] = (struct result_point){0};
    return &c->sums[index];
}

void course_pass(struct course *c, double until_s)
{
    const struct course_now *now = &c->now;
    double passed_s = until_s - c->now_s;
    if (passed_s <= 0)
        return;
    c->total.sm += now->sm * passed_s;
    c->total.dram += now->dram * passed_s;
    c->total.memory += now->memory * passed_s;
    while (c->now_s < until_s) {
        struct result_point *p = interval(c, c->now_s);
        double end_s = fmin(until_s, (double)(p - c->sums + 1) * c->width_s);
        double part_s = end_s - c->now_s;
        add_point(p, &(struct result_point){.sm = now->sm * part_s,
                                            .dram = now->dram * part_s,
                                            .memory = now->memory * part_s,
                                            .running = now->running * part_s,
                                            .waiting = now->waiting * part_s});
        c->now_s = end_s;
    }
}

void course_count_requests(struct course *c, double requests, double late)
{
    add_point(interval(c, c->now_s),
              &(struct result_point){.requests = requests, .late_requests = late});
}

void course_finish(struct course *c, double end_s, size_t device_count, struct result *r)
{
    double devices = (double)device_count;
    course_pass(c, end_s);
    r->point_count = c->count;
    for (size_t i = 0; i < c->count; i++) {
        struct result_point *p = &r->points[i];
        double from_s = (double)i * c->width_s;
        double width_s = fmin(c->width_s, fmax(end_s - from_s, 1e-3));
        *p = c->sums[i];
        p->from_s = from_s;
        p->sm /= width_s * devices;
        p->dram /= width_s * devices;
        p->memory /= width_s * devices;
        p->running /= width_s;
        p->waiting /= width_s;
    }
    if (end_s > 0) {
        r->summary.sm_mean = c->total.sm / (end_s * devices);
        r->summary.memory_mean = c->total.memory / (end_s * devices);
    }
}
