/*
 * The agent's own record of an attempt: everything that decides about it, in files that its user
 * can neither read nor write (directory records/, mode 0700). A new agent takes over from these
 * files and the kernel alone; what lies in the attempt's directory is its user's word, and decides
 * nothing.
 *
 *   W.A.grant  written once, before the supervisor is started: a line with terms and grace; a line
 *              with the grant as its supervisor takes it (attempt_file.h); and if that makes it a
 *              client of MPS, a line with the grant that takes its place where MPS cannot be had.
 *              The supervisor reads its line through an inherited descriptor
 *   W.A        what has become of it since, replaced as a whole: the report that control was told,
 *              verdict, deadline, suspension, supervisor. Absent: nothing yet
 */
#pragma once
#include <sys/types.h>

#include "attempt/attempt.h"
#include "base/error.h"
#include "base/str.h"
#include "node/attempt/terms.h"
#include "node/checkpoint/checkpoint.h"
#include "node/supervisor/attempt_file.h"

/* A process that a move of memory concerns; its start time tells it from a later one of the same
 * pid. */
struct moved_process {
    pid_t pid;
    uint64_t start;
};

struct own_record {
    struct terms terms; /* as granted, but for MPS, if that could not be had */
    int64_t grace_ms;
    pid_t supervisor_pid; /* 0: not known */
    uint64_t supervisor_start;
    uint64_t moved_bytes; /* of device memory, by the last move */
    size_t moved_count;
    struct moved_process moved[CHECKPOINT_PROCESSES_MAX];
};

/* The first line of W.A.grant. */
int own_terms_write(const struct own_record *record, struct str *out);
/* -ERR_CORRUPT on anything that is not written so; likewise below. */
int own_terms_parse(struct error *e, const char *text, size_t length, struct own_record *ret);
/* W.A. */
int own_state_write(const struct own_record *record, const struct attempt_kept *kept,
                    struct str *out);
/* On top of the terms, and of the initial `kept`. */
int own_state_parse(struct error *e, const char *text, size_t length, struct own_record *record,
                    struct attempt_kept *kept);

/* Makes W.A.grant of the attempt NAME. `without_mps` may be NULL. */
int own_record_grant(struct error *e, int records_fd, const char *name,
                     const struct own_record *record, const struct attempt_grant *grant,
                     const struct attempt_grant *without_mps);
/* W.A.grant at the line that its supervisor takes; the caller closes it. */
int own_record_open_grant(struct error *e, int records_fd, const char *name, bool without_mps,
                          int *ret_fd);
int own_record_save(struct error *e, int records_fd, const char *name,
                    const struct own_record *record, const struct attempt_kept *kept);
/* `kept` comes with its initial values. -ERR_NOT_FOUND: there is neither. */
int own_record_load(struct error *e, int records_fd, const char *name, struct own_record *record,
                    struct attempt_kept *kept);
void own_record_remove(int records_fd, const char *name);
