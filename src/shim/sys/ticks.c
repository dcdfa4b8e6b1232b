
#include "shim/sys/ticks.h"

__attribute__((visibility("default"))) struct ticks gpumux_ticks;

__attribute__((visibility("default"))) uint64_t gpumux_ticks_now(void)
{
    return clock_ticks();
}
