/*
 * Steers the tasks beside services while both run: measures services and tasks through their
 * status pages, and passes the measurements to the services' controllers in device_step().
 *
 * The file `settings` of the state directory keeps what the controllers learnt, for later agents.
 */
#pragma once
#include "base/error.h"
#include "device/controller.h"

struct agent;
struct steer;

int steer_open(struct error *e, struct agent *a);
void steer_close(struct agent *a);
/* Returns the memory for the controllers, valid until steer_close(); NULL: live_control is off. */
struct controller_memory *steer_memory(const struct agent *a);
/* Looks at all services. To be called about every 200 ms, after run.busy_fraction was updated. */
void steer_look(struct agent *a);
