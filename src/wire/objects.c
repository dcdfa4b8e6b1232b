#include "wire/objects.h"

#include <limits.h>

#include "model/node.h"
#include "wire/counters.h"

enum {
    NODE_SAYS = FIELDS_MESSAGE | FIELDS_STORED,
    EXIT_CODE_UNKNOWN = -1,
    SIGNAL_MAX = 64,
};

/* ---- nodes and their devices ---- */

#define OF struct device
static const struct field device_members[] = {
    FIELD("uuid", uuid, .flags = FIELD_FILLED),
    FIELD("model", model),
    FIELD("index", index),
    FIELD("memory_bytes", memory_bytes),
    FIELD("sm_count", sm_count),
    FIELD("emulated", emulated),
};
#undef OF
const struct fields device_fields = FIELDS(struct device, device_members);

#define OF struct node_info
static const struct field node_info_members[] = {
    FIELD("name", name, .flags = FIELD_FILLED, .in = NODE_SAYS),
    FIELD("instance", instance, .in = NODE_SAYS),
    FIELD("version", version),
    FIELD("labels", labels, .most = WORKLOAD_LABELS_MAX),
    FIELD("cores", cores, .flags = FIELD_NEWER, .in = NODE_SAYS),
    FIELD_LIST("devices", devices, device_count, .fields = &device_fields, .in = NODE_SAYS),
};
#undef OF
const struct fields node_info_fields = FIELDS(struct node_info, node_info_members);

#define OF struct device_health
static const struct field device_health_members[] = {
    FIELD("uuid", uuid, .in = FIELDS_MESSAGE),
    FIELD("state", state, .names = &device_state_names),
    FIELD("admits", admits, .names = &device_admission_names),
    FIELD("needs_operator", needs_operator, .flags = FIELD_NEWER, .in = FIELDS_MESSAGE),
    FIELD("cause", cause),
    FIELD("mps", mps, .flags = FIELD_OPTIONAL | FIELD_NULL),
};
#undef OF
const struct fields device_health_fields = FIELDS(struct device_health, device_health_members);

#define OF struct device_note
static const struct field device_note_members[] = {
    FIELD("uuid", uuid),
    FIELD("alarm", alarm),
    FIELD("text", text),
};
#undef OF
const struct fields device_note_fields = FIELDS(struct device_note, device_note_members);

#define OF                 struct device_usage
#define GAUGE(key, member) FIELD(key, member, .flags = FIELD_NULL, .unset = -1)
static const struct field device_usage_members[] = {
    FIELD("uuid", uuid, .in = FIELDS_MESSAGE),
    GAUGE("sm_percent", sm_percent),
    GAUGE("memory_percent", memory_percent),
    FIELD("memory_used_bytes", memory_used_bytes),
    GAUGE("power_watts", power_watts),
    GAUGE("power_limit_watts", power_limit_watts),
    GAUGE("temperature_celsius", temperature_celsius),
};
#undef OF
const struct fields device_usage_fields = FIELDS(struct device_usage, device_usage_members);

/* ---- activity of attempts ---- */

#define OF struct attempt_limit
static const struct field limit_members[] = {
    FIELD("name", name),
    FIELD("value", value),
    FIELD("reason", reason),
};
#undef OF
static const struct fields limit_fields = FIELDS(struct attempt_limit, limit_members);

#define OF struct attempt_usage
static const struct field protection_members[] = {
    FIELD("counted_bytes", counted_bytes),
    FIELD("peak_bytes", peak_bytes),
    FIELD("uncounted_bytes", uncounted_bytes),
    FIELD("overhead_bytes", overhead_bytes, .flags = FIELD_OPTIONAL),
    FIELD("mode", mode, .names = &sharing_mode_names, .flags = FIELD_OPTIONAL),
    FIELD_LIST("limits", limits, limit_count, .fields = &limit_fields,
               .flags = FIELD_OPTIONAL | FIELD_CUT),
    FIELD("counters", counters, .names = &counter_names),
};
static const struct fields protection_fields = FIELDS(struct attempt_usage, protection_members);

#define KNOWN(key, member)                                                                         \
    FIELD(key, control.member, .flags = FIELD_NEWER | FIELD_NULL, .unset = -1)
#define COUNTS(suffix, member)                                                                     \
    FIELD("answered" suffix, control.member.answered, .flags = FIELD_OPTIONAL),                    \
        FIELD("late" suffix, control.member.late, .flags = FIELD_OPTIONAL)
static const struct field control_members[] = {
    FIELD("setting", control.setting),
    FIELD("why", control.why, .flags = FIELD_OPTIONAL | FIELD_CUT),
    FIELD("is_trial", control.is_trial, .flags = FIELD_OPTIONAL),
    FIELD("is_unreachable", control.is_unreachable, .flags = FIELD_OPTIONAL),
    KNOWN("target_us", target_us),
    KNOWN("allowed_fraction", allowed_fraction),
    KNOWN("late_fraction", late_fraction),
    KNOWN("stretch", stretch),
    KNOWN("allowed_stretch", allowed_stretch),
    KNOWN("held_latency_us", held_latency_us),
    KNOWN("task_speed", task_speed),
    COUNTS("_1m", minute),
    COUNTS("_10m", ten_minutes),
    COUNTS("_1h", hour),
    COUNTS("", all),
    FIELD_LIST("minutes_answered", control.minutes_answered, control.minute_count,
               .flags = FIELD_OPTIONAL | FIELD_CUT),
    FIELD_LIST("minutes_late", control.minutes_late, control.minute_late_count,
               .flags = FIELD_OPTIONAL | FIELD_CUT),
};
#undef KNOWN
#undef COUNTS
static const struct fields control_fields = FIELDS(struct attempt_usage, control_members);

static const struct field attempt_usage_members[] = {
    FIELD("workload", workload, .in = FIELDS_MESSAGE),
    FIELD("attempt", attempt, .least = 1, .in = FIELDS_MESSAGE),
    FIELD("memory_used_bytes", memory_used_bytes),
    FIELD("suspended_bytes", suspended_bytes, .flags = FIELD_NEWER),
    FIELD("cpu_percent", cpu_percent),
    FIELD("resident_bytes", resident_bytes),
    FIELD("samples_per_s", samples_per_s, .flags = FIELD_NEWER | FIELD_NULL, .unset = -1),
    FIELD("speed_since_ms", speed_since_ms, .flags = FIELD_NEWER, .unset = -1,
          .in = FIELDS_MESSAGE),
    FIELD("latency_ms", latency_ms, .flags = FIELD_NEWER | FIELD_NULL, .unset = -1),
    FIELD("requests_10s", requests_10s, .flags = FIELD_NEWER),
    FIELD("latency_since_ms", latency_since_ms, .flags = FIELD_NEWER, .unset = -1,
          .in = FIELDS_MESSAGE),
    FIELD("advice_used", advice_used, .flags = FIELD_NEWER),
    FIELD("batch_used", batch_used, .flags = FIELD_NEWER),
    FIELD("enforcement", enforcement, .flags = FIELD_NEWER, .in = FIELDS_MESSAGE),
    FIELD_PART_OF("protection", is_counted, &protection_fields),
    FIELD_PART_OF("control", has_control, &control_fields),
};
#undef OF
const struct fields attempt_usage_fields = FIELDS(struct attempt_usage, attempt_usage_members);

/* ---- ends of attempts ---- */

#define OF struct attempt_report
static const struct field attempt_report_members[] = {
    FIELD("workload", workload),
    FIELD("attempt", attempt, .least = 1),
    FIELD("phase", phase, .names = &attempt_phase_names, .in = NODE_SAYS),
#define OUTCOME(type, member, array, key, ...) FIELD(key, member, __VA_ARGS__),
#include "model/outcome.def"
    FIELD("cleared", cleared, .flags = FIELD_NEWER, .in = NODE_SAYS),
    FIELD("turn", turn, .least = 1, .flags = FIELD_NEWER, .in = NODE_SAYS),
    FIELD("advice", advice, .flags = FIELD_NEWER, .in = NODE_SAYS),
    FIELD("suspension", suspension, .names = &suspension_names, .flags = FIELD_NEWER,
          .in = NODE_SAYS),
    FIELD("evicted", evicted, .flags = FIELD_NEWER, .in = NODE_SAYS),
};
#undef OF
const struct fields attempt_report_fields = FIELDS(struct attempt_report, attempt_report_members);

#define OF struct attempt
static const struct field attempt_members[] = {
    FIELD("number", number, .least = 1),
    FIELD("node", node),
    FIELD_LIST("devices", devices, device_count),
    FIELD("placed", placed_wall_ms, .flags = FIELD_WALL),
#define OUTCOME(type, member, array, key, ...) FIELD(key, member, __VA_ARGS__),
#include "model/outcome.def"
    FIELD("lost", lost),
};
#undef OF
const struct fields attempt_fields = FIELDS(struct attempt, attempt_members);

#define OF struct workload_status
static const struct field workload_status_members[] = {
    FIELD("state", state, .names = &workload_state_names, .in = FIELDS_STORED),
    FIELD("failure", failure, .names = &failure_reason_names, .flags = FIELD_NULL),
    FIELD("stop", stop, .names = &stop_cause_names, .in = FIELDS_STORED),
    FIELD("text", text),
    FIELD("exit_code", exit_code, .least = INT_MIN, .most = INT_MAX, .flags = FIELD_NULL,
          .unset = EXIT_CODE_UNKNOWN),
    FIELD("signal", signal, .flags = FIELD_NULL),
    FIELD("attempts_total", attempts_total, .in = FIELDS_STORED),
    FIELD("attempt", attempts_total, .in = FIELDS_API),
    FIELD("failures", failures),
    FIELD("faults", faults, .flags = FIELD_OPTIONAL),
    FIELD("suspect", suspect, .flags = FIELD_OPTIONAL),
    FIELD("hold", hold, .names = &hold_names, .flags = FIELD_NEWER, .in = FIELDS_STORED),
    FIELD("off_device", off_device, .flags = FIELD_NEWER, .in = FIELDS_STORED),
    FIELD("turn", turn, .flags = FIELD_NEWER, .in = FIELDS_STORED),
    FIELD("advice", advice.sequence, .flags = FIELD_NEWER),
    FIELD("batch_advised", advice.batch, .flags = FIELD_NEWER),
    FIELD("checkpoints_requested", advice.checkpoints, .flags = FIELD_NEWER),
    FIELD("backoff_ms", backoff_ms, .in = FIELDS_STORED),
    FIELD("submitted", submitted_wall_ms, .flags = FIELD_WALL),
    FIELD("started", started_wall_ms, .flags = FIELD_WALL),
    FIELD("ended", ended_wall_ms, .flags = FIELD_WALL),
    FIELD_LIST("attempts", attempts, attempts_kept, .most = WORKLOAD_ATTEMPTS_KEPT,
               .fields = &attempt_fields, .in = FIELDS_STORED),
};
#undef OF
const struct fields workload_status_fields =
    FIELDS(struct workload_status, workload_status_members);
