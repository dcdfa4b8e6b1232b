#include "node/checkpoint/suspend.h"

#include <dirent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/durable.h"
#include "node/agent_internal.h"
#include "node/supervisor/process.h"
#include "wire/json_writer.h"

#define LOCK_SUFFIX ".lock"

enum {
    RECORD_MAX = 16384,
    MEMINFO_MAX = 4096,
    CONTROL_ANSWER_MS = 10000,
    AGAIN_MS = 5000,
    MOVE_LEAST_MS = 60000,      /* what is allowed for, besides what the memory takes */
    MOVE_BYTES_PER_MS = 100000, /* a twentieth of what was measured: 33 GB in 17 s */
};

static double gib(uint64_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0 * 1024.0);
}

void suspend_init(struct run *r)
{
    checkpoint_init(&r->suspension.move);
}

bool suspend_is_on_the_way(const struct run *r)
{
    return r->report.suspension != SUSPENSION_NONE;
}

uint64_t suspend_bytes(const struct run *r)
{
    return r->report.suspension == SUSPENSION_DONE ? r->suspension.bytes : 0;
}

static bool is_off(const struct run *r)
{
    return r->report.suspension == SUSPENSION_DONE;
}

static void say(struct run *r, const char *text)
{
    str_copy(r->report.text, sizeof r->report.text, text);
}

/* ---- the record ---- */

static int write_record(struct error *e, const struct run *r)
{
    const struct run_suspension *s = &r->suspension;
    struct str text;
    struct json_writer w;
    str_init(&text, RECORD_MAX);
    json_writer_init(&w, &text);
    json_begin_object(&w);
    json_put_int(json_key(&w, "turn"), r->report.turn);
    json_put_bool(json_key(&w, "off"), s->wants_off);
    json_put_bool(json_key(&w, "done"), s->place == PLACE_HOST);
    json_put_uint(json_key(&w, "bytes"), s->bytes);
    json_begin_array(json_key(&w, "processes"));
    for (size_t i = 0; i < s->process_count; i++) {
        json_begin_array(&w);
        json_put_int(&w, s->processes[i].pid);
        json_put_uint(&w, s->processes[i].start);
        json_end_array(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    int result = str_failed(&text) ? error_set(e, ERR_TOO_LARGE, "it has too many processes")
                                   : durable_replace(e, r->agent->suspended_fd, r->name,
                                                     str_text(&text), text.length);
    str_done(&text);
    return result;
}

static bool parse_record(const char *text, size_t length, struct run *r)
{
    struct run_suspension *s = &r->suspension;
    json_int_t bytes, pid, start;
    json_t *processes, *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    int off, turn, done = true; /* an older agent did not say: most are */
    bool good = root && json_unpack(root, "{si sb sI so s?b}", "turn", &turn, "off", &off, "bytes",
                                    &bytes, "processes", &processes, "done", &done) == 0;
    size_t count = good ? json_array_size(processes) : 0;
    good = good && count <= CHECKPOINT_PROCESSES_MAX && turn > 0 && bytes >= 0;
    for (size_t i = 0; good && i < count; i++) {
        good = json_unpack(json_array_get(processes, i), "[II]", &pid, &start) == 0;
        if (good)
            s->processes[i] =
                (struct suspended_process){.pid = (pid_t)pid, .start = (uint64_t)start};
    }
    json_decref(root);
    if (!good)
        return false;
    s->process_count = count;
    s->bytes = (uint64_t)bytes;
    s->wants_off = off;
    s->place = done ? PLACE_HOST : PLACE_UNKNOWN;
    r->report.turn = turn;
    return true;
}

/* Not one that is held: the next to move this attempt would take another, and not wait. False: it is. */
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

static void remove_record(struct run *r)
{
    char lock[ATTEMPT_NAME_MAX + sizeof LOCK_SUFFIX];
    snprintf(lock, sizeof lock, "%s" LOCK_SUFFIX, r->name);
    unlinkat(r->agent->suspended_fd, r->name, 0);
    if (!remove_lock(r->agent, lock))
        r->agent->has_stale_locks = true;
}

/* Of attempts without a record. */
static void remove_stale_locks(struct agent *a)
{
    int fd = openat(a->suspended_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    a->has_stale_locks = false;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char name[ATTEMPT_NAME_MAX + sizeof LOCK_SUFFIX];
        bool fits = str_copy(name, sizeof name, entry->d_name);
        char *suffix = fits ? strstr(name, LOCK_SUFFIX) : NULL;
        if (!suffix)
            continue;
        *suffix = '\0';
        if (faccessat(a->suspended_fd, name, F_OK, 0) < 0 && !remove_lock(a, entry->d_name))
            a->has_stale_locks = true;
    }
    if (directory)
        closedir(directory);
    else if (fd >= 0)
        close(fd);
}

/* ---- moving ---- */

/* A process that has said its last word, or is not listened to any more, ends when it does. */
static void bury_mover(struct run *r, bool kill)
{
    pid_t left = checkpoint_abandon(&r->suspension.move, kill);
    if (left != 0)
        reaper_take(&r->agent->reaper, left);
}

void suspend_tidy(struct agent *a)
{
    if (a->has_stale_locks)
        remove_stale_locks(a);
}

static void proceed(struct run *r);
static void on_moved(void *arg, enum checkpoint_result result, const char *text);
static void ask_control(struct run *r);

static int start_move(struct error *e, struct run *r, bool off)
{
    struct run_suspension *s = &r->suspension;
    const struct agent *a = r->agent;
    pid_t pids[CHECKPOINT_PROCESSES_MAX];
    char lock_path[PATH_MAX];
    size_t count = 0;
    for (size_t i = 0; i < s->process_count; i++)
        if (process_start(s->processes[i].pid) == s->processes[i].start)
            pids[count++] = s->processes[i].pid;
    if (snprintf(lock_path, sizeof lock_path, "%s/suspended/%s" LOCK_SUFFIX, a->directory,
                 r->name) >= (int)sizeof lock_path)
        return error_set(e, ERR_INVALID, "the path of the node's state is too long");
    const struct checkpoint_order order = {.base = a->base,
                                           .off = off,
                                           .lock_path = lock_path,
                                           .pids = pids,
                                           .count = count,
                                           .limit_ms = MOVE_LEAST_MS +
                                                       (int64_t)(s->bytes / MOVE_BYTES_PER_MS),
                                           .emulate = a->emulate,
                                           .emulate_libraries = a->emulate_libraries,
                                           .on_end = on_moved,
                                           .arg = r};
    s->began_ms = clock_boot_ms();
    ward_rest(r->ward, true);
    if (checkpoint_start(&s->move, &order) < 0)
        return error_set(e, ERR_IO, "the process that moves it cannot be started");
    r->report.suspension = off ? SUSPENSION_LEAVING : SUSPENSION_RETURNING;
    return 0;
}

/* It is off its devices: they are others'. */
static void rest(struct run *r)
{
    struct error e = {0};
    r->suspension.place = PLACE_HOST;
    if (write_record(&e, r) < 0)
        log_write(r->agent->log, LOG_WARN, "cannot record that an attempt is suspended",
                  "attempt=%s error=\"%s\"", r->name, e.text);
    r->report.suspension = SUSPENSION_DONE;
    r->report.evicted = false;
    monitor_suspended(r);
}

/* It could not come back, and must not try again without an order. */
static void give_up_returning(struct run *r)
{
    r->suspension.wants_off = true;
    rest(r);
}

/* It is on them, as it was before. */
static void wake(struct run *r)
{
    r->report.suspension = SUSPENSION_NONE;
    r->suspension.place = PLACE_DEVICE;
    ward_rest(r->ward, false);
    remove_record(r);
    monitor_returns(r);
    monitor_alive(r);
}

/* It could not be suspended, and runs on. */
static void stay(struct run *r, const char *why)
{
    bool evicted = r->report.evicted;
    log_write(r->agent->log, LOG_WARN, "attempt cannot be suspended", "attempt=%s why=\"%s\"",
              r->name, why);
    wake(r);
    r->report.evicted = false;
    say(r, why);
    run_report(r);
    if (evicted)
        monitor_stays(r, why);
}

/* ---- when that fails ---- */

static void make_sure_later(struct run *r);

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct run *r = arg;
    const struct run_suspension *s = &r->suspension;
    if (!run_is_alive(r) || !is_off(r) || !s->wants_off || checkpoint_runs(&s->move))
        return;
    if (start_move(NULL, r, true) < 0)
        make_sure_later(r);
}

static void make_sure_later(struct run *r)
{
    struct run_suspension *s = &r->suspension;
    const struct timeval wait = {.tv_sec = AGAIN_MS / 1000};
    if (!s->again)
        s->again = evtimer_new(r->agent->base, on_again, r);
    if (s->again)
        event_add(s->again, &wait);
}

/* Its devices may be others' by now, and it stands still: it is not taken for one that runs, and must not become one. */
static void rest_in_doubt(struct run *r, const char *why)
{
    log_write(r->agent->log, LOG_WARN, "nobody knows whether an attempt is off its devices",
              "attempt=%s why=\"%s\"", r->name, why);
    rest(r);
    say(r, why);
    if (!r->suspension.wants_off) { /* another order came meanwhile */
        proceed(r);
        return;
    }
    make_sure_later(r);
    run_report(r);
}

/* It was to leave, and did not; or that was undone, or was not. */
static void end_failed_leaving(struct run *r, enum checkpoint_result result, const char *why)
{
    struct run_suspension *s = &r->suspension;
    bool undoes = s->failure[0] != '\0';
    bool is_on = undoes ? result == CHECKPOINT_DONE
                        : s->place == PLACE_DEVICE && result == CHECKPOINT_FAILED;
    if (!undoes && !is_on && s->place != PLACE_HOST && start_move(NULL, r, false) == 0) {
        str_copy(s->failure, sizeof s->failure, why); /* as it was, as far as that can be */
        return;
    }
    char said[WORKLOAD_TEXT_MAX];
    str_copy(said, sizeof said, undoes ? s->failure : why);
    s->failure[0] = '\0';
    if (is_on) {
        stay(r, said);
        return;
    }
    if (s->place != PLACE_HOST)
        s->wants_off = true; /* it could not come back, and waits for an order */
    rest_in_doubt(r, said);
}

static void on_moved(void *arg, enum checkpoint_result result, const char *text)
{
    struct run *r = arg;
    struct run_suspension *s = &r->suspension;
    bool leaves = r->report.suspension == SUSPENSION_LEAVING;
    double took_s = (double)(clock_boot_ms() - s->began_ms) / 1000;
    char said[WORKLOAD_TEXT_MAX], why[WORKLOAD_TEXT_MAX];
    str_copy(why, sizeof why, text); /* before it goes with its process */
    bury_mover(r, false);
    if (s->failure[0] || (leaves && result != CHECKPOINT_DONE)) {
        end_failed_leaving(r, result, why);
        return;
    }
    if (leaves)
        rest(r);
    else if (result == CHECKPOINT_DONE)
        wake(r);
    else
        give_up_returning(r);
    if (!leaves && result == CHECKPOINT_LOST)
        make_sure_later(r);
    log_write(r->agent->log, result == CHECKPOINT_DONE ? LOG_INFO : LOG_WARN,
              leaves ? "attempt was suspended" : "attempt was to resume",
              "attempt=%s bytes=%llu seconds=%.1f text=\"%s\"", r->name,
              (unsigned long long)s->bytes, took_s, why);
    snprintf(said, sizeof said, "%.1f GiB in %.1f s", gib(s->bytes), took_s);
    say(r, result == CHECKPOINT_DONE ? said : why);
    if (result == CHECKPOINT_DONE && is_off(r) != s->wants_off)
        proceed(r); /* another order came meanwhile */
    else if (r->report.evicted)
        ask_control(r); /* or its device changed its mind */
    else
        run_report(r);
}

/* ---- leaving ---- */

static void add_process(struct run_suspension *s, pid_t pid)
{
    for (size_t i = 0; i < s->process_count; i++)
        if (s->processes[i].pid == pid)
            return;
    if (s->process_count < CHECKPOINT_PROCESSES_MAX)
        s->processes[s->process_count++] =
            (struct suspended_process){.pid = pid, .start = process_start(pid)};
}

/* Those that have registered, and those that the devices know. */
static int find_processes(struct error *e, struct run *r)
{
    struct run_suspension *s = &r->suspension;
    struct gpu_sample *sample = r->agent->measured;
    pid_t members[CHECKPOINT_PROCESSES_MAX];
    struct ward_usage usage;
    uint64_t used = 0;
    sampler_read(r->agent->sampler, sample);
    s->process_count = 0;
    size_t count = ward_pids(r->ward, members, CHECKPOINT_PROCESSES_MAX);
    for (size_t i = 0; i < count; i++)
        add_process(s, members[i]);
    for (size_t i = 0; i < sample->process_count; i++) {
        const struct gpu_process *p = &sample->processes[i];
        if (!run_owns(r, p->pid))
            continue;
        add_process(s, p->pid);
        used += p->memory_used_bytes;
    }
    ward_measure(r->ward, &usage);
    s->bytes = used > usage.counted_bytes ? used : usage.counted_bytes;
    if (s->process_count == 0)
        return error_set(e, ERR_CONFLICT, "none of its processes uses a device");
    if (s->process_count == CHECKPOINT_PROCESSES_MAX)
        return error_set(e, ERR_TOO_LARGE, "it has more processes on its devices than %d",
                         CHECKPOINT_PROCESSES_MAX - 1);
    return 0;
}

/* Bytes of "MemAvailable:  123 kB"; 0: it is not there. */
static uint64_t meminfo_bytes(const char *text, const char *key)
{
    const char *line = strstr(text, key);
    return line ? strtoull(line + strlen(key), NULL, 10) << 10 : 0;
}

/* What others have begun to move is still counted as available. */
static uint64_t promised_bytes(const struct agent *a)
{
    uint64_t bytes = 0;
    list_for_each (it, &a->runs) {
        const struct run *r = list_entry(it, struct run, link);
        if (r->report.suspension == SUSPENSION_LEAVING)
            bytes += r->suspension.bytes;
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
    if (r->suspension.bytes <= room)
        return 0;
    return error_set(e, ERR_NO_MEMORY,
                     "it holds %.1f GiB of device memory, and its host has room for %.1f GiB",
                     gib(r->suspension.bytes), gib(room));
}

static int begin_leaving(struct error *e, struct run *r)
{
    if (!r->ward || r->report.phase != ATTEMPT_RUNNING)
        return error_set(e, ERR_CONFLICT, "it does not run on a device");
    if (ward_terms(r->ward)->has_mps)
        return error_set(e, ERR_UNSUPPORTED,
                         "it shares its device through MPS, whose clients cannot be suspended: "
                         "'gpumux requeue' it, or submit it without a quota or where mps is off");
    int result = find_processes(e, r);
    if (result == 0)
        result = check_host_memory(e, r);
    if (result == 0)
        result = write_record(e, r);
    return result < 0 ? result : start_move(e, r, true);
}

/* ---- coming back ---- */

static int begin_returning(struct error *e, struct run *r)
{
    char why[WORKLOAD_TEXT_MAX];
    if (!monitor_readmits(r, why))
        return error_set(e, ERR_CONFLICT, "%s", why);
    int result = write_record(e, r);
    if (result < 0)
        return result;
    monitor_returns(r);
    monitor_alive(r); /* it began long ago: evicted again, it is suspended again */
    return start_move(e, r, false);
}

/* Nothing is under way: does what is wanted, if it is not so already. */
static void proceed(struct run *r)
{
    struct run_suspension *s = &r->suspension;
    struct error e = {0};
    if (s->wants_off == is_off(r)) {
        run_report(r);
        return;
    }
    bool leaves = s->wants_off;
    say(r, "");
    int result = leaves ? begin_leaving(&e, r) : begin_returning(&e, r);
    if (result < 0 && leaves) {
        stay(r, e.text);
        return;
    }
    if (result < 0) {
        give_up_returning(r);
        say(r, e.text);
    }
    run_report(r);
}

void suspend_obey(struct run *r, int turn, bool off)
{
    if (turn <= r->report.turn || !run_is_alive(r)) {
        run_report(r);
        return;
    }
    r->report.turn = turn;
    r->suspension.wants_off = off;
    if (checkpoint_runs(&r->suspension.move))
        run_report(r); /* what is wanted now follows when that is done */
    else
        proceed(r);
}

/* ---- a device's wish ---- */

static void on_patience(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct run *r = arg;
    if (!r->report.evicted || suspend_is_on_the_way(r) || !run_is_alive(r))
        return;
    r->report.evicted = false;
    say(r, "");
    run_report(r);
    monitor_stays(r, "control did not answer");
}

static void ask_control(struct run *r)
{
    struct run_suspension *s = &r->suspension;
    int64_t wait_ms = r->agent->link.welcomed ? CONTROL_ANSWER_MS : 0;
    const struct timeval wait = {.tv_sec = wait_ms / 1000};
    if (!s->patience)
        s->patience = evtimer_new(r->agent->base, on_patience, r);
    if (s->patience)
        event_add(s->patience, &wait);
    say(r, s->evicted_why);
    run_report(r);
}

void suspend_evict(struct run *r, const char *why)
{
    r->report.evicted = true;
    str_copy(r->suspension.evicted_why, sizeof r->suspension.evicted_why, why);
    if (!suspend_is_on_the_way(r)) /* else it leaves already, or is asked for when it is back */
        ask_control(r);
}

/* ---- life ---- */

bool suspend_adopt(struct run *r)
{
    struct str text;
    str_init(&text, RECORD_MAX);
    bool there = durable_read(NULL, r->agent->suspended_fd, r->name, geteuid(), &text) == 0 &&
                 parse_record(str_text(&text), text.length, r);
    str_done(&text);
    if (there)
        r->report.suspension = r->suspension.wants_off ? SUSPENSION_LEAVING : SUSPENSION_RETURNING;
    return there;
}

void suspend_continue(struct run *r)
{
    struct error e = {0};
    if (!suspend_is_on_the_way(r))
        return;
    if (!r->suspension.wants_off)
        monitor_returns(r);
    if (start_move(&e, r, r->suspension.wants_off) == 0)
        return;
    if (r->suspension.wants_off) {
        rest_in_doubt(r, e.text);
        return;
    }
    give_up_returning(r);
    say(r, e.text);
}

void suspend_forget(struct run *r)
{
    bury_mover(r, false);
    if (r->suspension.patience)
        event_free(r->suspension.patience);
    if (r->suspension.again)
        event_free(r->suspension.again);
    r->suspension.patience = r->suspension.again = NULL;
}

void suspend_end(struct run *r)
{
    bury_mover(r, true);
    suspend_forget(r);
    remove_record(r);
}
