#include "node/device/holders.h"

#include <unistd.h>

#include "node/agent_internal.h"
#include "node/mps/mps_control.h"

enum { GENERATIONS_MAX = 4096 };

uint64_t holders_members_bytes(const struct process_table *table, const struct gpu_sample *sample,
                               int device)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < sample->process_count; i++) {
        const struct gpu_process *held = &sample->processes[i];
        const struct process *p = device == HOLDERS_EVERY_DEVICE || held->device == device
                                      ? process_table_find(table, held->pid)
                                      : NULL;
        if (p && p->member)
            bytes += held->memory_used_bytes;
    }
    return bytes;
}

/* Returns whether the process is a root of gpumux's own processes on a device: the agent (a
 * self-test), a supervisor, or the MPS daemon, whose servers use the device too. */
static bool is_ours(const struct agent *a, const struct process *p, pid_t mps_pid)
{
    if (p->pid == getpid() || (mps_pid > 0 && p->pid == mps_pid))
        return true;
    list_for_each (it, &a->runs) {
        const struct run *r = list_entry(it, struct run, link);
        if (run_is_alive(r) && r->own.supervisor_pid == p->pid &&
            r->own.supervisor_start == p->start)
            return true;
    }
    return false;
}

/* Returns whether a process is a stranger. The table is no snapshot: a process whose parents cannot
 * be followed up to the first process is not judged. */
static bool is_stranger(const struct agent *a, const struct process_table *table, pid_t pid,
                        pid_t mps_pid)
{
    for (int i = 0; i < GENERATIONS_MAX && pid > 0; i++) {
        const struct process *p = process_table_find(table, pid);
        if (!p || is_ours(a, p, mps_pid))
            return false;
        pid = p->parent;
    }
    return true;
}

bool holders_have_stranger(const struct agent *a, const struct process_table *table,
                           const struct gpu_sample *sample, int device)
{
    struct mps_control control = {0};
    pid_t mps_pid = 0;
    if (protect_mps_path(a, a->info.devices[device].uuid, control.directory,
                         sizeof control.directory))
        mps_pid = mps_control_pid(&control);
    for (size_t i = 0; i < sample->process_count; i++)
        if (sample->processes[i].device == device &&
            is_stranger(a, table, sample->processes[i].pid, mps_pid))
            return true;
    return false;
}
