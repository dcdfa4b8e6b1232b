/*
 * What a launch costs.
 *
 * The kernel of workloads/ says it itself: an entry point `gpumux_burn` whose first parameters are
 * (.u32 sm_permille, .u32 dram_permille, .u64 duration_ns) takes that part of the SMs and of the
 * memory bandwidth, when it is alone, and each of its blocks takes that long. One block an SM runs
 * at a time: a grid of several times as many takes several times as long.
 *
 * Of any other kernel nothing is known but its grid. A block counts as 10 µs on an SM that holds
 * eight blocks, at a tenth of the memory bandwidth: blocks ÷ SMs of the SMs (at most all), and 10
 * µs for each full wave begun.
 *
 * One kernel goes wrong: `gpumux_illegal_address` takes no time and ends its client as an illegal
 * address does. The PTX that carries the name should really do one, for real devices.
 */
#pragma once
#include <stdbool.h>

#include "emu/driver/ptx.h"

bool launch_is_burn(const struct ptx_entry *entry);
bool launch_is_illegal(const struct ptx_entry *entry);
