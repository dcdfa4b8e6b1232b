/*
 * The library opens one connection to the supervisor for each command, and closes the connection
 * afterwards. All names begin with gpumux_, because programs that link libgpumux.a get all these
 * names.
 *
 * This folder contains libgpumux. Files of the folder client may include abi.
 */
#pragma once
#include <stdint.h>

/* Sends one command to the socket at `path`, which may be longer than a socket's address. With a
 * wait_ms of 0 the reply is not read. Returns 0, -ETIMEDOUT, -EPROTO (a reply other than "ok"), or
 * another negative errno. */
int gpumux_client_send(const char *path, const char *command, int wait_ms);

/* The monotonic clock. */
int64_t gpumux_client_clock_ms(void);
