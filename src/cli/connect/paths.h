/* Where gpumux keeps its state and where its sockets are. */
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

/* The state directory when none is given: root's is /var/lib/gpumux, a user's is
 * $XDG_STATE_HOME/gpumux or ~/.local/state/gpumux. NULL: no memory, or no home. */
const char *paths_state_default(struct arena *arena);
/* The state directory that was given (or the default), made if missing, as an absolute path:
 * supervisors and messages name it from elsewhere. */
int paths_make_state(struct error *e, struct arena *arena, const char *given, const char **ret);
/*
 * The API socket a client talks to: `given` (--socket) if not NULL, else $GPUMUX_SOCKET, else the
 * one of the user's own gpumux if it exists or is about to, else that of the machine's. A prefix
 * "unix:" is taken off. NULL: no memory.
 */
const char *paths_api_socket(struct arena *arena, const char *given);
/* Whether some gpumux has the state directory that this socket lies in. One that does not listen
 * there is starting or stopping, or listens elsewhere. */
bool paths_is_held(const char *socket);
/* libgpumux-cuda.so of this installation, from where this executable lies; NULL: it is not
 * there. */
const char *paths_shim(struct arena *arena);
/* nvidia-cuda-mps-control: `given` if it is not empty, with emulated devices their own, else the
 * driver's. NULL: there is none. */
const char *paths_mps_control(struct arena *arena, const char *given, const char *emulated);
/* The directory of this executable; NULL if the system does not say. */
const char *paths_own_directory(struct arena *arena);
