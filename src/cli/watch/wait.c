/* gpumux wait: waits until workloads have ended. Events trigger requests; the state decides. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "cli/connect/client.h"
#include "cli/connect/follow.h"
#include "cli/frame/output.h"
#include "cli/connect/reference.h"
#include "cli/frame/show.h"
#include "cli/watch/watching.h"
#include "model/workload.h"
#include "wire/spec.h"

enum { STEP_MS = 1000, REASONS_TOLD_MAX = 16 };

struct waiting {
    struct client *client;
    struct hash_map pending; /* id → anything: has not ended */
    struct hash_map touched; /* id → anything: had an event */
    bool some_failed, quiet;
    int64_t quiet_until_boot_ms; /* no reason is shown before then */
    int reasons_told;
    char said[WORKLOAD_TEXT_MAX]; /* last reason shown */
};

/* Limits the output, because many workloads may wait and their reasons change. */
static void tell_waiting(struct waiting *w, const json_t *workload)
{
    char before[WORKLOAD_TEXT_MAX];
    if (w->quiet || w->reasons_told == REASONS_TOLD_MAX || clock_boot_ms() < w->quiet_until_boot_ms)
        return;
    memcpy(before, w->said, sizeof before);
    follow_tell_waiting(workload, w->said);
    w->reasons_told += strcmp(before, w->said) != 0;
}

static int look(struct error *e, struct waiting *w, const char *reference)
{
    json_t *workload = NULL;
    int r = client_get(e, w->client, client_path(w->client, "workloads", reference, ""), &workload);
    if (r < 0)
        return r;
    uint64_t id = (uint64_t)json_number(workload, "id", 0);
    enum workload_state state;
    if (workload_state_parse(json_text(workload, "state", ""), &state) < 0) {
        r = error_set(e, ERR_PROTOCOL, "the answer has an unknown state");
    } else if (!workload_state_is_terminal(state)) {
        r = hash_map_put(&w->pending, id, w);
        tell_waiting(w, workload);
    } else {
        char text[SHOW_TEXT_MAX];
        hash_map_remove(&w->pending, id);
        w->some_failed = w->some_failed || state != WORKLOAD_SUCCEEDED;
        if (!w->quiet)
            printf("%llu %s %s\n", (unsigned long long)id, json_text(workload, "name", ""),
                   show_state(workload, text));
        fflush(stdout);
    }
    json_decref(workload);
    return r;
}

static int note_event(void *arg, const struct sse_event *event)
{
    struct waiting *w = arg;
    json_t *data = json_loads(event->data, 0, NULL);
    uint64_t id = (uint64_t)json_number(data, "workload", 0);
    json_decref(data);
    return id && hash_map_get(&w->pending, id) ? hash_map_put(&w->touched, id, w) : 0;
}

static int look_at(struct error *e, struct waiting *w, const struct hash_map *which)
{
    /* The ids are copied, because look() changes the maps. */
    uint64_t *ids = arena_array(&w->client->arena, which->count + 1, sizeof *ids);
    if (!ids)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    size_t count = 0, cursor = 0;
    void *value;
    while (hash_map_next(which, &cursor, &ids[count], &value))
        count++;
    for (size_t i = 0; i < count; i++) {
        char reference[24];
        snprintf(reference, sizeof reference, "%llu", (unsigned long long)ids[i]);
        int r = look(e, w, reference);
        if (r < 0)
            return r; /* the others stay touched */
        hash_map_remove(&w->touched, ids[i]);
    }
    return 0;
}

static int wait_all(struct error *e, struct waiting *w, int64_t deadline_boot_ms)
{
    const struct invocation *in = w->client->in;
    uint64_t revision = 0;
    int r = follow_revision(e, w->client, &revision);
    struct references list = {0};
    if (r == 0)
        r = references_expand(e, w->client, in->operand_count, in->operands, ARRAY_ALL, &list);
    for (size_t i = 0; r == 0 && i < list.count; i++)
        r = look(e, w, list.items[i]);
    struct follow_events events;
    if (r < 0 || (r = follow_events_init(e, &events, w->client, NULL, revision, note_event, w)) < 0)
        return r;
    bool looked = w->quiet;
    while (r == 0 && w->pending.count > 0) {
        int64_t left = deadline_boot_ms - clock_boot_ms();
        if (left <= 0) {
            r = error_set(e, ERR_TIMEOUT, "%zu of %zu workloads have not ended in time",
                          w->pending.count, list.count);
            break;
        }
        r = follow_events_step(e, &events, left < STEP_MS ? left : STEP_MS);
        if (r == 0 && !looked && clock_boot_ms() >= w->quiet_until_boot_ms) {
            looked = true; /* reasons are shown even without an event */
            r = look_at(e, w, &w->pending);
        }
        if (follow_lost_place(r)) {
            r = follow_revision(e, w->client, &events.since);
            if (r == 0)
                r = look_at(e, w, &w->pending);
        }
        if (r == 0 && w->touched.count > 0)
            r = look_at(e, w, &w->touched);
        /* While gpumux is away the command waits, until its own deadline. */
        if (r == -ERR_UNAVAILABLE && !w->client->answered)
            r = 0;
    }
    follow_events_done(&events);
    return r;
}

int wait_command(const struct invocation *in)
{
    struct error e = {0};
    int64_t timeout_ms = INT64_MAX / 4;
    const char *timeout = option_value(in, "timeout");
    if (timeout && spec_parse_duration(&e, timeout, &timeout_ms) < 0) {
        fprintf(stderr, "gpumux: wait: --timeout: %s\n", e.text);
        return COMMAND_USAGE;
    }
    struct client c;
    int status = client_init(&c, in);
    if (status != COMMAND_OK)
        return status;
    struct waiting w = {.client = &c,
                        .quiet = option_given(in, "quiet"),
                        .quiet_until_boot_ms = clock_boot_ms() + FOLLOW_QUIET_MS};
    hash_map_init(&w.pending);
    hash_map_init(&w.touched);
    int64_t deadline_boot_ms = clock_boot_ms() + timeout_ms;
    c.until_boot_ms = timeout ? deadline_boot_ms : INT64_MAX;
    int r = wait_all(&e, &w, deadline_boot_ms);
    if (r == -ERR_TIMEOUT)
        status = (command_fail(in, &e), COMMAND_TIMED_OUT);
    else if (r < 0)
        status = client_fail(&c, &e);
    else
        status = w.some_failed ? COMMAND_FAILED : COMMAND_OK;
    hash_map_done(&w.pending);
    hash_map_done(&w.touched);
    client_done(&c);
    return status;
}
