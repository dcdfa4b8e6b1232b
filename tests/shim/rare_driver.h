/* What rare_program.c and the driver it runs with, rare_driver.c, know of each other. */
#pragma once
#include "shim/hook/calls.h"

enum { RARE_ARGUMENTS_MAX = 9, RARE_SMS = 100 /* of device 0; each further one has one more */ };

/* What the driver says of its memory: less than old calls can count to, and more than any
 * quota here. */
#define RARE_TOTAL_BYTES (3U << 30)
#define RARE_FREE_BYTES  (RARE_TOTAL_BYTES - (5U << 20))

/* What the driver is told, and tells. */
struct rare_driver {
    CUresult answer; /* to the calls below; all but CUDA_SUCCESS leave everything as it is */
    int not_ready;   /* so many of them are first answered with CUDA_ERROR_MPS_SERVER_NOT_READY */
    uint64_t noted;  /* how many calls there were, of those that the shim does something about */
    const char *symbol; /* of the last one, and what it was called with */
    int count;
    uint64_t arguments[RARE_ARGUMENTS_MAX];
};

/* The driver's, to be found by this name. */
struct rare_driver *rare_driver(void);

/* RARE_WORDS(a, b): each as a uint64_t, be it a number or a pointer. */
#define RARE_WORD(a) (uint64_t)(uintptr_t)(a)

#define RARE_WORDS(...) CALL_OF_COUNT(RARE_WORDS_, CALL_COUNT(__VA_ARGS__))(__VA_ARGS__)

#define RARE_WORDS_1(a)                         RARE_WORD(a)
#define RARE_WORDS_2(a, b)                      RARE_WORDS_1(a), RARE_WORD(b)
#define RARE_WORDS_3(a, b, c)                   RARE_WORDS_2(a, b), RARE_WORD(c)
#define RARE_WORDS_4(a, b, c, d)                RARE_WORDS_3(a, b, c), RARE_WORD(d)
#define RARE_WORDS_5(a, b, c, d, e)             RARE_WORDS_4(a, b, c, d), RARE_WORD(e)
#define RARE_WORDS_6(a, b, c, d, e, f)          RARE_WORDS_5(a, b, c, d, e), RARE_WORD(f)
#define RARE_WORDS_7(a, b, c, d, e, f, g)       RARE_WORDS_6(a, b, c, d, e, f), RARE_WORD(g)
#define RARE_WORDS_8(a, b, c, d, e, f, g, h)    RARE_WORDS_7(a, b, c, d, e, f, g), RARE_WORD(h)
#define RARE_WORDS_9(a, b, c, d, e, f, g, h, i) RARE_WORDS_8(a, b, c, d, e, f, g, h), RARE_WORD(i)
