/*
 * The device file, opened and mapped, and its clock. Emulated time is a property of the file: the
 * time is the same for every process, and runs `speed` times as fast as CLOCK_MONOTONIC.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"
#include "emu/device/state.h"

struct mapping {
    struct emu_file *file; /* start of the mapping, and base of undo positions */
    size_t bytes;
    int fd; /* close-on-exec; a forked child closes its copy (claim.h explains why) */
};

/* Maps the file at `path`. Errors: -ERR_NOT_FOUND, -ERR_CORRUPT (no device file), -ERR_TOO_NEW
 * (another version), -ERR_GONE (made before the last boot), -ERR_IO. */
int mapping_open(struct error *e, const char *path, struct mapping *ret_mapping);
/* Maps the file that GPUMUX_EMU names or, without that variable, the user's own file. Creates the
 * user's file if it does not exist or was created for another GPUMUX_EMU_DEVICES. Returns
 * -ERR_NO_DEVICE if neither variable is set. */
int mapping_open_from_environment(struct error *e, struct mapping *ret_mapping);

/* Closes the file. The claims of this process (claim.h) end with its descriptor. */
void mapping_close(struct mapping *mapping);

struct emu_device *mapping_device(const struct mapping *mapping, unsigned index);
/* Returns the present emulated time. */
uint64_t mapping_now_ns(const struct mapping *mapping);
/* Returns the CLOCK_MONOTONIC time of the emulated time `emulated_ns`. */
uint64_t mapping_real_ns(const struct mapping *mapping, uint64_t emulated_ns);

/* Returns the count of alarms. A sleeper reads the count before checking whether to sleep. */
uint32_t mapping_alarms(const struct mapping *mapping);
/* Raises the count by one and wakes every sleeper of the file. */
void mapping_alarm(const struct mapping *mapping);
/* Sleeps until CLOCK_MONOTONIC is `until_mono_ns`, or the count of alarms is no longer `alarms`. A
 * signal may end the sleep. */
void mapping_sleep(const struct mapping *mapping, uint32_t alarms, uint64_t until_mono_ns);
