/* The options of gpumux load, parsed. */
#pragma once
#include "base/str.h"
#include "cli/frame/options.h"
#include "load/load.h"

struct load_plan {
    const char *url, *arrivals_text; /* as given, or the default */
    struct request_target target;
    struct str request; /* the bytes of every request */
    struct arrivals arrivals;
    struct tally tally;
    struct load_config config; /* without stop_fd and on_progress */
    double warmup_s;
    uint64_t seed;
    struct load_cost cost; /* of the run */
};

/* Reads the options, and the files that they name. load_plan_done() must follow, also after an
 * error. */
int load_plan_init(struct error *e, const struct invocation *in, struct load_plan *ret);
void load_plan_done(struct load_plan *p);
