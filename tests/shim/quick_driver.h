/* What quick_close.c sees and sets of its driver, quick_driver.c. */
#pragma once
#include <stdint.h>

struct quick_driver {
    _Atomic uint64_t launches, launches_ex; /* the second: by cuLaunchKernelEx */
    _Atomic uint64_t asked;                 /* which context is current */
    _Atomic uint64_t measured;              /* times between two events */
    _Atomic uint32_t kernel_ns;             /* what measurements say */
    _Atomic uint32_t refuses;               /* to destroy contexts */
    void (*_Atomic on_mark)(void);          /* called once, when the next mark is written */
};

/* In the driver's library. */
struct quick_driver *quick_driver(void);
