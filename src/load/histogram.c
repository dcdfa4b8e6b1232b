#include "load/histogram.h"

#include <math.h>

enum { PARTS = 1 << HISTOGRAM_PART_BITS };

static size_t bucket_of(int64_t ns)
{
    if (ns < PARTS)
        return (size_t)ns;
    int bit = 63 - __builtin_clzll((unsigned long long)ns);
    int shift = bit - HISTOGRAM_PART_BITS;
    return ((size_t)(shift + 1) << HISTOGRAM_PART_BITS) + (size_t)((ns >> shift) & (PARTS - 1));
}

int64_t histogram_low(size_t bucket)
{
    size_t octave = bucket >> HISTOGRAM_PART_BITS;
    if (octave == 0)
        return (int64_t)bucket;
    return (int64_t)(PARTS + (bucket & (PARTS - 1))) << (octave - 1);
}

int64_t histogram_high(size_t bucket)
{
    return histogram_low(bucket + 1);
}

void histogram_add(struct histogram *h, int64_t ns)
{
    const int64_t most = ((int64_t)1 << (HISTOGRAM_LARGEST_BIT + 1)) - 1;
    ns = ns < 0 ? 0 : ns > most ? most : ns;
    h->least_ns = h->count == 0 || ns < h->least_ns ? ns : h->least_ns;
    h->most_ns = ns > h->most_ns ? ns : h->most_ns;
    h->sum_ns += (double)ns;
    h->count++;
    h->buckets[bucket_of(ns)]++;
}

void histogram_merge(struct histogram *h, const struct histogram *from)
{
    if (from->count == 0)
        return;
    h->least_ns = h->count == 0 || from->least_ns < h->least_ns ? from->least_ns : h->least_ns;
    h->most_ns = from->most_ns > h->most_ns ? from->most_ns : h->most_ns;
    h->sum_ns += from->sum_ns;
    h->count += from->count;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        h->buckets[i] += from->buckets[i];
}

int64_t histogram_quantile(const struct histogram *h, double part)
{
    uint64_t rank = (uint64_t)ceil(fmin(fmax(part, 0), 1) * (double)h->count), below = 0;
    if (rank <= 1)
        return h->least_ns;
    if (rank >= h->count)
        return h->most_ns;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        below += h->buckets[i];
        if (below < rank)
            continue;
        int64_t middle = histogram_low(i) + (histogram_high(i) - histogram_low(i)) / 2;
        return middle < h->least_ns ? h->least_ns : middle > h->most_ns ? h->most_ns : middle;
    }
    return h->most_ns;
}

double histogram_mean(const struct histogram *h)
{
    return h->count > 0 ? h->sum_ns / (double)h->count : 0;
}
