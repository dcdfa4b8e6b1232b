#include "node/supervisor/latency.h"

#include <string.h>

enum { SECOND_MS = 1000, DIGITS_MAX = 18 };

/* Parses at most DIGITS_MAX digits at *at, which is advanced. */
static bool take_number(const char **at, const char *end, uint64_t *ret)
{
    uint64_t number = 0;
    const char *begin = *at;
    for (; *at < end && **at >= '0' && **at <= '9' && *at - begin <= DIGITS_MAX; (*at)++)
        number = number * 10 + (uint64_t)(**at - '0');
    *ret = number;
    return *at > begin && *at - begin <= DIGITS_MAX;
}

static bool take_line(const char **at, const char *end, uint64_t *ret_us, uint64_t *ret_count)
{
    if (!take_number(at, end, ret_us) || *at == end || *(*at)++ != ' ' ||
        !take_number(at, end, ret_count) || *ret_count > CONTROL_REQUESTS_MAX)
        return false;
    return *at == end || *(*at)++ == '\n';
}

static uint32_t *counts_of(struct latency *l, int64_t now_ms)
{
    int64_t second = now_ms / SECOND_MS;
    size_t i = (size_t)(second % LATENCY_SECONDS);
    if (l->second[i] != second)
        memset(l->counts[i], 0, sizeof l->counts[i]);
    l->second[i] = second;
    return l->counts[i];
}

static bool is_late(const struct latency *l, unsigned place)
{
    uint64_t middle_us = (control_latency_us(place) + control_latency_us(place + 1)) / 2;
    return l->target_us > 0 && middle_us > l->target_us;
}

bool latency_report(struct latency *l, const char *lines, size_t length, int64_t now_ms)
{
    uint64_t us, count;
    const char *end = lines + length, *at = lines;
    int line_count = 0;
    for (; at < end; line_count++)
        if (line_count == CONTROL_LATENCIES_MAX || !take_line(&at, end, &us, &count))
            return false;
    uint32_t *counts = counts_of(l, now_ms);
    for (at = lines; at < end && take_line(&at, end, &us, &count);) {
        uint32_t *place = &counts[control_latency_place(us)];
        l->answered += count;
        l->late += is_late(l, control_latency_place(us)) ? count : 0;
        *place = *place + count < UINT32_MAX ? (uint32_t)(*place + count) : UINT32_MAX;
    }
    return line_count > 0;
}

static uint64_t percentile_of(const struct latency *l, double percentile, int64_t now_ms,
                              int64_t seconds, uint64_t *ret_requests)
{
    uint64_t sums[CONTROL_LATENCY_PLACES] = {0}, all = 0, seen = 0;
    int64_t newest = now_ms / SECOND_MS;
    for (size_t i = 0; i < LATENCY_SECONDS; i++)
        for (unsigned k = 0; k < CONTROL_LATENCY_PLACES; k++)
            if (l->second[i] <= newest && l->second[i] >= newest - seconds) {
                sums[k] += l->counts[i][k];
                all += l->counts[i][k];
            }
    *ret_requests = all;
    double wanted = (double)all * percentile / 100;
    for (unsigned k = 0; all > 0 && k < CONTROL_LATENCY_PLACES; k++) {
        if (sums[k] > 0 && (double)(seen + sums[k]) >= wanted) {
            double part = (wanted - (double)seen) / (double)sums[k];
            uint64_t low = control_latency_us(k), high = control_latency_us(k + 1);
            uint64_t us = low + (uint64_t)(part * (double)(high - low));
            return us > 0 ? us : 1;
        }
        seen += sums[k];
    }
    return 0;
}

void latency_measure(const struct latency *l, double percentile, int64_t now_ms,
                     struct control_latency *ret)
{
    uint64_t ignored;
    ret->answered = l->answered;
    ret->late = l->late;
    ret->us_5s = percentile_of(l, percentile, now_ms, LATENCY_SOFT_MS / SECOND_MS, &ignored);
    ret->us_10s =
        percentile_of(l, percentile, now_ms, LATENCY_HARD_MS / SECOND_MS, &ret->requests_10s);
}

bool latency_is_due(struct latency *l, int64_t now_ms)
{
    bool due = l->told_ms == 0 || now_ms - l->told_ms >= LATENCY_EVERY_MS;
    if (due)
        l->told_ms = now_ms;
    return due;
}
