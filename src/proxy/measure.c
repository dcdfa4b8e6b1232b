#include "proxy/measure.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* CONTROL_REQUESTS_MAX has 10 digits, as has the shortest latency of the last place. */
static_assert(MEASURE_LINE_MAX >= 10 + 1 + 10 + 1 + 1, "a line fits");

void measure_add(struct measure *m, enum control_time time, int64_t us, uint32_t count)
{
    uint32_t *place = &m->counts[time][control_latency_place(us > 0 ? (uint64_t)us : 0)];
    if (count > CONTROL_REQUESTS_MAX - *place)
        count = (uint32_t)CONTROL_REQUESTS_MAX - *place;
    *place += count;
    m->waiting[time] += count;
}

void measure_spread(struct measure *m, enum control_time time, uint64_t low_us, uint64_t high_us,
                    uint32_t count)
{
    if (high_us <= low_us) {
        measure_add(m, time, (int64_t)low_us, count);
        return;
    }
    uint32_t given = 0;
    double width = (double)(high_us - low_us);
    for (unsigned place = control_latency_place(low_us); given < count; place++) {
        bool is_last =
            place == CONTROL_LATENCY_PLACES - 1 || control_latency_us(place + 1) >= high_us;
        double part = is_last ? 1 : (double)(control_latency_us(place + 1) - low_us) / width;
        uint32_t until = is_last ? count : (uint32_t)(part * (double)count + 0.5);
        if (until > given)
            measure_add(m, time, (int64_t)control_latency_us(place), until - given);
        given = until > given ? until : given;
        if (is_last)
            break;
    }
}

size_t measure_write(const struct measure *m, enum control_time time,
                     char packet[MEASURE_PACKET_MAX])
{
    if (m->waiting[time] == 0)
        return 0;
    size_t length = (size_t)snprintf(packet, MEASURE_PACKET_MAX, "%s\n", control_time_word(time));
    for (unsigned place = 0; place < CONTROL_LATENCY_PLACES; place++)
        if (m->counts[time][place])
            length += (size_t)snprintf(packet + length, MEASURE_PACKET_MAX - length,
                                       "%" PRIu64 " %" PRIu32 "\n", control_latency_us(place),
                                       m->counts[time][place]);
    return length;
}

void measure_clear(struct measure *m, enum control_time time)
{
    memset(m->counts[time], 0, sizeof m->counts[time]);
    m->waiting[time] = 0;
}
