/*
 * The device file, opened and mapped, and its clock. Emulated time is a property of the file: it is
 * the same for every process, and runs `speed` times as fast as CLOCK_MONOTONIC.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"
#include "emu/device/state.h"

struct mapping {
    struct emu_file *file; /* also the base of undo positions */
    size_t bytes;
    int fd; /* close-on-exec; a forked child closes its copy (client.h says why) */
};

/* Maps the file at `path`. -ERR_NOT_FOUND, -ERR_CORRUPT (not such a file), -ERR_TOO_NEW (another
 * version), -ERR_GONE (made before the last boot), -ERR_IO. */
int mapping_open(struct error *e, const char *path, struct mapping *ret_mapping);
/* The file that the environment names: GPUMUX_EMU, or else the user's own, which is made when it is
 * not there or was made for another GPUMUX_EMU_DEVICES. -ERR_NO_DEVICE when neither variable is
 * set. */
int mapping_open_from_environment(struct error *e, struct mapping *ret_mapping);

/* Undoes it. A client's slots (client.h) end with its descriptor. */
void mapping_close(struct mapping *mapping);

struct emu_device *mapping_device(const struct mapping *mapping, unsigned index);
/* Emulated time now. */
uint64_t mapping_now_ns(const struct mapping *mapping);
/* CLOCK_MONOTONIC when it will be `emulated_ns`. */
uint64_t mapping_real_ns(const struct mapping *mapping, uint64_t emulated_ns);

/* Alarms: a count that a sleeper reads before it looks whether it may sleep. */
uint32_t mapping_alarms(const struct mapping *mapping);
/* Counts one more and wakes every sleeper of the file. */
void mapping_alarm(const struct mapping *mapping);
/* Sleeps until CLOCK_MONOTONIC is `until_mono_ns`, or the count is not `alarms` any more. A signal
 * may end it. */
void mapping_sleep(const struct mapping *mapping, uint32_t alarms, uint64_t until_mono_ns);
