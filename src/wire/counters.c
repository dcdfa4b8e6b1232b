#include "wire/counters.h"

#include "abi/page.h"
#include "base/str.h"
#include "model/node.h"

_Static_assert((int)PAGE_COUNTERS_MAX == (int)USAGE_COUNTERS_MAX,
               "a usage has room for a page's counters");

static const struct {
    const char *name, *help;
} counters[] = {
#define COUNTER(name, what) [STATUS_##name] = {#name, what},
#include "abi/counters.def"
#undef COUNTER
};

const char *counter_name(size_t index)
{
    return index < STATUS_COUNTER_COUNT ? counters[index].name : NULL;
}

const char *counter_help(size_t index)
{
    return index < STATUS_COUNTER_COUNT ? counters[index].help : NULL;
}

int counter_find(const char *name)
{
    for (int i = 0; i < (int)STATUS_COUNTER_COUNT; i++)
        if (str_equal(name, counters[i].name))
            return i;
    return -1;
}
