/* Paths of the state directory, sockets and libraries of gpumux. */
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

/* Returns the default state directory: /var/lib/gpumux for root, $XDG_STATE_HOME/gpumux or
 * ~/.local/state/gpumux for other users; NULL when out of memory or without a home. */
const char *paths_state_default(struct arena *arena);
/* Makes the given state directory (NULL: the default) if missing. *ret is an absolute path, because
 * supervisors and messages use the path in other working directories. */
int paths_make_state(struct error *e, struct arena *arena, const char *given, const char **ret);
/*
 * Returns the API socket for a client: `given` (--socket) if not NULL, else $GPUMUX_SOCKET, else
 * the socket of the user's own gpumux if the socket exists or will soon exist, else the socket of
 * the machine's gpumux. A prefix "unix:" is removed. NULL: out of memory.
 */
const char *paths_api_socket(struct arena *arena, const char *given);
/* Returns whether a gpumux holds the lock of the state directory of this socket. A gpumux that does
 * not listen on the socket is starting or stopping, or listens on another socket. */
bool paths_is_held(const char *socket);
/* Returns the path of this installation's libgpumux-cuda.so, found relative to this executable;
 * NULL if the file is missing. */
const char *paths_shim(struct arena *arena);
/* Returns the path of nvidia-cuda-mps-control: `given` unless empty, else the emulated program for
 * emulated devices, else the driver's program; NULL if the program is missing. */
const char *paths_mps_control(struct arena *arena, const char *given, const char *emulated);
/* Returns the directory of this executable; NULL if the system does not report it. */
const char *paths_own_directory(struct arena *arena);
