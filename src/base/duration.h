/* Lengths of time in the unit that people would say them in. */
#pragma once
#include <stddef.h>

enum { DURATION_TEXT_MAX = 32 };

struct duration_unit {
    const char *name; /* "s", "min", "h", "d" */
    double seconds;
};

/* The largest in which a typical time is at least 3. */
const struct duration_unit *duration_unit_for(double seconds);
/* "13.5 min", "45 s"; "-" of what is no number. */
void duration_text(double seconds, char text[DURATION_TEXT_MAX]);
