/* The interface between rare_program.c and its driver, rare_driver.c. */
#pragma once
#include "shim/hook/calls.h"

enum {
    RARE_ARGUMENTS_MAX = 9,
    RARE_SMS = 100 /* SMs of device 0; each further device has one more */
};

/* Memory that the driver reports: less than old calls can represent, and more than any quota of
 * this test. */
#define RARE_TOTAL_BYTES (3U << 30)
#define RARE_FREE_BYTES  (RARE_TOTAL_BYTES - (5U << 20))

/* The driver's settings, and its record of calls. */
struct rare_driver {
    /* Result of the calls below; a result other than CUDA_SUCCESS changes nothing. */
    CUresult answer;
    int not_ready;      /* number of calls that first fail with CUDA_ERROR_MPS_SERVER_NOT_READY */
    uint64_t noted;     /* calls so far, of those that the shim hooks */
    const char *symbol; /* symbol of the last call; below, its arguments */
    int count;
    uint64_t arguments[RARE_ARGUMENTS_MAX];
};

/* Found in the driver by this name. */
struct rare_driver *rare_driver(void);

/* RARE_WORDS(a, b): each argument, a number or a pointer, as a uint64_t. */
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
