/* Test fixture: a monitor with a clock, and functions that send events. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device/device.h"

enum { FIXTURE_SAMPLE_MS = 200, FIXTURE_GIB = 1 << 30 };

struct fixture {
    struct device_monitor *d;
    struct device_actions actions; /* of the last step */
    int64_t now_ms;
    struct device_sample sample;
    struct device_tenant_sample tenants[8];
    size_t counts[DEVICE_ACTION_END]; /* over all steps since fixture_forget */
    char said[DEVICE_CAUSE_MAX];      /* last text of a STATE, NOTE or ALARM action */
};

void fixture_open(struct fixture *f); /* Init, 10 GiB of unused memory */
void fixture_open_healthy(struct fixture *f);
void fixture_close(struct fixture *f);
void fixture_forget(struct fixture *f);
void step(struct fixture *f, const struct device_event *event);
/* Sends f->sample every 200 ms for at least this time. */
void pass(struct fixture *f, int64_t ms);
void sample(struct fixture *f);
void xid(struct fixture *f, int number);
void mps(struct fixture *f, enum device_mps word);
void self_tested(struct fixture *f, bool passed);
void operator_says(struct fixture *f, bool enable);
void came(struct fixture *f, uint64_t workload, enum workload_kind kind, bool isolated);
void suspect_came(struct fixture *f, uint64_t workload);
void left(struct fixture *f, uint64_t workload, bool failed);
/* Returns the figures of a tenant; the next sample sends changes made to them. */
struct device_tenant_sample *known(struct fixture *f, uint64_t workload);
/* Returns an action of the last step, or NULL. */
const struct device_action *find_action(const struct fixture *f, enum device_action_kind kind,
                                        uint64_t workload);
enum attempt_verdict verdict(const struct fixture *f, uint64_t workload, bool failed);
