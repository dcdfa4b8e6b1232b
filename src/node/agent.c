#include "node/agent.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fence.h"
#include "base/version.h"
#include "node/agent_internal.h"
#include "node/cgroup.h"
#include "node/identity.h"
#include "node/link/renewal.h"
#include "node/attempt/retention.h"

static int open_directory(struct error *e, int parent_fd, const char *name, mode_t mode,
                          int *ret_fd)
{
    if (mkdirat(parent_fd, name, mode) < 0 && errno != EEXIST)
        return error_set_errno(e, ERR_IO, errno, "directory %s cannot be made", name);
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        int failed = errno;
        if (fd >= 0)
            close(fd);
        return error_set_errno(e, ERR_IO, failed, "directory %s cannot be opened", name);
    }
    /* A directory that other users can write is not trustworthy. */
    if (st.st_uid != geteuid() || fchmod(fd, mode) < 0) {
        close(fd);
        return error_set(e, ERR_DENIED, "directory %s belongs to uid %u, this is uid %u", name,
                         st.st_uid, geteuid());
    }
    *ret_fd = fd;
    return 0;
}

static int take_lock(struct error *e, struct agent *a)
{
    a->lock_fd = openat(a->directory_fd, "agent.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (a->lock_fd < 0)
        return error_set_errno(e, ERR_IO, errno, "%s/agent.lock cannot be opened", a->directory);
    if (!fence_take(a->lock_fd))
        return error_set(e, ERR_BUSY,
                         "another agent uses this state directory: it holds "
                         "%s/agent.lock",
                         a->directory);
    return 0;
}

static int open_state(struct error *e, struct agent *a)
{
    int r = open_directory(e, AT_FDCWD, a->directory, 0711, &a->directory_fd);
    if (r == 0)
        r = take_lock(e, a);
    if (r == 0)
        r = open_directory(e, a->directory_fd, "attempts", 0711, &a->attempts_fd);
    if (r == 0)
        r = open_directory(e, a->directory_fd, "finished", 0711, &a->finished_fd);
    if (r == 0)
        r = open_directory(e, a->directory_fd, "locks", 0700, &a->locks_fd);
    if (r == 0)
        r = open_directory(e, a->directory_fd, "records", 0700, &a->records_fd);
    if (r == 0)
        r = open_directory(e, a->directory_fd, "suspended", 0700, &a->suspended_fd);
    if (r == 0)
        r = open_directory(e, a->directory_fd, "register", 0711, &a->register_fd);
    if (r == 0)
        r = lease_open(e, a->directory_fd, &a->lease);
    if (r < 0)
        return r;
    /* Held open, so that supervisors have the agent's version even if the file is replaced. */
    a->executable_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
    if (a->executable_fd < 0)
        return error_set_errno(e, ERR_IO, errno, "/proc/self/exe cannot be opened");
    return 0;
}

/* Sets the node's name; on the network the certificate determines it. */
static int name_node(struct error *e, struct agent *a)
{
    if (!a->networked)
        return identity_name(e, a->config->node_name, a->info.name);
    int r = credentials_load(e, a->directory_fd, &a->credentials);
    if (r == -ERR_NOT_FOUND)
        return error_set(e, ERR_NOT_FOUND,
                         "this node has not joined %s: 'gpumux token create --role node' on "
                         "control's machine prints the command that does it",
                         a->control_name);
    if (r < 0)
        return r;
    const char *name = a->credentials.facts.name, *wanted = a->config->node_name;
    if (wanted[0] && !str_equal(wanted, name))
        return error_set_field(e, ERR_CONFLICT, "node_name",
                               "the certificate of this node is for the name %s, not %s: leave "
                               "node_name out, or join again with a token for %s",
                               name, wanted, wanted);
    str_copy(a->info.name, sizeof a->info.name, name);
    return 0;
}

static int describe_node(struct error *e, struct agent *a)
{
    int r = identity_load(e, a->directory_fd, a->info.instance);
    if (r == 0)
        r = name_node(e, a);
    if (r == 0)
        r = cgroup_open(e, a->config->cgroup, a->info.instance, &a->cgroup_fd);
    if (r < 0)
        return r;
    str_copy(a->info.version, sizeof a->info.version, GPUMUX_VERSION);
    a->info.labels = a->config->node_labels;
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        a->info.cores = CPU_COUNT(&cores);
    struct error none = {0};
    r = gpu_open(&none, a->emulate, a->emulate_libraries, &a->gpu);
    if (r < 0 && a->emulate) { /* explicitly requested, so that failure is an error */
        if (e)
            *e = none;
        return r;
    }
    if (r < 0)
        log_write(a->log, LOG_WARN, "device discovery failed", "error=\"%s\"", none.text);
    else
        a->info.device_count = gpu_inventory(a->gpu, a->info.devices);
    return sampler_new(e, a->gpu, &a->sampler);
}

static int start(struct error *e, struct agent *a)
{
    const struct config *c = a->config;
    const struct retention_limits limits = {.age_ms = c->keep_logs_ms,
                                            .count = (size_t)c->keep_logs_max,
                                            .bytes = (uint64_t)c->keep_logs_total_bytes};
    int r = open_state(e, a);
    if (r == 0)
        r = describe_node(e, a);
    if (r == 0)
        r = protect_open(e, a);
    if (r == 0)
        r = divide_open(e, a);
    if (r == 0)
        r = steer_open(e, a);
    if (r == 0)
        r = give_way_open(e, a);
    if (r == 0)
        r = monitor_open(e, a);
    if (r == 0)
        r = adopt_all(e, a);
    if (r == 0)
        protect_start(a);
    if (r == 0)
        r = retention_new(e, a->base, a->finished_fd, &limits, &a->retention);
    if (r == 0)
        r = link_start(e, a);
    return r;
}

static bool copy_option(const char *from, char **to)
{
    *to = from ? strdup(from) : NULL;
    return !from || *to;
}

static int copy_options(struct error *e, struct agent *a, const struct agent_options *options)
{
    if (!copy_option(options->directory, &a->directory) ||
        !copy_option(options->control_socket, &a->control_socket) ||
        !copy_option(options->control_host, &a->control_host) ||
        !copy_option(options->control_port, &a->control_port) ||
        !copy_option(options->emulate, &a->emulate) || !copy_option(options->shim, &a->shim) ||
        !copy_option(options->mps_control, &a->mps_control) ||
        !copy_option(options->emulate_libraries, &a->emulate_libraries))
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    a->networked = !a->control_socket;
    if (a->networked)
        (void)snprintf(a->control_name, sizeof a->control_name, "%s:%s", a->control_host,
                       a->control_port);
    else
        (void)str_copy(a->control_name, sizeof a->control_name, a->control_socket);
    return 0;
}

int agent_new(struct error *e, struct event_base *base, const struct agent_options *options,
              struct agent **ret)
{
    struct agent *a = calloc(1, sizeof *a);
    if (!a)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    a->base = base;
    a->config = options->config;
    a->log = options->log;
    a->on_link = options->on_link;
    a->on_link_arg = options->on_link_arg;
    a->directory_fd = a->attempts_fd = a->finished_fd = a->locks_fd = a->lock_fd = -1;
    a->executable_fd = a->cgroup_fd = a->register_fd = a->records_fd = a->suspended_fd = -1;
    a->has_stale_locks = true; /* of earlier agents */
    list_init(&a->runs);
    list_init(&a->readers);
    list_init(&a->events);
    credentials_init(&a->credentials);
    int r = copy_options(e, a, options);
    if (r == 0)
        r = start(e, a);
    if (r < 0) {
        agent_free(a);
        return r;
    }
    *ret = a;
    return 0;
}

void agent_free(struct agent *a)
{
    if (!a)
        return;
    renewal_done(a);
    link_stop(a);
    credentials_done(&a->credentials);
    reader_done(a);
    registrar_leave(a->registrar);
    list_for_each_safe (it, &a->runs)
        run_free(list_entry(it, struct run, link));
    protect_close(a);
    give_way_close(a);
    divide_close(a);
    retention_free(a->retention);
    monitor_close(a);
    steer_close(a);
    sampler_free(a->sampler);
    gpu_close(a->gpu);
    lease_close(&a->lease);
    cgroup_close(a->cgroup_fd, a->info.instance);
    const int fds[] = {a->executable_fd, a->locks_fd,    a->finished_fd, a->attempts_fd, a->lock_fd,
                       a->directory_fd,  a->register_fd, a->records_fd,  a->suspended_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(a->directory);
    free(a->control_socket);
    free(a->control_host);
    free(a->control_port);
    free(a->emulate);
    free(a->shim);
    free(a->mps_control);
    free(a->emulate_libraries);
    free(a);
}

size_t agent_alive(const struct agent *a)
{
    size_t alive = 0;
    list_for_each (it, &a->runs)
        alive += run_is_alive(list_entry(it, struct run, link));
    return alive;
}

int agent_find_device(const struct agent *a, const char *uuid)
{
    for (int i = 0; i < a->info.device_count; i++)
        if (str_equal(a->info.devices[i].uuid, uuid))
            return i;
    return -1;
}

size_t agent_device_count(const struct agent *a)
{
    return (size_t)a->info.device_count;
}
