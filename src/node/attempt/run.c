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
#include "node/attempt/retention.h"
#include "node/attempt/verdict_file.h"

enum { LOOK_FIRST_MS = 2, LOOK_LAST_MS = 100 };

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    run_look(arg);
}

struct run *run_new(struct agent *a, uint64_t workload, int attempt, int directory_fd)
{
    struct run *r = calloc(1, sizeof *r);
    struct stat st;
    if (r)
        r->look = evtimer_new(a->base, on_look, r);
    if (!r || !r->look || fstat(directory_fd, &st) < 0) {
        close(directory_fd);
        if (r && r->look)
            event_free(r->look);
        free(r);
        return NULL;
    }
    r->agent = a;
    r->workload = workload;
    r->attempt = attempt;
    attempt_name(workload, attempt, r->name);
    r->directory_fd = directory_fd;
    r->uid = st.st_uid;
    r->report = (struct attempt_report){
        .workload = workload, .attempt = attempt, .phase = ATTEMPT_ACCEPTED, .exit_code = -1};
    r->stop_grace_ms = -1;
    r->end_by_ms = INT64_MAX;
    r->started_fd = -1;
    r->look_ms = LOOK_FIRST_MS;
    mailbox_init(&r->mailbox);
    suspend_init(r);
    list_append(&a->runs, &r->link);
    a->run_count++;
    return r;
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
    event_free(r->look);
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
    return r->report.phase != ATTEMPT_EXITED;
}

void run_report(struct run *r)
{
    struct nodemsg msg = {.type = NODEMSG_REPORT,
                          .session = r->agent->link.session,
                          .attempt_count = 1,
                          .attempts = &r->report};
    link_send(r->agent, &msg);
}

static void look_later(struct run *r)
{
    const struct timeval wait = {.tv_sec = r->look_ms / 1000, .tv_usec = r->look_ms % 1000 * 1000};
    event_add(r->look, &wait);
    if (r->look_ms < LOOK_LAST_MS)
        r->look_ms *= 2;
}

/* Nobody holds the attempt's lock: its supervisor is no more, or never was. */
static bool lock_is_free(const struct run *r)
{
    int fd = openat(r->agent->locks_fd, r->name, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT;
    bool is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return is_free;
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

/* Its record is its user's to write, so it may name none but that user's processes. */
void run_terminate(struct run *r)
{
    char path[32];
    struct stat st;
    read_record(r);
    pid_t pid = r->recorded ? r->record.supervisor_pid : 0;
    int pid_fd = pid > 1 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    snprintf(path, sizeof path, "/proc/%d", pid);
    if (pid_fd >= 0 && process_start(pid) == r->record.supervisor_start && stat(path, &st) == 0 &&
        st.st_uid == r->uid) {
        log_write(r->agent->log, LOG_WARN, "a supervisor takes no word: it gets a signal",
                  "attempt=%s pid=%d", r->name, pid);
        (void)syscall(SYS_pidfd_send_signal, pid_fd, SIGTERM, NULL, 0);
    }
    if (pid_fd >= 0)
        close(pid_fd);
}

static bool read_exit(struct run *r)
{
    struct str text;
    struct attempt_report exit;
    str_init(&text, ATTEMPT_EXIT_MAX);
    bool there = durable_read(NULL, r->directory_fd, "exit.json", r->uid, &text) == 0 &&
                 attempt_exit_parse(NULL, str_text(&text), text.length, &exit) == 0 &&
                 exit.workload == r->workload && exit.attempt == r->attempt;
    str_done(&text);
    if (there)
        r->report = exit;
    return there;
}

/* What its quota refused it is often why it failed, and is not known any more once its pages are gone. */
static void tell_refusals(struct run *r)
{
    struct ward_usage usage = {0};
    char before[WORKLOAD_TEXT_MAX];
    if (r->ward)
        ward_measure(r->ward, &usage);
    uint64_t count = usage.counters[STATUS_out_of_memory];
    if (count == 0)
        return;
    str_copy(before, sizeof before, r->report.text);
    double quota_mib = (double)ward_terms(r->ward)->quota_bytes / (1 << 20);
    bool in_gib = quota_mib >= 1024;
    (void)snprintf(r->report.text, sizeof r->report.text,
                   "%.100s%s%" PRIu64 " allocation%s refused by its quota of %.4g %s", before,
                   before[0] ? "; " : "", count, count == 1 ? " was" : "s were",
                   in_gib ? quota_mib / 1024 : quota_mib, in_gib ? "GiB" : "MiB");
}

/* Its end is known: tell control, and everybody who waits for something of it. */
static void announce_end(struct run *r)
{
    event_del(r->look);
    mailbox_done(r);
    suspend_end(r);
    monitor_left(r, r->report.failure != FAILURE_NONE);
    tell_refusals(r);
    protect_end(r);
    if (r->tenancy.verdict != VERDICT_OWN) {
        bool is_late = r->report.failure == FAILURE_TIMEOUT && r->tenancy.verdict != VERDICT_GUILTY;
        r->report.verdict = r->tenancy.verdict;
        if (!is_late) /* which says more */
            str_copy(r->report.text, sizeof r->report.text, r->tenancy.why);
    }
    log_write(r->agent->log, LOG_INFO, "attempt ended",
              "attempt=%s failure=%s exit_code=%d signal=%d", r->name,
              failure_reason_name(r->report.failure), r->report.exit_code, r->report.signal);
    run_report(r);
    reader_wake(r->agent);
}

void run_bury(struct run *r, enum failure_reason failure, int signal, bool never_ran,
              const char *sentence)
{
    r->report = (struct attempt_report){.workload = r->workload,
                                        .attempt = r->attempt,
                                        .phase = ATTEMPT_EXITED,
                                        .started_wall_ms = r->record.started_wall_ms,
                                        .ended_wall_ms = clock_wall_ms(),
                                        .failure = failure,
                                        .exit_code = -1,
                                        .signal = signal,
                                        .never_ran = never_ran};
    str_copy(r->report.text, sizeof r->report.text, sentence);
    struct str text;
    struct error e = {0};
    str_init(&text, ATTEMPT_EXIT_MAX);
    if (attempt_exit_write(&r->report, &text) < 0 ||
        durable_write(&e, r->directory_fd, "exit.json", str_text(&text), text.length) < 0 ||
        fsync(r->agent->attempts_fd) < 0)
        /* The word stands as long as we live; an agent after us comes to the same one. */
        log_write(r->agent->log, LOG_WARN, "cannot record an attempt's end",
                  "attempt=%s error=\"%s\"", r->name, e.text);
    str_done(&text);
    announce_end(r);
}

/* Our own child must be reaped. False: not yet dead, though its lock is free. */
static bool reap_child(struct run *r)
{
    if (r->child_pid == 0 || waitpid(r->child_pid, NULL, WNOHANG) != 0) {
        r->child_pid = 0;
        return true;
    }
    if (r->look_ms >= LOOK_LAST_MS)
        kill(r->child_pid, SIGKILL); /* it let go of its lock, and lives: somebody meddled */
    return false;
}

/* Ends whatever a dead supervisor could not. False: something still lives. */
static bool clean_up(struct run *r, bool thoroughly)
{
    bool clean = cgroup_end(r->agent->cgroup_fd, r->name);
    if (!thoroughly)
        return clean;
    char mark[PROCESS_MARK_MAX];
    snprintf(mark, sizeof mark, "GPUMUX_MARK=%s/%s", r->agent->info.instance, r->name);
    return process_kill_marked(mark) == 0 && clean;
}

static void bury_the_killed(struct run *r)
{
    char boot_id[BOOT_ID_MAX];
    if (r->recorded && process_boot_id(boot_id) && !str_equal(boot_id, r->record.boot_id))
        /* Not its own failure: no reason, but a signal says that it was ended. */
        run_bury(r, FAILURE_NONE, SIGKILL, false, "it ended when the machine was restarted");
    else if (r->recorded)
        run_bury(r, FAILURE_SIGNAL, SIGKILL, false, "its supervisor was killed");
    else if (r->granted)
        run_bury(r, FAILURE_START, 0, true,
                 r->start_text[0] ? r->start_text : "its supervisor could not be started");
    else
        run_bury(r, FAILURE_NONE, 0, true, "its supervisor ended before it started anything");
}

static void look_at_the_dead(struct run *r)
{
    mailbox_close(r);
    read_record(r);
    if (!reap_child(r)) {
        look_later(r);
        return;
    }
    struct attempt_report before = r->report;
    bool told = read_exit(r);
    struct attempt_report exit = r->report;
    r->report = before; /* until nothing of it lives */
    if (!clean_up(r, !told) ||
        (told && (monitor_doubts(r, exit.failure != FAILURE_NONE) || protect_doubts(r, &exit)))) {
        look_later(r);
        return;
    }
    r->report = exit;
    if (told)
        announce_end(r);
    else
        bury_the_killed(r);
}

bool run_failed_unseen(struct run *r)
{
    char boot_id[BOOT_ID_MAX];
    struct attempt_report before = r->report;
    bool failed = lock_is_free(r) && read_exit(r) &&
                  (r->report.failure == FAILURE_EXIT || r->report.failure == FAILURE_SIGNAL);
    r->report = before;
    read_record(r);
    return failed && r->recorded && process_boot_id(boot_id) &&
           str_equal(boot_id, r->record.boot_id);
}

void run_look(struct run *r)
{
    struct stat st;
    if (!run_is_alive(r))
        return;
    if (r->pending)
        return; /* its lock is ours, until it is started */
    if (lock_is_free(r)) {
        look_at_the_dead(r);
        return;
    }
    enum attempt_phase before = r->report.phase;
    read_record(r);
    if (r->recorded) {
        r->report.started_wall_ms = r->record.started_wall_ms;
        bool ready = fstatat(r->directory_fd, "ready", &st, AT_SYMLINK_NOFOLLOW) == 0;
        r->report.phase = ready ? ATTEMPT_RUNNING : ATTEMPT_STARTING;
    }
    if (r->report.phase > before)
        run_report(r);
    else
        r->report.phase = before;
    monitor_alive(r);
    /* While it starts, the pipe that it inherited tells when to look again. */
    if (r->mailbox.fd < 0 && r->started_fd < 0 && !mailbox_connect(r))
        look_later(r);
    else if (r->mailbox.heard)
        r->look_ms = LOOK_FIRST_MS;
    mailbox_insist(r);
}

bool run_owns(struct run *r, pid_t pid)
{
    read_record(r);
    return cgroup_holds(r->agent->info.instance, r->name, pid) ||
           (r->recorded && process_start(r->record.supervisor_pid) == r->record.supervisor_start &&
            process_descends(pid, r->record.supervisor_pid));
}

void run_settle(struct run *r)
{
    struct agent *a = r->agent;
    if (run_is_alive(r))
        return;
    if (renameat(a->attempts_fd, r->name, a->finished_fd, r->name) < 0 && errno != ENOENT &&
        (durable_remove_tree(NULL, a->finished_fd, r->name) < 0 ||
         renameat(a->attempts_fd, r->name, a->finished_fd, r->name) < 0)) {
        log_write(a->log, LOG_WARN, "cannot put away an attempt", "attempt=%s error=\"%s\"",
                  r->name, strerror(errno));
        return;
    }
    unlinkat(a->locks_fd, r->name, 0);
    verdict_remove(a->terms_fd, r->name);
    retention_settled(a->retention);
    run_free(r);
}
