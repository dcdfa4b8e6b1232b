/*
 * A device under random events: device_torture FIRST LAST runs these seeds. A failure prints its
 * seed, which reproduces it.
 *
 * Invariants: no tenant is ordered to leave without a cause; only tasks are evicted for a limit,
 * never services, and for memory only beside other users of the device; only a tenant that faulted
 * alone is guilty; the device leaves Overlimit once it is within limits, and every repair ends;
 * every suspect that stays is cleared; equal seeds give equal actions.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "device/device.h"

enum { STEPS = 4000, TENANTS = 12, CALM_MS = 1300000, GIB = 1 << 30 };

struct inmate {
    bool there, told, stubborn, suspends;
    int64_t end_by_ms; /* once told */
    enum attempt_verdict verdict;
    struct device_tenant_info info;
};

struct world {
    uint64_t seed;
    struct rng rng;
    struct device_monitor *d;
    struct controller_memory memory;
    struct device_actions actions;
    int64_t now_ms;
    struct inmate inmates[TENANTS];
    uint64_t workload_last;
    struct device_sample sample;
    struct device_tenant_sample known[TENANTS];
    bool checks, tests, replaces; /* answers that the world owes */
    bool calm;                    /* no more faults */
    uint64_t digest;
    size_t counts[DEVICE_ACTION_END];
};

static void check(const struct world *w, bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "seed %" PRIu64 " at %" PRId64 " ms: %s (state %s, %s)\n", w->seed, w->now_ms,
            what, device_state_name(device_state(w->d)), device_cause(w->d));
    exit(1);
}

static struct inmate *find(struct world *w, uint64_t workload)
{
    for (size_t i = 0; i < TENANTS; i++)
        if (w->inmates[i].there && w->inmates[i].info.workload == workload)
            return &w->inmates[i];
    return NULL;
}

/* Counts the tenants inside or outside of MPS that no fault has been attributed to. */
static size_t unblamed(const struct world *w, bool isolated)
{
    size_t count = 0;
    for (size_t i = 0; i < TENANTS; i++) {
        const struct inmate *m = &w->inmates[i];
        count +=
            m->there && m->info.isolated == isolated &&
            device_verdict(w->d, m->info.workload, m->info.attempt, false, NULL) < VERDICT_SUSPECT;
    }
    return count;
}

/* Checks that an END action has a cause. */
static void check_end(struct world *w, const struct device_action *a)
{
    struct inmate *m = find(w, a->workload);
    const char *why;
    check(w, m != NULL, "one is ended that is not there");
    enum attempt_verdict verdict = device_verdict(w->d, a->workload, m->info.attempt, false, &why);
    int64_t end_by_ms = w->now_ms + a->grace_ms;
    check(w, !m->told || verdict > m->verdict || end_by_ms < m->end_by_ms,
          "one is ended twice without need");
    m->verdict = verdict;
    m->end_by_ms = m->told && m->end_by_ms < end_by_ms ? m->end_by_ms : end_by_ms;
    m->told = true;
    check(w, verdict != VERDICT_OWN && why[0] && a->text[0], "one is ended without a cause");
    enum device_state state = device_state(w->d);
    bool refused = device_admission(w->d) != ADMIT_ALL;
    if (m->info.kind == WORKLOAD_SERVICE)
        check(w, device_admission(w->d) == ADMIT_NONE || verdict == VERDICT_GUILTY,
              "a service is ended for a limit");
    else
        check(w, state == DEVICE_OVERLIMIT || refused || verdict >= VERDICT_SUSPECT,
              "a task is ended on a healthy device");
    if (verdict == VERDICT_GUILTY)
        check(w, unblamed(w, m->info.isolated) == 0, "one is blamed that was not alone");
}

static void check_suspend(struct world *w, const struct device_action *a)
{
    struct inmate *m = find(w, a->workload);
    check(w, m != NULL && m->info.suspendable && !m->told && !m->suspends && a->text[0],
          "one is suspended that cannot be, or twice, or without a cause");
    check(w, device_state(w->d) == DEVICE_OVERLIMIT, "a task is suspended on a healthy device");
    check(w, device_verdict(w->d, a->workload, m->info.attempt, false, NULL) == VERDICT_OWN,
          "the end of one that is only suspended is not its own");
    m->suspends = true;
}

static void check_state(const struct world *w, const struct device_action *a)
{
    size_t count = 0;
    for (size_t i = 0; i < TENANTS; i++)
        count += w->inmates[i].there;
    check(w, a->text[0] && a->from != a->to, "a change of state without a cause");
    check(w, !strstr(a->text, "of its memory") || count > 1 || w->sample.has_strangers,
          "memory is limited for nobody");
}

static void carry_out(struct world *w)
{
    for (size_t i = 0; i < w->actions.count; i++) {
        const struct device_action *a = &w->actions.items[i];
        w->counts[a->kind]++;
        w->digest = w->digest * 31 + (uint64_t)a->kind * 7 + a->workload + (uint64_t)a->to +
                    (uint64_t)a->rate_permille + hash_string(a->text);
        if (a->kind == DEVICE_ACT_END)
            check_end(w, a);
        else if (a->kind == DEVICE_ACT_SUSPEND)
            check_suspend(w, a);
        else if (a->kind == DEVICE_ACT_ACQUIT && find(w, a->workload))
            find(w, a->workload)->verdict = VERDICT_MOVED;
        else if (a->kind == DEVICE_ACT_CLEAR && find(w, a->workload))
            find(w, a->workload)->info.suspect = false;
        else if (a->kind == DEVICE_ACT_STATE)
            check_state(w, a);
        w->checks = w->checks || a->kind == DEVICE_ACT_MPS_CHECK;
        w->replaces = w->replaces || a->kind == DEVICE_ACT_MPS_REPLACE;
        w->tests = w->tests || a->kind == DEVICE_ACT_SELF_TEST;
    }
}

static void step(struct world *w, struct device_event event)
{
    event.now_ms = w->now_ms;
    device_step(w->d, &event, &w->actions);
    carry_out(w);
}

static bool chance(struct world *w, uint64_t in)
{
    return rng_below(&w->rng, in) == 0;
}

static void come(struct world *w)
{
    struct inmate *m = &w->inmates[rng_below(&w->rng, TENANTS)];
    if (m->there)
        return;
    bool suspect = chance(w, 4);
    *m = (struct inmate){
        .there = true,
        .stubborn = chance(w, 4),
        .info = {.workload = ++w->workload_last,
                 .attempt = 1 + (int)rng_below(&w->rng, 3),
                 .kind = !suspect && chance(w, 3) ? WORKLOAD_SERVICE : WORKLOAD_TASK,
                 .grace_ms = (int64_t)rng_below(&w->rng, 15000),
                 .isolated = suspect || chance(w, 5),
                 .suspect = suspect,
                 .adopted = chance(w, 10)}};
    m->info.suspendable = m->info.kind == WORKLOAD_TASK && m->info.isolated && chance(w, 2);
    step(w, (struct device_event){.kind = DEVICE_TENANT_CAME, .came = &m->info});
    if (!chance(w, 6))
        step(w, (struct device_event){
                    .kind = DEVICE_TENANT_RUNS,
                    .tenant = {.workload = m->info.workload, .attempt = m->info.attempt}});
}

static void leave(struct world *w, struct inmate *m)
{
    struct device_tenant_info info = m->info;
    m->there = false;
    step(w, (struct device_event){.kind = DEVICE_TENANT_LEFT,
                                  .tenant = {.workload = info.workload,
                                             .attempt = info.attempt,
                                             .failed = chance(w, 2)}});
}

/* Ends a suspension, successfully or not. */
static void end_suspending(struct world *w, struct inmate *m)
{
    m->suspends = false;
    if (chance(w, 3))
        step(w, (struct device_event){.kind = DEVICE_TENANT_STAYS,
                                      .tenant = {.workload = m->info.workload,
                                                 .attempt = m->info.attempt,
                                                 .why = "it cannot"}});
    else
        leave(w, m);
}

static void fill_sample(struct world *w)
{
    static const uint64_t reasons[] = {0x1, 0x4, 0x8, 0x20, 0x40, 0x80};
    uint64_t used = 0;
    w->sample = (struct device_sample){.valid = w->calm || !chance(w, 50),
                                       .memory_bytes = 100 * (uint64_t)GIB,
                                       .tenants = w->known};
    w->sample.lost = !w->sample.valid && chance(w, 50);
    for (size_t i = 0; i < TENANTS; i++) {
        const struct inmate *m = &w->inmates[i];
        if (!m->there)
            continue;
        struct device_tenant_sample *s = &w->known[w->sample.tenant_count++];
        *s = (struct device_tenant_sample){.workload = m->info.workload,
                                           .has_memory = w->calm || !chance(w, 10),
                                           .memory_bytes = (w->calm ? 1 : rng_below(&w->rng, 18)) *
                                                           (uint64_t)GIB};
        used += s->memory_bytes;
        if (m->info.kind == WORKLOAD_SERVICE && !w->calm) {
            s->slo_ms = 100;
            s->latency_5s_ms = 40 + (double)rng_below(&w->rng, 56);
            s->latency_10s_ms = 40 + (double)rng_below(&w->rng, 61);
            s->requests_10s = 500;
        }
    }
    w->sample.has_strangers = chance(w, 4);
    if (!w->calm && chance(w, 4)) /* otherwise a single user never exceeds a memory limit */
        used *= 10;
    w->sample.memory_used_bytes = used < w->sample.memory_bytes ? used : w->sample.memory_bytes;
    if (!w->calm && chance(w, 30))
        w->sample.slowdown = reasons[rng_below(&w->rng, 6)];
}

/* Half of the services have a controller, and random measurements. */
static void look_at(struct world *w, const struct inmate *m)
{
    const struct controller_look look = {.service = 1 + m->info.workload % 3,
                                         .neighbours = rng_below(&w->rng, 3),
                                         .slo_us = chance(w, 4) ? 0 : 100000,
                                         .has_mps = !m->info.isolated,
                                         .has_requests = true,
                                         .answered = rng_below(&w->rng, 200),
                                         .late = w->calm ? 0 : rng_below(&w->rng, 10),
                                         .busy_fraction = 0.3,
                                         .work = (double)rng_below(&w->rng, 1000)};
    step(w,
         (struct device_event){
             .kind = DEVICE_SERVICE_LOOK,
             .service = {.workload = m->info.workload, .attempt = m->info.attempt, .look = &look}});
}

static void answer(struct world *w)
{
    if (w->checks && (w->calm || chance(w, 2))) {
        w->checks = false;
        step(w, (struct device_event){.kind = DEVICE_MPS,
                                      .mps = !w->calm && chance(w, 2) ? DEVICE_MPS_FAULTED
                                                                      : DEVICE_MPS_READY});
    }
    if (w->replaces) {
        w->replaces = false;
        step(w, (struct device_event){.kind = DEVICE_MPS,
                                      .mps = !w->calm && chance(w, 3) ? DEVICE_MPS_LOST
                                                                      : DEVICE_MPS_READY});
    }
    if (w->tests) {
        w->tests = false;
        step(w,
             (struct device_event){.kind = DEVICE_SELF_TESTED, .passed = w->calm || !chance(w, 3)});
    }
}

static void time_passes(struct world *w)
{
    w->now_ms += 150 + (int64_t)rng_below(&w->rng, 100);
    for (size_t i = 0; i < TENANTS; i++) {
        struct inmate *m = &w->inmates[i];
        if (m->there && m->told && chance(w, m->stubborn ? 40 : 4))
            leave(w, m);
        else if (m->there && m->suspends && chance(w, 4))
            end_suspending(w, m);
    }
    fill_sample(w);
    step(w, (struct device_event){.kind = DEVICE_SAMPLE, .sample = &w->sample});
    for (size_t i = 0; i < TENANTS; i++)
        if (w->inmates[i].there && w->inmates[i].info.workload % 2)
            look_at(w, &w->inmates[i]);
    answer(w);
}

static void trouble(struct world *w)
{
    static const int xids[] = {13, 31, 43, 45, 68, 62, 109, 48, 79, 94};
    switch (rng_below(&w->rng, 7)) {
    case 0:
        /* The last three Xids disable the device, so they are rarer. */
        step(w, (struct device_event){.kind = DEVICE_XID,
                                      .xid = xids[rng_below(&w->rng, chance(w, 5) ? 10 : 7)]});
        break;
    case 1:
        step(w, (struct device_event){.kind = DEVICE_MPS,
                                      .mps = chance(w, 4) ? DEVICE_MPS_LOST : DEVICE_MPS_FAULTED});
        break;
    case 2:
        step(w, (struct device_event){.kind = DEVICE_OPERATOR,
                                      .operator_says = {.enable = !chance(w, 4)}});
        break;
    case 3: {
        struct inmate *m = &w->inmates[rng_below(&w->rng, TENANTS)];
        if (m->there)
            leave(w, m);
        break;
    }
    default:
        come(w);
    }
}

/* Without further faults, the device must recover and every suspect must be cleared. */
static void settle(struct world *w)
{
    w->calm = true;
    for (size_t i = 0; i < TENANTS; i++)
        if (w->inmates[i].there)
            step(w, (struct device_event){.kind = DEVICE_TENANT_RUNS,
                                          .tenant = {.workload = w->inmates[i].info.workload,
                                                     .attempt = w->inmates[i].info.attempt}});
    step(w, (struct device_event){.kind = DEVICE_OPERATOR, .operator_says = {.enable = true}});
    for (int64_t until = w->now_ms + CALM_MS; w->now_ms < until;) {
        time_passes(w);
        if (device_state(w->d) == DEVICE_DISABLED && chance(w, 100))
            step(w,
                 (struct device_event){.kind = DEVICE_OPERATOR, .operator_says = {.enable = true}});
    }
    check(w, device_state(w->d) == DEVICE_HEALTHY, "it does not get well");
    check(w, device_admission(w->d) == ADMIT_ALL, "its repair does not end");
    for (size_t i = 0; i < TENANTS; i++) {
        check(w, !w->inmates[i].there || !w->inmates[i].info.suspect, "a suspect is never cleared");
        check(w, !w->inmates[i].there || !w->inmates[i].told,
              "a tenant that was told to leave stays");
        check(w, !w->inmates[i].there || !w->inmates[i].suspends,
              "a tenant is suspending for ever");
    }
}

static uint64_t run(uint64_t seed, size_t *ret_counts)
{
    struct world *w = calloc(1, sizeof *w);
    struct device_config config;
    device_config_default(&config);
    if (w)
        controller_memory_init(&w->memory);
    config.memory = w ? &w->memory : NULL;
    if (!w || device_monitor_new(&config, &w->d) < 0)
        exit(1);
    w->seed = seed;
    rng_seed(&w->rng, seed);
    w->now_ms = 1000;
    for (int i = 0; i < STEPS; i++) {
        if (chance(w, 12))
            trouble(w);
        time_passes(w);
    }
    settle(w);
    uint64_t digest = w->digest;
    for (size_t i = 0; i < DEVICE_ACTION_END; i++)
        ret_counts[i] += w->counts[i];
    device_monitor_free(w->d);
    free(w);
    return digest;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: device_torture FIRST LAST\n");
        return 2;
    }
    uint64_t first = strtoull(argv[1], NULL, 10), last = strtoull(argv[2], NULL, 10);
    size_t counts[DEVICE_ACTION_END] = {0};
    for (uint64_t seed = first; seed <= last; seed++) {
        uint64_t digest = run(seed, counts);
        if (seed % 10 == 0 && run(seed, counts) != digest) {
            fprintf(stderr, "seed %" PRIu64 ": two runs differ\n", seed);
            return 1;
        }
    }
    for (size_t i = 0; i < DEVICE_ACTION_END; i++)
        if (counts[i] == 0) {
            fprintf(stderr, "no seed ever had action %zu\n", i);
            return 1;
        }
    printf("%" PRIu64 " seeds\n", last - first + 1);
    return 0;
}
