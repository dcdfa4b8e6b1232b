/* The identity of the machine's current boot. A file with times since boot is useless in another
 * boot. */
#pragma once
#include "emu/device/state.h"

/* Reads the identity, zero-padded; all zero where the system has none. */
void boot_id_read(char ret_id[EMU_BOOT_ID_MAX]);
