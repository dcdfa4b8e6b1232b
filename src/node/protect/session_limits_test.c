/* The limits of an attempt, depending on its neighbours, and their reasons. */
#include "node/protect/registrar_fixture.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

static const struct attempt_limit *limit_of(const struct session *w, const char *name)
{
    static struct attempt_limit limits[USAGE_LIMITS_MAX];
    int count = session_limits(w, limits);
    for (int i = 0; i < count; i++)
        if (str_equal(limits[i].name, name))
            return &limits[i];
    fail_msg("there is no limit %s", name);
    return NULL;
}

static void expect_limit(const struct session *w, const char *name, uint64_t value,
                         const char *reason)
{
    const struct attempt_limit *limit = limit_of(w, name);
    assert_int_equal(limit->value, value);
    assert_string_equal(limit->reason, reason);
}

static void limits_and_reasons_follow_neighbours(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, 64 * MIB);
    const struct terms service_terms = terms_of(WORKLOAD_SERVICE, 0);
    terms.share_max_percent = 30;
    str_copy(terms.without_mps, sizeof terms.without_mps, "MPS is off on this node");
    struct session *task = make_session(f, "7.1", &terms, -1);
    expect_limit(task, "quota_bytes", 64 * MIB, "the submitted quota, on each device");
    expect_limit(task, "share_percent", 30,
                 "the granted share, enforced by the launch rate: MPS is off on this node");
    expect_limit(task, "window_us", 20000, "so that neighbours survive a kill");
    expect_limit(task, "gate_us", 0, "no service shares the device");
    expect_limit(task, "linger_us", 0, "no gate");
    expect_limit(task, "rate_permille", 300, "the share, which MPS does not enforce");
    expect_limit(task, "lease_ms", 0, "no lease yet");
    registrar_extend_lease(f->registrar, (uint64_t)clock_boot_ms() + 600000, 0);
    assert_string_equal(limit_of(task, "lease_ms")->reason, "until the lease expires");
    assert_in_range(limit_of(task, "lease_ms")->value, 1, 600000);
    registrar_extend_lease(f->registrar, 1, 0);
    expect_limit(task, "lease_ms", 0, "the lease expired: no launches until control answers");

    struct session *service = make_session(f, "8.1", &service_terms, -1);
    expect_limit(task, "window_us", WINDOW_US, "a service shares the device");
    expect_limit(task, "gate_us", 20000, "a service shares the device and goes first");
    expect_limit(task, "linger_us", 0, "the gate opens as soon as a service is idle");
    expect_limit(service, "window_us", 0, "services are never delayed");
    expect_limit(service, "lease_ms", 0, "leases apply to tasks only");
    expect_limit(service, "quota_bytes", 0, "exclusive use of the devices");
    registrar_throttle(f->registrar, UUID, 100);
    expect_limit(task, "window_us", WINDOW_US, "the node throttles the device");
    expect_limit(task, "rate_permille", 100, "the node throttles the device");
    registrar_throttle(f->registrar, UUID, 0);
    const struct share_division division = {.mode = SHARE_SPACE, .forecast_percent = 90};
    registrar_divide(f->registrar, UUID, &division);
    expect_limit(task, "window_us", 20000, "so that neighbours survive a kill");
    expect_limit(task, "gate_us", 0, "services on the device run at the same time");
    expect_limit(task, "rate_permille", 100, "services on the device need the rest");
    session_free(service);
    session_free(task);
}

/* The share under MPS is read back from the attempt's processes. */
static void share_reason_shows_measured_sms(void **state)
{
    struct fixture *f = *state;
    struct terms terms = terms_of(WORKLOAD_TASK, 64 * MIB);
    struct client c;
    terms.has_mps = true;
    terms.share_max_percent = 30;
    struct session *w = make_session(f, "7.1", &terms, -1);
    expect_limit(w, "share_percent", 30, "the granted share, enforced by MPS");
    join(f, "7.1", &c);
    expect_limit(w, "share_percent", 30, "the granted share, enforced by MPS");
    c.status->counters[STATUS_sms_peak] = 38;
    expect_limit(w, "share_percent", 30, "the granted share, enforced by MPS: 38 SMs");
    session_free(w);
    leave(&c);
}

static void expect_enforcement(const struct terms *terms, const char *wanted)
{
    char text[WORKLOAD_TEXT_MAX];
    const struct terms_facts facts = {.loaded = LOADED_BY_ALL};
    assert_string_equal(terms_describe(terms, &facts, text), wanted);
}

static void description_states_enforced_terms(void **state)
{
    struct terms terms = terms_of(WORKLOAD_TASK, 64 * MIB);
    (void)state;
    str_copy(terms.without_mps, sizeof terms.without_mps, "MPS is off on this node");
    expect_enforcement(&terms, "quota is enforced, share is not limited: time-sliced, "
                               "MPS is off on this node");
    const struct terms_facts unlisted = {.loaded = LOADED_BY_ALL, .is_unlisted = true};
    char text[WORKLOAD_TEXT_MAX];
    assert_non_null(strstr(terms_describe(&terms, &unlisted, text),
                           "; the driver does not say what processes hold"));
    terms.quota_bytes = 0;
    expect_enforcement(&terms, "it has no quota, but its devices to itself; share is not limited");
    terms.share_max_percent = 30;
    expect_enforcement(&terms,
                       "it has no quota, but its devices to itself; share by the rate of its "
                       "launches");
}

static void limits_follow_device_division(void **state)
{
    struct fixture *f = *state;
    struct terms task = terms_of(WORKLOAD_TASK, MIB), service = terms_of(WORKLOAD_SERVICE, MIB);
    task.has_mps = true;
    task.share_percent = 90;
    struct session *w = make_session(f, "7.1", &task, -1),
                   *s = make_session(f, "8.1", &service, -1);
    struct client c;
    join(f, "7.1", &c);
    const struct limits_device *limits = &c.limits->devices[0];
    assert_int_equal(limits->mode, LIMITS_TIME); /* no division known */
    assert_int_equal(limits->share_percent, 90);
    assert_int_equal(limits->rate_permille, 0);
    struct share_division division = {.mode = SHARE_TIME, .forecast_percent = 60};
    registrar_divide(f->registrar, UUID, &division);
    assert_int_equal(limits->rate_permille, 0); /* the gate suffices */
    division.mode = SHARE_SPACE;
    registrar_divide(f->registrar, UUID, &division);
    assert_int_equal(limits->mode, LIMITS_SPACE);
    assert_int_equal(limits->gate_us_max, 0);
    assert_true(limits->window_us > WINDOW_US);
    assert_int_equal(limits->rate_permille, 400); /* started with more than is left */
    division.task_count = 2;
    registrar_divide(f->registrar, UUID, &division);
    assert_int_equal(limits->rate_permille, 200); /* another task gets the same part */
    division.task_count = 1;
    registrar_divide(f->registrar, UUID, &division);
    registrar_throttle(f->registrar, UUID, 250);
    assert_int_equal(limits->rate_permille, 250);
    assert_int_equal(limits->window_us, WINDOW_US);
    registrar_throttle(f->registrar, UUID, 500);
    assert_int_equal(limits->rate_permille, 400);
    registrar_throttle(f->registrar, UUID, 0);
    terms_lose_mps(&task, "for a test");
    session_terms_changed(w);
    assert_int_equal(limits->share_percent, 0); /* its whole time counts */
    assert_int_equal(limits->rate_permille, 400);
    division.mode = SHARE_TIME;
    registrar_divide(f->registrar, UUID, &division);
    assert_int_equal(limits->mode, LIMITS_TIME);
    assert_int_equal(limits->gate_us_max, 20000);
    assert_false(session_look_for_coarse(w));
    assert_int_equal(limits->mode, LIMITS_TIME);
    c.status->counters[STATUS_launches_coarse] = 1;
    assert_true(session_look_for_coarse(w));
    assert_int_equal(limits->mode, LIMITS_SPACE); /* independent of other tasks */
    assert_int_equal(limits->gate_us_max, 0);
    session_free(s);
    assert_int_equal(limits->mode, LIMITS_ALONE);
    session_free(w);
    leave(&c);
}

static void rate_never_drops_below_guaranteed_share(void **state)
{
    struct fixture *f = *state;
    struct terms task = terms_of(WORKLOAD_TASK, MIB), service = terms_of(WORKLOAD_SERVICE, MIB);
    task.share_min_percent = 50;
    struct session *w = make_session(f, "7.1", &task, -1),
                   *s = make_session(f, "8.1", &service, -1);
    struct client c;
    join(f, "7.1", &c);
    const struct share_division division = {.mode = SHARE_SPACE, .forecast_percent = 80};
    registrar_divide(f->registrar, UUID, &division);
    assert_int_equal(c.limits->devices[0].rate_permille, 500);
    session_free(s);
    session_free(w);
    leave(&c);
}

static void busy_fraction_follows_service_marks(void **state)
{
    struct fixture *f = *state;
    struct terms service = terms_of(WORKLOAD_SERVICE, MIB);
    struct session *s = make_session(f, "8.1", &service, -1);
    struct client c;
    int64_t now_us = 1000000;
    assert_true(session_busy_fraction(s, now_us) < 0); /* no member */
    join(f, "8.1", &c);
    c.status->started[3] = c.status->completed[3] = 700;
    assert_true(session_busy_fraction(s, now_us += 200000) == 0); /* first look */
    c.status->started[3] += 50000000;
    c.status->completed[3] += 50000000;
    c.status->started[5] = c.status->completed[5] = 10000000;
    double busy = session_busy_fraction(s, now_us += 200000);
    assert_true(busy > 0.299 && busy < 0.301);
    assert_true(session_busy_fraction(s, now_us += 200000) == 0);
    c.status->started[3] += 900000000; /* one launch longer than the interval */
    assert_true(session_busy_fraction(s, now_us += 200000) == 0);
    assert_true(session_busy_fraction(s, now_us += 200000) == 1);
    assert_true(session_busy_fraction(s, now_us += 200000) == 1);
    assert_true(session_busy_fraction(s, now_us += 10000000) == 0); /* the launch hangs */
    c.status->completed[3] = UINT64_C(1) << 60;                     /* a false claim */
    assert_true(session_busy_fraction(s, now_us += 200000) == 1);
    c.status->completed[3] = 0;
    c.status->started[3] = 0;
    assert_true(session_busy_fraction(s, now_us += 200000) == 0);
    assert_true(session_busy_fraction(s, now_us) < 0); /* no time has passed */
    session_free(s);
    leave(&c);
}

static void service_gets_target_of_slo(void **state)
{
    struct fixture *f = *state;
    struct terms task = terms_of(WORKLOAD_TASK, MIB), service = terms_of(WORKLOAD_SERVICE, MIB);
    service.slo_latency_ms = 12.5;
    service.slo_percentile = 99;
    struct session *w = make_session(f, "7.1", &task, -1),
                   *s = make_session(f, "8.1", &service, -1);
    struct client c;
    join(f, "7.1", &c);
    assert_int_equal(c.limits->target_us, 0);
    leave(&c);
    join(f, "8.1", &c);
    const uint64_t features = LIMITS_HAS_DUE | LIMITS_HAS_ADVICE;
    assert_int_equal(c.limits->target_us, 12500);
    assert_int_equal(c.limits->header.features & features, features);
    session_free(s);
    session_free(w);
    leave(&c);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(limits_and_reasons_follow_neighbours),
        CASE(share_reason_shows_measured_sms),
        CASE(description_states_enforced_terms),
        CASE(limits_follow_device_division),
        CASE(rate_never_drops_below_guaranteed_share),
        CASE(busy_fraction_follows_service_marks),
        CASE(service_gets_target_of_slo),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
