/*
 * Drives device_step() for each device of this node: passes samples (watch.h) and arriving and
 * leaving attempts to the device's state machine, and carries out its actions. Everything runs on
 * the loop's thread. This folder reads the devices through the driver, and may use src/device and
 * src/attempt.
 *
 * The files `disabled` and `untested` of the state directory (device_list.h) outlive the agent. The
 * files list devices that an operator must enable, and devices that must pass a self-test after the
 * loss of their MPS daemon.
 *
 * This folder contains the measurements of the devices, and the reactions to these measurements.
 * Files of the folder node/device may include base, model, wire, abi, device, attempt, node,
 * node/supervisor, node/mps, node/attempt.
 */
#pragma once
#include <stdbool.h>

#include "attempt/attempt.h"
#include "device/device.h"
#include "model/node.h"
#include "node/mps/mps.h"
#include "wire/nodemsg.h"

struct agent;
struct run;
struct monitor;

/* Opens the monitor; on a node without devices the call does nothing. */
int monitor_open(struct error *e, struct agent *a);
void monitor_close(struct agent *a);

/* Returns whether a grant may start on its devices now; if not, `why` is the reason. */
bool monitor_admits(struct agent *a, const struct grant *grant, char why[WORKLOAD_TEXT_MAX]);
/* Returns whether the attempt may return to its devices now; if not, `why` is the reason. */
bool monitor_readmits(const struct run *r, char why[WORKLOAD_TEXT_MAX]);
/* Passes an action of the attempt's state machine, from COME to LEAVE, to the attempt's devices. */
void monitor_tell(struct run *r, const struct attempt_action *action);
/* Ends the attempt so that it is requeued, without counting the end as its own failure. */
void monitor_moves(struct run *r, const char *why);
/* Sets the verdict of the attempt's devices for an end at this moment, and whether the devices
 * still wait for MPS. */
void monitor_judge(const struct run *r, bool failed, struct attempt_view *view);
/* Handles a new state of the MPS daemon of a device. */
void monitor_mps(struct agent *a, const char *uuid, enum mps_state state, const char *text);

/* Passes measurements of a service to its controller on the device. */
void monitor_look_at_service(struct run *r, int device, const struct controller_look *look);
/* Returns the last answer of the service's controller on its first device; NULL: none. Valid until
 * the loop continues. */
const struct controller_answer *monitor_guidance(const struct run *r);
/* Adds a note on a device, for operators. */
void monitor_note(struct agent *a, int device, const char *text);
/* Lists the health of the devices for hello and beat. Valid until the loop continues. */
size_t monitor_health(struct agent *a, const struct device_health **ret);
/* Returns the notes that control has not acknowledged; NULL: no devices. */
struct notes *monitor_notes(struct agent *a);
/* Enables or disables a device for an operator. Returns 0 or -ERR_NOT_FOUND. */
int monitor_enable(struct agent *a, const char *uuid, bool enable);
