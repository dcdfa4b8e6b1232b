/*
 * Workload descriptions as text: JSON, YAML, and the canonical JSON in the store and in grants. One
 * schema (spec_schema.def) lists every key once; parser, writer, `submit` flags and docs use the
 * schema.
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
 *   swappable: true            # of a task: its device memory may move to host memory
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
 * A document is one workload, or {version, workloads: […]}, or (YAML) several documents. An unknown
 * key is refused, with the nearest known key as a hint.
 *
 * This folder contains the parsers and writers of all texts. Files of the folder wire may include
 * base, model, abi.
 */
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "model/workload.h"

enum {
    SPEC_TEXT_MAX = 4 << 20, /* bytes of one document */
    SPEC_DEPTH_MAX = 16,
    SPEC_WORKLOADS_MAX = 1000, /* workloads in one document */
};

struct spec_list {
    size_t count;
    struct workload_spec *items; /* validated workloads, owned by the arena */
};

/* Parses a document. The first character that is not white space selects the format: '{' or '[' is
 * JSON, anything else YAML. */
int spec_parse(struct error *e, struct arena *arena, const char *text, size_t length,
               struct spec_list *ret);
/* Parses a document like spec_parse(), but neither validates nor completes the workloads (see
 * workload_spec_init()), so that a client can merge flags into them first. */
int spec_parse_partial(struct error *e, struct arena *arena, const char *text, size_t length,
                       struct spec_list *ret);
/* Sets one key from text, as a flag does: key "share.max", value "50". The value is checked as in a
 * document. "KEY=VALUE" is added to environment or labels, "NAME,ID:ended" to after. */
int spec_set(struct error *e, struct arena *arena, struct workload_spec *spec, const char *key,
             const char *value);
/* Writes one line of canonical JSON, which spec_parse() reads back as an equal spec. */
int spec_write(const struct workload_spec *spec, struct str *out);

/* Writes, as a JSON object, the members of a spec that the API's list of workloads shows. The store
 * keeps the object beside the spec, so that a list parses no spec. A change of these members needs
 * a migration step of the store that sets every stored summary to NULL. */
int spec_write_summary(const struct workload_spec *spec, struct str *out);

/* Parse a quantity: "8g", "512m", "1.5GiB", "1024" to bytes (k, m, g, t are powers of 1024); "90",
 * "90s", "1.5h", "1h30m", "250ms" to milliseconds. */
int spec_parse_bytes(struct error *e, const char *text, uint64_t *ret_bytes);
int spec_parse_duration(struct error *e, const char *text, int64_t *ret_ms);
/* Like spec_parse_duration, keeping the fraction of a millisecond; "50us" is valid too. */
int spec_parse_real_duration(struct error *e, const char *text, double *ret_ms);
enum { SPEC_QUANTITY_MAX = 32 };
char *spec_format_duration(int64_t ms, char text[SPEC_QUANTITY_MAX]); /* writes "1h30m", "250ms" */
