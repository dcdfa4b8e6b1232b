/*
 * The supervisor: one small process for each attempt, `gpumux supervise W.A`. The agent starts the
 * supervisor in the attempt's directory; afterwards the supervisor does not depend on the agent.
 * The supervisor runs as the workload's user and owns the directory:
 *
 *   record.json        boot id, pids and start times; durable before the task is exec'ed
 *   ready              exists once the task runs (a service: is ready)
 *   exit.json          end of the task; durable, the last file that is written
 *   output.OFFSET.log  output of the task: output.h
 *   control.sock       commands: control_socket.h
 *
 * Inherited descriptors; each except the last may be closed:
 *
 *   3  the attempt's lock (flock)
 *   4  the lease file
 *   5  the cgroup's directory, with a child `task` for the task
 *   6  write end of a pipe: closed once control.sock accepts; on failure, a sentence with the cause
 *   7  the ledger of the task's processes (abi/page.h), kept for a later agent
 *   8  the file W.A.grant (own_record.h), open at the line with the grant
 *
 * The supervisor is a subreaper: orphans of the task become children of the supervisor, and end
 * with the task. The supervisor enforces the time limit, the grace period and, for tasks, the
 * lease. SIGTERM asks the supervisor to stop the task with the grace period of the grant. If the
 * supervisor is killed, the task's main process dies too, and the agent ends the other processes.
 *
 * This folder contains the supervisor. Files of the folder node/supervisor may include base, model,
 * abi, proxy.
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

/* Runs one supervisor to its end. Returns the exit code of the process. */
int supervisor_main(const char *directory);
