/* Passes nodes' reports to learning.h, and new forecasts to the cluster. */
#include <stdlib.h>

#include "base/clock.h"
#include "control/control_internal.h"

/* Shortest time between two forecasts, and the multiple of the time that the last one cost. */
enum { FORECAST_MS = 1000, FORECAST_REST = 200 };
enum { ROOM_MS = 1000 }; /* shortest time between two attempts to forget programs */
/* By then a described workload is live, or was refused. */
enum { SUBMITTING_MS = 60 * 1000 };

/* ---- the program of a workload ---- */

/* Forgets unused programs, at most once in ROOM_MS: the search costs time, and finds none while all
 * known programs are in use. */
static void make_room(struct control *c, const struct cluster *cluster, int64_t now_wall_ms)
{
    int64_t now_boot_ms = clock_boot_ms();
    bool *used = now_boot_ms < c->room_due_boot_ms ? NULL : calloc(PROGRAMS_MAX, sizeof *used);
    if (!used)
        return;
    c->room_due_boot_ms = now_boot_ms + ROOM_MS;
    cluster_programs_in_use(cluster, used, PROGRAMS_MAX);
    learning_make_room(c->learning, used, now_wall_ms - SUBMITTING_MS);
    free(used);
}

struct policy_known control_known(struct control *c, const struct cluster *cluster,
                                  const char *user, const struct workload_spec *spec)
{
    int64_t now_wall_ms = clock_wall_ms();
    uint32_t program = learning_program(c->learning, user, spec, now_wall_ms);
    if (program == 0) {
        make_room(c, cluster, now_wall_ms);
        program = learning_program(c->learning, user, spec, now_wall_ms);
    }
    bool is_known = learning_is_known(c->learning, program);
    return (struct policy_known){.kind = is_known ? program : FORECAST_KIND_UNKNOWN,
                                 .program = program,
                                 .alone_ms = (double)spec->expected_duration_ms,
                                 .checkpoints = spec->resume.count > 0};
}

double control_alone_ms(const struct control *c, const char *user, const struct workload_spec *spec)
{
    struct program program;
    if (spec->needs.kind != WORKLOAD_SERVICE || !(spec->slo_latency_ms > 0))
        return 0;
    program_identify(user, spec, &program);
    return programs_alone_ms(learning_programs(c->learning), &program);
}

/* ---- reports of nodes ---- */

static struct learning_member member_of(const struct control *c, const struct node_link *link,
                                        uint64_t workload)
{
    const struct workload_status *status = cluster_live_status(c->cluster, workload);
    const struct attempt *a = status ? workload_status_attempt(status) : NULL;
    const struct attempt_usage *usage = a ? link_attempt_usage(link, workload, a->number) : NULL;
    struct learning_member m = {.workload = workload,
                                .program = cluster_live_program(c->cluster, workload),
                                .samples_per_s = -1,
                                .speed_since_ms = -1,
                                .p99_ms = -1,
                                .latency_since_ms = -1};
    if (!usage)
        return m;
    uint64_t bytes = usage->memory_used_bytes > usage->counted_bytes ? usage->memory_used_bytes
                                                                     : usage->counted_bytes;
    m.attempt = a->number;
    m.is_gang = a->device_count > 1;
    m.memory_bytes = bytes / (a->device_count > 0 ? (uint64_t)a->device_count : 1);
    m.is_at_work = status->state == WORKLOAD_RUNNING && bytes > 0 && usage->suspended_bytes == 0;
    m.samples_per_s = usage->samples_per_s;
    m.speed_since_ms = usage->speed_since_ms;
    m.p99_ms = usage->latency_ms;
    m.requests = usage->requests_10s;
    m.latency_since_ms = usage->requests_10s > 0 ? usage->latency_since_ms : -1;
    return m;
}

static double part_of(double percent)
{
    return percent < 0 ? -1 : percent / 100;
}

void control_learn(struct control *c, const struct node_link *link, const char *node,
                   const struct device_usage *usage, const struct forecast_device *type)
{
    uint64_t ids[LEARNING_MEMBERS_MAX + 1];
    struct learning_member members[LEARNING_MEMBERS_MAX + 1];
    if (!c->cluster)
        return;
    size_t count =
        cluster_device_workloads(c->cluster, node, usage->uuid, ids, sizeof ids / sizeof ids[0]);
    for (size_t i = 0; i < count; i++)
        members[i] = member_of(c, link, ids[i]);
    const struct learning_report report = {.uuid = usage->uuid,
                                           .type = type,
                                           .sm_activity = part_of(usage->sm_percent),
                                           .dram_rate = part_of(usage->memory_percent),
                                           .count = count,
                                           .members = members,
                                           .now_ms = clock_boot_ms(),
                                           .now_wall_ms = clock_wall_ms()};
    learning_report(c->learning, &report);
}

/* ---- new forecasts ---- */

static void tell_outcomes(struct control *c)
{
    struct learning_outcome o;
    while (c->cluster && learning_take_outcome(c->learning, &o)) {
        struct cluster_event event = {.kind = CLUSTER_MEASURED,
                                      .measured = {.workload = o.workload,
                                                   .attempt = o.attempt,
                                                   .pd = o.pd,
                                                   .predicted_pd = o.predicted_pd}};
        (void)control_step(c, &event);
    }
}

void control_learn_tick(struct control *c, int64_t now_boot_ms)
{
    keeper_tick(c->keeper, now_boot_ms);
    tell_outcomes(c);
    if (!c->cluster || now_boot_ms < c->forecast_due_boot_ms ||
        !learning_publish(c->learning, clock_wall_ms()))
        return;
    bool *known = calloc(PROGRAMS_MAX, sizeof *known);
    for (uint32_t i = 0; known && i < PROGRAMS_MAX; i++)
        known[i] = learning_is_known(c->learning, i);
    struct cluster_event event = {.kind = CLUSTER_FORECAST,
                                  .forecast = {.known = known, .count = known ? PROGRAMS_MAX : 0}};
    (void)control_step(c, &event);
    free(known);
    int64_t took_ms = clock_boot_ms() - now_boot_ms;
    c->forecast_due_boot_ms = now_boot_ms + FORECAST_MS + FORECAST_REST * took_ms;
}
