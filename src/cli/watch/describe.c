/* gpumux describe: everything about a workload. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/frame/output.h"
#include "cli/watch/attainment.h"
#include "cli/watch/protection.h"
#include "cli/connect/reference.h"
#include "cli/frame/show.h"
#include "cli/watch/watching.h"

enum {
    LINE_MAX_BYTES = 1 << 20,
    LATENCY_PERCENTILE = 99, /* percentile measured for a service without an SLO */
};

static void field(const char *label, const char *text)
{
    if (text && *text)
        printf("%-12s %s\n", label, text);
}

static void field_time(const char *label, const json_t *w, const char *key)
{
    field(label, json_text(w, key, ""));
}

/* Prints a member of the spec as one line of JSON. */
static void field_json(const char *label, const json_t *value)
{
    if (!value || json_is_null(value) ||
        ((json_is_object(value) || json_is_array(value)) &&
         json_object_size(value) + json_array_size(value) == 0))
        return;
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    field(label, text);
    free(text);
}

static void show_needs(const json_t *w)
{
    char text[SHOW_TEXT_MAX], line[SHOW_TEXT_MAX * 3];
    double quota = json_fraction(w, "quota_bytes", 0);
    if (json_number(w, "devices_wanted", 1) == 0) {
        field("Devices", "none");
        field("", json_text(w, "enforcement", ""));
        return;
    }
    snprintf(line, sizeof line, "%lld, memory %s", (long long)json_number(w, "devices_wanted", 1),
             quota > 0 ? show_bytes(quota, text) : "of the whole device");
    field("Devices", line);
    snprintf(line, sizeof line, "%s of the SMs", show_share(json_object_get(w, "share"), text));
    field("Share", line);
    const char *enforcement = json_text(w, "enforcement", "");
    field("", enforcement);
}

/* Prints [[id, succeeded], …] in the notation of a description. */
static void show_after(const json_t *after)
{
    struct str text;
    str_init(&text, LINE_MAX_BYTES);
    for (size_t i = 0; i < json_array_size(after); i++) {
        const json_t *pair = json_array_get(after, i);
        str_printf(&text, "%s%lld%s", i ? ", " : "",
                   (long long)json_integer_value(json_array_get(pair, 0)),
                   json_is_true(json_array_get(pair, 1)) ? "" : ":ended");
    }
    field("After", str_text(&text));
    str_done(&text);
}

static void show_usage(const json_t *w)
{
    const json_t *usage = json_object_get(w, "usage");
    if (!json_is_object(usage))
        return;
    char device[SHOW_TEXT_MAX], host[SHOW_TEXT_MAX], speed[SHOW_TEXT_MAX];
    char line[SHOW_TEXT_MAX * 4];
    double samples_per_s = show_samples_per_s(w);
    int length = snprintf(line, sizeof line, "device memory %s, CPU %.0f%%, memory %s",
                          show_bytes(json_fraction(usage, "memory_used_bytes", 0), device),
                          json_fraction(usage, "cpu_percent", 0),
                          show_bytes(json_fraction(usage, "resident_bytes", 0), host));
    double suspended_bytes = json_fraction(usage, "suspended_bytes", 0);
    if (suspended_bytes > 0)
        length += snprintf(line + length, sizeof line - (size_t)length,
                           ", suspended in host memory %s", show_bytes(suspended_bytes, device));
    if (samples_per_s >= 0)
        snprintf(line + length, sizeof line - (size_t)length, ", speed %s samples",
                 show_speed(samples_per_s, speed));
    length = (int)strlen(line);
    double latency_ms = json_fraction(usage, "latency_ms", -1);
    const json_t *slo = json_object_get(json_object_get(w, "spec"), "slo");
    if (latency_ms >= 0)
        snprintf(line + length, sizeof line - (size_t)length, ", p%g latency %.2f ms",
                 json_fraction(slo, "percentile", LATENCY_PERCENTILE), latency_ms);
    field("Uses", line);
    struct str protection;
    str_init(&protection, LINE_MAX_BYTES);
    protection_write(json_object_get(usage, "protection"), &protection);
    attainment_write(json_object_get(usage, "control"), &protection);
    fputs(str_text(&protection), stdout);
    str_done(&protection);
}

/* The advice that the workload was given, and the part that it has followed. */
static void show_advice(const json_t *w)
{
    const json_t *usage = json_object_get(w, "usage");
    long long sequence = json_number(w, "advice", 0), batch = json_number(w, "batch_advised", 0);
    long long checkpoints = json_number(w, "checkpoints_requested", 0);
    long long batch_used = json_number(usage, "batch_used", 0);
    bool is_followed = json_number(usage, "advice_used", 0) >= sequence;
    char size[SHOW_TEXT_MAX] = "", saves[SHOW_TEXT_MAX] = "", used[SHOW_TEXT_MAX] = "";
    if (batch > 0)
        snprintf(size, sizeof size, "batch size %lld, ", batch);
    if (checkpoints > 0)
        snprintf(saves, sizeof saves, "%lld checkpoint%s, ", checkpoints,
                 checkpoints == 1 ? "" : "s");
    if (batch_used > 0)
        snprintf(used, sizeof used, "; batch size in use %lld", batch_used);
    char line[SHOW_TEXT_MAX * 4];
    snprintf(line, sizeof line, "%s%s%s%s", size, saves,
             is_followed ? "followed" : "not followed yet", used);
    if (sequence > 0)
        field("Advice", line);
    else if (batch_used > 0)
        field("Advice", used + strlen("; "));
}

static void show_attempts(const json_t *w)
{
    static const char *const titles[] = {"ATTEMPT", "NODE", "DEVICES", "UUIDS", "STARTED",
                                         "RAN",     "END",  "NOTE",    NULL};
    const json_t *attempts = json_object_get(w, "attempts");
    if (json_array_size(attempts) == 0)
        return;
    struct output_table t;
    output_table_init(&t, titles);
    for (size_t i = 0; i < json_array_size(attempts); i++) {
        const json_t *a = json_array_get(attempts, i);
        char text[SHOW_TEXT_MAX];
        struct str devices;
        str_init(&devices, 4096);
        show_devices(a, &devices);
        output_cell(&t, OUTPUT_PLAIN, "%lld", (long long)json_number(a, "number", 0));
        output_cell(&t, OUTPUT_PLAIN, "%s", json_text(a, "node", "-"));
        output_cell(&t, OUTPUT_PLAIN, "%s", str_text(&devices));
        str_clear(&devices);
        show_uuids(a, &devices);
        output_cell(&t, OUTPUT_PLAIN, "%s", str_text(&devices));
        output_cell(&t, OUTPUT_PLAIN, "%s", json_text(a, "started", "-"));
        output_cell(&t, OUTPUT_PLAIN, "%s", show_run_time(a, clock_wall_ms(), text));
        bool ended = json_is_string(json_object_get(a, "ended"));
        if (!ended)
            output_cell(&t, OUTPUT_GREEN, "-");
        else if (json_number(a, "signal", 0) > 0)
            output_cell(&t, OUTPUT_RED, "signal %lld", (long long)json_number(a, "signal", 0));
        else if (json_number(a, "exit_code", -1) >= 0)
            output_cell(&t, OUTPUT_PLAIN, "exit %lld", (long long)json_number(a, "exit_code", -1));
        else
            output_cell(&t, OUTPUT_RED, "%s", json_text(a, "failure", "?"));
        output_cell(&t, OUTPUT_FAINT, "%s%s",
                    json_is_true(json_object_get(a, "lost"))
                        ? "the node was lost, and a copy may still run; "
                        : "",
                    json_text(a, "text", ""));
        str_done(&devices);
    }
    printf("\n");
    (void)output_table_print(&t);
}

static int show(const json_t *w)
{
    char text[SHOW_TEXT_MAX], line[128];
    const json_t *spec = json_object_get(w, "spec");
    snprintf(line, sizeof line, "%lld", (long long)json_number(w, "id", 0));
    field("Id", line);
    field("Name", json_text(w, "name", ""));
    field("Kind", json_text(w, "kind", ""));
    bool colour = output_has_colour(stdout);
    printf("%-12s %s%s%s\n", "State",
           colour ? output_colour_code(show_state_colour(json_text(w, "state", ""))) : "",
           show_state(w, text), colour ? "\033[0m" : "");
    field("", json_text(w, "text", ""));
    field("User", json_text(w, "user", ""));
    field("Command", json_text(w, "command", ""));
    field("Directory", json_text(spec, "directory", ""));
    show_needs(w);
    field("Node", json_text(w, "node", ""));
    show_usage(w);
    show_advice(w);
    field_time("Submitted", w, "submitted");
    field_time("Started", w, "started");
    field_time("Ended", w, "ended");
    field("Ran", show_run_time(w, clock_wall_ms(), text));
    snprintf(line, sizeof line, "%lld", (long long)json_number(w, "priority", 0));
    field("Priority", line);
    snprintf(line, sizeof line, "%lld (%lld failed, %lld retries)",
             (long long)json_number(w, "attempt", 0), (long long)json_number(w, "failures", 0),
             (long long)json_number(spec, "retries", 0));
    field("Attempts", line);
    if (json_number(w, "faults", 0) > 0 || json_is_true(json_object_get(w, "suspect"))) {
        snprintf(line, sizeof line, "%lld caused by the workload%s",
                 (long long)json_number(w, "faults", 0),
                 json_is_true(json_object_get(w, "suspect")) ? "; the workload is a suspect" : "");
        field("GPU faults", line);
    }
    show_after(json_object_get(w, "after"));
    field_json("Labels", json_object_get(w, "labels"));
    field_json("Wants", json_object_get(spec, "node_labels"));
    field_json("Batch", json_object_get(spec, "batch"));
    field("SLO", show_slo(json_object_get(spec, "slo"), text));
    field_json("Expected", json_object_get(spec, "expected"));
    field_json("Ready", json_object_get(spec, "ready"));
    show_attempts(w);
    return COMMAND_OK;
}

int describe_command(const struct invocation *in)
{
    return references_show(in, ARRAY_ALL, "", show);
}
