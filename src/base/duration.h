/* Durations in the unit that a person would choose. */
#pragma once

enum { DURATION_TEXT_MAX = 32 };

struct duration_unit {
    const char *name; /* "s", "min", "h", "d" */
    double seconds;
};

/* Returns the largest unit in which `seconds` is at least 3; "s" if there is none. */
const struct duration_unit *duration_unit_for(double seconds);
/* Writes "13.5 min" or "45 s"; writes "-" for NaN and infinity. */
void duration_text(double seconds, char text[DURATION_TEXT_MAX]);
