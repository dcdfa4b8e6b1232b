/* For programs that the shim is tested with: the driver's functions, by name and type, as
 * dlsym has them. */
#pragma once
#include "shim/hook/calls.h"

/* All of api/cuda_calls.def, each by way of a function that notes how it was answered; NULL where
 * the driver has none. Ends the program if there is no driver. Once in a program, before it forks:
 * its children's calls count as its own. */
void driver_calls_load(struct real_calls *ret_calls);

/* Adds a line "SYMBOL ANSWERED" to the file for each intercepted call that was made: "granted" if
 * any call of it succeeded, else "lacked" if any was answered with not supported, else "refused".
 * False: the file cannot be written. */
bool driver_calls_write(const char *path);
