/* Describes the limits in a session's page: the strictest value of all devices, and the reason. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/str.h"
#include "node/protect/registrar_internal.h"

enum { FULL_PERCENT = 100, PERMILLE_OF_PERCENT = 10 };

/* The list being written. */
struct list_of_limits {
    struct attempt_limit *items;
    int count;
};

static void add(struct list_of_limits *list, const char *name, uint64_t value, const char *reason)
{
    struct attempt_limit *limit = &list->items[list->count++];
    *limit = (struct attempt_limit){.value = value};
    str_copy(limit->name, sizeof limit->name, name);
    str_copy(limit->reason, sizeof limit->reason, reason);
}

/* Returns the smallest value of a limit over the devices; 0: no limit. Sets *ret_device to the
 * device of that value. */
static uint32_t strictest(const struct session *s, const _Atomic uint32_t *first, int *ret_device)
{
    uint32_t lowest = 0;
    *ret_device = 0;
    for (int i = 0; i < s->terms->device_count; i++) {
        const char *word = (const char *)first + (size_t)i * sizeof(struct limits_device);
        uint32_t value = atomic_load((const _Atomic uint32_t *)word);
        if (value == 0 || (lowest != 0 && value >= lowest))
            continue;
        lowest = value;
        *ret_device = i;
    }
    return lowest;
}

static bool is_task(const struct session *s)
{
    return s->terms->kind == WORKLOAD_TASK;
}

static uint32_t throttled_to(const struct session *s, int device)
{
    return registrar_throttled_to(s->registrar, s->terms->devices[device]);
}

static enum limits_mode mode_on(const struct session *s, int device)
{
    return (enum limits_mode)atomic_load(&s->limits.page->devices[device].mode);
}

/* Returns the SMs that the driver lets the processes use; 0: no context yet. */
static uint64_t sms_of(const struct session *s)
{
    uint64_t sms = s->ended_counters[STATUS_sms_peak];
    list_for_each (it, &s->members) {
        const struct member *m = list_entry(it, struct member, link);
        if (m->status.page)
            sms = counters_add(STATUS_sms_peak, sms, m->status.page->counters[STATUS_sms_peak]);
    }
    return sms;
}

static void add_share(const struct session *s, struct list_of_limits *list)
{
    const struct terms *terms = s->terms;
    char reason[LIMIT_REASON_MAX], kept[44] = "enforced by MPS";
    uint64_t sms = sms_of(s);
    if (sms > 0)
        (void)snprintf(kept, sizeof kept, "enforced by MPS: %" PRIu64 " SMs", sms);
    int percent = terms->has_mps ? terms_share_percent(terms) : terms->share_max_percent;
    if (percent >= FULL_PERCENT)
        str_copy(reason, sizeof reason, "all SMs allowed");
    else if (terms->has_mps && terms->share_why[0])
        (void)snprintf(reason, sizeof reason, "%.80s, %s", terms->share_why, kept);
    else if (terms->has_mps)
        (void)snprintf(reason, sizeof reason, "the granted share, %s", kept);
    else
        (void)snprintf(reason, sizeof reason, "the granted share, %s: %.70s",
                       is_task(s) ? "enforced by the launch rate" : "not enforced",
                       terms->without_mps);
    add(list, "share_percent", (uint64_t)percent, reason);
}

static void add_window(const struct session *s, struct list_of_limits *list)
{
    int device;
    uint32_t window_us = strictest(s, &s->limits.page->devices[0].window_us, &device);
    add(list, "window_us", window_us,
        !is_task(s)                         ? "services are never delayed"
        : throttled_to(s, device)           ? "the node throttles the device"
        : mode_on(s, device) == LIMITS_TIME ? "a service shares the device"
                                            : "so that neighbours survive a kill");
}

static const char *reason_of_gate(const struct session *s, int device, uint32_t gate_us)
{
    const struct limits_device *limits = &s->limits.page->devices[device];
    if (gate_us == 0)
        return mode_on(s, device) == LIMITS_SPACE  ? "services on the device run at the same time"
               : mode_on(s, device) == LIMITS_TIME ? "services on the device keep their SLO without"
                                                   : "no service shares the device";
    if (atomic_load(&limits->hold_deadline_ms) > (uint64_t)clock_boot_ms())
        return "held: a service on the device misses its SLO";
    return atomic_load(&limits->gate_rule) == LIMITS_GATE_DUE
               ? "shuts when a request of a service could be late"
               : "a service shares the device and goes first";
}

static void add_gate(const struct session *s, struct list_of_limits *list)
{
    int device;
    uint32_t gate_us = strictest(s, &s->limits.page->devices[0].gate_us_max, &device);
    add(list, "gate_us", gate_us,
        !is_task(s) ? "services are never delayed" : reason_of_gate(s, device, gate_us));
}

static void add_linger(const struct session *s, struct list_of_limits *list)
{
    int device;
    uint32_t gate_us = strictest(s, &s->limits.page->devices[0].gate_us_max, &device);
    uint32_t linger_us = strictest(s, &s->limits.page->devices[0].linger_us, &device);
    add(list, "linger_us", linger_us,
        linger_us > 0 ? "the gate opens this long after a service became idle"
        : gate_us > 0 ? "the gate opens as soon as a service is idle"
                      : "no gate");
}

static void add_rate(const struct session *s, struct list_of_limits *list)
{
    int device;
    const struct terms *terms = s->terms;
    uint32_t permille = strictest(s, &s->limits.page->devices[0].rate_permille, &device);
    uint32_t own = terms->has_mps || terms->share_max_percent >= FULL_PERCENT
                       ? 0
                       : (uint32_t)terms->share_max_percent * PERMILLE_OF_PERCENT;
    add(list, "rate_permille", permille,
        !is_task(s)                                       ? "services are never delayed"
        : permille && permille == own                     ? "the share, which MPS does not enforce"
        : permille && permille == throttled_to(s, device) ? "the node throttles the device"
        : permille                                        ? "services on the device need the rest"
        : terms_share_percent(terms) < FULL_PERCENT       ? "MPS enforces the share"
                                                          : "all of the device's time allowed");
}

static void add_lease(const struct session *s, struct list_of_limits *list)
{
    uint64_t deadline_ms = atomic_load(&s->limits.page->lease_deadline_ms);
    uint64_t now_ms = (uint64_t)clock_boot_ms();
    add(list, "lease_ms", deadline_ms > now_ms ? deadline_ms - now_ms : 0,
        !is_task(s)             ? "leases apply to tasks only"
        : deadline_ms == 0      ? "no lease yet"
        : deadline_ms <= now_ms ? "the lease expired: no launches until control answers"
                                : "until the lease expires");
}

static void add_away(const struct session *s, struct list_of_limits *list)
{
    struct session_room room;
    session_read_room(s, 0, &room);
    add(list, "away_bytes", room.away_bytes,
        room.away_bytes > 0      ? "in host memory: a service needs the device memory"
        : room.holders > 1       ? "several processes have device memory, so none can move"
        : room.movable_bytes > 0 ? "its memory can move to host memory for a service"
                                 : "it has no memory that can move");
}

int session_limits(const struct session *s, struct attempt_limit ret[USAGE_LIMITS_MAX])
{
    struct list_of_limits list = {.items = ret};
    if (!s->limits.page)
        return 0;
    add(&list, "quota_bytes", s->terms->quota_bytes,
        s->terms->quota_bytes ? "the submitted quota, on each device"
                              : "exclusive use of the devices");
    add_share(s, &list);
    add_window(s, &list);
    add_gate(s, &list);
    add_linger(s, &list);
    add_rate(s, &list);
    add_lease(s, &list);
    if (s->terms->swappable)
        add_away(s, &list);
    return list.count;
}
