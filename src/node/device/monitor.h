/*
 * The devices of this node under watch: feeds device_step with what watch.h sees and with the attempts
 * that come and go, and carries out what it answers. On the loop's thread.
 *
 * What must outlast an agent is in its state directory: `disabled` lists the devices that were disabled by their
 * own word or an operator's, and `untested` those whose MPS was lost and that have not passed a self-test since
 * (device_list.h).
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
/* Whether it may return to its devices now; if not, why. */
bool monitor_readmits(const struct run *r, char why[WORKLOAD_TEXT_MAX]);
/* Its devices hear what its machine says: one of the actions from COME to LEAVE. */
void monitor_tell(struct run *r, const struct attempt_action *action);
/* It has to start again, for no fault of its own: it is ended, and queued again. */
void monitor_moves(struct run *r, const char *why);
/* What its devices say of its end, if that is now: whose it is, and whether they still ask. */
void monitor_judge(const struct run *r, bool failed, struct attempt_view *view);
/* A device's MPS has changed. */
void monitor_mps(struct agent *a, const char *uuid, enum mps_state state, const char *text);

/* Something that people should know of a device of the node. */
void monitor_note(struct agent *a, int device, const char *text);
/* For hello and beat: valid until the loop runs on. */
size_t monitor_health(struct agent *a, const struct device_health **ret);
/* What control has not heard yet. NULL: nothing is watched. */
struct notes *monitor_notes(struct agent *a);
/* An operator's word. -ERR_NOT_FOUND. */
int monitor_enable(struct agent *a, const char *uuid, bool enable);
