/* The environment of a workload: the variables of its spec and of gpumux (environment.def). */
#pragma once
#include "base/arena.h"
#include "wire/nodemsg.h"

struct environment_node {
    const char *name, *instance;
    const char *control_path;      /* path of the attempt's control.sock */
    const char *shim;              /* path of libgpumux-cuda.so; NULL: not protected */
    const char *register_path;     /* with shim: path of the socket where processes register */
    const char *mps_directory;     /* directory of the device's MPS daemon; NULL: without MPS */
    int share_percent;             /* with mps_directory: share at the start */
    const char *emulate;           /* NULL: real devices */
    const char *emulate_libraries; /* with emulate */
    const char *emulate_speed;     /* NULL: not set */
};

/* Makes "KEY=value" words in the arena. Returns 0 or -ERR_NO_MEMORY. */
int environment_make(struct arena *arena, const struct grant *grant,
                     const struct environment_node *node, struct words *ret);
