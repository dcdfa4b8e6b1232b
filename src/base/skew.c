#include "base/skew.h"

#include <stdio.h>
#include <stdlib.h>

static bool parse(const char *text, int *ret_major, int *ret_minor)
{
    int patch, end = 0;
    return sscanf(text, "%5d.%5d.%5d%n", ret_major, ret_minor, &patch, &end) == 3 && end > 0;
}

bool skew_is_allowed(const char *mine, const char *theirs)
{
    int major[2], minor[2];
    return parse(mine, &major[0], &minor[0]) && parse(theirs, &major[1], &minor[1]) &&
           major[0] == major[1] && abs(minor[0] - minor[1]) <= 1;
}
