/*
 * The cost of a launch.
 *
 * The kernel of workloads/ states its cost. An entry point `gpumux_burn` with the first parameters
 * (.u32 sm_permille, .u32 dram_permille, .u64 duration_ns) takes that part of the SMs and of the
 * memory bandwidth when the kernel runs alone, and each of its blocks takes duration_ns. One block
 * runs on an SM at a time: several times as many blocks take several times as long.
 *
 * The emulator estimates the cost of any other kernel from its grid. The estimate assumes that a
 * block takes 10 µs on an SM with room for eight blocks, at a tenth of the memory bandwidth. The
 * kernel then uses the fraction blocks ÷ SMs of the SMs, at most all, and takes 10 µs for each
 * started wave.
 *
 * The kernel `gpumux_illegal_address` takes no time and ends its client as an illegal address does.
 * On real devices, the PTX code of this kernel should access an illegal address.
 */
#pragma once
#include <stdbool.h>

#include "emu/driver/ptx.h"

bool launch_is_burn(const struct ptx_entry *entry);
bool launch_is_illegal(const struct ptx_entry *entry);
