/* The names of what a process counts for itself (abi/counters.def), as messages, API and metrics have them. */
#pragma once
#include <stddef.h>

/* Of the counter at this index of attempt_usage.counters; NULL past the last. */
const char *counter_name(size_t index);
/* What it counts, a few words. */
const char *counter_help(size_t index);
/* The index of the counter of this name, or -1: one of a newer version. */
int counter_find(const char *name);
