/* The agent's part in protection: which attempts are wards of the registrar, and on which terms. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/durable.h"
#include "node/agent_internal.h"
#include "node/mps/mps_control.h"
#include "node/supervisor/process.h"
#include "node/supervisor/supervisor.h"

enum {
    MEASURE_MS = 1000,
    MEASURE_SOON_MS = 20, /* while somebody's memory is not known to be free */
    SOCKET_PATH_MAX = 108,
    DOUBT_MS_MAX = 10000,
    TERMINATE_BEFORE_MS = 500, /* before it is killed */
    /* A process waits for 1.5 s for its work before it ends: in that time MPS must have ended a kernel that lasts longer. Short ones
     * that come to an end one by one, beside others that fill the device, are none of that. */
    STUCK_MS = 500,
    STUCK_JOIN_MS = 900, /* while somebody joins, whom it could hurt */
    JOIN_LOOK_MS = 20,
    JOIN_MS_MAX = 5000, /* nobody joins for ever */
};

static void measure_after(struct agent *a, int ms)
{
    const struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    event_add(a->measure, &wait);
}

static void on_measure(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct agent *a = arg;
    reaper_look(&a->reaper);
    suspend_tidy(a);
    sampler_read(a->sampler, a->measured);
    registrar_measure(a->registrar, a->measured);
    bool waits = registrar_waits(a->registrar);
    if (waits)
        sampler_hurry(a->sampler);
    a->measures_soon = waits;
    measure_after(a, waits ? MEASURE_SOON_MS : MEASURE_MS);
}

static void on_death(void *arg)
{
    struct agent *a = arg;
    sampler_hurry(a->sampler);
    if (!a->measures_soon) /* else those who die one after the other put it off for ever */
        measure_after(a, MEASURE_SOON_MS);
    a->measures_soon = true;
}

/* ---- MPS ---- */

#define MPS_IS_ANOTHERS "MPS is for one user at a time here, and another has it"

bool protect_mps_path(const struct agent *a, const char *uuid, char *path, size_t size)
{
    char directory[PATH_MAX];
    return snprintf(directory, sizeof directory, "%s/mps", a->directory) < (int)sizeof directory &&
           mps_directory(directory, uuid, path, size);
}

static bool is_on(const struct run *r, const char *uuid)
{
    return r->ward && r->uses_mps && str_equal(ward_terms(r->ward)->devices[0], uuid);
}

/* The next agent finds them there. */
static int save_terms(struct error *e, const struct run *r, const struct terms *terms)
{
    struct str text;
    str_init(&text, TERMS_FILE_MAX);
    int result = terms_write(terms, &text);
    if (result < 0)
        error_set(e, ERR_TOO_LARGE, "its terms are too large");
    else
        result = durable_replace(e, r->agent->terms_fd, r->name, str_text(&text), text.length);
    str_done(&text);
    return result;
}

/* It runs all the same, in turns. */
static void do_without(struct run *r, const char *why)
{
    struct error e = {0};
    ward_lose_mps(r->ward, why);
    if (save_terms(&e, r, ward_terms(r->ward)) < 0)
        log_write(r->agent->log, LOG_ERROR, "cannot record that an attempt runs without MPS",
                  "attempt=%s error=\"%s\"", r->name, e.text);
    monitor_isolated(r, ward_terms(r->ward));
}

/* failure: why there is no MPS; NULL: it is ready. */
static void start_waiting(struct agent *a, const char *uuid, const char *failure)
{
    list_for_each_safe (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        if (!r->pending || !is_on(r, uuid))
            continue;
        if (failure) {
            do_without(r, failure);
        } else if (!mps_takes(a->mps, uuid, r->uid)) {
            do_without(r, MPS_IS_ANOTHERS);
            mps_release(a->mps, uuid);
            r->uses_mps = false;
        }
        launch_pending(r);
    }
}

static void on_mps(void *arg, const char *uuid, enum mps_state state, const char *text)
{
    struct agent *a = arg;
    bool bad = state == MPS_SILENT || state == MPS_BROKEN || state == MPS_FAILED;
    log_write(a->log, bad ? LOG_WARN : LOG_INFO, "MPS", "device=%s state=%s text=\"%s\"", uuid,
              mps_state_name(state), text);
    monitor_mps(a, uuid, state, text);
    if (state == MPS_READY || state == MPS_FAILED)
        start_waiting(a, uuid, state == MPS_FAILED ? text : NULL);
}

static void on_terminated(void *arg, const char *uuid)
{
    struct agent *a = arg;
    registrar_go_on(a->registrar, uuid);
}

bool protect_mps_is_off(const struct agent *a)
{
    return !a->mps || str_equal(a->config->mps, "off");
}

/* Where MPS is off, or its program gone, an agent before us may have left daemons, and clients of theirs. */
static int open_mps(struct error *e, struct agent *a)
{
    char directory[PATH_MAX];
    bool is_off = str_equal(a->config->mps, "off");
    if (!a->mps_control || (is_off && faccessat(a->directory_fd, "mps", F_OK, 0) < 0))
        return 0;
    if (snprintf(directory, sizeof directory, "%s/mps", a->directory) >= (int)sizeof directory ||
        (mkdirat(a->directory_fd, "mps", 0711) < 0 && errno != EEXIST))
        return error_set(e, ERR_IO, "the directory mps cannot be made");
    const struct mps_options options = {.base = a->base,
                                        .log = a->log,
                                        .program = a->mps_control,
                                        .directory = directory,
                                        .emulate = a->emulate,
                                        .emulate_libraries = a->emulate_libraries,
                                        .on_change = on_mps,
                                        .on_terminated = on_terminated,
                                        .arg = a};
    /* Before one of ours makes such a directory again. */
    mps_control_kill_orphans(a->info.devices, a->info.device_count);
    return mps_new(e, &options, &a->mps);
}

static const char *why_without_mps(const struct agent *a, const struct grant *grant, uid_t user)
{
    char path[PATH_MAX];
    if (str_equal(a->config->mps, "off"))
        return "MPS is off on this node";
    if (!a->mps)
        return "MPS is not installed";
    if (!a->config->protection || grant->spec->protection == PROTECTION_OFF)
        return "protection is off";
    if (grant->suspect)
        return "it is suspected of a GPU fault, which must be its own";
    if (grant->device_count != 1)
        return "it has several devices";
    if (grant->spec->needs.quota_bytes == 0)
        return "it has its device to itself";
    if (!protect_mps_path(a, grant->devices[0], path, sizeof path))
        return "the path of the node's state is too long for a socket";
    if (mps_has_failed(a->mps, grant->devices[0]))
        return "MPS cannot be started";
    if (!mps_takes(a->mps, grant->devices[0], user))
        return MPS_IS_ANOTHERS;
    return NULL;
}

static int use_mps(struct error *e, struct run *r, bool again)
{
    const struct terms *terms = ward_terms(r->ward);
    if (!terms->has_mps || !r->agent->mps)
        return 0;
    int result = again ? mps_use_again(e, r->agent->mps, terms->devices[0], r->uid)
                       : mps_use(e, r->agent->mps, terms->devices[0], r->uid);
    r->uses_mps = result == 0;
    return result;
}

bool protect_must_wait(const struct run *r)
{
    enum mps_state state =
        r->uses_mps ? mps_state_of(r->agent->mps, ward_terms(r->ward)->devices[0]) : MPS_READY;
    return state != MPS_READY; /* if it fails, whoever waits is told */
}

bool protect_doubts(struct run *r, const struct attempt_report *exit)
{
    if (!r->uses_mps || exit->failure == FAILURE_NONE || r->tenancy.verdict != VERDICT_OWN)
        return false;
    if (r->doubt_ms == 0)
        r->doubt_ms = clock_boot_ms();
    return clock_boot_ms() - r->doubt_ms < DOUBT_MS_MAX &&
           !mps_is_well_since(r->agent->mps, ward_terms(r->ward)->devices[0], r->doubt_ms);
}

/* Without its program a daemon cannot be asked for anything: it is killed when nobody has it any more. */
static void kill_unused_mps(struct agent *a)
{
    for (int i = 0; i < a->info.device_count; i++) {
        const char *uuid = a->info.devices[i].uuid;
        struct mps_control control = {0};
        bool is_used = false;
        list_for_each (it, &a->runs) {
            const struct run *r = list_entry(it, struct run, link);
            is_used = is_used || (r->ward && ward_terms(r->ward)->has_mps &&
                                  str_equal(ward_terms(r->ward)->devices[0], uuid));
        }
        if (!is_used && protect_mps_path(a, uuid, control.directory, sizeof control.directory))
            mps_control_kill(&control);
    }
}

void protect_start(struct agent *a)
{
    if (a->mps)
        mps_sweep(a->mps, a->info.devices, a->info.device_count);
    else
        kill_unused_mps(a);
}

/* ---- ending ---- */

/* terminate_client hurts whoever is just joining the server: it waits for them, and they for it. */
static bool somebody_joins(const struct run *but)
{
    list_for_each (it, &but->agent->runs) {
        const struct run *r = list_entry(it, struct run, link);
        if (r != but && is_on(r, ward_terms(but->ward)->devices[0]) && ward_joins(r->ward))
            return true;
    }
    return false;
}

static void look_again(struct run *r, int64_t ms)
{
    const struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    event_add(r->terminate, &wait);
}

static void terminate(struct run *r, const pid_t *pids, size_t count)
{
    const char *uuid = ward_terms(r->ward)->devices[0];
    if (count > 0 && mps_terminate(r->agent->mps, uuid, pids, count))
        registrar_hold(r->agent->registrar, uuid);
}

static void on_terminate(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct run *r = arg;
    pid_t pids[MPS_CLIENTS_MAX];
    const struct control_command kill = {.kind = CONTROL_KILL};
    if (!r->uses_mps || !run_is_alive(r))
        return;
    if (r->terminated) { /* it was asked, its work was ended, and it is still there */
        (void)mailbox_post(r, 0, &kill);
        return;
    }
    if (r->join_until_ms == 0)
        r->join_until_ms = clock_boot_ms() + JOIN_MS_MAX;
    if (somebody_joins(r) && clock_boot_ms() < r->join_until_ms) {
        look_again(r, JOIN_LOOK_MS);
        return;
    }
    terminate(r, pids, ward_pids(r->ward, pids, MPS_CLIENTS_MAX));
    r->terminated = true;
    if (r->kill_follows)
        look_again(r, TERMINATE_BEFORE_MS);
}

static bool prepare_terminate(struct run *r)
{
    if (!r->uses_mps || !r->ward)
        return false;
    if (!r->terminate)
        r->terminate = evtimer_new(r->agent->base, on_terminate, r);
    return r->terminate != NULL;
}

void protect_terminate(struct run *r)
{
    if (!prepare_terminate(r) || r->terminated)
        return;
    event_del(r->terminate);
    on_terminate(-1, 0, r);
}

void protect_look(struct agent *a)
{
    pid_t pids[MPS_CLIENTS_MAX];
    list_for_each (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        if (r->ward && r->uses_mps)
            terminate(r, pids,
                      ward_take_stuck(r->ward, somebody_joins(r) ? STUCK_JOIN_MS : STUCK_MS, pids,
                                      MPS_CLIENTS_MAX));
    }
}

bool protect_will_kill(struct run *r)
{
    bool waits = r->uses_mps && r->join_until_ms > 0 && !r->terminated;
    r->kill_follows = r->kill_follows || waits;
    return waits;
}

int64_t protect_stop(struct run *r, int64_t grace_ms)
{
    if (!prepare_terminate(r))
        return grace_ms;
    if (grace_ms < TERMINATE_BEFORE_MS)
        grace_ms = TERMINATE_BEFORE_MS;
    r->kill_follows = true;
    if (!r->terminated)
        look_again(r, grace_ms - TERMINATE_BEFORE_MS);
    else
        look_again(r, grace_ms);
    return grace_ms + JOIN_MS_MAX;
}

/* ---- wards ---- */

/* On an emulated device a context costs what the devices were made with: often nothing, which is not said by
 * 0. */
static uint64_t context_bytes(const struct agent *a)
{
    const char *mib = getenv("GPUMUX_EMU_CONTEXT_MIB");
    uint64_t bytes = a->emulate && mib ? strtoull(mib, NULL, 10) << 20 : 0;
    return a->emulate && bytes == 0 ? 1 : bytes;
}

int protect_open(struct error *e, struct agent *a)
{
    char directory[PATH_MAX];
    if (snprintf(directory, sizeof directory, "%s/register", a->directory) >= (int)sizeof directory)
        return error_set(e, ERR_INVALID, "the path of the state directory is too long");
    a->measured = calloc(1, sizeof *a->measured);
    a->measure = evtimer_new(a->base, on_measure, a);
    if (!a->measured || !a->measure)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    const struct registrar_options options = {.base = a->base,
                                              .log = a->log,
                                              .directory = directory,
                                              .directory_fd = a->register_fd,
                                              .context_bytes = context_bytes(a),
                                              .window_us = (uint32_t)a->config->window_us,
                                              .linger_us = (uint32_t)a->config->linger_us,
                                              .gate_us_max = (uint32_t)a->config->gate_us_max,
                                              .on_death = on_death,
                                              .arg = a};
    int r = registrar_new(e, &options, &a->registrar);
    if (r == 0)
        r = open_mps(e, a);
    if (r < 0)
        return r;
    registrar_extend_lease(a->registrar, atomic_load(a->lease.deadline_ms), 0);
    measure_after(a, MEASURE_MS);
    return 0;
}

void protect_close(struct agent *a)
{
    if (a->measure)
        event_free(a->measure);
    mps_free(a->mps);
    registrar_free(a->registrar);
    free(a->measured);
}

/* Why the shim is not put into it; NULL: it is. */
static const char *why_unprotected(const struct agent *a, const struct grant *grant)
{
    char name[ATTEMPT_NAME_MAX], path[SOCKET_PATH_MAX];
    char directory[PATH_MAX];
    attempt_name(grant->workload, grant->attempt, name);
    if (!a->config->protection)
        return "protection is off on this node";
    if (grant->spec->protection == PROTECTION_OFF)
        return "protection was turned off for it";
    if (!a->shim)
        return "libgpumux-cuda.so is not installed";
    if (strpbrk(a->shim, " :"))
        return "the path of libgpumux-cuda.so has a space or a colon in it";
    if (snprintf(directory, sizeof directory, "%s/register", a->directory) >=
            (int)sizeof directory ||
        !registrar_socket_path(directory, name, path, sizeof path))
        return "the path of the node's state is too long for a socket";
    return NULL;
}

void protect_decide(const struct agent *a, const struct grant *grant, uid_t user, struct terms *ret)
{
    const struct workload_needs *needs = &grant->spec->needs;
    *ret = (struct terms){.kind = needs->kind,
                          .device_count = grant->device_count,
                          .quota_bytes = needs->quota_bytes,
                          .share_min_percent = needs->share_min_percent,
                          .share_max_percent = needs->share_max_percent,
                          .is_suspect = grant->suspect,
                          .slo_percentile = grant->spec->slo_percentile,
                          .slo_latency_ms = grant->spec->slo_latency_ms};
    for (int i = 0; i < grant->device_count; i++)
        str_copy(ret->devices[i], sizeof ret->devices[i], grant->devices[i]);
    const char *why = grant->device_count > 0 ? why_unprotected(a, grant) : "it has no device";
    ret->is_protected = !why;
    str_copy(ret->unprotected, sizeof ret->unprotected, why ? why : "");
    const char *without = why_without_mps(a, grant, user);
    ret->has_mps = !without;
    str_copy(ret->without_mps, sizeof ret->without_mps, without ? without : "");
    ret->resumable = grant->spec->resume.count > 0;
    ret->suspendable = terms_are_suspendable(ret);
    divide_share(a, grant->workload, ret);
}

static bool owns(void *arg, pid_t pid)
{
    return run_owns(arg, pid);
}

static int make_ward(struct error *e, struct run *r, const struct terms *terms, int ledger_fd,
                     bool again)
{
    const struct ward_options options = {.name = r->name,
                                         .uid = r->uid,
                                         .terms = terms,
                                         .ledger_fd = ledger_fd,
                                         .belongs = owns,
                                         .arg = r};
    int result = ward_new(e, r->agent->registrar, &options, &r->ward);
    return result < 0 ? result : use_mps(e, r, again);
}

int protect_begin(struct error *e, struct run *r, const struct terms *terms)
{
    if (terms->device_count == 0)
        return 0;
    int result = save_terms(e, r, terms);
    return result < 0 ? result : make_ward(e, r, terms, -1, false);
}

/* In the supervisor, which keeps it for us. */
static int find_ledger(const struct run *r)
{
    char path[64];
    if (!r->recorded || process_start(r->record.supervisor_pid) != r->record.supervisor_start)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", r->record.supervisor_pid, SUPERVISOR_LEDGER_FD);
    return open(path, O_RDWR | O_CLOEXEC);
}

void protect_adopt(struct run *r)
{
    struct agent *a = r->agent;
    struct str text;
    struct terms terms;
    struct error e = {0};
    str_init(&text, TERMS_FILE_MAX);
    int result = durable_read(&e, a->terms_fd, r->name, geteuid(), &text);
    if (result == 0)
        result = terms_parse(&e, str_text(&text), text.length, &terms);
    str_done(&text);
    if (result == -ERR_NOT_FOUND)
        return; /* it has no device, or was started before there was protection */
    if (result == 0)
        result = make_ward(&e, r, &terms, find_ledger(r), true);
    if (result < 0)
        log_write(a->log, LOG_ERROR, "an attempt runs on without being looked after",
                  "attempt=%s error=\"%s\"", r->name, e.text);
}

void protect_forget(struct run *r)
{
    if (r->terminate)
        event_free(r->terminate);
    r->terminate = NULL;
    ward_free(r->ward);
    r->ward = NULL;
}

void protect_end(struct run *r)
{
    bool had_mps = r->ward && ward_terms(r->ward)->has_mps;
    if (r->uses_mps)
        mps_release(r->agent->mps, ward_terms(r->ward)->devices[0]);
    r->uses_mps = false;
    protect_forget(r);
    unlinkat(r->agent->register_fd, r->name, 0); /* of one that had ended before us, too */
    unlinkat(r->agent->terms_fd, r->name, 0);
    if (had_mps && !r->agent->mps)
        kill_unused_mps(r->agent);
}

int protect_ledger_fd(const struct run *r)
{
    return r->ward ? ward_ledger_fd(r->ward) : -1;
}
