/* The names of the counters that a process keeps (abi/counters.def), as used in messages, the API
 * and metrics. */
#pragma once
#include "model/names.h"

/* names by the index in attempt_usage.counters */
extern const struct names counter_names;
