/* The environment of a workload: its spec's, and what gpumux adds (environment.def). */
#pragma once
#include "base/arena.h"
#include "wire/nodemsg.h"

struct environment_node {
    const char *name, *instance;
    const char *control_path;      /* of the attempt's control.sock */
    const char *shim;              /* path of libgpumux-cuda.so; NULL: not protected */
    const char *register_path;     /* with shim: of the socket where its processes register */
    const char *mps_directory;     /* of the device's MPS daemon; NULL: without MPS */
    int share_percent;             /* with mps_directory: share at the start */
    const char *emulate;           /* NULL: real devices */
    const char *emulate_libraries; /* with emulate */
    const char *emulate_speed;     /* or NULL */
};

/* "KEY=value" words in the arena; -ERR_NO_MEMORY. */
int environment_make(struct arena *arena, const struct grant *grant,
                     const struct environment_node *node, struct words *ret);
