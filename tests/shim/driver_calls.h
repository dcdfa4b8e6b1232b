/* For programs that test the shim: the driver's functions, by name and type, found by dlsym. */
#pragma once
#include "shim/hook/calls.h"

/* Loads all functions of api/cuda_calls.def, each behind a wrapper that records its results; NULL
 * where the driver lacks the function. Ends the program if there is no driver. Call once, before
 * the program forks: the calls of its children count as its own. */
void driver_calls_load(struct real_calls *ret_calls);

/* Appends a line "SYMBOL RESULT" to the file for each intercepted call that was made: "granted" if
 * any call succeeded, else "lacked" if any call was not supported, else "refused". Returns false if
 * the file cannot be written. */
bool driver_calls_write(const char *path);
