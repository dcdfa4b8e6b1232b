/*
 * The companion of a service (proxy/proxy.h): the supervisor opens the port on which clients reach
 * the service, starts the companion with that socket, and starts it again if it ends. Clients that
 * connect meanwhile wait in the socket.
 *
 * The companion reports over a connection that counts among the peers of control.sock.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "node/supervisor/attempt_file.h"
#include "node/supervisor/control_socket.h"

enum { COMPANION_AGAIN_MS = 100 }; /* pause before a companion that ended is started again */

struct companion {
    const struct attempt_grant *grant;
    bool is_wanted;
    int listen_fd; /* -1: the service has no proxy */
    int backend_port;
    pid_t pid;        /* 0: does not run */
    int64_t start_ms; /* time of the next start, boot clock; INT64_MAX: none */
};

/* Opens the port of a service with a proxy, and chooses the port of the program. Adds PORT and
 * GPUMUX_PORT to the grant's environment, in the arena. Does nothing for other workloads. */
int companion_open(struct error *e, struct companion *c, struct arena *arena,
                   struct attempt_grant *grant);
/* Starts the companion if its time has come. */
void companion_step(struct companion *c, struct control_socket *control, int64_t now_ms);
/* Handles the end of a child. Returns true if the child was the companion. */
bool companion_reaped(struct companion *c, pid_t pid, int64_t now_ms);
/* The service has ended: no companion starts again, and nobody listens. */
void companion_end(struct companion *c);
