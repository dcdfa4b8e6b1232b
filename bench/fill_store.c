/*
 * fill_store DIRECTORY QUEUED FINISHED: creates a state directory with that many workloads through
 * the store. The queued ones request a device model that no node has, so they stay queued.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/store.h"
#include "wire/record.h"
#include "wire/spec.h"

enum { BATCH = 2000, ARENA_BYTES = 1 << 20, TEXT_BYTES = 64 << 10 };

static void die(const char *what, const struct error *e)
{
    fprintf(stderr, "fill_store: %s: %s\n", what, e->text);
    exit(1);
}

static void spec_text(const char *model, struct str *out, struct str *summary)
{
    struct arena arena;
    struct error e = {0};
    struct spec_list list;
    char text[512];
    arena_init(&arena, ARENA_BYTES);
    int length = snprintf(text, sizeof text,
                          "{\"name\": \"train\", \"command\": [\"python\", \"train.py\", "
                          "\"--epochs\", \"30\"], \"directory\": \"/\", \"quota\": \"8g\", "
                          "\"environment\": {\"HOME\": \"/\", \"LANG\": \"C\"}%s%s%s}",
                          model ? ", \"model\": \"" : "", model ? model : "", model ? "\"" : "");
    if (spec_parse(&e, &arena, text, (size_t)length, &list) < 0)
        die("spec", &e);
    if (spec_write(&list.items[0], out) < 0 || spec_write_summary(&list.items[0], summary) < 0)
        die("spec", &e);
    arena_done(&arena);
}

static void status_text(bool finished, int64_t wall_ms, struct str *out)
{
    struct attempt attempt = {.number = 1,
                              .node = "box",
                              .device_count = 1,
                              .devices = {"GPU-00000000-0000-0000-0000-000000000000"},
                              .placed_wall_ms = wall_ms,
                              .started_wall_ms = wall_ms + 20,
                              .ended_wall_ms = wall_ms + 60000};
    struct workload_status status = {.state = finished ? WORKLOAD_SUCCEEDED : WORKLOAD_QUEUED,
                                     .exit_code = finished ? 0 : -1,
                                     .attempts_total = finished,
                                     .submitted_wall_ms = wall_ms,
                                     .started_wall_ms = finished ? wall_ms + 20 : 0,
                                     .ended_wall_ms = finished ? wall_ms + 60000 : 0,
                                     .attempts_kept = finished,
                                     .attempts = &attempt};
    struct error e = {0};
    if (record_write_status(&status, out) < 0)
        die("status", &e);
}

static void add(struct store_batch *batch, uint64_t id, bool finished, const char *spec,
                const char *summary, int64_t wall_ms)
{
    struct str status;
    str_init(&status, TEXT_BYTES);
    status_text(finished, wall_ms, &status);
    struct store_workload row = {.id = id,
                                 .group = id,
                                 .first = id,
                                 .submitted = 1,
                                 .spec_id = id,
                                 .uid = (uint32_t)getuid(),
                                 .user = "root",
                                 .name = "train",
                                 .base = "train",
                                 .array_index = -1,
                                 .state = finished ? WORKLOAD_SUCCEEDED : WORKLOAD_QUEUED,
                                 .submitted_wall_ms = wall_ms,
                                 .ended_wall_ms = finished ? wall_ms + 60000 : 0,
                                 .after = "[]",
                                 .status = str_text(&status)};
    struct store_event event = {.wall_ms = wall_ms,
                                .workload = id,
                                .uid = row.uid,
                                .node = "",
                                .what = "submitted",
                                .text = ""};
    struct error e = {0};
    if (store_batch_spec(batch, id, spec, summary) < 0 || store_batch_workload(batch, &row) < 0 ||
        store_batch_event(batch, &event) < 0)
        die("batch", &e);
    str_done(&status);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: fill_store DIRECTORY QUEUED FINISHED\n");
        return 2;
    }
    uint64_t queued = strtoull(argv[2], NULL, 10), finished = strtoull(argv[3], NULL, 10);
    struct error e = {0};
    struct store *store;
    struct str done_spec, queued_spec, summary;
    str_init(&done_spec, TEXT_BYTES);
    str_init(&queued_spec, TEXT_BYTES);
    str_init(&summary, TEXT_BYTES);
    spec_text(NULL, &done_spec, &summary);
    str_clear(&summary); /* the summary lacks the model */
    spec_text("B200", &queued_spec, &summary);
    if (store_open_sqlite(&e, argv[1], &store) < 0)
        die(argv[1], &e);
    struct store_batch *batch = store_batch_new();
    int64_t wall_ms = clock_wall_ms() - 3600000;
    for (uint64_t id = 1; batch && id <= finished + queued; id++) {
        bool is_finished = id <= finished;
        add(batch, id, is_finished, str_text(is_finished ? &done_spec : &queued_spec),
            str_text(&summary), wall_ms);
        if (id % BATCH != 0 && id != finished + queued)
            continue;
        if (store_commit(&e, store, batch) < 0)
            die("commit", &e);
        store_batch_clear(batch);
    }
    store_batch_free(batch);
    store_close(store);
    str_done(&done_spec);
    str_done(&queued_spec);
    str_done(&summary);
    return 0;
}
