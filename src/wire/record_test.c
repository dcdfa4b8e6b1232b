#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/str.h"
#include "wire/record.h"

static void random_text(struct rng *rng, char *text, size_t size)
{
    static const char *const parts[] = {"a", "\"", "\\", "\n", "\x02", "\xc3\xa4", " ", "exit 1"};
    text[0] = '\0';
    for (size_t i = rng_below(rng, 6); i > 0; i--) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s", parts[rng_below(rng, 8)]);
    }
}

static int64_t random_time(struct rng *rng)
{
    return rng_below(rng, 3) ? (int64_t)rng_below(rng, INT64_MAX) : 0;
}

static void random_attempt(struct rng *rng, struct attempt *a)
{
    *a = (struct attempt){
        .number = (int)(1 + rng_below(rng, INT32_MAX)),
        .device_count = (int)rng_below(rng, WORKLOAD_DEVICES_MAX + 1),
        .placed_wall_ms = random_time(rng),
        .started_wall_ms = random_time(rng),
        .ended_wall_ms = random_time(rng),
        .failure = (enum failure_reason)rng_below(rng, FAILURE_END),
        .exit_code = (int)rng_below(rng, 257) - 1,
        .signal = (int)rng_below(rng, 65),
        .lost = rng_below(rng, 2),
    };
    random_text(rng, a->text, sizeof a->text);
    random_text(rng, a->node, sizeof a->node);
    for (int i = 0; i < a->device_count; i++)
        snprintf(a->devices[i], sizeof a->devices[i], "GPU-%llx", (unsigned long long)rng_u64(rng));
}

static struct workload_status random_status(struct rng *rng, struct attempt *attempts)
{
    struct workload_status s = {
        .state = (enum workload_state)rng_below(rng, WORKLOAD_STATE_END),
        .failure = (enum failure_reason)rng_below(rng, FAILURE_END),
        .stop = (enum stop_cause)rng_below(rng, STOP_CAUSE_END),
        .exit_code = (int)rng_below(rng, 257) - 1,
        .signal = (int)rng_below(rng, 65),
        .attempts_total = (int)rng_below(rng, 1000),
        .failures = (int)rng_below(rng, 1000),
        .faults = (int)rng_below(rng, 10),
        .suspect = rng_below(rng, 2) == 1,
        .backoff_ms = random_time(rng),
        .submitted_wall_ms = random_time(rng),
        .started_wall_ms = random_time(rng),
        .ended_wall_ms = random_time(rng),
        .attempts_kept = (int)rng_below(rng, WORKLOAD_ATTEMPTS_KEPT + 1),
        .attempts = attempts,
    };
    random_text(rng, s.text, sizeof s.text);
    for (int i = 0; i < s.attempts_kept; i++)
        random_attempt(rng, &attempts[i]);
    return s;
}

static void assert_attempts_equal(const struct attempt *a, const struct attempt *b)
{
    assert_int_equal(a->number, b->number);
    assert_string_equal(a->node, b->node);
    assert_int_equal(a->device_count, b->device_count);
    for (int i = 0; i < a->device_count; i++)
        assert_string_equal(a->devices[i], b->devices[i]);
    assert_int_equal(a->placed_wall_ms, b->placed_wall_ms);
    assert_int_equal(a->started_wall_ms, b->started_wall_ms);
    assert_int_equal(a->ended_wall_ms, b->ended_wall_ms);
    assert_int_equal(a->failure, b->failure);
    assert_int_equal(a->exit_code, b->exit_code);
    assert_int_equal(a->signal, b->signal);
    assert_int_equal(a->lost, b->lost);
    assert_string_equal(a->text, b->text);
}

static void status_record_reads_back_equal(void **state)
{
    (void)state;
    struct str text;
    str_init(&text, 1 << 20);
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct arena arena;
        arena_init(&arena, 1 << 20);
        struct rng rng;
        rng_seed(&rng, seed);
        struct attempt attempts[WORKLOAD_ATTEMPTS_KEPT];
        struct workload_status a = random_status(&rng, attempts), b;
        str_clear(&text);
        assert_int_equal(record_write_status(&a, &text), 0);
        struct error e;
        if (record_parse_status(&e, &arena, str_text(&text), &b) < 0)
            fail_msg("seed %llu: %s: %s", (unsigned long long)seed, e.field, e.text);
        assert_int_equal(a.state, b.state);
        assert_int_equal(a.failure, b.failure);
        assert_int_equal(a.stop, b.stop);
        assert_string_equal(a.text, b.text);
        assert_int_equal(a.exit_code, b.exit_code);
        assert_int_equal(a.signal, b.signal);
        assert_int_equal(a.attempts_total, b.attempts_total);
        assert_int_equal(a.failures, b.failures);
        assert_int_equal(a.faults, b.faults);
        assert_int_equal(a.suspect, b.suspect);
        assert_int_equal(a.backoff_ms, b.backoff_ms);
        assert_int_equal(a.submitted_wall_ms, b.submitted_wall_ms);
        assert_int_equal(a.started_wall_ms, b.started_wall_ms);
        assert_int_equal(a.ended_wall_ms, b.ended_wall_ms);
        assert_int_equal(a.attempts_kept, b.attempts_kept);
        for (int i = 0; i < a.attempts_kept; i++)
            assert_attempts_equal(&a.attempts[i], &b.attempts[i]);
        arena_done(&arena);
    }
    str_done(&text);
}

static void node_record_reads_back_equal(void **state)
{
    (void)state;
    struct pair labels[] = {{"rack", "a \"b\""}, {"zone", ""}};
    struct node_info a = {
        .name = "box",
        .instance = "4711",
        .version = "0.1.0",
        .labels = {2, labels},
        .cores = 96,
        .device_count = 2,
        .devices = {{"GPU-1", "NVIDIA H200", 0, UINT64_C(150754820096), 132, false},
                    {"GPU-2", "T4", 7, UINT64_MAX, 40, true}},
    };
    struct node_info b;
    struct arena arena;
    arena_init(&arena, 1 << 20);
    struct str text;
    str_init(&text, 1 << 20);
    assert_int_equal(record_write_node(&a, &text), 0);
    struct error e;
    assert_int_equal(record_parse_node(&e, &arena, str_text(&text), &b), 0);
    assert_string_equal(b.name, "box");
    assert_string_equal(b.instance, "4711");
    assert_string_equal(b.version, "0.1.0");
    assert_int_equal(b.labels.count, 2);
    assert_true(pairs_contain(&b.labels, &a.labels));
    assert_int_equal(b.cores, 96);
    assert_int_equal(b.device_count, 2);
    assert_memory_equal(&a.devices[0], &b.devices[0], offsetof(struct device, model));
    assert_string_equal(b.devices[0].model, "NVIDIA H200");
    assert_int_equal(b.devices[1].index, 7);
    assert_int_equal(b.devices[1].memory_bytes, UINT64_MAX);
    assert_int_equal(b.devices[1].sm_count, 40);
    assert_true(b.devices[1].emulated && !b.devices[0].emulated);
    str_done(&text);
    arena_done(&arena);
}

static void status_record_damage_is_named(void **state)
{
    (void)state;
#define STATUS(state_, more)                                                                       \
    "{\"state\":" state_ ",\"failure\":\"none\",\"stop\":\"none\",\"text\":\"\",\"exit_code\":0,"  \
    "\"signal\":0,\"attempts_total\":0,\"failures\":0,\"backoff_ms\":0,\"submitted_ms\":1,"        \
    "\"started_ms\":0,\"ended_ms\":0,\"attempts\":" more "}"
    static const char *const cases[][2] = {
        {"", ""},
        {"[]", ""},
        {"{", ""},
        {"{}", "state"},
        {STATUS("5", "[]"), "state"},
        {STATUS("\"asleep\"", "[]"), "state"},
        {STATUS("\"queued\"", "5"), "attempts"},
        {STATUS("\"queued\"", "[5]"), "attempts[0]"},
        {STATUS("\"queued\"", "[{\"number\":0}]"), "attempts[0].number"},
        {STATUS("\"queued\"", "[{\"number\":99999999999}]"), "attempts[0].number"},
    };
    struct arena arena;
    arena_init(&arena, 1 << 20);
    struct workload_status status;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error e = {0};
        assert_int_equal(record_parse_status(&e, &arena, cases[i][0], &status), -ERR_CORRUPT);
        assert_string_equal(e.field, cases[i][1]);
        assert_int_equal(e.code, ERR_CORRUPT);
    }
    const char *newer = STATUS("\"queued\"", "[],\"later\":1");
    assert_int_equal(record_parse_status(NULL, &arena, newer, &status), 0);
    arena.limit_bytes = arena.used_bytes;
    const char *one = STATUS("\"queued\"", "[{\"number\":1}]");
    assert_int_equal(record_parse_status(NULL, &arena, one, &status), -ERR_NO_MEMORY);
    arena_done(&arena);
#undef STATUS
}

static void node_record_damage_is_named(void **state)
{
    (void)state;
#define NODE(labels, devices)                                                                      \
    "{\"name\":\"n\",\"instance\":\"i\",\"version\":\"v\",\"labels\":" labels                      \
    ",\"devices\":" devices "}"
    static const char *const cases[][2] = {
        {"{\"name\":\"\",\"instance\":\"\",\"version\":\"\"}", "name"},
        {NODE("[]", "[]"), "labels"},
        {NODE("{\"a\":5}", "[]"), "labels.a"},
        {NODE("{}", "{}"), "devices"},
        {NODE("{}", "[{}]"), "devices[0].uuid"},
        {NODE("{}", "[{\"uuid\":\"0123456789012345678901234567890123456789012345678\"}]"),
         "devices[0].uuid"},
        {NODE("{}", "[{\"uuid\":\"a\",\"model\":\"\",\"index\":-1}]"), "devices[0].index"},
    };
    struct arena arena;
    arena_init(&arena, 1 << 20);
    struct node_info info;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error e = {0};
        assert_int_equal(record_parse_node(&e, &arena, cases[i][0], &info), -ERR_CORRUPT);
        assert_string_equal(e.field, cases[i][1]);
    }
    assert_int_equal(record_parse_node(NULL, &arena, NODE("{}", "[]"), &info), 0);
    arena_done(&arena);
#undef NODE
}

static void dependencies_record_reads_back_equal(void **state)
{
    (void)state;
    struct arena arena;
    struct str text;
    arena_init(&arena, 1 << 20);
    str_init(&text, 1 << 20);
    const struct after_id after[] = {{.workload = 1, .succeeded = true}, {.workload = INT64_MAX}};
    assert_int_equal(record_write_after(after, 2, &text), 0);
    struct after_id *back;
    size_t count;
    assert_int_equal(record_parse_after(NULL, &arena, str_text(&text), &back, &count), 0);
    assert_int_equal(count, 2);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(back[i].workload, after[i].workload);
        assert_int_equal(back[i].succeeded, after[i].succeeded);
    }
    static const char *const bad[] = {"",
                                      "{}",
                                      "[1]",
                                      "[[1]]",
                                      "[[0, true]]",
                                      "[[-1, true]]",
                                      "[[1, true, 2]]",
                                      "[[1, 1]]",
                                      "[[\"1\", true]]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct error e = {0};
        assert_int_equal(record_parse_after(&e, &arena, bad[i], &back, &count), -ERR_CORRUPT);
        assert_string_equal(e.field, "after");
    }
    str_done(&text);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dependencies_record_reads_back_equal),
        cmocka_unit_test(status_record_reads_back_equal),
        cmocka_unit_test(node_record_reads_back_equal),
        cmocka_unit_test(status_record_damage_is_named),
        cmocka_unit_test(node_record_damage_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
