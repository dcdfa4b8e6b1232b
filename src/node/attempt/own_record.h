/*
 * The agent's own record of an attempt: all facts on which the agent bases decisions, in files that
 * the workload's user can neither read nor write (directory records/, mode 0700). A new agent needs
 * only these files and the kernel to take over. Files in the attempt's directory belong to the
 * user, and no decision of the agent depends on their content.
 *
 *   W.A.grant  written once, before the supervisor starts: a line with terms and grace; a line with
 *              the supervisor's grant (attempt_file.h); and for a client of MPS a line with the
 *              grant that applies if MPS fails. The supervisor reads its line through an inherited
 *              descriptor
 *   W.A        changes since the start, replaced atomically: the last report to control, verdict,
 *              deadline, suspension, supervisor. Absent until the first change
 *
 * This folder contains the steps of an attempt on its node, and the attempt's record. Files of the
 * folder node/attempt may include base, model, wire, attempt, node, node/supervisor, node/device,
 * node/checkpoint.
 */
#pragma once
#include <sys/types.h>

#include "attempt/attempt.h"
#include "base/error.h"
#include "base/str.h"
#include "node/attempt/terms.h"
#include "node/checkpoint/checkpoint.h"
#include "node/supervisor/attempt_file.h"

/* A process whose device memory is moved. The start time distinguishes the process from a later
 * process with the same pid. */
struct moved_process {
    pid_t pid;
    uint64_t start;
};

struct own_record {
    struct terms terms; /* terms of the grant, changed only if MPS failed */
    int64_t grace_ms;
    int64_t time_limit_ms;  /* 0: none, or unknown */
    int64_t lease_after_ms; /* from the lease's expiry until the agent ends a task; 0: never */
    pid_t supervisor_pid;   /* 0: unknown */
    uint64_t supervisor_start;
    char boot_id[BOOT_ID_MAX]; /* boot of the supervisor; "": unknown */
    uint64_t moved_bytes;      /* device memory of the last move */
    size_t moved_count;
    struct moved_process moved[CHECKPOINT_PROCESSES_MAX];
};

/* Writes the first line of W.A.grant. */
int own_terms_write(const struct own_record *record, struct str *out);
/* Parses the first line of W.A.grant. Returns 0, or -ERR_CORRUPT for any deviation. */
int own_terms_parse(struct error *e, const char *text, size_t length, struct own_record *ret);
/* Writes W.A. */
int own_state_write(const struct own_record *record, const struct attempt_kept *kept,
                    struct str *out);
/* Parses W.A over the terms in *record and the initial *kept. Returns 0 or -ERR_CORRUPT. */
int own_state_parse(struct error *e, const char *text, size_t length, struct own_record *record,
                    struct attempt_kept *kept);

/* Writes W.A.grant of the attempt NAME. `without_mps` may be NULL. */
int own_record_grant(struct error *e, int records_fd, const char *name,
                     const struct own_record *record, const struct attempt_grant *grant,
                     const struct attempt_grant *without_mps);
/* Opens W.A.grant at the supervisor's line; the caller closes the descriptor. */
int own_record_open_grant(struct error *e, int records_fd, const char *name, bool without_mps,
                          int *ret_fd);
int own_record_save(struct error *e, int records_fd, const char *name,
                    const struct own_record *record, const struct attempt_kept *kept);
/* Loads both files; the caller sets `kept` to its initial values. Returns 0, -ERR_CORRUPT, or
 * -ERR_NOT_FOUND if neither file exists. */
int own_record_load(struct error *e, int records_fd, const char *name, struct own_record *record,
                    struct attempt_kept *kept);
void own_record_remove(int records_fd, const char *name);
