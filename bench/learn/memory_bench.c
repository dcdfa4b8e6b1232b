/*
 * memory_bench: reads lines "model batch mib" from standard input, leaves out each in turn and
 * prints "model batch mib predicted booked inside" (in MiB; inside: 1 if the batch size lies
 * between others of its model), then "us=" the time of one fit.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "learn/memory.h"

enum { LINES_MAX = 256, NAME_BYTES = 32, TIMES = 1000 };

struct line {
    char model[NAME_BYTES];
    unsigned batch;
    double mib;
};

static const double mib_bytes = 1 << 20;

static void fit_without(const struct line *lines, size_t count, size_t out,
                        struct memory_model *ret_model)
{
    *ret_model = (struct memory_model){0};
    for (size_t i = 0; i < count; i++)
        if (i != out && strcmp(lines[i].model, lines[out].model) == 0)
            (void)memory_observe(ret_model, lines[i].batch, (uint64_t)(lines[i].mib * mib_bytes));
}

int main(void)
{
    static struct line lines[LINES_MAX];
    struct memory_model m;
    size_t count = 0, fits = 0;
    while (count < LINES_MAX &&
           scanf("%31s %u %lf", lines[count].model, &lines[count].batch, &lines[count].mib) == 3)
        count++;
    for (size_t i = 0; i < count; i++) {
        fit_without(lines, count, i, &m);
        printf("%s %u %.0f %.6f %.6f %d\n", lines[i].model, lines[i].batch, lines[i].mib,
               (double)memory_predict(&m, lines[i].batch) / mib_bytes,
               (double)memory_booking(&m, lines[i].batch) / mib_bytes,
               m.count > 0 && lines[i].batch > m.samples[0].batch &&
                   lines[i].batch < m.samples[m.count - 1].batch);
    }
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    for (size_t time = 0; time < TIMES && count > 0; time++) {
        fit_without(lines, count, time % count, &m);
        fits += m.count; /* every observation fits again */
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    double us = (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
    printf("us=%.3f\n", fits > 0 ? us / (double)fits : 0);
    return 0;
}
