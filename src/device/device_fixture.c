#include "device/device_fixture.h"

#include <stdio.h>
#include <string.h>

static const uint64_t MEMORY_BYTES = 10 * (uint64_t)FIXTURE_GIB;

void fixture_open(struct fixture *f)
{
    struct device_config config;
    device_config_default(&config);
    *f = (struct fixture){.now_ms = 1000000};
    f->sample =
        (struct device_sample){.valid = true, .memory_bytes = MEMORY_BYTES, .tenants = f->tenants};
    assert_int_equal(device_monitor_new(&config, &f->d), 0);
}

void fixture_open_healthy(struct fixture *f)
{
    fixture_open(f);
    pass(f, 600);
    assert_int_equal(device_state(f->d), DEVICE_HEALTHY);
    fixture_forget(f);
}

void fixture_close(struct fixture *f)
{
    device_monitor_free(f->d);
}

void fixture_forget(struct fixture *f)
{
    memset(f->counts, 0, sizeof f->counts);
}

void step(struct fixture *f, const struct device_event *event)
{
    device_step(f->d, event, &f->actions);
    for (size_t i = 0; i < f->actions.count; i++) {
        const struct device_action *a = &f->actions.items[i];
        f->counts[a->kind]++;
        if (a->kind == DEVICE_ACT_STATE || a->kind == DEVICE_ACT_NOTE ||
            a->kind == DEVICE_ACT_ALARM)
            (void)snprintf(f->said, sizeof f->said, "%s", a->text);
    }
}

void sample(struct fixture *f)
{
    f->now_ms += FIXTURE_SAMPLE_MS;
    step(f,
         &(struct device_event){.kind = DEVICE_SAMPLE, .now_ms = f->now_ms, .sample = &f->sample});
}

void pass(struct fixture *f, int64_t ms)
{
    for (int64_t until = f->now_ms + ms; f->now_ms < until;)
        sample(f);
}

void xid(struct fixture *f, int number)
{
    step(f, &(struct device_event){.kind = DEVICE_XID, .now_ms = f->now_ms, .xid = number});
}

void mps(struct fixture *f, enum device_mps word)
{
    step(f, &(struct device_event){.kind = DEVICE_MPS, .now_ms = f->now_ms, .mps = word});
}

void self_tested(struct fixture *f, bool passed)
{
    step(f,
         &(struct device_event){.kind = DEVICE_SELF_TESTED, .now_ms = f->now_ms, .passed = passed});
}

void operator_says(struct fixture *f, bool enable)
{
    step(f, &(struct device_event){
                .kind = DEVICE_OPERATOR, .now_ms = f->now_ms, .operator_says = {.enable = enable}});
}

static void come(struct fixture *f, const struct device_tenant_info *info)
{
    step(f, &(struct device_event){.kind = DEVICE_TENANT_CAME, .now_ms = f->now_ms, .came = info});
    const struct device_actions first = f->actions;
    step(f, &(struct device_event){.kind = DEVICE_TENANT_RUNS,
                                   .now_ms = f->now_ms,
                                   .tenant = {.workload = info->workload, .attempt = 1}});
    if (first.count > 0)
        f->actions = first;
}

void came(struct fixture *f, uint64_t workload, enum workload_kind kind, bool isolated)
{
    come(f, &(struct device_tenant_info){.workload = workload,
                                         .attempt = 1,
                                         .kind = kind,
                                         .grace_ms = 10000,
                                         .isolated = isolated});
}

void suspect_came(struct fixture *f, uint64_t workload)
{
    come(f, &(struct device_tenant_info){.workload = workload,
                                         .attempt = 1,
                                         .kind = WORKLOAD_TASK,
                                         .grace_ms = 10000,
                                         .isolated = true,
                                         .suspect = true});
}

void left(struct fixture *f, uint64_t workload, bool failed)
{
    step(f,
         &(struct device_event){.kind = DEVICE_TENANT_LEFT,
                                .now_ms = f->now_ms,
                                .tenant = {.workload = workload, .attempt = 1, .failed = failed}});
}

struct device_tenant_sample *known(struct fixture *f, uint64_t workload)
{
    size_t i = 0;
    while (i < f->sample.tenant_count && f->tenants[i].workload != workload)
        i++;
    assert_true(i < sizeof f->tenants / sizeof f->tenants[0]);
    if (i == f->sample.tenant_count)
        f->sample.tenant_count++;
    f->tenants[i].workload = workload;
    return &f->tenants[i];
}

const struct device_action *find_action(const struct fixture *f, enum device_action_kind kind,
                                        uint64_t workload)
{
    for (size_t i = 0; i < f->actions.count; i++)
        if (f->actions.items[i].kind == kind &&
            (!workload || f->actions.items[i].workload == workload))
            return &f->actions.items[i];
    return NULL;
}

enum attempt_verdict verdict(const struct fixture *f, uint64_t workload, bool failed)
{
    return device_verdict(f->d, workload, 1, failed, NULL);
}
