/*
 * The files by which the process has its devices: what the driver keeps open of /dev/nvidia*, or of
 * the emulated devices.
 */
#pragma once
#include <stddef.h>

/* Descriptors of the process that are such files, at most `max` of them. Returns how many. They may
 * be closed by another thread at any time. */
size_t files_of_devices(int *ret_fds, size_t max);
