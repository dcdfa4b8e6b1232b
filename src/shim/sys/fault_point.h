/*
 * Places at which a test can have the process killed: between any two steps of the accounting. Only
 * in the library that the tests build with GPUMUX_FAULT_POINTS; elsewhere there is nothing.
 */
#pragma once

#ifdef GPUMUX_FAULT_POINTS
/* Kills the process by SIGKILL at the point that the environment names: GPUMUX_FAULT_AT=N, the Nth
 * that is passed. */
void fault_point(void);
#define FAULT_POINT() fault_point()
#else
#define FAULT_POINT() ((void)0)
#endif
