#include "model/names.h"

#include "base/error.h"
#include "base/str.h"

const char *names_get(const struct names *names, int value)
{
    return value >= 0 && value < names->count ? names->items[value] : "?";
}

int names_find(const struct names *names, const char *name)
{
    for (int i = 0; i < names->count; i++)
        if (str_equal(name, names->items[i]))
            return i;
    return -ERR_INVALID;
}
