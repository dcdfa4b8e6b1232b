/*
 * Lets tasks give device memory to services: reads what the services of each device lack, and
 * carries out the decisions of device/room.h. Looks every GIVE_WAY_LOOK_MS while tasks and services
 * share a device, and more often while memory moves. Runs on the loop's thread.
 */
#pragma once
#include "node/device/gpu.h"

struct agent;
struct run;
struct give_way;

int give_way_open(struct error *e, struct agent *a);
void give_way_close(struct agent *a);
/* Returns the device memory that the attempt, a task, gives to a service that needs it. */
uint64_t give_way_movable(const struct run *r, int device);
/* Looks soon, since an attempt has come to a device: its processes must find the limits that apply
 * there. */
void give_way_hurry(struct agent *a);
/* Handles new readings of the devices, indexed like the devices. */
void give_way_sampled(struct agent *a, const struct gpu_reading *readings);
