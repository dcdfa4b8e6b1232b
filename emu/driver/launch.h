/*
 * The cost of a launch.
 *
 * The kernel of workloads/ states its cost: an entry point `gpumux_burn` whose first parameters are
 * (.u32 sm_permille, .u32 dram_permille, .u64 duration_ns) takes that part of the SMs and of the
 * memory bandwidth when it runs alone, and each of its blocks takes that time. One block runs on an
 * SM at a time: a grid of several times as many blocks takes several times as long.
 *
 * Of any other kernel only the grid is known. A block is assumed to take 10 µs on an SM that holds
 * eight blocks, at a tenth of the memory bandwidth. The kernel then takes blocks ÷ SMs of the SMs,
 * at most all, and 10 µs for each started wave.
 *
 * The kernel `gpumux_illegal_address` takes no time and ends its client as an illegal address does.
 * The PTX with this name should access an illegal address, for real devices.
 */
#pragma once
#include <stdbool.h>

#include "emu/driver/ptx.h"

bool launch_is_burn(const struct ptx_entry *entry);
bool launch_is_illegal(const struct ptx_entry *entry);
