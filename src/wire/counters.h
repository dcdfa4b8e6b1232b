/* The names of the counters that a process keeps (abi/counters.def), as used in messages, the API
 * and metrics. */
#pragma once
#include <stddef.h>

#include "model/names.h"

/* names by the index in attempt_usage.counters */
extern const struct names counter_names;
/* Returns a short description of the counter; NULL past the last index. */
const char *counter_help(size_t index);
