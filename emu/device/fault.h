/*
 * The faults of a device, and the clients that each fault reaches. Errors are CUDA results. A
 * client keeps its first error for good (emu_client.sticky_error): its work is dropped, its calls
 * return the error, and its memory is freed when the client leaves.
 *
 * Clients of an MPS server share their fate: an error in the work of one client reaches all
 * clients, and the server accepts no new client until all have left. Clients that only overlap
 * (emu_mps.is_implied) have no server and do not share their fate.
 *
 * Call every function under the device's lock, with the device advanced to the present.
 */
#pragma once
#include <stdint.h>

#include "emu/device/device.h"

/* Largest outstanding work, in emulated ns, that is harmless to neighbours of a dying MPS
 * client. */
#define FAULT_OUTSTANDING_NS_MAX UINT64_C(100000000)

enum fault_xid {
    XID_MMU_FAULT = 31,
    XID_DOUBLE_BIT = 48,
    XID_ROW_REMAP = 63,
    XID_LOST = 79,
    XID_CONTAINED = 94,
    XID_UNCONTAINED = 95,
};

/* Gives the error to the client in `slot`, whose work caused the error, and to all clients that
 * share its fate. xid: the Xid that the driver reports, or 0. */
void fault_strike(struct device *device, unsigned slot, uint32_t error, uint32_t xid);
/* Gives the error to every client of the device. */
void fault_strike_all(struct device *device, uint32_t error);
/* Gives the error only to the client in `slot`. */
void fault_end_client(struct device *device, unsigned slot, uint32_t error);
/* Handles the death of the client in `slot`. If the client had more than FAULT_OUTSTANDING_NS_MAX
 * outstanding, its neighbours end too. */
void fault_check_left(struct device *device, unsigned slot);

/* Records an error of the driver, and wakes the processes that wait for such errors. */
void fault_report_xid(struct device *device, uint32_t xid, int32_t pid);
/* Injects an uncorrectable ECC error. The error reaches the client in `slot` and all clients that
 * share its fate; with DEVICE_NO_SLOT, every client. */
void fault_ecc(struct device *device, int slot);
/* Makes the device fall off the bus. is_told: the driver reports the loss. */
void fault_lose(struct device *device, bool is_told);
/* Lowers the clocks by lowered_permille, for the given reasons (NVML's bits). 0 and 0 end the
 * fault. */
void fault_slow(struct device *device, uint32_t lowered_permille, uint64_t reasons);
/* Resets the device: makes the device present, restores the full clock, clears the errors since the
 * last reset, and remaps pending rows. */
void fault_reset(struct device *device);

/* Returns the duration of an operation at the present clocks. */
uint64_t fault_stretch_ns(const struct emu_device *state, uint64_t duration_ns);
