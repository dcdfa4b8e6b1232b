/*
 * How libraries in a workload's process find the pages that the shim shares with the agent. The
 * shim exports gpumux_pages() without a version, so that dlsym finds the function, too. libgpumux
 * refers to the name weakly, and therefore does not need the shim.
 */
#pragma once
#include <stdint.h>

#include "abi/page.h"

/* A newer shim may have a longer struct. */
struct gpumux_pages {
    uint64_t size_bytes; /* of this struct, as the shim knows it */
    const struct limits_page *limits;
    struct status_page *status;
};

/* Returns the pages of this process; NULL: the process has not used CUDA yet, or the shim is
 * disabled or has no limits. The result is valid until the next fork(): a child has no pages until
 * it uses CUDA, and then has pages of its own. The call costs a few nanoseconds. */
__attribute__((visibility("default"))) const struct gpumux_pages *gpumux_pages(void);
