/* The routes of nodes, and the routes of gpumux itself: version, health, metrics. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"
#include "control/control_internal.h"
#include "endpoint/metrics.h"
#include "wire/counters.h"
#include "wire/json_writer.h"
#include "wire/record.h"
#include "wire/spec.h"

enum { NODES_DEFAULT = 100 };

struct node_listing {
    struct control *control;
    struct error *error;
    const char *only;  /* NULL: all nodes */
    const char *after; /* last name of the earlier pages; NULL: none */
    size_t limit;      /* 0: none */
    bool more;         /* nodes beyond the limit exist */
    char last[NODE_NAME_MAX];
    struct str json;
    size_t count;
};

/* Adds a node. Nodes are few and sorted by name, so that one pass over the store serves both
 * routes. */
static int list_node(void *arg, const char *name, bool drained, const char *json)
{
    struct node_listing *l = arg;
    if ((l->only && strcmp(l->only, name) != 0) || (l->after && strcmp(name, l->after) <= 0))
        return 0;
    l->more = l->limit && l->count == l->limit;
    if (l->more)
        return 1;
    str_copy(l->last, sizeof l->last, name);
    struct arena arena;
    arena_init(&arena, SPEC_TEXT_MAX);
    struct node_info *info = arena_alloc(&arena, sizeof *info);
    int r = info ? record_parse_node(l->error, &arena, json, info)
                 : error_set(l->error, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        if (l->count++)
            str_append(&l->json, ", ");
        show_node(l->control, &l->json, name, drained, info);
    }
    arena_done(&arena);
    return r;
}

static void answer_node(struct control *c, struct http_request *r, const char *name)
{
    struct error e = {0};
    struct node_listing l = {.control = c, .error = &e, .only = name};
    str_init(&l.json, HTTP_BODY_MAX);
    int result = store_nodes(&e, c->store, list_node, &l);
    if (result == 0 && l.count == 0)
        result = error_set(&e, ERR_NOT_FOUND, "there is no node '%s'", name);
    answer_json(r, result, &e, 200, &l.json);
}

/* Returns false after answering with an error. */
static bool no_query(struct http_request *r)
{
    static const char *const queries[] = {NULL};
    struct error e = {0};
    if (http_request_check_query(&e, r, queries) == 0)
        return true;
    http_answer_error(r, &e);
    return false;
}

void handle_nodes(void *context, struct http_request *r)
{
    static const char *const queries[] = {"limit", "cursor", NULL};
    struct control *c = context;
    struct error e = {0};
    uint64_t limit = NODES_DEFAULT;
    struct node_listing l = {.control = c, .error = &e, .after = http_request_query(r, "cursor")};
    str_init(&l.json, HTTP_BODY_MAX);
    str_append(&l.json, "{\"nodes\": [");
    int result = http_request_check_query(&e, r, queries);
    if (result == 0)
        result = control_query_number(&e, r, "limit", 1, STORE_PAGE_MAX, &limit);
    l.limit = (size_t)limit;
    if (result == 0)
        result = store_nodes(&e, c->store, list_node, &l);
    str_append(&l.json, "], \"next\": ");
    struct json_writer w;
    json_writer_init(&w, &l.json);
    json_put_string(&w, l.more ? l.last : NULL);
    str_append_char(&l.json, '}');
    if (result >= 0 && str_failed(&l.json))
        result = error_set(&e, ERR_TOO_LARGE, "the page is too large: ask with a smaller limit");
    answer_json(r, result, &e, 200, &l.json);
}

void handle_node(void *context, struct http_request *r)
{
    if (no_query(r))
        answer_node(context, r, http_request_part(r, "name"));
}

static void on_drained(struct waiter *w, const struct cluster_action *a)
{
    struct control *c = w->control;
    struct http_request *r = w->http;
    waiter_free(w);
    if (a->result == 0) {
        answer_node(c, r, http_request_part(r, "name"));
        return;
    }
    answer_refused(r, a);
}

static void drain(struct control *c, struct http_request *r, bool on)
{
    struct error e = {0};
    if (!no_query(r))
        return;
    struct waiter *w = NULL;
    int result = 0;
    if (!(w = waiter_new(c, r)))
        result = error_set(&e, ERR_NO_MEMORY, "out of memory");
    if (result == 0) {
        w->on_reply = on_drained;
        struct cluster_event event = {.kind = CLUSTER_DRAIN,
                                      .request = w->request,
                                      .drain = {.node = http_request_part(r, "name"), .on = on}};
        if (control_step(c, &event) == 0 || !hash_map_get(&c->requests, event.request))
            return;
        waiter_free(w);
        result = error_set(&e, ERR_UNAVAILABLE, "the state is being read back; try again");
    }
    http_answer_error(r, &e);
}

void handle_drain(void *context, struct http_request *r)
{
    drain(context, r, true);
}

void handle_undrain(void *context, struct http_request *r)
{
    drain(context, r, false);
}

/* ---- devices ---- */

/* A search for a device by a name that a user gave: its UUID, the beginning of the UUID with or
 * without "GPU-", or NODE:INDEX. */
struct device_search {
    struct control *control;
    struct error *error;
    const char *wanted;
    bool exact;   /* the found device has exactly that name */
    size_t count; /* number of different devices found */
    char node[NODE_NAME_MAX], uuid[DEVICE_UUID_MAX];
};

static bool has_index(const char *wanted, const char *node, const struct device *device)
{
    char name[DEVICE_NAME_MAX];
    device_write_name(node, device->index, name);
    return strcmp(name, wanted) == 0;
}

/* Without "GPU-" a short beginning could be meant as an index. */
static bool begins(const char *wanted, const char *uuid)
{
    enum { BARE_MIN = 4 };
    static const char prefix[] = "GPU-";
    if (str_starts_with(uuid, wanted))
        return str_starts_with(wanted, prefix);
    return strlen(wanted) >= BARE_MIN && str_starts_with(uuid, prefix) &&
           str_starts_with(uuid + sizeof prefix - 1, wanted);
}

static void found_device(struct device_search *s, bool exact, const char *node, const char *uuid)
{
    if (exact && !s->exact)
        s->count = 0;
    s->exact = exact;
    bool again = s->count > 0 && strcmp(s->uuid, uuid) == 0;
    /* A machine that joined under two names lists its devices twice; the device belongs to the
     * connected node. */
    if (again && !links_find(s->control, node))
        return;
    s->count += !again;
    str_copy(s->node, sizeof s->node, node);
    str_copy(s->uuid, sizeof s->uuid, uuid);
}

static int search_node(void *arg, const char *name, bool drained, const char *json)
{
    struct device_search *s = arg;
    struct arena arena;
    (void)drained;
    arena_init(&arena, SPEC_TEXT_MAX);
    struct node_info *info = arena_alloc(&arena, sizeof *info);
    int r = info ? record_parse_node(s->error, &arena, json, info)
                 : error_set(s->error, ERR_NO_MEMORY, "out of memory");
    for (int i = 0; r == 0 && i < info->device_count; i++) {
        const struct device *d = &info->devices[i];
        bool exact = strcmp(d->uuid, s->wanted) == 0 || has_index(s->wanted, name, d);
        if (exact || (!s->exact && begins(s->wanted, d->uuid)))
            found_device(s, exact, name, d->uuid);
    }
    arena_done(&arena);
    return r;
}

static int find_device(struct error *e, struct device_search *s)
{
    int r = store_nodes(e, s->control->store, search_node, s);
    if (r == 0 && s->count == 0)
        r = error_set(e, ERR_NOT_FOUND, "there is no device '%.60s': 'gpumux nodes' lists them",
                      s->wanted);
    else if (r == 0 && s->count > 1)
        r = error_set(e, ERR_INVALID, "'%.60s' is more than one device: 'gpumux nodes' lists them",
                      s->wanted);
    return r;
}

static void set_enabled(struct control *c, struct http_request *r, bool enable)
{
    struct error e = {0};
    struct device_search s = {.control = c, .error = &e, .wanted = http_request_part(r, "uuid")};
    if (!no_query(r))
        return;
    int result = find_device(&e, &s);
    struct nodemsg msg = {.type = NODEMSG_DEVICE, .uuid = s.uuid, .enable = enable};
    if (result == 0)
        result = waiter_pass_on(&e, c, r, s.node, &msg);
    if (result < 0)
        http_answer_error(r, &e);
}

void handle_enable(void *context, struct http_request *r)
{
    set_enabled(context, r, true);
}

void handle_disable(void *context, struct http_request *r)
{
    set_enabled(context, r, false);
}

/* ---- gpumux itself ---- */

void handle_version(void *context, struct http_request *r)
{
    struct control *c = context;
    if (!no_query(r))
        return;
    struct str json;
    struct json_writer w;
    str_init(&json, 1024);
    json_writer_init(&w, &json);
    json_begin_object(&w);
    json_put_string(json_key(&w, "version"), GPUMUX_VERSION);
    json_put_int(json_key(&w, "api"), 1);
    json_put_string(json_key(&w, "policy"), c->cluster_config.policy->name);
    json_end_object(&w);
    http_answer_json(r, 200, str_text(&json), json.length);
    str_done(&json);
}

void handle_healthz(void *context, struct http_request *r)
{
    (void)context;
    if (no_query(r))
        http_answer_text(r, 200, "text/plain", "ok\n", 3);
}

void handle_readyz(void *context, struct http_request *r)
{
    struct control *c = context;
    struct error e;
    if (!no_query(r))
        return;
    if (c->cluster) {
        http_answer_text(r, 200, "text/plain", "ok\n", 3);
        return;
    }
    error_set(&e, ERR_UNAVAILABLE, "the state could not be read back from the store");
    http_answer_error(r, &e);
}

static void metrics_of_cluster(struct control *c, struct str *out)
{
    struct cluster_counts counts = {0};
    if (c->cluster)
        cluster_count(c->cluster, &counts);
    metrics_family(out, "gpumux_workloads", METRIC_GAUGE, "Unfinished workloads, by state");
    for (enum workload_state i = 0; i < WORKLOAD_STATE_END; i++)
        if (!workload_state_is_terminal(i))
            metrics_sample(out, "gpumux_workloads", (double)counts.by_state[i], "state",
                           workload_state_name(i), NULL);
    metrics_family(out, "gpumux_workloads_finished", METRIC_GAUGE,
                   "Finished workloads that control stores");
    metrics_sample(out, "gpumux_workloads_finished", (double)counts.finished, NULL);
    metrics_family(out, "gpumux_nodes_connected", METRIC_GAUGE, "Connected nodes");
    metrics_sample(out, "gpumux_nodes_connected", (double)counts.nodes_connected, NULL);
    metrics_family(out, "gpumux_nodes_known", METRIC_GAUGE, "Nodes that have ever joined");
    metrics_sample(out, "gpumux_nodes_known", (double)counts.nodes_known, NULL);
    metrics_family(out, "gpumux_steps_total", METRIC_COUNTER, "Events that control processed");
    metrics_sample(out, "gpumux_steps_total", (double)c->steps, NULL);
    metrics_family(out, "gpumux_rebuilds_total", METRIC_COUNTER,
                   "Times that control reread its state after a failed commit");
    metrics_sample(out, "gpumux_rebuilds_total", (double)c->rebuilds, NULL);
}

/* Returns the usage of each device of the inventory, by index; NULL for a device without report.
 * The caller frees the array. Returns NULL when out of memory. */
static const struct device_usage **usage_of_devices(struct control *c,
                                                    const struct policy_snapshot *inventory)
{
    const struct device_usage **usage = calloc(inventory->device_count + 1, sizeof *usage);
    for (size_t n = 0; usage && n < inventory->node_count; n++) {
        const struct policy_node *node = &inventory->nodes[n];
        const struct node_link *link = links_find(c, node->name);
        for (size_t d = node->first_device; d < node->first_device + node->device_count; d++)
            usage[d] = link_device_usage(link, inventory->devices[d].uuid);
    }
    return usage;
}

static void metrics_of_devices(struct control *c, struct str *out)
{
    struct policy_snapshot inventory = {0};
    if (c->cluster)
        cluster_inventory(c->cluster, &inventory);
    static const struct {
        const char *name, *help;
    } families[] = {
        {"gpumux_device_memory_bytes", "Memory of the device"},
        {"gpumux_device_quota_booked_bytes", "Sum of the quotas of the workloads on the device"},
        {"gpumux_device_workloads", "Workloads placed on the device"},
        {"gpumux_device_memory_used_bytes", "Memory in use on the device"},
        {"gpumux_device_sm_activity_ratio", "Active part of the SMs of the device, 0 to 1"},
        {"gpumux_device_power_watts", "Power draw of the device"},
        {"gpumux_device_usable",
         "New workloads that the device admits; 1: tasks and services, 0.5: services, 0: none"},
    };
    const struct device_usage **usage = usage_of_devices(c, &inventory);
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        metrics_family(out, families[f].name, METRIC_GAUGE, families[f].help);
        for (size_t i = 0; usage && i < inventory.device_count; i++) {
            const struct policy_device *d = &inventory.devices[i];
            const struct device_usage *u = usage[i];
            const double values[] = {(double)d->memory_bytes,
                                     (double)d->quota_bytes,
                                     d->neighbours,
                                     u ? (double)u->memory_used_bytes : -1,
                                     u ? u->sm_percent / 100 : -1,
                                     u ? u->power_watts : -1,
                                     d->admits == ADMIT_ALL        ? 1
                                     : d->admits == ADMIT_SERVICES ? 0.5
                                                                   : 0};
            if (values[f] >= 0)
                metrics_sample(out, families[f].name, values[f], "node",
                               inventory.nodes[d->node].name, "uuid", d->uuid, "model", d->model,
                               NULL);
        }
    }
    free(usage);
}

/* A family of attempts' metrics that is being written. */
struct usage_family {
    struct str *out;
    const char *name;
    size_t offset;   /* offset of the number in struct attempt_usage */
    bool of_counted; /* only for attempts whose processes count their memory */
};

bool metrics_have_room(const struct str *out)
{
    return out->length < HTTP_BODY_MAX / 2;
}

static void put_usage_number(void *arg, const char *node, const struct attempt_usage *usage)
{
    const struct usage_family *family = arg;
    uint64_t value;
    char id[24];
    memcpy(&value, (const char *)usage + family->offset, sizeof value);
    (void)snprintf(id, sizeof id, "%" PRIu64, usage->workload);
    if ((usage->is_counted || !family->of_counted) && metrics_have_room(family->out))
        metrics_sample(family->out, family->name, (double)value, "node", node, "workload", id,
                       NULL);
}

static void put_usage_counters(void *arg, const char *node, const struct attempt_usage *usage)
{
    const struct usage_family *family = arg;
    char id[24];
    (void)snprintf(id, sizeof id, "%" PRIu64, usage->workload);
    for (int i = 0; usage->is_counted && i < counter_names.count && metrics_have_room(family->out);
         i++)
        if (usage->counters[i])
            metrics_sample(family->out, family->name, (double)usage->counters[i], "node", node,
                           "workload", id, "counter", counter_names.items[i], NULL);
}

static void put_usage_limits(void *arg, const char *node, const struct attempt_usage *usage)
{
    const struct usage_family *family = arg;
    char id[24];
    (void)snprintf(id, sizeof id, "%" PRIu64, usage->workload);
    for (int i = 0; usage->is_counted && i < usage->limit_count && metrics_have_room(family->out);
         i++)
        metrics_sample(family->out, family->name, (double)usage->limits[i].value, "node", node,
                       "workload", id, "limit", usage->limits[i].name, "reason",
                       usage->limits[i].reason, NULL);
}

static void put_usage_latency(void *arg, const char *node, const struct attempt_usage *usage)
{
    const struct usage_family *family = arg;
    char id[24];
    (void)snprintf(id, sizeof id, "%" PRIu64, usage->workload);
    if (usage->latency_ms >= 0 && metrics_have_room(family->out))
        metrics_sample(family->out, family->name, usage->latency_ms / 1000, "node", node,
                       "workload", id, NULL);
}

static void metrics_of_attempts(struct control *c, struct str *out)
{
    static const struct {
        const char *name, *help;
        size_t offset;
        bool of_counted;
    } gauges[] = {
        {"gpumux_workload_counted_bytes", "Device memory counted by the workload's processes",
         offsetof(struct attempt_usage, counted_bytes), true},
        {"gpumux_workload_peak_bytes",
         "Peak device memory counted by the workload's processes, in this attempt",
         offsetof(struct attempt_usage, peak_bytes), true},
        {"gpumux_workload_uncounted_bytes",
         "Device memory in use that the workload's processes did not count, such as contexts",
         offsetof(struct attempt_usage, uncounted_bytes), true},
        {"gpumux_workload_overhead_bytes",
         "Uncounted device memory (such as contexts) that counts against the quota",
         offsetof(struct attempt_usage, overhead_bytes), true},
        {"gpumux_workload_suspended_bytes",
         "Device memory of a suspended workload, now in host memory",
         offsetof(struct attempt_usage, suspended_bytes), false},
    };
    for (size_t i = 0; i < sizeof gauges / sizeof gauges[0]; i++) {
        struct usage_family family = {out, gauges[i].name, gauges[i].offset, gauges[i].of_counted};
        metrics_family(out, gauges[i].name, METRIC_GAUGE, gauges[i].help);
        links_visit_usage(c, put_usage_number, &family);
    }
    struct usage_family limits = {.out = out, .name = "gpumux_workload_limit"};
    metrics_family(
        out, limits.name, METRIC_GAUGE,
        "Limits in force for the workload, by limit (the name ends in the unit) and reason");
    links_visit_usage(c, put_usage_limits, &limits);
    struct usage_family latency = {.out = out, .name = "gpumux_service_latency_seconds"};
    metrics_family(
        out, latency.name, METRIC_GAUGE,
        "Request latency over 10 s, at the percentile of the SLO, as reported by the service");
    links_visit_usage(c, put_usage_latency, &latency);
    service_metrics_write(c, out);
    struct usage_family counters = {.out = out, .name = "gpumux_workload_counter_total"};
    metrics_family(out, counters.name, METRIC_COUNTER,
                   "Events counted by the processes of this attempt, by counter");
    links_visit_usage(c, put_usage_counters, &counters);
}

static void metrics_of_service(struct control *c, struct str *out)
{
    struct store_counters store;
    struct http_counters http;
    store_count(c->store, &store);
    http_server_count(c->http, &http);
    const struct {
        const char *name;
        enum metric_type type;
        const char *help;
        double value;
    } plain[] = {
        {"gpumux_store_commits_total", METRIC_COUNTER, "Database commits, with one sync each",
         (double)store.commits},
        {"gpumux_store_operations_total", METRIC_COUNTER, "Rows written to the database",
         (double)store.operations},
        {"gpumux_store_bytes", METRIC_GAUGE, "Size of the database", (double)store.bytes},
        {"gpumux_store_commits_failed_total", METRIC_COUNTER, "Database commits that failed",
         (double)c->commits_failed},
        {"gpumux_http_requests_total", METRIC_COUNTER, "API requests", (double)http.requests},
        {"gpumux_http_connections", METRIC_GAUGE, "Open API connections",
         (double)http.connections_open},
        {"gpumux_http_connections_refused_total", METRIC_COUNTER,
         "API connections refused because of a connection limit", (double)http.connections_refused},
        {"gpumux_http_streams", METRIC_GAUGE, "Open watches and followed logs",
         (double)http.streams_open},
        {"gpumux_tls_handshakes_failed_total", METRIC_COUNTER,
         "Network connections refused before the first request", (double)http.handshakes_failed},
        {"gpumux_uptime_seconds", METRIC_GAUGE, "Time since this process started",
         (double)(clock_boot_ms() - c->started_boot_ms) / 1000},
    };
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        metrics_family(out, plain[i].name, plain[i].type, plain[i].help);
        metrics_sample(out, plain[i].name, plain[i].value, NULL);
    }
    static const char *const classes[] = {NULL, "1xx", "2xx", "3xx", "4xx", "5xx"};
    metrics_family(out, "gpumux_http_responses_total", METRIC_COUNTER,
                   "API responses, by class of status");
    for (int i = 2; i < 6; i++)
        metrics_sample(out, "gpumux_http_responses_total", (double)http.by_status[i], "class",
                       classes[i], NULL);
    metrics_family(out, "gpumux_build_info", METRIC_GAUGE,
                   "Always 1; the labels show version and policy");
    metrics_sample(out, "gpumux_build_info", 1, "version", GPUMUX_VERSION, "policy",
                   c->cluster_config.policy->name, NULL);
}

static void metrics_of_learning(struct control *c, struct str *out)
{
    metrics_family(out, "gpumux_learnt_programs", METRIC_GAUGE,
                   "Programs measured alone on a device");
    metrics_sample(out, "gpumux_learnt_programs",
                   (double)programs_settled(learning_programs(c->learning)), NULL);
    metrics_family(
        out, "gpumux_learnt_measurements_total", METRIC_COUNTER,
        "Measurements of programs that share a device, including those before a restart");
    metrics_sample(out, "gpumux_learnt_measurements_total",
                   (double)observations_total(learning_measurements(c->learning)), NULL);
    metrics_family(out, "gpumux_learnt_models_total", METRIC_COUNTER,
                   "Models trained since this process started");
    metrics_sample(out, "gpumux_learnt_models_total", (double)keeper_models(c->keeper), NULL);
}

void handle_metrics(void *context, struct http_request *r)
{
    struct control *c = context;
    if (!no_query(r))
        return;
    struct str out;
    str_init(&out, HTTP_BODY_MAX);
    metrics_of_cluster(c, &out);
    metrics_of_devices(c, &out);
    metrics_of_service(c, &out);
    metrics_of_learning(c, &out);
    metrics_of_attempts(c, &out);
    http_answer_text(r, 200, "text/plain; version=0.0.4", str_text(&out), out.length);
    str_done(&out);
}
