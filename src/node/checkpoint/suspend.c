#include "node/checkpoint/suspend.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/agent_internal.h"
#include "node/supervisor/process.h"

#define LOCK_SUFFIX ".lock"

enum {
    MEMINFO_MAX = 4096,
    MOVE_LEAST_MS = 60000,      /* time allowed in addition to the move itself */
    MOVE_BYTES_PER_MS = 100000, /* a twentieth of the measured speed: 33 GB in 17 s */
};

static double gib(uint64_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0 * 1024.0);
}

uint64_t suspend_bytes(const struct run *r)
{
    return r->life.kept.report.suspension == SUSPENSION_DONE ? r->own.moved_bytes : 0;
}

/* ---- locks ---- */

/* Removes a lock unless a mover holds it: the next mover of this attempt would take a new file's
 * lock without waiting. Returns false if the lock is held. */
static bool remove_lock(const struct agent *a, const char *lock)
{
    int fd = openat(a->suspended_fd, lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return true;
    bool is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (is_free)
        unlinkat(a->suspended_fd, lock, 0);
    close(fd);
    return is_free;
}

static void remove_own_lock(struct run *r)
{
    char lock[ATTEMPT_NAME_MAX + sizeof LOCK_SUFFIX];
    (void)snprintf(lock, sizeof lock, "%s" LOCK_SUFFIX, r->name);
    if (!remove_lock(r->agent, lock))
        r->agent->has_stale_locks = true;
}

static void remove_stale_locks(struct agent *a)
{
    int fd = openat(a->suspended_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    a->has_stale_locks = false;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (strstr(entry->d_name, LOCK_SUFFIX) && !remove_lock(a, entry->d_name))
            a->has_stale_locks = true;
    }
    if (directory)
        closedir(directory);
    else if (fd >= 0)
        close(fd);
}

/* ---- moving ---- */

/* Abandons a mover after its result or without waiting for it; the reaper reaps the process
 * later. */
static void bury_mover(struct run *r, bool kill)
{
    pid_t left = checkpoint_abandon(&r->move, kill);
    if (left != 0)
        reaper_take(&r->agent->reaper, left);
}

void suspend_tidy(struct agent *a)
{
    if (a->has_stale_locks)
        remove_stale_locks(a);
}

static void tell_moved(struct run *r, enum attempt_moved moved, const char *text)
{
    struct attempt_event event = {.kind = ATTEMPT_MOVED, .moved = moved};
    str_copy(event.text, sizeof event.text, text);
    run_tell(r, &event);
}

static void on_moved(void *arg, enum checkpoint_result result, const char *text)
{
    static const enum attempt_moved moved[] = {[CHECKPOINT_DONE] = MOVED_DONE,
                                               [CHECKPOINT_FAILED] = MOVED_FAILED,
                                               [CHECKPOINT_LOST] = MOVED_LOST};
    struct run *r = arg;
    bool leaves = r->life.kept.report.suspension == SUSPENSION_LEAVING;
    double took_s = (double)(clock_boot_ms() - r->move_began_ms) / 1000;
    char said[WORKLOAD_TEXT_MAX], why[WORKLOAD_TEXT_MAX];
    str_copy(why, sizeof why, text); /* before the text goes with its process */
    bury_mover(r, false);
    if (result == CHECKPOINT_DONE)
        log_write(r->agent->log, LOG_INFO, "attempt memory moved",
                  "attempt=%s to=%s bytes=%llu seconds=%.1f", r->name, leaves ? "host" : "device",
                  (unsigned long long)r->own.moved_bytes, took_s);
    else
        log_write(r->agent->log, LOG_WARN, "attempt memory move failed",
                  "attempt=%s to=%s error=\"%s\" seconds=%.1f", r->name, leaves ? "host" : "device",
                  why, took_s);
    (void)snprintf(said, sizeof said, "%.1f GiB in %.1f s", gib(r->own.moved_bytes), took_s);
    tell_moved(r, moved[result], result == CHECKPOINT_DONE ? said : why);
    if (!attempt_stands_still(&r->life))
        remove_own_lock(r);
}

static int start_move(struct error *e, struct run *r, bool off)
{
    const struct own_record *own = &r->own;
    const struct agent *a = r->agent;
    pid_t pids[CHECKPOINT_PROCESSES_MAX];
    char lock_path[PATH_MAX];
    size_t count = 0;
    for (size_t i = 0; i < own->moved_count; i++)
        if (process_start(own->moved[i].pid) == own->moved[i].start)
            pids[count++] = own->moved[i].pid;
    if (snprintf(lock_path, sizeof lock_path, "%s/suspended/%s" LOCK_SUFFIX, a->directory,
                 r->name) >= (int)sizeof lock_path)
        return error_set(e, ERR_INVALID, "the path of the node's state is too long");
    const struct checkpoint_order order = {
        .base = a->base,
        .off = off,
        .lock_path = lock_path,
        .pids = pids,
        .count = count,
        .limit_ms = MOVE_LEAST_MS + (int64_t)(own->moved_bytes / MOVE_BYTES_PER_MS),
        .emulate = a->emulate,
        .emulate_libraries = a->emulate_libraries,
        .on_end = on_moved,
        .arg = r};
    r->move_began_ms = clock_boot_ms();
    if (checkpoint_start(&r->move, &order) < 0)
        return error_set(e, ERR_IO, "the process that moves it cannot be started");
    return 0;
}

/* ---- processes to move, and host memory ---- */

static void add_process(struct own_record *own, pid_t pid)
{
    for (size_t i = 0; i < own->moved_count; i++)
        if (own->moved[i].pid == pid)
            return;
    if (own->moved_count < CHECKPOINT_PROCESSES_MAX)
        own->moved[own->moved_count++] =
            (struct moved_process){.pid = pid, .start = process_start(pid)};
}

/* Finds the processes: registered ones, and those that the devices list. */
static int find_processes(struct error *e, struct run *r)
{
    struct own_record *own = &r->own;
    struct gpu_sample *sample = r->agent->measured;
    pid_t members[CHECKPOINT_PROCESSES_MAX];
    struct session_usage usage;
    uint64_t used = 0;
    sampler_read(r->agent->sampler, sample);
    own->moved_count = 0;
    size_t count = session_pids(r->session, members, CHECKPOINT_PROCESSES_MAX);
    for (size_t i = 0; i < count; i++)
        add_process(own, members[i]);
    for (size_t i = 0; i < sample->process_count; i++) {
        const struct gpu_process *p = &sample->processes[i];
        if (!run_owns(r, p->pid))
            continue;
        add_process(own, p->pid);
        used += p->memory_used_bytes;
    }
    session_measure(r->session, &usage);
    own->moved_bytes = used > usage.counted_bytes ? used : usage.counted_bytes;
    if (own->moved_count == 0)
        return error_set(e, ERR_CONFLICT, "none of its processes uses a device");
    if (own->moved_count == CHECKPOINT_PROCESSES_MAX)
        return error_set(e, ERR_TOO_LARGE, "it has more processes on its devices than %d",
                         CHECKPOINT_PROCESSES_MAX - 1);
    return 0;
}

/* Returns the bytes of a line such as "MemAvailable:  123 kB"; 0: no such line. */
static uint64_t meminfo_bytes(const char *text, const char *key)
{
    const char *line = strstr(text, key);
    return line ? strtoull(line + strlen(key), NULL, 10) << 10 : 0;
}

/* Returns the memory of moves in flight, which still counts as available. */
static uint64_t promised_bytes(const struct agent *a)
{
    uint64_t bytes = 0;
    list_for_each (it, &a->runs) {
        const struct run *r = list_entry(it, struct run, link);
        if (r->life.kept.report.suspension == SUSPENSION_LEAVING && checkpoint_runs(&r->move))
            bytes += r->own.moved_bytes;
    }
    return bytes;
}

static int check_host_memory(struct error *e, const struct run *r)
{
    char text[MEMINFO_MAX];
    FILE *file = fopen("/proc/meminfo", "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = '\0';
    uint64_t reserve =
        meminfo_bytes(text, "MemTotal:") / 100 * (uint64_t)r->agent->config->suspend_reserve;
    uint64_t available = meminfo_bytes(text, "MemAvailable:");
    uint64_t taken = reserve + promised_bytes(r->agent);
    uint64_t room = available > taken ? available - taken : 0;
    if (r->own.moved_bytes <= room)
        return 0;
    return error_set(e, ERR_NO_MEMORY,
                     "it holds %.1f GiB of device memory, and its host has room for %.1f GiB",
                     gib(r->own.moved_bytes), gib(room));
}

/* Finds and records the processes before any memory is moved. */
static int prepare_leaving(struct error *e, struct run *r)
{
    if (!r->session)
        return error_set(e, ERR_CONFLICT, "it does not run on a device");
    int result = find_processes(e, r);
    if (result == 0)
        result = check_host_memory(e, r);
    if (result == 0)
        result = own_record_save(e, r->agent->records_fd, r->name, &r->own, &r->life.kept);
    return result;
}

void suspend_move(struct run *r, bool off, bool again)
{
    struct error e = {0};
    int result = off && !again ? prepare_leaving(&e, r) : 0;
    if (result == 0)
        result = start_move(&e, r, off);
    if (result == 0)
        return;
    log_write(r->agent->log, LOG_WARN, "attempt memory move failed",
              "attempt=%s to=%s error=\"%s\"", r->name, off ? "host" : "device", e.text);
    tell_moved(r, MOVED_REFUSED, e.text);
}

/* ---- life ---- */

void suspend_forget(struct run *r)
{
    bury_mover(r, false);
}

void suspend_end(struct run *r)
{
    bury_mover(r, true);
    remove_own_lock(r);
}
