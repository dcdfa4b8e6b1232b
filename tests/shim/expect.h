/* What the programs of these tests expect: each failure is told on standard output, and counted. */
#pragma once
#include <stdio.h>

static _Atomic int failures;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                         \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)
