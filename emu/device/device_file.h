/*
 * The file behind a set of emulated devices: everything that their clients share. Every process
 * that uses a device maps it; the one that starts the emulation creates it. It is sparse (about
 * 250 MB of addresses a device, some hundred kilobytes of pages) and is best kept on a file system
 * in memory, such as $XDG_RUNTIME_DIR or /dev/shm. Clients find it by the environment variable
 * GPUMUX_EMU. It ends with its last user: delete the file and nothing is left.
 *
 * A specification of devices: parts separated by commas, each `[N x] MODEL [: MEMORY]` or just N,
 * without the spaces: "4xH200:24g", "2", "RTX3090", "2xA100,T4:8g". The model defaults to H200;
 * MEMORY, in m or g (binary), cuts the model's memory and cannot add to it.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

enum { EMU_DEVICES_MAX = 64 };

struct emu_device_options {
    double speed;           /* emulated seconds a second: 0.001 … 10000 */
    bool shared;            /* clients overlap as under MPS, instead of taking turns */
    uint64_t context_bytes; /* device memory that a process takes by having a context there */
};

/* GPUMUX_EMU_SPEED (default 1), GPUMUX_EMU_MODE (`sliced`, the default, or `shared`) and
 * GPUMUX_EMU_CONTEXT_MIB (default 0). -ERR_INVALID names the variable at fault. */
int emu_device_options_from_environment(struct error *e, struct emu_device_options *ret_options);

/* Creates the file, mode 0600; one that is there is replaced, and who still uses that one goes on
 * with the old devices. Their UUIDs are new. options of NULL: speed 1, time-sliced,
 * contexts for nothing.
 * -ERR_INVALID (the specification or an option), -ERR_IO. */
int emu_device_file_create(struct error *e, const char *path, const char *spec,
                           const struct emu_device_options *options);

/* Checks a specification without creating anything; ret_count may be NULL. */
int emu_device_spec_check(struct error *e, const char *spec, unsigned *ret_count);
