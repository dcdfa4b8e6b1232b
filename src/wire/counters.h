/* The names of what a process counts for itself (abi/counters.def), as messages, API and
 * metrics have them. */
#pragma once
#include <stddef.h>

#include "model/names.h"

/* By the index in attempt_usage.counters. */
extern const struct names counter_names;
/* What the counter at this index counts, a few words; NULL past the last. */
const char *counter_help(size_t index);
