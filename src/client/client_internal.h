/* How the library speaks to the supervisor: one connection a command, so that nothing is kept open.
 * All names begin with gpumux_, since the archive brings them into other people's programs. */
#pragma once
#include <stdint.h>

/* Sends one command to the socket at `path`, whatever the length of the path. wait_ms 0: does not
 * look at the reply. 0, -ETIMEDOUT, -EPROTO (another reply than ok), or another negative errno. */
int gpumux_client_send(const char *path, const char *command, int wait_ms);

/* A clock that is never set. */
int64_t gpumux_client_clock_ms(void);
