#include "wire/counters.h"

#include "abi/page.h"
#include "model/node.h"

_Static_assert((int)PAGE_COUNTERS_MAX == (int)USAGE_COUNTERS_MAX,
               "a usage has room for a page's counters");

static const char *const names[] = {
#define COUNTER(name, what) [STATUS_##name] = #name,
#include "abi/counters.def"
#undef COUNTER
};
const struct names counter_names = {STATUS_COUNTER_COUNT, names};
