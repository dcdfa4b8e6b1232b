#include "base/duration.h"

#include <math.h>
#include <stdio.h>

static const struct duration_unit units[] = {{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
static const double least = 3; /* smallest number of units that are shown */

const struct duration_unit *duration_unit_for(double seconds)
{
    size_t unit = 0;
    while (unit + 1 < sizeof units / sizeof *units && seconds / units[unit + 1].seconds >= least)
        unit++;
    return &units[unit];
}

void duration_text(double seconds, char text[DURATION_TEXT_MAX])
{
    const struct duration_unit *unit = duration_unit_for(seconds);
    double value = seconds / unit->seconds;
    if (!isfinite(seconds))
        (void)snprintf(text, DURATION_TEXT_MAX, "-");
    else if (fabs(value) < 1e9)
        (void)snprintf(text, DURATION_TEXT_MAX, "%.*f %s", fabs(value) < 99.95 ? 1 : 0, value,
                       unit->name);
    else
        (void)snprintf(text, DURATION_TEXT_MAX, "%.2e %s", value, unit->name);
}
