/*
 * What goes wrong on a device, and whom it reaches. Errors are CUDA results; a client keeps its
 * first one for good (emu_client.sticky_error): its work is dropped, its calls answer with it, its
 * memory is given back when it leaves.
 *
 * Clients of an MPS server share their fate: an error in the work of one is given to all, and the
 * server takes nobody new before they have left. Clients that only overlap (emu_mps.is_implied)
 * have no server and do not.
 *
 * All calls: under the device's lock, at the present time.
 */
#pragma once
#include <stdint.h>

#include "emu/device/device.h"

/* What a dead MPS client may have had outstanding without harm to its neighbours, emulated. */
#define FAULT_OUTSTANDING_NS_MAX UINT64_C(100000000)

enum fault_xid {
    XID_MMU_FAULT = 31,
    XID_DOUBLE_BIT = 48,
    XID_ROW_REMAP = 63,
    XID_LOST = 79,
    XID_CONTAINED = 94,
    XID_UNCONTAINED = 95,
};

/* The error is in the work of the client in `slot`, and reaches those who share its fate. xid: what
 * the driver reports, or 0. */
void fault_strike(struct device *device, unsigned slot, uint32_t error, uint32_t xid);
/* Every client of the device gets the error. */
void fault_strike_all(struct device *device, uint32_t error);
/* This client alone gets it. */
void fault_end_client(struct device *device, unsigned slot, uint32_t error);
/* The client in `slot` has died with its slot: its neighbours too, if it left too much work. */
void fault_check_left(struct device *device, unsigned slot);

/* Remembers an error of the driver, and wakes who waits for such. */
void fault_report_xid(struct device *device, uint32_t xid, int32_t pid);
/* An uncorrectable ECC error. slot: whose memory it was in, and then it stays with that client and
 * those who share its fate; or DEVICE_NO_SLOT: every client is hit. */
void fault_ecc(struct device *device, int slot);
/* The device falls off the bus; is_told: and the driver tells of it. */
void fault_lose(struct device *device, bool is_told);
/* Clocks are lowered by that part, for those reasons (NVML's bits); 0 and 0: no more. */
void fault_slow(struct device *device, uint32_t lowered_permille, uint64_t reasons);
/* As after a reset of the device: it is there, runs at full clock, its errors since the last reset
 * are forgotten, rows that waited for it are remapped. */
void fault_reset(struct device *device);

/* How long an operation takes with the clocks as they are. */
uint64_t fault_stretch_ns(const struct emu_device *state, uint64_t duration_ns);
