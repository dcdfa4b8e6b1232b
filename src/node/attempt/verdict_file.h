/*
 * What a device said of an attempt that it ended, kept until control has taken the attempt's end: an agent
 * that is killed in the midst of a repair is followed by one that says the same.
 *
 * One file an attempt in the agent's own directory of terms, W.A.verdict: the verdict's name, a space, and the
 * reason, one line.
 */
#pragma once
#include "base/error.h"
#include "base/str.h"
#include "model/node.h"

enum { VERDICT_FILE_MAX = 512, VERDICT_GRACE_LEAST_MS = 1000 };

struct verdict {
    enum attempt_verdict verdict;
    char why[WORKLOAD_TEXT_MAX];
};

int verdict_write(const struct verdict *verdict, struct str *out);
/* -ERR_CORRUPT on anything that is not written so. */
int verdict_parse(struct error *e, const char *text, size_t length, struct verdict *ret);

/* For the attempt NAME. What is there already is replaced. */
int verdict_save(struct error *e, int directory_fd, const char *name,
                 const struct verdict *verdict);
/* False: there is none that can be read. */
bool verdict_load(int directory_fd, const char *name, struct verdict *ret);
/* What is left of a grace period that began with it, by the clock on the wall; all, where there is none. The attempt's
 * supervisor counts from then, and its work must be ended before that kills it. */
int64_t verdict_grace_left_ms(int directory_fd, const char *name, int64_t grace_ms);
void verdict_remove(int directory_fd, const char *name);
