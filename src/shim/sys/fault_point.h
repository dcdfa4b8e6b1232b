/*
 * Points at which a test can kill the process: between any two steps of the accounting. Only the
 * library that the tests build with GPUMUX_FAULT_POINTS contains fault points.
 */
#pragma once

#ifdef GPUMUX_FAULT_POINTS
/* Kills the process by SIGKILL at the Nth call if the environment contains GPUMUX_FAULT_AT=N. */
void fault_point(void);
#define FAULT_POINT() fault_point()
#else
#define FAULT_POINT() ((void)0)
#endif
