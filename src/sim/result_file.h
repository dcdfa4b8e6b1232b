/* Results as files: to be read by people and other programs, and to resume a campaign. */
#pragma once
#include "base/str.h"
#include "sim/result.h"

enum { RESULT_FILE_MAX = 1 << 30 }; /* bytes */

/* Every workload, one a row; itself a trace (trace.h). */
void result_write_workloads(const struct result *r, struct str *out);
/* The course: one row an interval. */
void result_write_course(const struct result *r, struct str *out);
/* Who was on which device, and when. */
void result_write_spans(const struct result *r, struct str *out);
/* The names of the summary's columns, and one run's. */
void result_write_summary_head(struct str *out);
void result_write_summary(const struct result *r, struct str *out);

/* The whole result as bytes (learn/stored.h), with what it was made from. */
void result_save(const struct result *r, uint64_t fingerprint, struct str *out);
/* -ERR_CORRUPT, -ERR_TOO_NEW; -ERR_CONFLICT when it was made from something else; -ERR_NO_MEMORY.
 * The names of models are the caller's to set. */
int result_load(struct error *e, const void *bytes, size_t length, uint64_t fingerprint,
                struct result *ret_result);
