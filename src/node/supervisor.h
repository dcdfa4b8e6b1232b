/*
 * The supervisor: one small process an attempt, `gpumux supervise DIRECTORY`, started by the agent
 * and independent of it from then on. It runs as the workload's user and owns the attempt's
 * directory:
 *
 *   grant.json    what to run (written by the agent before)
 *   record.json   boot id, pids and start times; durable before the task is exec'ed
 *   exit.json     how it ended; durable, written once, last
 *   output.log    what it printed, CRI format; rotated to output.log.1, .2, …
 *   control.sock  commands of the agent: stop, kill, signal, input
 *
 * Inherited descriptors: 3 the attempt's lock (flock), 4 the lease file, 5 the cgroup's directory
 * or closed. It is a subreaper, so that what its task leaves behind comes to it and ends with it.
 * It enforces the time limit, the grace period and (tasks only) the lease.
 */
#pragma once

/* The whole life of one supervisor; returns the process's exit code. */
int supervisor_main(const char *directory);
