/* Which versions of gpumux's parts work together: the same major, minors at most one apart. */
#pragma once
#include <stdbool.h>

/* Versions are "major.minor.patch"; what is not one is not allowed. */
bool skew_is_allowed(const char *mine, const char *theirs);
