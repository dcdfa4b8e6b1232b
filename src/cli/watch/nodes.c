/* gpumux nodes: machines and their devices. */
#include <stdio.h>
#include <string.h>

#include "cli/connect/client.h"
#include "cli/frame/output.h"
#include "cli/frame/show.h"
#include "cli/watch/watching.h"
#include "model/node.h"

static const char *node_state(const json_t *node)
{
    if (!json_is_true(json_object_get(node, "connected")))
        return "not connected";
    if (json_is_true(json_object_get(node, "drained")))
        return "drained";
    return json_is_true(json_object_get(node, "held")) ? "held" : "ready";
}

static void add_percent(struct output_table *t, const json_t *usage, const char *key)
{
    double value = json_fraction(usage, key, -1);
    if (value < 0)
        output_cell(t, OUTPUT_FAINT, "-");
    else
        output_cell(t, OUTPUT_PLAIN, "%.0f%%", value);
}

/* Adds the state of a device as reported by its node. */
static void add_health(struct output_table *t, const json_t *node, const json_t *device)
{
    if (!json_is_true(json_object_get(node, "connected"))) {
        output_cell(t, OUTPUT_FAINT, "unknown");
        return;
    }
    const char *state = json_text(device, "state", "-"), *admits = json_text(device, "admits", "");
    bool is_well = strcmp(state, "healthy") == 0;
    output_cell(t, is_well ? OUTPUT_GREEN : OUTPUT_YELLOW, "%s%s", state,
                is_well && strcmp(admits, "all") != 0 ? " (repair)" : "");
}

static void add_device(struct output_table *t, const json_t *node, const json_t *device, bool wide)
{
    char used[SHOW_TEXT_MAX], all[SHOW_TEXT_MAX], name[DEVICE_NAME_MAX];
    const json_t *usage = json_object_get(device, "usage");
    const json_t *booked = json_object_get(device, "booked");
    const char *state = node_state(node);
    output_cell(t, OUTPUT_BOLD, "%s", json_text(node, "name", "?"));
    output_cell(t, strcmp(state, "ready") == 0 ? OUTPUT_GREEN : OUTPUT_YELLOW, "%s", state);
    add_health(t, node, device);
    device_write_name(json_text(node, "name", "?"), (int)json_number(device, "index", 0), name);
    output_cell(t, OUTPUT_PLAIN, "%s", name);
    output_cell(t, OUTPUT_PLAIN, "%s%s", json_text(device, "model", "?"),
                json_is_true(json_object_get(device, "emulated")) ? " (emulated)" : "");
    output_cell(t, OUTPUT_PLAIN, "%s / %s",
                json_is_object(usage)
                    ? show_bytes(json_fraction(usage, "memory_used_bytes", 0), used)
                    : "-",
                show_bytes(json_fraction(device, "memory_bytes", 0), all));
    add_percent(t, usage, "sm_percent");
    output_cell(t, OUTPUT_PLAIN, "%lld", (long long)json_number(booked, "workloads", 0));
    output_cell(t, OUTPUT_PLAIN, "%s", show_bytes(json_fraction(booked, "quota_bytes", 0), used));
    if (wide) {
        output_cell(t, OUTPUT_PLAIN, "%lld%%", (long long)json_number(booked, "share_min", 0));
        add_percent(t, usage, "memory_percent");
        if (json_fraction(usage, "power_watts", -1) >= 0)
            output_cell(t, OUTPUT_PLAIN, "%.0f W", json_fraction(usage, "power_watts", 0));
        else
            output_cell(t, OUTPUT_FAINT, "-");
        output_cell(t, OUTPUT_PLAIN, "%lld", (long long)json_number(device, "sm_count", 0));
        output_cell(t, OUTPUT_PLAIN, "%s", json_text(device, "mps", "-"));
        output_cell(t, OUTPUT_PLAIN, "%s", json_text(node, "version", ""));
        output_cell(t, OUTPUT_PLAIN, "%s",
                    json_text(device, "cause", "")[0] ? json_text(device, "cause", "") : "-");
        output_cell(t, OUTPUT_PLAIN, "%s", json_text(device, "uuid", "?"));
    }
}

/* Adds the line of a node without devices. */
static void add_bare_node(struct output_table *t, const json_t *node)
{
    output_cell(t, OUTPUT_BOLD, "%s", json_text(node, "name", "?"));
    output_cell(t, OUTPUT_PLAIN, "%s", node_state(node));
    for (size_t i = 2; i < t->columns; i++)
        output_cell(t, OUTPUT_FAINT, "-");
}

static int show(const json_t *nodes, bool wide)
{
    static const char *const narrow_titles[] = {"NODE",   "STATE", "HEALTH",    "DEVICE", "MODEL",
                                                "MEMORY", "SM",    "WORKLOADS", "BOOKED", NULL};
    static const char *const wide_titles[] = {
        "NODE",  "STATE", "HEALTH", "DEVICE", "MODEL", "MEMORY",  "SM",    "WORKLOADS", "BOOKED",
        "SHARE", "DRAM",  "POWER",  "SMS",    "MPS",   "VERSION", "CAUSE", "UUID",      NULL};
    struct output_table t;
    output_table_init(&t, wide ? wide_titles : narrow_titles);
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        const json_t *devices = json_object_get(node, "devices");
        if (json_array_size(devices) == 0)
            add_bare_node(&t, node);
        for (size_t d = 0; d < json_array_size(devices); d++)
            add_device(&t, node, json_array_get(devices, d), wide);
    }
    return output_table_print(&t);
}

int nodes_command(const struct invocation *in)
{
    struct client c;
    int status = client_init(&c, in);
    if (status != COMMAND_OK)
        return status;
    struct error e = {0};
    json_t *answer = NULL;
    enum output_format format = output_format(in);
    if (client_get_pages(&e, &c, "/v1/nodes", "nodes", CLIENT_RETRY_MS, &answer) < 0) {
        status = client_fail(&c, &e);
    } else if (option_given(in, "quiet")) {
        const json_t *nodes = json_object_get(answer, "nodes");
        for (size_t i = 0; i < json_array_size(nodes); i++)
            printf("%s\n", json_text(json_array_get(nodes, i), "name", "?"));
    } else if (format == OUTPUT_JSON || format == OUTPUT_YAML) {
        status = output_value(format, answer);
    } else {
        status = show(json_object_get(answer, "nodes"), format == OUTPUT_WIDE);
    }
    json_decref(answer);
    client_done(&c);
    return status;
}
