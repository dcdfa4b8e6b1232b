/* The identity of the machine's current boot. Times since boot in a file are invalid after a
 * reboot. */
#pragma once
#include "emu/device/state.h"

/* Reads the identity, zero-padded; all zero if the system has no boot identity. */
void boot_id_read(char ret_id[EMU_BOOT_ID_MAX]);
