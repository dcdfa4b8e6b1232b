/* Readiness of a service. The supervisor checks the conditions repeatedly until the service is
 * ready. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "node/supervisor/attempt_file.h"
#include "node/supervisor/task.h"

enum {
    READINESS_COMMAND_EVERY_MS = 1000,
    READINESS_COMMAND_LIMIT_MS = 10000, /* time limit of a probe, which is then killed */
    READINESS_PORT_EVERY_MS = 100,
};

struct readiness {
    const struct attempt_grant *grant;
    bool ready;
    int64_t next_ms;   /* time of the next check, boot clock; INT64_MAX: none */
    struct task probe; /* running probe; pid 0: none */
    int64_t probe_limit_ms;
};

/* To be called after the task was exec'ed. */
void readiness_start(struct readiness *r, const struct attempt_grant *grant, int64_t now_ms);
/* Runs the checks that are due. Returns true if the service became ready. */
bool readiness_step(struct readiness *r, int64_t now_ms);
/* Handles the end of a child. Returns true if the child was a probe and the service became
 * ready. */
bool readiness_reaped(struct readiness *r, pid_t pid, int wait_status, int64_t now_ms);
/* Handles a report of the client library. Returns true if the service became ready. */
bool readiness_told(struct readiness *r);
