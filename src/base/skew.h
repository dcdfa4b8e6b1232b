/* Compatible versions of gpumux's parts: equal major versions, minor versions at most one apart. */
#pragma once
#include <stdbool.h>

/* Versions are "major.minor.patch"; returns false for any other format. */
bool skew_is_allowed(const char *mine, const char *theirs);
