/*
 * Drives device_step for each device of this node: feeds it samples (watch.h) and the attempts that
 * come and go, and carries out its actions. On the loop's thread. This folder reads the driver and
 * may use src/device and src/attempt.
 *
 * The files `disabled` and `untested` of the state directory (device_list.h) outlive the agent:
 * devices that an operator must enable, and devices that must pass a self-test after their MPS was
 * lost.
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

/* Does nothing on a node without devices. */
int monitor_open(struct error *e, struct agent *a);
void monitor_close(struct agent *a);

/* Whether a grant may start on its devices now; if not, why. */
bool monitor_admits(struct agent *a, const struct grant *grant, char why[WORKLOAD_TEXT_MAX]);
/* Whether the attempt may return to its devices now; if not, why. */
bool monitor_readmits(const struct run *r, char why[WORKLOAD_TEXT_MAX]);
/* Passes an action of the attempt's machine, from COME to LEAVE, to its devices. */
void monitor_tell(struct run *r, const struct attempt_action *action);
/* Ends the attempt so that it is requeued, for no fault of its own. */
void monitor_moves(struct run *r, const char *why);
/* Fills in the verdict of its devices, if the attempt ends now, and whether they still ask MPS. */
void monitor_judge(const struct run *r, bool failed, struct attempt_view *view);
/* The MPS daemon of a device changed its state. */
void monitor_mps(struct agent *a, const char *uuid, enum mps_state state, const char *text);

/* A note on a device, for people. */
void monitor_note(struct agent *a, int device, const char *text);
/* For hello and beat. Valid until the loop continues. */
size_t monitor_health(struct agent *a, const struct device_health **ret);
/* Notes that control has not acknowledged. NULL: there are no devices. */
struct notes *monitor_notes(struct agent *a);
/* An operator enables or disables a device. -ERR_NOT_FOUND. */
int monitor_enable(struct agent *a, const char *uuid, bool enable);
