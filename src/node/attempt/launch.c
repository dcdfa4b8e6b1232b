#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "node/agent_internal.h"
#include "node/cgroup.h"
#include "node/supervisor/cgroup_fork.h"
#include "base/durable.h"
#include "node/attempt/environment.h"
#include "node/supervisor/supervisor.h"

enum {
    LAUNCH_ARENA_BYTES = 2 * ATTEMPT_FILE_MAX, /* grants with and without MPS */
    INHERITED_FIRST = SUPERVISOR_LOCK_FD,
    INHERITED_END = SUPERVISOR_GRANT_FD + 1,
    PARKED_FD = 32, /* above all inherited descriptors */
    PASSED_VARIABLES = 4,
};

/* Everything that the child needs between vfork() and exec: the child may neither allocate nor
 * change the parent's memory. */
struct child_plan {
    const struct account *account;
    int executable_fd, directory_fd, null_fd;
    int enter_fd;                 /* cgroup to move to; -1: none, or already in it */
    int inherited[INHERITED_END]; /* by descriptor number; -1: closed */
    char *const *arguments;
    char *const *environment;
};

/* ---- the child ---- */

/*
 * Changes the identity by raw system calls. The functions of the C library would change every
 * thread of the process whose memory the child shares.
 */
static bool become_user(const struct account *account)
{
    if (!account->switched)
        return true;
    return syscall(SYS_setgroups, (size_t)account->group_count, account->groups) == 0 &&
           syscall(SYS_setresgid, account->gid, account->gid, account->gid) == 0 &&
           syscall(SYS_setresuid, account->uid, account->uid, account->uid) == 0;
}

/*
 * Closes by a raw system call. ThreadSanitizer keeps one record of descriptors for the shared
 * memory, and would confuse the child's descriptor with one that another thread of the parent uses.
 */
static void child_close(int fd)
{
    syscall(SYS_close, fd);
}

static bool child_dup2(int from, int to)
{
    return syscall(SYS_dup2, from, to) >= 0;
}

/* Prepares the process and executes the supervisor. Only changes of the process itself persist. */
static __attribute__((noinline)) void run_child(const struct child_plan *plan)
{
    int parked[INHERITED_END];
    setsid();
    if (plan->enter_fd >= 0)
        cgroup_enter(plan->enter_fd);
    if (fchdir(plan->directory_fd) < 0)
        return;
    for (int i = INHERITED_FIRST; i < INHERITED_END; i++) {
        parked[i] = -1;
        if (plan->inherited[i] >= 0 &&
            (parked[i] = fcntl(plan->inherited[i], F_DUPFD_CLOEXEC, PARKED_FD)) < 0)
            return;
    }
    int executable_fd = fcntl(plan->executable_fd, F_DUPFD_CLOEXEC, PARKED_FD);
    int null_fd = fcntl(plan->null_fd, F_DUPFD_CLOEXEC, PARKED_FD);
    for (int i = 0; i < INHERITED_FIRST; i++)
        if (!child_dup2(null_fd, i))
            return;
    for (int i = INHERITED_FIRST; i < INHERITED_END; i++) {
        if (parked[i] < 0)
            child_close(i);
        else if (!child_dup2(parked[i], i))
            return;
    }
    if (close_range(INHERITED_END, ~0U, CLOSE_RANGE_CLOEXEC) < 0 || !become_user(plan->account))
        return;
    syscall(SYS_execveat, executable_fd, "", plan->arguments, plan->environment, AT_EMPTY_PATH);
}

/* Forks a child in the supervisor's part of the attempt's group. Returns -1 if this is
 * impossible. */
static pid_t fork_into(int cgroup_fd)
{
    int group_fd =
        cgroup_fd < 0 ? -1 : openat(cgroup_fd, "supervisor", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t pid = group_fd < 0 ? -1 : cgroup_fork(group_fd, true);
    if (group_fd >= 0 && pid != 0)
        close(group_fd);
    return pid;
}

/* Starts the child with vfork(), because copying the page tables of a large heap takes
 * milliseconds. */
static pid_t spawn(struct child_plan *plan)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* no signal handler may run in the child */
    pid_t pid = fork_into(plan->inherited[SUPERVISOR_CGROUP_FD]);
    if (pid < 0) {
        plan->enter_fd = plan->inherited[SUPERVISOR_CGROUP_FD];
        pid = vfork();
    }
    if (pid == 0) {
        run_child(plan);
        _exit(127);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

/* ---- the plan ---- */

/* Passes only the options of sanitizers from the agent's environment. */
static char **supervisor_environment(struct arena *arena)
{
    static const char *const passed[PASSED_VARIABLES] = {"ASAN_OPTIONS", "UBSAN_OPTIONS",
                                                         "TSAN_OPTIONS", "LSAN_OPTIONS"};
    char **environment = arena_array(arena, PASSED_VARIABLES + 1, sizeof(char *));
    size_t count = 0;
    for (size_t i = 0; environment && i < PASSED_VARIABLES; i++)
        if (getenv(passed[i]) &&
            !(environment[count++] = arena_printf(arena, "%s=%s", passed[i], getenv(passed[i]))))
            return NULL;
    return environment;
}

static int make_grant(struct error *e, struct agent *a, struct arena *arena,
                      const struct grant *grant, const struct terms *terms,
                      struct attempt_grant *ret)
{
    const struct workload_spec *spec = grant->spec;
    char name[ATTEMPT_NAME_MAX], mps_path[PATH_MAX] = "";
    if (terms->has_mps)
        protect_mps_path(a, terms->devices[0], mps_path, sizeof mps_path);
    const struct environment_node node = {
        .name = a->info.name,
        .instance = a->info.instance,
        .control_path =
            arena_printf(arena, "%s/attempts/%s/%s", a->directory,
                         attempt_name(grant->workload, grant->attempt, name), CONTROL_SOCKET_NAME),
        .shim = terms->is_protected ? a->shim : NULL,
        .register_path = arena_printf(arena, "%s/register/%s", a->directory,
                                      attempt_name(grant->workload, grant->attempt, name)),
        .mps_directory = terms->has_mps ? mps_path : NULL,
        .share_percent = terms_share_percent(terms),
        .emulate = a->emulate,
        .emulate_libraries = a->emulate_libraries,
        .emulate_speed = getenv("GPUMUX_EMU_SPEED")};
    bool resumes = grant->ran_before && spec->resume.count > 0;
    *ret =
        (struct attempt_grant){.workload = grant->workload,
                               .attempt = grant->attempt,
                               .service = spec->needs.kind == WORKLOAD_SERVICE,
                               .command = resumes ? spec->resume : spec->command,
                               .directory = spec->directory,
                               .grace_ms = spec->needs.grace_ms,
                               .time_limit_ms = spec->needs.time_limit_ms,
                               .fence_ms = a->link.fence_ms,
                               .drain_ms = a->link.drain_ms,
                               .begin_by_ms = lease_deadline(&a->lease),
                               .log_file_bytes = a->config->log_file_bytes,
                               .log_files = (int)a->config->log_files,
                               .ready = spec->ready,
                               .ready_command = spec->ready_command,
                               .ready_port = spec->ready_port,
                               .wants_stdin = spec->wants_stdin,
                               .slo_percentile = spec->slo_percentile,
                               .slo_latency_ms = spec->slo_latency_ms,
                               .slo_first_ms = spec->slo_first_ms,
                               .slo_between_ms = spec->slo_between_ms,
                               .proxy = spec->proxy,
                               .port = spec->port,
                               .backend_port = spec->backend_port,
                               .latency_from = spec->latency_from,
                               .latency_port = spec->latency_port ? spec->latency_port : spec->port,
                               .latency_metric = spec->latency_metric};
    if (!node.control_path || !node.register_path ||
        environment_make(arena, grant, &node, &ret->environment) < 0)
        return error_set(e, ERR_NO_MEMORY, "its environment is too large");
    return 0;
}

/* Checks the grant before anything is made. */
static int check_grant(struct error *e, const struct agent *a, const struct grant *grant,
                       struct account *ret)
{
    if (a->run_count >= AGENT_RUNS_MAX)
        return error_set(e, ERR_QUEUE_FULL, "this node has %d attempts already", AGENT_RUNS_MAX);
    for (int i = 0; i < grant->device_count; i++) {
        bool known = false;
        for (int k = 0; k < a->info.device_count; k++)
            known = known || str_equal(grant->devices[i], a->info.devices[k].uuid);
        if (!known)
            return error_set(e, ERR_NO_DEVICE, "device %s is not on this node", grant->devices[i]);
    }
    /* A uid is valid only on control's own machine; elsewhere the name identifies the account. */
    bool by_name = a->networked || grant->uid == UID_BY_NAME;
    const char *user = grant->spec->user || !by_name ? grant->spec->user : grant->user;
    return account_find(e, user, grant->uid, a->config->allow_root, ret);
}

/* ---- directory ---- */

static int make_directory(struct error *e, struct agent *a, const char *name, int *ret_fd)
{
    /* An existing directory belongs to no run: its attempt never began. */
    if (mkdirat(a->attempts_fd, name, 0700) < 0 &&
        (errno != EEXIST || durable_remove_tree(e, a->attempts_fd, name) < 0 ||
         mkdirat(a->attempts_fd, name, 0700) < 0))
        return error_set_errno(e, ERR_IO, errno, "its directory cannot be made");
    int fd = openat(a->attempts_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "its directory cannot be opened");
    *ret_fd = fd;
    return 0;
}

/* Gives the directory to its user, once the agent has made everything in it. */
static int give_directory(struct error *e, const struct agent *a, const struct account *account,
                          int directory_fd)
{
    if (account->switched && fchown(directory_fd, account->uid, account->gid) < 0)
        return error_set_errno(e, ERR_IO, errno, "its directory cannot be given to its user");
    /* Makes the directory durable, so that its durable record can be found. */
    if (fsync(a->attempts_fd) < 0)
        return error_set_errno(e, ERR_IO, errno, "its directory cannot be made durable");
    return 0;
}

static int take_lock(struct error *e, struct agent *a, const char *name, int *ret_fd)
{
    int fd = openat(a->locks_fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int failed = errno;
        if (fd >= 0)
            close(fd);
        return error_set_errno(e, ERR_IO, failed, "its lock cannot be taken");
    }
    *ret_fd = fd;
    return 0;
}

/* ---- start ---- */

static void on_started(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct run *r = arg;
    ssize_t n = read(fd, r->start_text, sizeof r->start_text - 1);
    if (n > 0)
        r->start_text[n] = '\0';
    else if (n == 0)
        run_begins(r);
    event_free(r->started);
    r->started = NULL;
    close(r->started_fd);
    r->started_fd = -1;
    run_look(r);
}

static void look_now(struct run *r)
{
    const struct timeval now = {0};
    event_add(r->look, &now);
}

static int start_supervisor(struct error *e, struct run *r, struct arena *arena, int grant_fd)
{
    const struct account *account = &r->pending->account;
    struct agent *a = r->agent;
    const char *const arguments[] = {"gpumux", "supervise", r->name, NULL};
    int started[2];
    if (pipe2(started, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_set_errno(e, ERR_IO, errno, "no pipe for its supervisor");
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int cgroup_fd = cgroup_make(a->cgroup_fd, r->name, account->uid, account->gid);
    struct child_plan plan = {.account = account,
                              .executable_fd = a->executable_fd,
                              .directory_fd = r->directory_fd,
                              .null_fd = null_fd,
                              .enter_fd = -1,
                              .inherited = {[SUPERVISOR_LOCK_FD] = r->pending->lock_fd,
                                            [SUPERVISOR_LEASE_FD] = a->lease.read_fd,
                                            [SUPERVISOR_CGROUP_FD] = cgroup_fd,
                                            [SUPERVISOR_STARTED_FD] = started[1],
                                            [SUPERVISOR_LEDGER_FD] = protect_ledger_fd(r),
                                            [SUPERVISOR_GRANT_FD] = grant_fd},
                              .arguments = (char *const *)(uintptr_t)arguments,
                              .environment = supervisor_environment(arena)};
    pid_t pid = null_fd < 0 || !plan.environment ? -1 : spawn(&plan);
    int failed = errno;
    close(started[1]);
    if (null_fd >= 0)
        close(null_fd);
    if (cgroup_fd >= 0)
        close(cgroup_fd);
    r->started_fd = started[0];
    r->started = pid < 0 ? NULL : event_new(a->base, started[0], EV_READ, on_started, r);
    r->child_pid = pid < 0 ? 0 : pid;
    if (pid < 0)
        return error_set_errno(e, ERR_IO, failed, "its supervisor cannot be started");
    if (!r->started || event_add(r->started, NULL) < 0) {
        close(r->started_fd); /* polling detects the start as well */
        r->started_fd = -1;
        look_now(r);
    }
    return 0;
}

void pending_free(struct run *r)
{
    if (!r->pending)
        return;
    close(r->pending->lock_fd); /* if started, the supervisor holds the lock by its own copy */
    free(r->pending);
    r->pending = NULL;
}

void launch_give_up(struct run *r, const char *why)
{
    pending_free(r);
    str_copy(r->start_text, sizeof r->start_text, why);
    look_now(r);
}

void launch_supervisor(struct run *r)
{
    struct error e = {0};
    struct arena arena;
    int grant_fd = -1;
    arena_init(&arena, LAUNCH_ARENA_BYTES);
    int result =
        own_record_open_grant(&e, r->agent->records_fd, r->name, !r->own.terms.has_mps, &grant_fd);
    if (result == 0)
        result = start_supervisor(&e, r, &arena, grant_fd);
    if (grant_fd >= 0)
        close(grant_fd);
    arena_done(&arena);
    if (result < 0)
        launch_give_up(r, e.text);
    pending_free(r);
}

/* Makes the state from which the attempt's state machine starts: the directory, the agent's own
 * record, the lock. */
static int prepare(struct error *e, struct agent *a, const struct grant *grant,
                   const struct account *account, struct own_record *own, struct run **ret)
{
    char name[ATTEMPT_NAME_MAX];
    struct arena arena;
    struct attempt_grant resolved, without_mps;
    struct terms alone = own->terms;
    alone.has_mps = false;
    int directory_fd = -1;
    attempt_name(grant->workload, grant->attempt, name);
    arena_init(&arena, LAUNCH_ARENA_BYTES);
    int r = make_grant(e, a, &arena, grant, &own->terms, &resolved);
    if (r == 0 && own->terms.has_mps)
        r = make_grant(e, a, &arena, grant, &alone, &without_mps);
    if (r == 0)
        r = own_record_grant(e, a->records_fd, name, own, &resolved,
                             own->terms.has_mps ? &without_mps : NULL);
    arena_done(&arena);
    if (r == 0)
        r = make_directory(e, a, name, &directory_fd);
    if (r == 0)
        r = give_directory(e, a, account, directory_fd);
    struct run *run = r == 0 ? run_new(a, grant->workload, grant->attempt, directory_fd) : NULL;
    if (r == 0 && !run)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    if (!run) {
        if (directory_fd >= 0)
            close(directory_fd);
        return r;
    }
    run->own = *own;
    run->granted = true;
    run_begin(run);
    *ret = run;
    return 0;
}

static int make_pending(struct error *e, struct run *r, const struct account *account)
{
    struct pending_start *pending = calloc(1, sizeof *pending);
    if (!pending)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    pending->account = *account;
    int result = take_lock(e, r->agent, r->name, &pending->lock_fd);
    if (result < 0) {
        free(pending);
        return result;
    }
    r->pending = pending;
    return 0;
}

static int prepare_and_start(struct error *e, struct agent *a, const struct grant *grant,
                             const struct account *account)
{
    struct own_record own = {.grace_ms = grant->spec->needs.grace_ms,
                             .time_limit_ms = grant->spec->needs.time_limit_ms};
    if (grant->spec->needs.kind == WORKLOAD_TASK)
        own.lease_after_ms = a->link.fence_ms + a->link.drain_ms + ATTEMPT_LATE_MS;
    struct run *run = NULL;
    protect_decide(a, grant, account->uid, &own.terms);
    int r = prepare(e, a, grant, account, &own, &run);
    if (r < 0)
        return r;
    r = make_pending(e, run, account);
    if (r == 0)
        r = protect_begin(e, run);
    if (r < 0) {
        own_record_remove(a->records_fd, run->name);
        protect_end(run);
        run_free(run);
        return r;
    }
    const struct attempt_event start = {.kind = ATTEMPT_START, .ready = !protect_must_wait(run)};
    run_tell(run, &start);
    return 0;
}

/* Makes an empty directory with an exit record, for an attempt that never ran and never will. */
static void make_tombstone(struct agent *a, uint64_t workload, int attempt,
                           enum failure_reason failure, enum attempt_verdict verdict,
                           const char *text)
{
    struct attempt_event event = {
        .kind = ATTEMPT_GONE,
        .exit = {.granted_here = failure == FAILURE_START, .verdict = verdict}};
    char name[ATTEMPT_NAME_MAX];
    struct error e = {0};
    int fd;
    attempt_name(workload, attempt, name);
    cgroup_end(a->cgroup_fd, name);
    struct run *r = NULL;
    if (make_directory(&e, a, name, &fd) == 0)
        r = run_new(a, workload, attempt, fd);
    if (!r) { /* control asks again, when there may be room */
        log_write(a->log, LOG_WARN, "unstarted attempt not recorded", "attempt=%s error=\"%s\"",
                  name, e.text);
        return;
    }
    str_copy(event.exit.why, sizeof event.exit.why, text);
    str_copy(event.exit.text, sizeof event.exit.text, text);
    run_tell(r, &event);
}

void launch_tombstone(struct agent *a, uint64_t workload, int attempt, const char *text)
{
    make_tombstone(a, workload, attempt, FAILURE_NONE, VERDICT_OWN, text);
}

void launch(struct agent *a, const struct grant *grant)
{
    struct error e = {0};
    struct account account;
    char why[WORKLOAD_TEXT_MAX];
    if (!monitor_admits(a, grant, why)) {
        make_tombstone(a, grant->workload, grant->attempt, FAILURE_NONE, VERDICT_MOVED, why);
        return;
    }
    int r = check_grant(&e, a, grant, &account);
    if (r == 0)
        r = prepare_and_start(&e, a, grant, &account);
    if (r < 0)
        make_tombstone(a, grant->workload, grant->attempt, FAILURE_START, VERDICT_OWN, e.text);
}
