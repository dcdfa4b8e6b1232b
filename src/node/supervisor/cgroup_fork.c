#include "node/supervisor/cgroup_fork.h"

#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

pid_t cgroup_fork(int group_fd, bool wait)
{
    unsigned long long waiting = wait ? CLONE_VFORK : 0;
    struct clone_args args = {.flags = CLONE_INTO_CGROUP | waiting,
                              .exit_signal = SIGCHLD,
                              .cgroup = (unsigned long long)group_fd};
    return (pid_t)syscall(SYS_clone3, &args, sizeof args);
}
