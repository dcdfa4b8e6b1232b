#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/str.h"
#include "wire/nodemsg.h"

enum { LIST_MAX = 5 };

/* The targets of pointers in a random message. */
struct parts {
    struct node_info node;
    struct attempt_report reports[LIST_MAX];
    struct device_usage device_usage[LIST_MAX];
    struct attempt_usage attempt_usage[LIST_MAX];
    struct device_health health[LIST_MAX];
    struct device_note notes[LIST_MAX];
    unsigned char data[300];
};

static const char spec_json[] = "{\"name\":\"x\",\"command\":[\"a\",\"\\\"\"],\"directory\":\"/\","
                                "\"devices\":1,\"share\":{\"max\":100},\"grace\":\"10s\"}";

static int positive(struct rng *rng)
{
    return (int)(1 + rng_below(rng, 1000));
}

static int64_t random_ms(struct rng *rng)
{
    return (int64_t)rng_below(rng, (uint64_t)WORKLOAD_TIME_MS_MAX);
}

static struct attempt_report random_report(struct rng *rng)
{
    struct attempt_report r = {
        .workload = rng_u64(rng),
        .attempt = positive(rng),
        .phase = (enum attempt_phase)rng_below(rng, ATTEMPT_PHASE_END),
        .started_wall_ms = random_ms(rng),
        .ended_wall_ms = random_ms(rng),
        .failure = (enum failure_reason)rng_below(rng, FAILURE_END),
        .exit_code = (int)rng_below(rng, 257) - 1,
        .signal = (int)rng_below(rng, 65),
        .never_ran = rng_below(rng, 2),
        .cleared = rng_below(rng, 2),
        .verdict = (enum attempt_verdict)rng_below(rng, VERDICT_END),
        .turn = (int)rng_below(rng, 3),
        .advice = (int)rng_below(rng, 3),
        .suspension = (enum suspension)rng_below(rng, SUSPENSION_END),
        .evicted = rng_below(rng, 2),
    };
    snprintf(r.text, sizeof r.text, "no \"%d\"\n\x01", (int)rng_below(rng, 100));
    return r;
}

static void count_usage(struct rng *rng, struct attempt_usage *usage)
{
    str_copy(usage->enforcement, sizeof usage->enforcement, "quota is enforced");
    usage->is_counted = true;
    usage->counted_bytes = rng_u64(rng);
    usage->peak_bytes = rng_u64(rng);
    usage->uncounted_bytes = rng_u64(rng);
    usage->overhead_bytes = rng_u64(rng);
    usage->counters[rng_below(rng, 8)] = rng_u64(rng);
    usage->mode = (enum sharing_mode)rng_below(rng, SHARING_END);
    usage->limit_count = (int)rng_below(rng, USAGE_LIMITS_MAX + 1);
    for (int i = 0; i < usage->limit_count; i++)
        usage->limits[i] =
            (struct attempt_limit){.name = "window_us", .value = rng_u64(rng), .reason = "\"why\""};
}

static struct attainment_count random_count(struct rng *rng)
{
    return (struct attainment_count){.answered = rng_u64(rng), .late = rng_u64(rng)};
}

static void control_usage(struct rng *rng, struct attempt_usage *usage)
{
    usage->has_control = true;
    usage->control =
        (struct attempt_control){.setting = "due",
                                 .why = "due: \"why\"",
                                 .is_trial = rng_below(rng, 2),
                                 .is_unreachable = rng_below(rng, 2),
                                 .target_us = rng_below(rng, 2) ? 1e6 * rng_double(rng) : -1,
                                 .allowed_fraction = rng_below(rng, 2) ? rng_double(rng) : -1,
                                 .late_fraction = rng_below(rng, 2) ? rng_double(rng) : -1,
                                 .stretch = -1,
                                 .allowed_stretch = 1 + rng_double(rng),
                                 .held_latency_us = 1e6 * rng_double(rng),
                                 .task_speed = rng_below(rng, 2) ? rng_double(rng) : -1,
                                 .minute = random_count(rng),
                                 .ten_minutes = random_count(rng),
                                 .hour = random_count(rng),
                                 .all = random_count(rng)};
    int count = (int)rng_below(rng, ATTAINMENT_MINUTES + 1);
    usage->control.minute_count = usage->control.minute_late_count = count;
    for (int i = 0; i < count; i++) {
        usage->control.minutes_answered[i] = (unsigned)rng_below(rng, 1u << 31);
        usage->control.minutes_late[i] = (unsigned)rng_below(rng, 1u << 31);
    }
}

static void random_usage(struct rng *rng, struct parts *p)
{
    for (size_t i = 0; i < LIST_MAX; i++) {
        p->device_usage[i] = (struct device_usage){
            .sm_percent = 100 * rng_double(rng),
            .memory_percent = -1,
            .memory_used_bytes = rng_u64(rng),
            .power_watts = 700 * rng_double(rng),
            .power_limit_watts = 700,
            .temperature_celsius = 1e-7 * rng_double(rng),
        };
        snprintf(p->device_usage[i].uuid, DEVICE_UUID_MAX, "GPU-%d", (int)i);
        p->health[i] = (struct device_health){
            .uuid = "GPU-h",
            .state = (enum device_state)rng_below(rng, DEVICE_STATE_END),
            .admits = (enum device_admission)rng_below(rng, ADMISSION_END),
            .needs_operator = rng_below(rng, 2),
            .cause = "\"why\"",
            .mps = "faulted",
        };
        p->notes[i] =
            (struct device_note){.uuid = "GPU-n", .alarm = rng_below(rng, 2), .text = "Xid 79"};
        p->attempt_usage[i] = (struct attempt_usage){
            .workload = rng_u64(rng),
            .attempt = positive(rng),
            .memory_used_bytes = rng_u64(rng),
            .cpu_percent = 6400 * rng_double(rng),
            .resident_bytes = rng_u64(rng),
            .samples_per_s = rng_below(rng, 2) ? 1e5 * rng_double(rng) : -1,
            .speed_since_ms = rng_below(rng, 2) ? (int64_t)rng_below(rng, 30000) : -1,
            .latency_ms = -1,
            .latency_since_ms = -1,
        };
        if (rng_below(rng, 2)) {
            p->attempt_usage[i].latency_ms = 100 * rng_double(rng);
            p->attempt_usage[i].requests_10s = rng_u64(rng);
            p->attempt_usage[i].latency_since_ms =
                rng_below(rng, 2) ? (int64_t)rng_below(rng, 30000) : -1;
        }
        if (rng_below(rng, 2))
            count_usage(rng, &p->attempt_usage[i]);
        if (rng_below(rng, 2))
            control_usage(rng, &p->attempt_usage[i]);
    }
}

static struct grant random_grant(struct rng *rng)
{
    struct grant grant = {
        .workload = rng_u64(rng),
        .attempt = positive(rng),
        .group = rng_u64(rng),
        .array_index = (int)rng_below(rng, 100) - 1,
        .name = "sweep[3]",
        .uid = (uint32_t)rng_u64(rng),
        .user = "me",
        .suspect = rng_below(rng, 2),
        .ran_before = rng_below(rng, 2),
        .device_count = (int)rng_below(rng, WORKLOAD_DEVICES_MAX + 1),
        .spec_json = spec_json,
    };
    for (int i = 0; i < grant.device_count; i++)
        str_copy(grant.devices[i], DEVICE_UUID_MAX, i % 2 ? "GPU-odd" : "GPU-even");
    return grant;
}

static struct nodemsg random_message(struct rng *rng, struct parts *p)
{
    p->node = (struct node_info){
        .name = "box", .instance = "i", .version = "v", .cores = 64, .device_count = 1};
    p->node.devices[0] = (struct device){"GPU-1", "T4", 0, rng_u64(rng), 40, true};
    for (size_t i = 0; i < LIST_MAX; i++)
        p->reports[i] = random_report(rng);
    for (size_t i = 0; i < sizeof p->data; i++)
        p->data[i] = (unsigned char)rng_u64(rng);
    random_usage(rng, p);
    struct nodemsg m = {
        .type = (enum nodemsg_type)rng_below(rng, NODEMSG_TYPE_END),
        .protocol = positive(rng),
        .version = "0.1.0",
        .session = rng_u64(rng),
        .sequence = rng_u64(rng),
        .lease_ms = random_ms(rng),
        .fence_ms = random_ms(rng),
        .drain_ms = random_ms(rng),
        .renew_ms = random_ms(rng),
        .pem = "-----BEGIN X-----\nAA==\n-----END X-----\n",
        .workload = rng_u64(rng),
        .attempt = positive(rng),
        .grace_ms = random_ms(rng),
        .turn = positive(rng),
        .advice = {.sequence = positive(rng),
                   .batch = (int64_t)rng_below(rng, (uint64_t)ADVICE_BATCH_MAX),
                   .checkpoints = positive(rng) - 1},
        .node = &p->node,
        .attempts = p->reports,
        .beat = rng_u64(rng),
        .device_usage_count = rng_below(rng, LIST_MAX + 1),
        .device_usage = p->device_usage,
        .attempt_usage_count = rng_below(rng, LIST_MAX + 1),
        .attempt_usage = p->attempt_usage,
        .health_count = rng_below(rng, LIST_MAX + 1),
        .health = p->health,
        .note_count = rng_below(rng, LIST_MAX + 1),
        .notes = p->notes,
        .uuid = "GPU-d",
        .enable = rng_below(rng, 2),
        .request = rng_u64(rng),
        .result = -(int)rng_below(rng, ERR_END),
        .text = rng_below(rng, 2) ? "why\xc3\xa4" : NULL,
        .offset = rng_u64(rng),
        .wait_ms = random_ms(rng),
        .max = rng_below(rng, NODEMSG_DATA_MAX + 1),
        .data = p->data,
        .length = rng_below(rng, sizeof p->data + 1),
        .end = rng_below(rng, 2),
        .signal = (int)(1 + rng_below(rng, 64)),
    };
    m.attempt_count = m.type == NODEMSG_HELLO ? rng_below(rng, LIST_MAX + 1) : 1;
    m.grant = random_grant(rng);
    return m;
}

static void assert_reports_equal(const struct nodemsg *a, const struct nodemsg *b)
{
    assert_int_equal(a->attempt_count, b->attempt_count);
    for (size_t i = 0; i < a->attempt_count; i++) {
        const struct attempt_report *x = &a->attempts[i], *y = &b->attempts[i];
        assert_int_equal(x->workload, y->workload);
        assert_int_equal(x->attempt, y->attempt);
        assert_int_equal(x->phase, y->phase);
        assert_int_equal(x->started_wall_ms, y->started_wall_ms);
        assert_int_equal(x->ended_wall_ms, y->ended_wall_ms);
        assert_int_equal(x->failure, y->failure);
        assert_int_equal(x->exit_code, y->exit_code);
        assert_int_equal(x->signal, y->signal);
        assert_int_equal(x->never_ran, y->never_ran);
        assert_int_equal(x->cleared, y->cleared);
        assert_int_equal(x->verdict, y->verdict);
        assert_int_equal(x->turn, y->turn);
        assert_int_equal(x->advice, y->advice);
        assert_int_equal(x->suspension, y->suspension);
        assert_int_equal(x->evicted, y->evicted);
        assert_string_equal(x->text, y->text);
    }
}

static void assert_health_equal(const struct nodemsg *a, const struct nodemsg *b)
{
    assert_int_equal(a->health_count, b->health_count);
    for (size_t i = 0; i < a->health_count; i++) {
        assert_string_equal(a->health[i].uuid, b->health[i].uuid);
        assert_int_equal(a->health[i].state, b->health[i].state);
        assert_int_equal(a->health[i].admits, b->health[i].admits);
        assert_int_equal(a->health[i].needs_operator, b->health[i].needs_operator);
        assert_string_equal(a->health[i].cause, b->health[i].cause);
        assert_string_equal(a->health[i].mps, b->health[i].mps);
    }
}

static void assert_notes_equal(const struct nodemsg *a, const struct nodemsg *b)
{
    assert_int_equal(a->note_count, b->note_count);
    for (size_t i = 0; i < a->note_count; i++) {
        assert_string_equal(a->notes[i].uuid, b->notes[i].uuid);
        assert_int_equal(a->notes[i].alarm, b->notes[i].alarm);
        assert_string_equal(a->notes[i].text, b->notes[i].text);
    }
}

static void assert_controls_equal(const struct attempt_control *a, const struct attempt_control *b)
{
    assert_string_equal(a->setting, b->setting);
    assert_string_equal(a->why, b->why);
    assert_int_equal(a->is_trial, b->is_trial);
    assert_int_equal(a->is_unreachable, b->is_unreachable);
    /* The numbers from target_us to the end have no padding. */
    assert_memory_equal(&a->target_us, &b->target_us,
                        sizeof *a - offsetof(struct attempt_control, target_us));
}

static void assert_beats_equal(const struct nodemsg *a, const struct nodemsg *b)
{
    assert_int_equal(a->session, b->session);
    assert_int_equal(a->beat, b->beat);
    assert_health_equal(a, b);
    assert_notes_equal(a, b);
    assert_int_equal(a->device_usage_count, b->device_usage_count);
    for (size_t i = 0; i < a->device_usage_count; i++) {
        const struct device_usage *x = &a->device_usage[i], *y = &b->device_usage[i];
        assert_string_equal(x->uuid, y->uuid);
        assert_true(x->sm_percent == y->sm_percent && x->memory_percent == y->memory_percent);
        assert_int_equal(x->memory_used_bytes, y->memory_used_bytes);
        assert_true(x->power_watts == y->power_watts);
        assert_true(x->power_limit_watts == y->power_limit_watts);
        assert_true(x->temperature_celsius == y->temperature_celsius);
    }
    assert_int_equal(a->attempt_usage_count, b->attempt_usage_count);
    for (size_t i = 0; i < a->attempt_usage_count; i++) {
        const struct attempt_usage *x = &a->attempt_usage[i], *y = &b->attempt_usage[i];
        assert_int_equal(x->workload, y->workload);
        assert_int_equal(x->attempt, y->attempt);
        assert_int_equal(x->memory_used_bytes, y->memory_used_bytes);
        assert_true(x->cpu_percent == y->cpu_percent);
        assert_int_equal(x->resident_bytes, y->resident_bytes);
        assert_true(x->samples_per_s == y->samples_per_s);
        assert_int_equal(x->speed_since_ms, y->speed_since_ms);
        assert_true(x->latency_ms == y->latency_ms);
        assert_int_equal(x->requests_10s, y->requests_10s);
        assert_int_equal(x->latency_since_ms, y->latency_since_ms);
        assert_string_equal(x->enforcement, y->enforcement);
        assert_int_equal(x->is_counted, y->is_counted);
        assert_int_equal(x->counted_bytes, y->counted_bytes);
        assert_int_equal(x->overhead_bytes, y->overhead_bytes);
        assert_memory_equal(x->counters, y->counters, sizeof x->counters);
        assert_int_equal(x->mode, y->mode);
        assert_int_equal(x->limit_count, y->limit_count);
        for (int k = 0; k < x->limit_count; k++) {
            assert_string_equal(x->limits[k].name, y->limits[k].name);
            assert_int_equal(x->limits[k].value, y->limits[k].value);
            assert_string_equal(x->limits[k].reason, y->limits[k].reason);
        }
        assert_int_equal(x->has_control, y->has_control);
        if (x->has_control)
            assert_controls_equal(&x->control, &y->control);
    }
}

static void assert_grants_equal(const struct nodemsg *a, const struct nodemsg *b)
{
    const struct grant *x = &a->grant, *y = &b->grant;
    assert_int_equal(x->workload, y->workload);
    assert_int_equal(x->attempt, y->attempt);
    assert_int_equal(x->group, y->group);
    assert_int_equal(x->array_index, y->array_index);
    assert_string_equal(x->name, y->name);
    assert_int_equal(x->uid, y->uid);
    assert_string_equal(x->user, y->user);
    assert_int_equal(x->suspect, y->suspect);
    assert_int_equal(x->ran_before, y->ran_before);
    assert_int_equal(x->device_count, y->device_count);
    for (int i = 0; i < x->device_count; i++)
        assert_string_equal(x->devices[i], y->devices[i]);
    assert_string_equal(y->spec->name, "x");
    assert_string_equal(y->spec->command.items[1], "\"");
    assert_int_equal(y->spec->needs.grace_ms, 10000);
}

static void assert_data_equal(const struct nodemsg *a, const struct nodemsg *b)
{
    assert_int_equal(a->offset, b->offset);
    assert_int_equal(a->length, b->length);
    if (a->length)
        assert_memory_equal(a->data, b->data, a->length);
    assert_int_equal(a->end, b->end);
}

static void assert_attempt_equal(const struct nodemsg *a, const struct nodemsg *b)
{
    assert_int_equal(a->workload, b->workload);
    assert_int_equal(a->attempt, b->attempt);
}

static void assert_protocols_equal(const struct nodemsg *a, const struct nodemsg *b)
{
    assert_int_equal(a->protocol, b->protocol);
    assert_string_equal(a->version, b->version);
}

static void assert_orders_equal(const struct nodemsg *a, const struct nodemsg *b)
{
    assert_int_equal(a->session, b->session);
    assert_int_equal(a->sequence, b->sequence);
    if (a->type == NODEMSG_GRANT) {
        assert_grants_equal(a, b);
        return;
    }
    assert_attempt_equal(a, b);
    if (a->type == NODEMSG_STOP)
        assert_int_equal(a->grace_ms, b->grace_ms);
    if (a->type == NODEMSG_SUSPEND || a->type == NODEMSG_RESUME)
        assert_int_equal(a->turn, b->turn);
    if (a->type == NODEMSG_ADVISE) {
        assert_int_equal(a->advice.sequence, b->advice.sequence);
        assert_int_equal(a->advice.batch, b->advice.batch);
        assert_int_equal(a->advice.checkpoints, b->advice.checkpoints);
    }
}

static void assert_requests_equal(const struct nodemsg *a, const struct nodemsg *b)
{
    assert_int_equal(a->request, b->request);
    if (a->type == NODEMSG_LOG || a->type == NODEMSG_DONE) {
        assert_int_equal(a->result, b->result);
        assert_true(str_equal(a->text, b->text));
    } else {
        assert_attempt_equal(a, b);
    }
    if (a->type == NODEMSG_SIGNAL)
        assert_int_equal(a->signal, b->signal);
    if (a->type == NODEMSG_READ) {
        assert_int_equal(a->offset, b->offset);
        assert_int_equal(a->wait_ms, b->wait_ms);
        assert_int_equal(a->max, b->max);
    }
    if (a->type == NODEMSG_LOG || a->type == NODEMSG_INPUT)
        assert_data_equal(a, b);
}

static void assert_messages_equal(const struct nodemsg *a, const struct nodemsg *b)
{
    assert_int_equal(a->type, b->type);
    switch (a->type) {
    case NODEMSG_HELLO:
        assert_protocols_equal(a, b);
        assert_string_equal(a->node->name, b->node->name);
        assert_int_equal(a->node->cores, b->node->cores);
        assert_int_equal(a->node->devices[0].memory_bytes, b->node->devices[0].memory_bytes);
        assert_reports_equal(a, b);
        assert_health_equal(a, b);
        break;
    case NODEMSG_DEVICE:
        assert_int_equal(a->request, b->request);
        assert_string_equal(a->uuid, b->uuid);
        assert_int_equal(a->enable, b->enable);
        break;
    case NODEMSG_REPORT:
        assert_int_equal(a->session, b->session);
        assert_reports_equal(a, b);
        break;
    case NODEMSG_BEAT:
        assert_beats_equal(a, b);
        break;
    case NODEMSG_WELCOME:
        assert_protocols_equal(a, b);
        assert_int_equal(a->session, b->session);
        assert_int_equal(a->lease_ms, b->lease_ms);
        assert_int_equal(a->fence_ms, b->fence_ms);
        assert_int_equal(a->drain_ms, b->drain_ms);
        assert_int_equal(a->renew_ms, b->renew_ms);
        break;
    case NODEMSG_RENEW:
        assert_string_equal(a->pem, b->pem);
        break;
    case NODEMSG_CERTIFICATE:
        assert_string_equal(a->pem, b->pem);
        assert_int_equal(a->renew_ms, b->renew_ms);
        break;
    case NODEMSG_GRANT:
    case NODEMSG_STOP:
    case NODEMSG_SUSPEND:
    case NODEMSG_RESUME:
    case NODEMSG_ADVISE:
    case NODEMSG_SETTLE:
        assert_orders_equal(a, b);
        break;
    case NODEMSG_REFUSE:
        assert_string_equal(a->text ? a->text : "", b->text);
        break;
    default:
        assert_requests_equal(a, b);
        break;
    }
}

static void node_message_reads_back_equal(void **state)
{
    (void)state;
    struct str line;
    str_init(&line, NODEMSG_LINE_MAX);
    struct parts *parts = malloc(sizeof *parts);
    assert_non_null(parts);
    unsigned seen = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        struct arena arena;
        arena_init(&arena, 1 << 20);
        struct rng rng;
        rng_seed(&rng, seed);
        struct nodemsg a = random_message(&rng, parts), b;
        str_clear(&line);
        assert_int_equal(nodemsg_write(&a, &line), 0);
        assert_ptr_equal(strchr(str_text(&line), '\n'), str_text(&line) + line.length - 1);
        struct error e = {0};
        if (nodemsg_parse(&e, &arena, str_text(&line), line.length - 1, &b) < 0)
            fail_msg("seed %llu: %s: %s: %s", (unsigned long long)seed, e.field, e.text,
                     str_text(&line));
        assert_messages_equal(&a, &b);
        seen |= 1u << a.type;
        arena_done(&arena);
    }
    assert_int_equal(seen, (1u << NODEMSG_TYPE_END) - 1);
    free(parts);
    str_done(&line);
}

static void node_message_malformed_names_field(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int code;
        const char *field;
    } cases[] = {
        {"", ERR_SYNTAX, ""},
        {"[]", ERR_SYNTAX, ""},
        {"{\"type\":\"beat\"", ERR_SYNTAX, ""},
        {"{\"type\":\"beat\",\"type\":\"beat\"}", ERR_SYNTAX, ""},
        {"{\"type\":\"refuse\",\"text\":\"\xff\"}", ERR_SYNTAX, ""},
        {"{}", ERR_PROTOCOL, "type"},
        {"{\"type\":5}", ERR_PROTOCOL, "type"},
        {"{\"type\":\"beat\",\"session\":1}", ERR_PROTOCOL, "number"},
        {"{\"type\":\"beat\",\"session\":-1,\"number\":1}", ERR_PROTOCOL, "session"},
        {"{\"type\":\"beat\",\"session\":\"x\",\"number\":1}", ERR_PROTOCOL, "session"},
        {"{\"type\":\"beat\",\"session\":\"18446744073709551616\",\"number\":1}", ERR_PROTOCOL,
         "session"},
        {"{\"type\":\"beat\",\"session\":1.5,\"number\":1}", ERR_PROTOCOL, "session"},
        {"{\"type\":\"beat\",\"session\":1,\"number\":1,\"devices\":[{}]}", ERR_PROTOCOL,
         "devices[0].uuid"},
        {"{\"type\":\"report\",\"session\":1,\"report\":{\"workload\":1,\"attempt\":0}}",
         ERR_PROTOCOL, "report.attempt"},
        {"{\"type\":\"hello\",\"protocol\":1,\"version\":\"\",\"node\":{\"name\":5}}", ERR_PROTOCOL,
         "node.name"},
        {"{\"type\":\"signal\",\"request\":1,\"workload\":1,\"attempt\":1,\"signal\":65}",
         ERR_PROTOCOL, "signal"},
        {"{\"type\":\"read\",\"request\":1,\"workload\":1,\"attempt\":1,\"offset\":0,"
         "\"wait_ms\":0,\"max\":262145}",
         ERR_PROTOCOL, "max"},
        {"{\"type\":\"input\",\"request\":1,\"workload\":1,\"attempt\":1,\"offset\":0,"
         "\"data\":\"a\",\"end\":true}",
         ERR_PROTOCOL, "data"},
        {"{\"type\":\"done\",\"request\":1,\"result\":1}", ERR_PROTOCOL, "result"},
        {"{\"type\":\"grant\",\"session\":1,\"sequence\":1,\"workload\":1,\"attempt\":1,"
         "\"group\":1,\"array_index\":-1,\"name\":\"a\",\"uid\":1,\"user\":\"u\",\"devices\":[5]}",
         ERR_PROTOCOL, "devices[0]"},
        {"{\"type\":\"grant\",\"session\":1,\"sequence\":1,\"workload\":1,\"attempt\":1,"
         "\"group\":1,\"array_index\":-1,\"name\":\"a\",\"uid\":1,\"user\":\"u\",\"devices\":[],"
         "\"spec\":{\"command\":[\"a\"],\"directory\":\"/\",\"share\":{\"max\":0}}}",
         ERR_PROTOCOL, "spec.share.max"},
    };
    struct arena arena;
    arena_init(&arena, 1 << 20);
    struct nodemsg msg = {.beat = 77};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error e = {0};
        int r = nodemsg_parse(&e, &arena, cases[i].line, strlen(cases[i].line), &msg);
        if (r != -cases[i].code || strcmp(e.field, cases[i].field) != 0)
            fail_msg("%d, '%s', '%s': %s", r, e.field, e.text, cases[i].line);
        assert_int_equal(e.code, cases[i].code);
        assert_int_equal(msg.beat, 77);
    }
    arena_done(&arena);
}

static void node_message_unknown_parts_are_ignored(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1 << 20);
    struct nodemsg msg;
    const char *known = "{\"type\":\"refuse\",\"text\":\"x\",\"later\":[1]}";
    assert_int_equal(nodemsg_parse(NULL, &arena, known, strlen(known), &msg), 0);
    assert_string_equal(msg.text, "x");
    const char *unknown = "{\"type\":\"later\",\"text\":5}";
    assert_int_equal(nodemsg_parse(NULL, &arena, unknown, strlen(unknown), &msg), 0);
    assert_int_equal(msg.type, NODEMSG_TYPE_END);
    arena_done(&arena);
}

/* Older controls do not send ran_before. */
static void grant_ran_before_defaults_from_attempt(void **state)
{
    (void)state;
    for (int attempt = 1; attempt <= 2; attempt++) {
        static const char key[] = "\"ran_before\":false,";
        struct rng rng;
        struct str line;
        struct arena arena;
        struct nodemsg parsed;
        rng_seed(&rng, 1);
        str_init(&line, 1 << 20);
        arena_init(&arena, 1 << 20);
        struct nodemsg msg = {.type = NODEMSG_GRANT, .grant = random_grant(&rng)};
        msg.grant.attempt = attempt;
        msg.grant.ran_before = false;
        assert_int_equal(nodemsg_write(&msg, &line), 0);
        char *at = strstr(line.data, key);
        assert_non_null(at);
        memset(at, ' ', strlen(key));
        assert_int_equal(nodemsg_parse(NULL, &arena, line.data, line.length, &parsed), 0);
        assert_int_equal(parsed.grant.ran_before, attempt > 1);
        arena_done(&arena);
        str_done(&line);
    }
}

static void node_message_beyond_limit_is_refused(void **state)
{
    (void)state;
    struct str line;
    str_init(&line, 64 << 20);
    str_append(&line, "before");
    char *data = calloc(1, NODEMSG_DATA_MAX + 1);
    assert_non_null(data);
    struct nodemsg msg = {.type = NODEMSG_LOG, .data = data, .length = NODEMSG_DATA_MAX + 1};
    assert_int_equal(nodemsg_write(&msg, &line), -ERR_TOO_LARGE);
    msg.length--;
    assert_int_equal(nodemsg_write(&msg, &line), 0);
    struct arena arena;
    arena_init(&arena, 4 << 20);
    assert_int_equal(nodemsg_parse(NULL, &arena, line.data + 6, line.length - 7, &msg), 0);
    assert_int_equal(msg.length, NODEMSG_DATA_MAX);
    free(data);

    str_truncate(&line, 6);
    char *text = malloc(NODEMSG_LINE_MAX);
    assert_non_null(text);
    memset(text, 'a', NODEMSG_LINE_MAX - 1);
    text[NODEMSG_LINE_MAX - 1] = '\0';
    msg = (struct nodemsg){.type = NODEMSG_REFUSE, .text = text};
    assert_int_equal(nodemsg_write(&msg, &line), -ERR_TOO_LARGE);
    assert_string_equal(str_text(&line), "before");
    text[NODEMSG_LINE_MAX - 64] = '\0';
    assert_int_equal(nodemsg_write(&msg, &line), 0);
    assert_int_equal(nodemsg_parse(NULL, &arena, line.data + 6, line.length - 7, &msg),
                     -ERR_NO_MEMORY);
    assert_int_equal(nodemsg_parse(NULL, &arena, line.data, NODEMSG_LINE_MAX + 1, &msg),
                     -ERR_PROTOCOL);
    free(text);
    arena_done(&arena);
    str_done(&line);
}

/* Each text is the longest and each character is escaped, so no hello is longer. */
static void hello_of_most_attempts_fits_line(void **state)
{
    (void)state;
    struct attempt_report *reports = calloc(NODEMSG_ATTEMPTS_MAX, sizeof *reports);
    struct node_info *node = calloc(1, sizeof *node);
    struct device_health *health = calloc(NODE_DEVICES_MAX, sizeof *health);
    struct str line;
    assert_true(reports && node && health);
    for (size_t i = 0; i < NODEMSG_ATTEMPTS_MAX; i++) {
        reports[i] = (struct attempt_report){.workload = UINT64_MAX,
                                             .attempt = INT_MAX,
                                             .phase = ATTEMPT_STARTING,
                                             .started_wall_ms = WORKLOAD_TIME_MS_MAX,
                                             .ended_wall_ms = WORKLOAD_TIME_MS_MAX,
                                             .exit_code = INT_MIN,
                                             .signal = 64,
                                             .never_ran = true,
                                             .verdict = VERDICT_END - 1,
                                             .cleared = true,
                                             .turn = INT_MAX,
                                             .suspension = SUSPENSION_RETURNING,
                                             .evicted = true};
        memset(reports[i].text, '\1', sizeof reports[i].text - 1);
    }
    node->device_count = NODE_DEVICES_MAX;
    for (size_t d = 0; d < NODE_DEVICES_MAX; d++) {
        memset(node->devices[d].uuid, 'u', DEVICE_UUID_MAX - 1);
        memset(node->devices[d].model, '\1', DEVICE_MODEL_MAX - 1);
        memset(health[d].uuid, 'u', DEVICE_UUID_MAX - 1);
        memset(health[d].cause, '\1', WORKLOAD_TEXT_MAX - 1);
    }
    memset(node->name, 'n', NODE_NAME_MAX - 1);
    struct nodemsg msg = {.type = NODEMSG_HELLO,
                          .protocol = NODEMSG_PROTOCOL,
                          .version = "v",
                          .node = node,
                          .attempt_count = NODEMSG_ATTEMPTS_MAX,
                          .attempts = reports,
                          .health_count = NODE_DEVICES_MAX,
                          .health = health};
    str_init(&line, NODEMSG_LINE_MAX);
    assert_int_equal(nodemsg_write(&msg, &line), 0);
    struct arena arena;
    struct error e = {0};
    arena_init(&arena, 8 * NODEMSG_LINE_MAX);
    if (nodemsg_parse(&e, &arena, str_text(&line), line.length - 1, &msg) < 0)
        fail_msg("%s: %s", e.field, e.text);
    assert_int_equal(msg.attempt_count, NODEMSG_ATTEMPTS_MAX);
    arena_done(&arena);
    str_done(&line);
    free(reports);
    free(node);
    free(health);
}

static struct attempt_control largest_control(void)
{
    const struct attainment_count most = {UINT64_MAX, UINT64_MAX};
    struct attempt_control c = {.is_trial = true,
                                .is_unreachable = true,
                                .target_us = 1e9 / 3,
                                .allowed_fraction = 1.0 / 3,
                                .late_fraction = 1.0 / 3,
                                .stretch = 4.0 / 3,
                                .allowed_stretch = 4.0 / 3,
                                .held_latency_us = 1e9 / 3,
                                .task_speed = 1.0 / 3,
                                .minute = most,
                                .ten_minutes = most,
                                .hour = most,
                                .all = most,
                                .minute_count = ATTAINMENT_MINUTES,
                                .minute_late_count = ATTAINMENT_MINUTES};
    memset(c.setting, 's', sizeof c.setting - 1);
    memset(c.why, 'w', sizeof c.why - 1);
    memset(c.minutes_answered, 0xff, sizeof c.minutes_answered);
    memset(c.minutes_late, 0xff, sizeof c.minutes_late);
    return c;
}

static struct attempt_usage largest_usage(bool counted)
{
    struct attempt_usage u = {.workload = UINT64_MAX,
                              .attempt = INT_MAX,
                              .memory_used_bytes = UINT64_MAX,
                              .suspended_bytes = UINT64_MAX,
                              .cpu_percent = 1e5 / 3,
                              .resident_bytes = UINT64_MAX,
                              .samples_per_s = 1e9 / 3,
                              .speed_since_ms = INT64_MAX,
                              .latency_ms = 1e9 / 3,
                              .requests_10s = UINT64_MAX,
                              .latency_since_ms = INT64_MAX};
    memset(u.enforcement, 'e', sizeof u.enforcement - 1);
    if (!counted)
        return u;
    u.is_counted = true;
    u.counted_bytes = u.peak_bytes = u.uncounted_bytes = u.overhead_bytes = UINT64_MAX;
    u.limit_count = USAGE_LIMITS_MAX;
    for (int i = 0; i < USAGE_LIMITS_MAX; i++) {
        u.limits[i].value = UINT64_MAX;
        memset(u.limits[i].name, 'n', LIMIT_NAME_MAX - 1);
        memset(u.limits[i].reason, 'r', LIMIT_REASON_MAX - 1);
    }
    for (int i = 0; i < USAGE_COUNTERS_MAX; i++)
        u.counters[i] = UINT64_MAX;
    return u;
}

/* A quarter of the attempts have devices, so the shim counts them; a sixteenth of the attempts are
 * services with a controller. */
static void beat_of_most_attempts_fits_line(void **state)
{
    (void)state;
    struct attempt_usage *usage = calloc(NODEMSG_ATTEMPTS_MAX, sizeof *usage);
    struct str line;
    assert_non_null(usage);
    for (size_t i = 0; i < NODEMSG_ATTEMPTS_MAX; i++)
        usage[i] = largest_usage(i % 4 == 0);
    for (size_t i = 0; i < NODEMSG_ATTEMPTS_MAX; i += 16) {
        usage[i].has_control = true;
        usage[i].control = largest_control();
    }
    struct nodemsg msg = {.type = NODEMSG_BEAT,
                          .session = UINT64_MAX,
                          .beat = UINT64_MAX,
                          .attempt_usage_count = NODEMSG_ATTEMPTS_MAX,
                          .attempt_usage = usage};
    str_init(&line, NODEMSG_LINE_MAX);
    assert_int_equal(nodemsg_write(&msg, &line), 0);
    struct arena arena;
    arena_init(&arena, 8 * NODEMSG_LINE_MAX);
    assert_int_equal(nodemsg_parse(NULL, &arena, str_text(&line), line.length - 1, &msg), 0);
    assert_int_equal(msg.attempt_usage_count, NODEMSG_ATTEMPTS_MAX);
    arena_done(&arena);
    str_done(&line);
    free(usage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_message_reads_back_equal),
        cmocka_unit_test(node_message_malformed_names_field),
        cmocka_unit_test(node_message_unknown_parts_are_ignored),
        cmocka_unit_test(grant_ran_before_defaults_from_attempt),
        cmocka_unit_test(node_message_beyond_limit_is_refused),
        cmocka_unit_test(hello_of_most_attempts_fits_line),
        cmocka_unit_test(beat_of_most_attempts_fits_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
