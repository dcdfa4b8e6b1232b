/*
 * Workload descriptions as text: JSON, YAML, and the canonical JSON that is stored and granted.
 * One schema (spec_schema.def) lists every key once: parser, writer, `submit` flags and docs use
 * it.
 *
 *   version: 1                 # optional; another number is refused
 *   kind: task                 # or service
 *   name: resnet
 *   command: [python, train.py, --epochs, "3"]     # or one string, run by sh -c
 *   resume: [python, train.py, --resume]
 *   environment: {KEY: value}
 *   directory: /data/me/run
 *   user: me
 *   devices: 1
 *   model: H200                # matches a part of the device's model name, ignoring case
 *   node_labels: {rack: a}
 *   quota: 8g
 *   share: 30                  # or {min: 10, max: 50}
 *   batch: {reference: 128, min: 32, max: 512, step: 32}
 *   slo: {percentile: 99, latency: 50ms}
 *   expected: {samples: 1e6, duration: 2h}
 *   time_limit: 4h
 *   priority: 0
 *   retries: 2
 *   grace: 30s
 *   on_node_lost: requeue      # or wait
 *   protection: on             # or off
 *   ready: started             # or {command: […]}, {port: 8000}, client
 *   labels: {team: vision}
 *   after: [prepare, "17:ended"]
 *   array: 10
 *   stdin: false
 *
 * A document is one workload, or {version, workloads: […]}, or (YAML) several documents.
 * Unknown keys are refused, with the nearest known one as a hint.
 */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "model/workload.h"

enum {
    SPEC_TEXT_MAX = 4 << 20, /* bytes of one document */
    SPEC_DEPTH_MAX = 16,
    SPEC_WORKLOADS_MAX = 1000, /* in one document */
};

struct spec_list {
    size_t count;
    struct workload_spec *items; /* in the arena, validated */
};

/* Format is told by the first character that is not white space: '{' or '[' is JSON, else YAML. */
int spec_parse(struct error *e, struct arena *arena, const char *text, size_t length,
               struct spec_list *ret);
/* The same, but not yet validated and completed (see workload_spec_init): for a client that merges
 * flags into it first. */
int spec_parse_partial(struct error *e, struct arena *arena, const char *text, size_t length,
                       struct spec_list *ret);
/* Sets one key from text, as a flag does: key "share.max", value "50". Strict like the parser. A
 * "KEY=VALUE" is added to environment and labels, a "NAME,ID:ended" to after. */
int spec_set(struct error *e, struct arena *arena, struct workload_spec *spec, const char *key,
             const char *value);
/* Canonical JSON, one line. What spec_parse reads back is equal. */
int spec_write(const struct workload_spec *spec, struct str *out);

/* The members that the API's list of workloads has of a spec, as a JSON object. The store keeps it
 * beside the spec, so that a list parses no spec. A change of these members needs a step of the
 * store's schema that sets every stored summary to NULL. */
int spec_write_summary(const struct workload_spec *spec, struct str *out);

/* "8g", "512m", "1.5GiB", "1024" → bytes (k, m, g, t are powers of 1024);
 * "90", "90s", "1.5h", "1h30m", "250ms" → milliseconds. */
int spec_parse_bytes(struct error *e, const char *text, uint64_t *ret_bytes);
int spec_parse_duration(struct error *e, const char *text, int64_t *ret_ms);
enum { SPEC_QUANTITY_MAX = 32 };
char *spec_format_bytes(uint64_t bytes, char text[SPEC_QUANTITY_MAX]); /* "8g", "1.5g": rounded */
char *spec_format_duration(int64_t ms, char text[SPEC_QUANTITY_MAX]);  /* "1h30m", "250ms" */
