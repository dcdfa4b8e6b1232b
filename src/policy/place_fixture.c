#include "policy/place_fixture.h"

static const struct pairs no_labels = {0};
static const uint32_t service_batches[] = {1, 4, 16};

static const struct forecast_profile *
world_profile(void *context, const struct forecast_device *device, uint32_t kind)
{
    const struct world *w = context;
    (void)device;
    return kind > 0 && kind < WORLD_KINDS ? &w->profiles[kind] : NULL;
}

/* Demand above the device slows all members; a service's latency rises with the tasks' demand. */
static void world_together(void *context, const struct forecast_set *set,
                           struct forecast_answer *ret_answer)
{
    double sum = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct forecast_profile *p = world_profile(context, set->device, set->kinds[i]);
        sum += p ? p->sm_activity : 1;
    }
    for (size_t i = 0; i < set->count; i++) {
        const struct forecast_profile *p = world_profile(context, set->device, set->kinds[i]);
        bool is_service = p && p->kind == WORKLOAD_SERVICE;
        ret_answer->pd[i] =
            is_service ? 1 : fmax(1, sum) + 0.01 * (double)((set->count - 1) * set->kinds[i]);
        ret_answer->p99_ms[i] = is_service ? 80 * fmax(0.5, sum) : 0;
        ret_answer->is_p99_guess[i] = is_service && ((const struct world *)context)->is_p99_guess;
    }
}

static bool world_curve(void *context, const struct forecast_set *beside, uint32_t service,
                        uint32_t batch, struct pwl_curve *ret_curve)
{
    (void)context;
    double weight = 1;
    for (size_t i = 0; i < beside->count; i++)
        weight += 0.1 * beside->kinds[i];
    *ret_curve = (struct pwl_curve){.knee_share = 30,
                                    .knee_latency = 0.5 * batch * weight,
                                    .left_slope = -0.1 * weight * service,
                                    .right_slope = -0.001};
    return true;
}

void world_open(struct world *w)
{
    const struct device *specs[WORLD_DEVICES];
    memset(w, 0, sizeof *w);
    for (size_t d = 0; d < WORLD_DEVICES; d++) {
        w->specs[d] = (struct device){.memory_bytes = 100, .sm_count = 132};
        strncpy(w->specs[d].model, d < 8 ? "NVIDIA H200" : "NVIDIA A100", DEVICE_MODEL_MAX - 1);
        w->devices[d] = (struct policy_device){.uuid = w->specs[d].uuid,
                                               .model = w->specs[d].model,
                                               .node = d / WORLD_NODE_DEVICES,
                                               .memory_bytes = 100};
        specs[d] = &w->specs[d];
    }
    for (size_t n = 0; n < WORLD_NODES; n++)
        w->nodes[n] = (struct policy_node){.name = "node",
                                           .labels = &no_labels,
                                           .usable = true,
                                           .attempts_max = 1024,
                                           .cpu_tasks_max = 1024,
                                           .first_device = n * WORLD_NODE_DEVICES,
                                           .device_count = WORLD_NODE_DEVICES};
    for (uint32_t k = 1; k < WORLD_KINDS; k++) {
        bool is_service = k >= WORLD_SERVICE;
        w->profiles[k] =
            (struct forecast_profile){.name = "kind",
                                      .kind = is_service ? WORKLOAD_SERVICE : WORKLOAD_TASK,
                                      .sm_activity = is_service ? 0.3 : 0.1 * k,
                                      .slo_ms = is_service ? WORLD_SLO_MS : 0,
                                      .rate_per_s = is_service ? 50 : 0,
                                      .service_batch_count = is_service ? 3 : 0,
                                      .service_batches = service_batches};
    }
    w->forecast = (struct forecast){
        .context = w, .profile = world_profile, .together = world_together, .curve = world_curve};
    w->snapshot = (struct policy_snapshot){.nodes = w->nodes,
                                           .node_count = WORLD_NODES,
                                           .devices = w->devices,
                                           .device_count = WORLD_DEVICES,
                                           .waiting = w->waiting,
                                           .max_neighbours = 4,
                                           .seed = 1,
                                           .fleet = &w->fleet,
                                           .now_ms = 1000000};
    fleet_init(&w->fleet, &w->forecast);
    assert_int_equal(fleet_reset(&w->fleet, &w->snapshot, specs), 0);
}

void world_close(struct world *w)
{
    fleet_done(&w->fleet);
}

struct policy_waiting world_ask(struct world *w, uint32_t kind, uint64_t quota_bytes,
                                double alone_ms)
{
    assert_true(w->workload_count < WORLD_WORKLOADS);
    size_t i = w->workload_count++;
    struct world_workload *x = &w->workloads[i];
    *x = (struct world_workload){
        .needs = {.kind = kind >= WORLD_SERVICE ? WORKLOAD_SERVICE : WORKLOAD_TASK,
                  .devices = 1,
                  .quota_bytes = quota_bytes},
        .known = {.kind = kind, .alone_ms = alone_ms}};
    return (struct policy_waiting){
        .workload = i, .needs = &x->needs, .node_labels = &no_labels, .known = x->known};
}

void world_place(struct world *w, const struct policy_waiting *waiting,
                 const struct policy_decision *decision)
{
    struct world_workload *x = &w->workloads[waiting->workload];
    x->placed = true;
    x->decision = *decision;
    for (size_t i = 0; i < decision->device_count; i++) {
        struct fleet_member m = {.workload = waiting->workload,
                                 .needs = &x->needs,
                                 .node_labels = waiting->node_labels,
                                 .kind = x->known.kind,
                                 .checkpoints = x->known.checkpoints,
                                 .is_known = x->known.alone_ms > 0,
                                 .alone_ms = x->known.alone_ms,
                                 .begun_ms = w->snapshot.now_ms};
        policy_device_take(&w->devices[decision->devices[i]], &x->needs);
        assert_int_equal(
            fleet_take(&w->fleet, &w->snapshot, decision->devices[i], &m, w->snapshot.now_ms), 0);
    }
}

void world_place_on(struct world *w, const struct policy_waiting *waiting, size_t device)
{
    struct policy_decision decision = {
        .node = w->devices[device].node, .device_count = 1, .devices = {device}};
    world_place(w, waiting, &decision);
}

void world_remove(struct world *w, size_t workload)
{
    struct world_workload *x = &w->workloads[workload];
    double left_ms;
    assert_true(x->placed);
    x->placed = false;
    for (size_t i = 0; i < x->decision.device_count; i++) {
        policy_device_release(&w->devices[x->decision.devices[i]], &x->needs);
        assert_int_equal(fleet_release(&w->fleet, &w->snapshot, x->decision.devices[i], workload,
                                       w->snapshot.now_ms, &left_ms),
                         0);
    }
}

static void check_device(const struct world *w, size_t d)
{
    const struct policy_device *p = &w->devices[d];
    const struct fleet_device *f = &w->fleet.devices[d];
    const struct fleet_class *c = &w->fleet.classes[f->class_index];
    uint64_t quota_bytes = 0;
    int share_percent = 0, count = 0, gangs = 0;
    for (size_t i = 0; i < w->workload_count; i++)
        for (size_t k = 0; w->workloads[i].placed && k < w->workloads[i].decision.device_count; k++)
            if (w->workloads[i].decision.devices[k] == d) {
                quota_bytes += w->workloads[i].needs.quota_bytes;
                share_percent += w->workloads[i].needs.share_min_percent;
                gangs += w->workloads[i].needs.devices > 1;
                count++;
            }
    assert_true(quota_bytes <= p->memory_bytes && share_percent <= 100 && gangs <= 1);
    assert_true(count <= w->snapshot.max_neighbours);
    assert_int_equal(f->member_count, count);
    assert_int_equal(c->set.count, count);
    assert_ptr_equal(c->set.device, f->type);
    for (size_t i = 0; i < f->member_count; i++) {
        assert_int_equal(f->members[i].kind, c->set.kinds[i]);
        assert_true(i == 0 || c->set.kinds[i - 1] <= c->set.kinds[i]);
        assert_true(w->workloads[f->members[i].workload].placed);
    }
    assert_int_equal(w->devices[c->first].quota_bytes, p->quota_bytes);
    assert_int_equal(w->devices[c->first].share_min_percent, p->share_min_percent);
}

void world_check(const struct world *w)
{
    size_t devices = 0, leaving = 0;
    for (size_t d = 0; d < WORLD_DEVICES; d++) {
        check_device(w, d);
        leaving += isfinite(w->fleet.devices[d].departure_ms) ? 1 : 0;
    }
    for (size_t i = 0; i < w->fleet.class_count; i++)
        devices += w->fleet.classes[i].device_count;
    assert_int_equal(devices, WORLD_DEVICES);
    assert_int_equal(leaving, w->fleet.departure_count);
    for (size_t i = 0; i < leaving; i++) {
        const struct fleet_departure *x = &w->fleet.departures[i];
        assert_true(x->at_ms == w->fleet.devices[x->device].departure_ms);
        assert_true(i == 0 || w->fleet.departures[i - 1].at_ms <= x->at_ms);
    }
}
