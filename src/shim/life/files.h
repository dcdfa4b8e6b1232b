/*
 * The files through which the process uses its devices: the driver's open files below /dev/nvidia*,
 * or the files of emulated devices.
 */
#pragma once
#include <stddef.h>

/* Finds at most `max` descriptors of such files. Returns their number. Another thread may close a
 * descriptor at any time. */
size_t files_of_devices(int *ret_fds, size_t max);
