#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/agent_internal.h"
#include "node/cgroup.h"
#include "base/durable.h"
#include "node/supervisor/process.h"
#include "node/supervisor/supervisor.h"
#include "node/attempt/retention.h"

enum { LOOK_FIRST_MS = 2, LOOK_LAST_MS = 100 };

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    run_look(arg);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    run_tell_kind(arg, ATTEMPT_TICK);
}

struct run *run_new(struct agent *a, uint64_t workload, int attempt, int directory_fd)
{
    struct run *r = calloc(1, sizeof *r);
    struct stat st;
    if (r) {
        r->look = evtimer_new(a->base, on_look, r);
        r->tick = evtimer_new(a->base, on_tick, r);
    }
    if (!r || !r->look || !r->tick || fstat(directory_fd, &st) < 0) {
        close(directory_fd);
        if (r && r->look)
            event_free(r->look);
        if (r && r->tick)
            event_free(r->tick);
        free(r);
        return NULL;
    }
    r->agent = a;
    r->workload = workload;
    r->attempt = attempt;
    attempt_name(workload, attempt, r->name);
    r->directory_fd = directory_fd;
    r->uid = st.st_uid;
    r->started_fd = r->supervisor_fd = -1;
    r->look_ms = LOOK_FIRST_MS;
    mailbox_init(&r->mailbox);
    checkpoint_init(&r->move);
    list_append(&a->runs, &r->link);
    a->run_count++;
    run_begin(r);
    return r;
}

void run_begin(struct run *r)
{
    const struct terms *terms = &r->own.terms;
    r->device_count = 0;
    for (int i = 0; i < terms->device_count; i++) {
        int device = agent_find_device(r->agent, terms->devices[i]);
        if (device >= 0 && r->agent->monitor)
            r->devices[r->device_count++] = device;
    }
    const struct attempt_traits traits = {.kind = terms->kind,
                                          .has_devices = r->device_count > 0,
                                          .grace_ms = r->own.grace_ms,
                                          .time_limit_ms = r->own.time_limit_ms,
                                          .uses_mps = terms->has_mps && r->agent->mps,
                                          .swappable = terms->swappable};
    attempt_life_init(&r->life, r->workload, r->attempt, &traits);
}

void run_free(struct run *r)
{
    if (!r)
        return;
    pending_free(r);
    suspend_forget(r);
    protect_forget(r);
    mailbox_done(r);
    if (r->started)
        event_free(r->started);
    if (r->started_fd >= 0)
        close(r->started_fd);
    if (r->vanished)
        event_free(r->vanished);
    if (r->supervisor_fd >= 0)
        close(r->supervisor_fd);
    event_free(r->look);
    event_free(r->tick);
    close(r->directory_fd);
    list_remove(&r->link);
    r->agent->run_count--;
    free(r);
}

struct run *run_find(const struct agent *a, uint64_t workload, int attempt)
{
    list_for_each (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        if (r->workload == workload && r->attempt == attempt)
            return r;
    }
    return NULL;
}

bool run_is_alive(const struct run *r)
{
    return !attempt_has_ended(&r->life);
}

bool run_is_on(const struct run *r, int device)
{
    for (int i = 0; i < r->device_count; i++)
        if (r->devices[i] == device)
            return attempt_is_on_devices(&r->life);
    return false;
}

void run_report(struct run *r)
{
    struct nodemsg msg = {.type = NODEMSG_REPORT,
                          .session = r->agent->link.session,
                          .attempt_count = 1,
                          .attempts = &r->life.kept.report};
    link_send(r->agent, &msg);
}

static void look_later(struct run *r)
{
    const struct timeval wait = {.tv_sec = r->look_ms / 1000, .tv_usec = r->look_ms % 1000 * 1000};
    event_add(r->look, &wait);
    if (r->look_ms < LOOK_LAST_MS)
        r->look_ms *= 2;
}

/* Returns whether nobody holds the attempt's lock: the supervisor has ended, or never started. */
static bool lock_is_free(const struct run *r)
{
    int fd = openat(r->agent->locks_fd, r->name, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT;
    bool is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return is_free;
}

bool run_has_ended(const struct run *r)
{
    pid_t pid = r->own.supervisor_pid;
    return lock_is_free(r) || (pid > 0 && process_has_ended(pid, r->own.supervisor_start));
}

/* Returns whether the process has the attempt's lock where only its supervisor has it. */
static bool has_lock(const struct run *r, pid_t pid)
{
    char path[64];
    struct stat lock, st;
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, SUPERVISOR_LOCK_FD);
    return fstatat(r->agent->locks_fd, r->name, &lock, AT_SYMLINK_NOFOLLOW) == 0 &&
           stat(path, &st) == 0 && st.st_dev == lock.st_dev && st.st_ino == lock.st_ino;
}

/* Finds the supervisor that the agent's own record does not name, because an earlier agent crashed
 * first or was of version 0.1. The user can write record.json, which is only a hint; a file in
 * locks/ can only be inherited. */
static pid_t find_by_lock(const struct run *r)
{
    struct process_table table;
    pid_t pid = r->recorded && has_lock(r, r->record.supervisor_pid) ? r->record.supervisor_pid : 0;
    if (pid > 0 || process_table_read(&table) < 0)
        return pid;
    const struct process *found = NULL;
    for (size_t i = 0; i < table.count; i++) /* a child has the lock, too, until its exec */
        if (has_lock(r, table.items[i].pid) && (!found || found->parent == table.items[i].pid))
            found = &table.items[i];
    pid = found ? found->pid : 0;
    process_table_done(&table);
    return pid;
}

static void on_vanished(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    run_look(arg);
}

/* Watches the supervisor's end through the kernel, because the user can replace the supervisor's
 * socket. The boot in which the supervisor lives is this one. */
static void watch_supervisor(struct run *r, pid_t pid, uint64_t start)
{
    int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (fd >= 0 && process_start(pid) != start) {
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        return;
    r->own.supervisor_pid = pid;
    r->own.supervisor_start = start;
    if (!r->own.boot_id[0])
        (void)process_boot_id(r->own.boot_id);
    r->supervisor_fd = fd;
    r->vanished = event_new(r->agent->base, fd, EV_READ, on_vanished, r);
    if (r->vanished)
        event_add(r->vanished, NULL);
}

static void find_supervisor(struct run *r)
{
    if (r->supervisor_fd >= 0)
        return;
    if (r->own.supervisor_pid > 0) {
        watch_supervisor(r, r->own.supervisor_pid, r->own.supervisor_start);
        return;
    }
    pid_t pid = r->child_pid > 0 ? r->child_pid : find_by_lock(r);
    watch_supervisor(r, pid, process_start(pid));
}

static void read_record(struct run *r)
{
    struct str text;
    str_init(&text, ATTEMPT_EXIT_MAX);
    if (!r->recorded && durable_read(NULL, r->directory_fd, "record.json", r->uid, &text) == 0 &&
        attempt_record_parse(NULL, str_text(&text), text.length, &r->record) == 0)
        r->recorded = true;
    str_done(&text);
}

pid_t run_supervisor(struct run *r)
{
    read_record(r);
    find_supervisor(r);
    pid_t pid = r->own.supervisor_pid;
    return pid > 0 && process_start(pid) == r->own.supervisor_start ? pid : 0;
}

void run_begins(struct run *r)
{
    read_record(r);
    if (r->recorded || run_has_ended(r))
        return;
    r->recorded = true; /* the user was faster and removed record.json */
    r->record.started_wall_ms = clock_wall_ms();
}

void run_check_lease(struct run *r)
{
    const struct attempt_stop stop = {
        .reason = STOP_REASON_SUPERVISOR,
        .verdict = VERDICT_MOVED,
        .why = "its lease ended: the node had lost control for too long"};
    if (r->own.lease_after_ms > 0 && run_is_alive(r) &&
        clock_boot_ms() >= lease_deadline(&r->agent->lease) + r->own.lease_after_ms)
        run_stop(r, &stop);
}

void run_signal(struct run *r)
{
    pid_t pid = run_supervisor(r);
    if (pid == 0 || r->supervisor_fd < 0)
        return;
    log_write(r->agent->log, LOG_WARN, "supervisor unresponsive, SIGTERM sent", "attempt=%s pid=%d",
              r->name, pid);
    (void)syscall(SYS_pidfd_send_signal, r->supervisor_fd, SIGTERM, NULL, 0);
}

void run_force(struct run *r, bool again)
{
    pid_t pid = run_supervisor(r);
    bool is_known = pid > 0 && r->supervisor_fd >= 0;
    size_t count =
        is_known ? process_signal_descendants(pid, r->own.supervisor_start, SIGKILL, NULL) : 0;
    log_write(r->agent->log, LOG_WARN, "attempt outlived its deadline, SIGKILL sent",
              "attempt=%s processes=%zu supervisor=%s", r->name, count, again ? "yes" : "no");
    if (!again && is_known)
        return;
    (void)run_clean_up(r, true);
    if (is_known)
        (void)syscall(SYS_pidfd_send_signal, r->supervisor_fd, SIGKILL, NULL, 0);
}

static bool read_exit(const struct run *r, struct attempt_report *ret)
{
    struct str text;
    struct attempt_report exit;
    str_init(&text, ATTEMPT_EXIT_MAX);
    bool there = durable_read(NULL, r->directory_fd, "exit.json", r->uid, &text) == 0 &&
                 attempt_exit_parse(NULL, str_text(&text), text.length, &exit) == 0 &&
                 exit.workload == r->workload && exit.attempt == r->attempt;
    str_done(&text);
    if (there)
        *ret = exit;
    return there;
}

/* Records refused allocations, whose count is lost with the pages. */
static void tell_refusals(const struct run *r, struct attempt_exit *exit)
{
    struct session_usage usage = {0};
    if (r->session)
        session_measure(r->session, &usage);
    uint64_t count = usage.counters[STATUS_out_of_memory];
    double quota_mib = (double)r->own.terms.quota_bytes / (1 << 20);
    bool in_gib = quota_mib >= 1024;
    if (count > 0)
        (void)snprintf(exit->refused, sizeof exit->refused,
                       "%" PRIu64 " allocation%s refused by its quota of %.4g %s", count,
                       count == 1 ? " was" : "s were", in_gib ? quota_mib / 1024 : quota_mib,
                       in_gib ? "GiB" : "MiB");
}

void run_bury(struct run *r)
{
    struct attempt_report before;
    struct str text;
    struct error e = {0};
    if (read_exit(r, &before))
        return;
    str_init(&text, ATTEMPT_EXIT_MAX);
    if (attempt_exit_write(&r->life.kept.report, &text) < 0 ||
        durable_write(&e, r->directory_fd, "exit.json", str_text(&text), text.length) < 0 ||
        fsync(r->agent->attempts_fd) < 0)
        log_write(r->agent->log, LOG_WARN, "exit record not written", "attempt=%s error=\"%s\"",
                  r->name, e.text);
    str_done(&text);
}

/* Reaps the supervisor if it is a child. Returns false if the child is not dead yet, though its
 * lock is free. */
static bool reap_child(struct run *r)
{
    if (r->child_pid == 0 || waitpid(r->child_pid, NULL, WNOHANG) != 0) {
        r->child_pid = 0;
        return true;
    }
    if (r->look_ms >= LOOK_LAST_MS)
        kill(r->child_pid, SIGKILL); /* the child has released its lock but lives: tampering */
    return false;
}

bool run_clean_up(struct run *r, bool thoroughly)
{
    bool clean = cgroup_end(r->agent->cgroup_fd, r->name);
    if (!thoroughly)
        return clean;
    char mark[PROCESS_MARK_MAX];
    snprintf(mark, sizeof mark, "GPUMUX_MARK=%s/%s", r->agent->info.instance, r->name);
    return process_kill_marked(mark, r->uid) == 0 && clean;
}

static bool is_of_this_boot(const struct run *r)
{
    char boot_id[BOOT_ID_MAX];
    /* only the user's file tells if no agent has seen the supervisor; nothing tells: this boot */
    const char *known = r->own.boot_id[0] ? r->own.boot_id : r->record.boot_id;
    return !known[0] || (process_boot_id(boot_id) && str_equal(boot_id, known));
}

/* Returns whether processes may be left beside a record of the end: the user can write that record,
 * and no cgroup holds the processes. An agent with the user's uid is not protected anyway. */
static bool may_hide(const struct run *r)
{
    bool has_group = r->agent->cgroup_fd >= 0 &&
                     faccessat(r->agent->cgroup_fd, r->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    return !has_group && r->uid != geteuid();
}

static void look_at_the_dead(struct run *r)
{
    struct attempt_event event = {.kind = ATTEMPT_GONE};
    struct attempt_exit *exit = &event.exit;
    if (r->life.gone)
        return;
    mailbox_close(r);
    read_record(r);
    if (!reap_child(r)) {
        look_later(r);
        return;
    }
    exit->told = read_exit(r, &exit->report);
    if (!run_clean_up(r, !exit->told || may_hide(r))) {
        look_later(r);
        return;
    }
    if (!exit->told)
        exit->report.started_wall_ms = r->record.started_wall_ms;
    exit->recorded = r->recorded;
    exit->other_boot = r->recorded && !is_of_this_boot(r);
    exit->granted_here = r->granted;
    exit->unseen = r->is_unseen;
    exit->not_alone = r->is_not_alone;
    exit->verdict = r->stranded.verdict;
    str_copy(exit->why, sizeof exit->why, r->stranded.why);
    str_copy(exit->text, sizeof exit->text, r->start_text);
    tell_refusals(r, exit);
    run_tell(r, &event);
}

bool run_failed_unseen(struct run *r)
{
    struct attempt_report exit;
    read_record(r);
    return run_has_ended(r) && read_exit(r, &exit) &&
           (exit.failure == FAILURE_EXIT || exit.failure == FAILURE_SIGNAL) && is_of_this_boot(r);
}

void run_look(struct run *r)
{
    struct stat st;
    if (!run_is_alive(r) || r->pending) /* the agent holds the lock of a pending start */
        return;
    if (run_has_ended(r)) {
        look_at_the_dead(r);
        return;
    }
    (void)run_supervisor(r);
    if (r->recorded) {
        const struct attempt_event seen = {
            .kind = ATTEMPT_SEEN,
            .ready = fstatat(r->directory_fd, "ready", &st, AT_SYMLINK_NOFOLLOW) == 0,
            .started_wall_ms = r->record.started_wall_ms};
        run_tell(r, &seen);
    }
    /* During the start, the inherited pipe triggers the next look. */
    if (r->mailbox.fd < 0 && r->started_fd < 0 && !mailbox_connect(r))
        look_later(r);
    else if (r->mailbox.heard)
        r->look_ms = LOOK_FIRST_MS;
}

bool run_owns(struct run *r, pid_t pid)
{
    pid_t supervisor = run_supervisor(r);
    return cgroup_holds(r->agent->cgroup_fd, r->name, pid) ||
           (supervisor > 0 && process_descends(pid, supervisor));
}

void run_put_away(struct run *r)
{
    struct agent *a = r->agent;
    if (renameat(a->attempts_fd, r->name, a->finished_fd, r->name) < 0 && errno != ENOENT &&
        (durable_remove_tree(NULL, a->finished_fd, r->name) < 0 ||
         renameat(a->attempts_fd, r->name, a->finished_fd, r->name) < 0)) {
        log_write(a->log, LOG_WARN, "finished attempt not archived", "attempt=%s error=\"%s\"",
                  r->name, strerror(errno));
        return;
    }
    unlinkat(a->locks_fd, r->name, 0);
    own_record_remove(a->records_fd, r->name);
    retention_settled(a->retention);
    run_free(r);
}
