/* Metrics of services with a controller: requests, late requests, target, setting and the cost to
 * tasks. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "control/control_internal.h"
#include "endpoint/metrics.h"

struct family {
    struct str *out;
    const char *name;
    size_t offset; /* of the number in struct attempt_control */
    double unit;   /* by which the number is multiplied */
};

static void put_count(void *arg, const char *node, const struct attempt_usage *usage)
{
    const struct family *f = arg;
    uint64_t value;
    char id[24];
    (void)snprintf(id, sizeof id, "%" PRIu64, usage->workload);
    memcpy(&value, (const char *)&usage->control + f->offset, sizeof value);
    if (usage->has_control && metrics_have_room(f->out))
        metrics_sample(f->out, f->name, (double)value, "node", node, "workload", id, NULL);
}

static void put_figure(void *arg, const char *node, const struct attempt_usage *usage)
{
    const struct family *f = arg;
    double value;
    char id[24];
    (void)snprintf(id, sizeof id, "%" PRIu64, usage->workload);
    memcpy(&value, (const char *)&usage->control + f->offset, sizeof value);
    if (usage->has_control && value >= 0 && metrics_have_room(f->out))
        metrics_sample(f->out, f->name, value * f->unit, "node", node, "workload", id, NULL);
}

static void put_setting(void *arg, const char *node, const struct attempt_usage *usage)
{
    const struct family *f = arg;
    char id[24];
    (void)snprintf(id, sizeof id, "%" PRIu64, usage->workload);
    if (usage->has_control && metrics_have_room(f->out))
        metrics_sample(f->out, f->name, 1, "node", node, "workload", id, "setting",
                       usage->control.setting, NULL);
}

static void put_unreachable(void *arg, const char *node, const struct attempt_usage *usage)
{
    const struct family *f = arg;
    char id[24];
    (void)snprintf(id, sizeof id, "%" PRIu64, usage->workload);
    if (usage->has_control && metrics_have_room(f->out))
        metrics_sample(f->out, f->name, usage->control.is_unreachable, "node", node, "workload", id,
                       NULL);
}

void service_metrics_write(struct control *c, struct str *out)
{
    static const struct {
        const char *name;
        enum metric_type type;
        const char *help;
        void (*put)(void *arg, const char *node, const struct attempt_usage *usage);
        size_t offset;
        double unit;
    } families[] = {
        {"gpumux_service_requests_total", METRIC_COUNTER,
         "Requests answered by the service in this attempt", put_count,
         offsetof(struct attempt_control, all.answered), 1},
        {"gpumux_service_late_total", METRIC_COUNTER,
         "Requests answered later than the SLO allows, in this attempt", put_count,
         offsetof(struct attempt_control, all.late), 1},
        {"gpumux_service_target_seconds", METRIC_GAUGE, "Latency of the service's SLO", put_figure,
         offsetof(struct attempt_control, target_us), 1e-6},
        {"gpumux_service_target_unreachable", METRIC_GAUGE,
         "1: the service misses its target while tasks are held", put_unreachable, 0, 1},
        {"gpumux_service_held_latency_seconds", METRIC_GAUGE,
         "Latency of the service while tasks are held, at the percentile of the SLO", put_figure,
         offsetof(struct attempt_control, held_latency_us), 1e-6},
        {"gpumux_service_setting", METRIC_GAUGE,
         "Always 1; the label shows the setting for the tasks beside the service", put_setting, 0,
         1},
        {"gpumux_service_stretch", METRIC_GAUGE,
         "Duration of the service's bursts beside tasks, relative to the bursts alone", put_figure,
         offsetof(struct attempt_control, stretch), 1},
        {"gpumux_service_task_speed_ratio", METRIC_GAUGE,
         "Speed of the tasks beside the service, relative to the fastest setting measured",
         put_figure, offsetof(struct attempt_control, task_speed), 1},
    };
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        struct family family = {out, families[i].name, families[i].offset, families[i].unit};
        metrics_family(out, families[i].name, families[i].type, families[i].help);
        links_visit_usage(c, families[i].put, &family);
    }
}
