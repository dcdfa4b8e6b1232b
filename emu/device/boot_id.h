/* Which boot of the machine this is: files that hold boot-relative times are worthless in another.
 */
#pragma once
#include "emu/device/state.h"

/* Zero-padded; all zero where the system does not tell. */
void boot_id_read(char ret_id[EMU_BOOT_ID_MAX]);
