/* When does a service count as ready? Asked again and again until it is, and then never again. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "node/supervisor/attempt_file.h"
#include "node/supervisor/task.h"

enum {
    READINESS_COMMAND_EVERY_MS = 1000,
    READINESS_COMMAND_LIMIT_MS = 10000, /* a probe that hangs is killed */
    READINESS_PORT_EVERY_MS = 100,
};

struct readiness {
    const struct attempt_grant *grant;
    bool ready;
    int64_t next_ms;   /* boot clock; INT64_MAX: nothing to do by itself */
    struct task probe; /* pid 0: none */
    int64_t probe_limit_ms;
};

/* The task was exec'ed now. */
void readiness_start(struct readiness *r, const struct attempt_grant *grant, int64_t now_ms);
/* Does what is due. True if it became ready by that. */
bool readiness_step(struct readiness *r, int64_t now_ms);
/* A child of ours ended. True if it was a probe, and that made it ready. */
bool readiness_reaped(struct readiness *r, pid_t pid, int wait_status, int64_t now_ms);
/* The client library said so. True if that counts and is new. */
bool readiness_told(struct readiness *r);
