/* Expectations of the test programs: each failure is printed to standard output and counted. */
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
