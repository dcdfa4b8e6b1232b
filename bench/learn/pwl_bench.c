/*
 * pwl_bench SAMPLES: reads lines of SAMPLES "share latency" pairs from standard input; prints
 * "knee_share knee_latency left_slope right_slope" of each, then "us=" the mean time of a fit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "learn/pwl.h"

int main(int argc, char **argv)
{
    size_t count = argc == 2 ? strtoul(argv[1], NULL, 10) : 0, curves = 0;
    struct pwl_sample samples[PWL_SAMPLES_MAX];
    double us = 0;
    if (count < PWL_SAMPLES_MIN || count > PWL_SAMPLES_MAX)
        return 2;
    for (;;) {
        for (size_t i = 0; i < count; i++)
            if (scanf("%lf %lf", &samples[i].share_percent, &samples[i].latency) != 2) {
                printf("us=%.3f\n", curves > 0 ? us / (double)curves : 0);
                return 0;
            }
        struct timespec a, b;
        struct pwl_curve c;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
        if (pwl_fit(samples, count, &c) < 0)
            return 1;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
        us += (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
        curves++;
        printf("%.17g %.17g %.17g %.17g\n", c.knee_share, c.knee_latency, c.left_slope,
               c.right_slope);
    }
}
