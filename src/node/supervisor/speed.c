#include "node/supervisor/speed.h"

bool speed_report(struct speed *s, uint64_t samples, int64_t now_ms, double *ret_samples_per_s)
{
    bool comparable = s->begun && samples >= s->samples;
    if (comparable && now_ms - s->at_ms < SPEED_SPAN_MS)
        return false;
    if (comparable)
        *ret_samples_per_s = 1000.0 * (double)(samples - s->samples) / (double)(now_ms - s->at_ms);
    *s = (struct speed){.begun = true, .samples = samples, .at_ms = now_ms};
    return comparable;
}
