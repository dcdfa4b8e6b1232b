/* For programs that the shim is tested with: the driver's functions, by name and type, as dlsym has them. */
#pragma once
#include "shim/calls.h"

/* All of api/cuda_calls.def; NULL where the driver has none. Ends the program if there is no driver. */
void driver_calls_load(struct real_calls *ret_calls);
