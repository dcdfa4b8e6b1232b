/*
 * The supervisor: one small process an attempt, `gpumux supervise W.A`, started by the agent in the
 * attempt's directory and independent of it from then on. It runs as the workload's user and owns
 * that directory:
 *
 *   record.json        boot id, pids and start times; durable before the task is exec'ed
 *   ready              there once the task runs (a service: is ready)
 *   exit.json          how it ended; durable, written once, last
 *   output.OFFSET.log  what it printed: see output.h
 *   control.sock       commands: see control_socket.h
 *
 * Inherited descriptors: 3 the attempt's lock (flock), 4 the lease file, 5 the cgroup's directory
 * (with a child `task` for the task), 6 the write end of a pipe, closed once control.sock answers;
 * if that never comes to be, a sentence in it says why, 7 the ledger of its processes (abi/page.h), held for
 * an agent that comes later, 8 what to run: the next line of the agent's file. All but that may be closed.
 *
 * It is a subreaper, so that what its task leaves behind comes to it and ends with it. It enforces
 * the time limit, the grace period and (tasks only) the lease. SIGTERM asks it to stop its task
 * with the grace period of the grant. When it is killed, the task's main process dies with it; the
 * agent ends the rest.
 */
#pragma once

enum {
    SUPERVISOR_LOCK_FD = 3,
    SUPERVISOR_LEASE_FD = 4,
    SUPERVISOR_CGROUP_FD = 5,
    SUPERVISOR_STARTED_FD = 6,
    SUPERVISOR_LEDGER_FD = 7,
    SUPERVISOR_GRANT_FD = 8,
};

/* The whole life of one supervisor; returns the process's exit code. */
int supervisor_main(const char *directory);
