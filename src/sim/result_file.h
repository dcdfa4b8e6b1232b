/* Results as files, for people and other programs, and to resume a campaign. */
#pragma once
#include "base/str.h"
#include "sim/result.h"

enum { RESULT_FILE_MAX = 1 << 30 }; /* in bytes */

/* Writes one row per workload; the file is also a valid trace (trace.h). */
void result_write_workloads(const struct result *r, struct str *out);
/* Writes the course, one row per interval. */
void result_write_course(const struct result *r, struct str *out);
/* Writes the spans of workloads on devices. */
void result_write_spans(const struct result *r, struct str *out);
/* Write the names of the summary's columns, and the row of one run. */
void result_write_summary_head(struct str *out);
void result_write_summary(const struct result *r, struct str *out);

/* Writes the whole result as bytes (learn/stored.h), with the fingerprint of its configuration. */
void result_save(const struct result *r, uint64_t fingerprint, struct str *out);
/* Returns -ERR_CORRUPT, -ERR_TOO_NEW, -ERR_NO_MEMORY, or -ERR_CONFLICT for another fingerprint. The
 * caller sets the names of the models. */
int result_load(struct error *e, const void *bytes, size_t length, uint64_t fingerprint,
                struct result *ret_result);
