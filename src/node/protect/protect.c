/* The agent's part of protection: the sessions of attempts with the registrar, and their terms. */
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
#include "base/hash.h"
#include "base/durable.h"
#include "node/agent_internal.h"
#include "node/supervisor/process.h"
#include "node/supervisor/supervisor.h"

enum {
    MEASURE_MS = 1000,
    /* interval while the memory of an ended process is not known to be free */
    MEASURE_SOON_MS = 20,
    SOCKET_PATH_MAX = 108,
    /* Time without progress after which a draining process's work is ended. The process waits 1.5 s
     * for its work, so that MPS must have ended a longer kernel by then. Short kernels that
     * complete one by one, beside others that fill the device, make progress. */
    STUCK_MS = 500,
    STUCK_JOIN_MS = 900, /* time while a process is joining, which could be harmed */
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
    /* otherwise a series of deaths would postpone the measurement for ever */
    if (!a->measures_soon)
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

static bool shares_mps(const struct run *r, const char *uuid)
{
    return r->holds_mps && str_equal(r->own.terms.devices[0], uuid);
}

static void release_mps(struct run *r)
{
    const char *uuid = r->own.terms.devices[0];
    if (!r->holds_mps)
        return;
    r->holds_mps = false;
    (void)mps_guard_note(NULL, &r->agent->mps_guard, uuid, r->name, false);
    mps_release(r->agent->mps, uuid);
}

/* Reports the state of MPS to attempts that wait for it. failure: why there is no MPS; NULL: ready.
 * Without MPS an attempt runs in turns with others. */
static void start_waiting(struct agent *a, const char *uuid, const char *failure)
{
    list_for_each (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        struct attempt_event event = {.kind = ATTEMPT_MPS};
        const char *why = failure;
        if (!attempt_waits_for_mps(&r->life) || !shares_mps(r, uuid))
            continue;
        if (!failure && !mps_takes(a->mps, uuid, r->uid)) {
            why = MPS_IS_ANOTHERS;
            release_mps(r);
        }
        event.ready = !why;
        if (why) {
            terms_lose_mps(&r->own.terms, why);
            session_terms_changed(r->session);
        }
        run_tell(r, &event);
    }
}

static void on_mps(void *arg, const char *uuid, enum mps_state state, const char *text)
{
    struct agent *a = arg;
    bool bad = state == MPS_SILENT || state == MPS_BROKEN || state == MPS_FAILED;
    log_write(a->log, bad ? LOG_WARN : LOG_INFO, "mps state changed",
              "device=%s state=%s reason=\"%s\"", uuid, mps_state_name(state), text);
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

/* Opens MPS. Even where MPS is off or not installed, an earlier agent may have left daemons with
 * clients. */
static int open_mps(struct error *e, struct agent *a)
{
    bool is_off = !a->mps_control || str_equal(a->config->mps, "off");
    if (is_off && faccessat(a->directory_fd, "mps", F_OK, 0) < 0)
        return 0;
    a->mps_guard = (struct mps_guard){.state = a->directory,
                                      .program = a->mps_control,
                                      .emulate = a->emulate,
                                      .libraries = a->emulate_libraries};
    int r = mps_guard_open(e, &a->mps_guard);
    if (r < 0 || !a->mps_control)
        return r;
    if (mkdirat(a->directory_fd, "mps", 0711) < 0 && errno != EEXIST)
        return error_set(e, ERR_IO, "the directory mps cannot be made");
    const struct mps_options options = {.base = a->base,
                                        .log = a->log,
                                        .guard = &a->mps_guard,
                                        .on_change = on_mps,
                                        .on_terminated = on_terminated,
                                        .arg = a};
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
    const struct terms *terms = &r->own.terms;
    if (!terms->has_mps)
        return 0;
    if (!r->agent->mps) {
        (void)mps_guard_note(NULL, &r->agent->mps_guard, terms->devices[0], r->name, true);
        return mps_guard_start(e, &r->agent->mps_guard);
    }
    int result = again ? mps_use_again(e, r->agent->mps, terms->devices[0], r->uid)
                       : mps_use(e, r->agent->mps, terms->devices[0], r->uid);
    r->holds_mps = result == 0;
    return result < 0 ? result
                      : mps_guard_note(e, &r->agent->mps_guard, terms->devices[0], r->name, true);
}

bool protect_must_wait(const struct run *r)
{
    return r->holds_mps && mps_state_of(r->agent->mps, r->own.terms.devices[0]) != MPS_READY;
}

bool protect_mps_is_well(const struct run *r, int64_t since_ms)
{
    return !r->holds_mps || mps_is_well_since(r->agent->mps, r->own.terms.devices[0], since_ms);
}

void protect_start(struct agent *a)
{
    (void)mps_guard_sweep(&a->mps_guard, a->mps, MPS_GUARD_ALL);
}

/* ---- ending ---- */

bool protect_others_join(const struct run *r)
{
    if (!r->holds_mps)
        return false;
    list_for_each (it, &r->agent->runs) {
        const struct run *other = list_entry(it, struct run, link);
        bool starts = other->life.spawned && other->life.kept.report.phase < ATTEMPT_RUNNING;
        if (other != r && shares_mps(other, r->own.terms.devices[0]) &&
            (starts || session_joins(other->session)))
            return true;
    }
    return false;
}

/* Ends the work of processes. terminate_client harms processes that are joining the server, so that
 * joining is held meanwhile. */
static void end_work_of(struct run *r, const pid_t *pids, size_t count)
{
    const char *uuid = r->own.terms.devices[0];
    if (count > 0 && mps_terminate(r->agent->mps, uuid, pids, count))
        registrar_hold(r->agent->registrar, uuid);
}

void protect_end_work(struct run *r)
{
    pid_t pids[MPS_CLIENTS_MAX];
    if (r->holds_mps && r->session)
        end_work_of(r, pids, session_pids(r->session, pids, MPS_CLIENTS_MAX));
}

void protect_look(struct agent *a)
{
    pid_t pids[MPS_CLIENTS_MAX];
    list_for_each (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        if (r->session && r->holds_mps)
            end_work_of(r, pids,
                        session_take_stuck(r->session,
                                           protect_others_join(r) ? STUCK_JOIN_MS : STUCK_MS, pids,
                                           MPS_CLIENTS_MAX));
    }
}

/* ---- sessions ---- */

/* Returns the memory of a context on an emulated device, which is often none; 0 would mean
 * unknown. */
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
                                              .room_wait_ms = (uint32_t)a->config->memory_wait_ms,
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
    mps_guard_close(&a->mps_guard);
    registrar_free(a->registrar);
    free(a->measured);
}

/* Returns why the shim is not used; NULL: the shim is used. */
static const char *why_unprotected(const struct agent *a, const struct grant *grant)
{
    char name[ATTEMPT_NAME_MAX], path[SOCKET_PATH_MAX];
    char directory[PATH_MAX];
    attempt_name(grant->workload, grant->attempt, name);
    if (!a->config->protection)
        return "protection is off on this node";
    if (grant->spec->protection == PROTECTION_OFF)
        return "protection was turned off for the workload";
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

static uint64_t program_of(const struct grant *grant, uid_t user)
{
    const struct words *command = &grant->spec->command;
    uint64_t hash = hash_u64((uint64_t)user << 1 | (grant->spec->needs.kind == WORKLOAD_SERVICE));
    for (size_t i = 0; i < command->count; i++)
        hash = hash_u64(hash ^ hash_string(command->items[i]));
    return hash & INT64_MAX ? hash & INT64_MAX : 1; /* fits into a number of JSON */
}

void protect_decide(const struct agent *a, const struct grant *grant, uid_t user, struct terms *ret)
{
    const struct workload_needs *needs = &grant->spec->needs;
    *ret = (struct terms){.kind = needs->kind,
                          .device_count = grant->device_count,
                          .quota_bytes = needs->quota_bytes,
                          .share_min_percent = needs->share_min_percent,
                          .share_max_percent = needs->share_max_percent,
                          .program = program_of(grant, user),
                          .is_suspect = grant->suspect,
                          .slo_percentile = grant->spec->slo_percentile,
                          .slo_latency_ms = grant->spec->slo_latency_ms,
                          .slo_first_ms = grant->spec->slo_first_ms,
                          .slo_between_ms = grant->spec->slo_between_ms};
    for (int i = 0; i < grant->device_count; i++)
        str_copy(ret->devices[i], sizeof ret->devices[i], grant->devices[i]);
    const char *why =
        grant->device_count > 0 ? why_unprotected(a, grant) : "the workload has no device";
    ret->is_protected = !why;
    str_copy(ret->unprotected, sizeof ret->unprotected, why ? why : "");
    const char *without = why_without_mps(a, grant, user);
    ret->has_mps = !without;
    str_copy(ret->without_mps, sizeof ret->without_mps, without ? without : "");
    ret->resumable = grant->spec->resume.count > 0;
    ret->swappable = needs->swappable && ret->is_protected && grant->device_count == 1;
    ret->suspendable = terms_are_suspendable(ret);
    divide_share(a, grant->workload, ret);
}

static bool owns(void *arg, pid_t pid)
{
    return run_owns(arg, pid);
}

static int make_session(struct error *e, struct run *r, int ledger_fd, bool again)
{
    const struct session_options options = {.name = r->name,
                                            .uid = r->uid,
                                            .terms = &r->own.terms,
                                            .ledger_fd = ledger_fd,
                                            .belongs = owns,
                                            .arg = r};
    int result = session_new(e, r->agent->registrar, &options, &r->session);
    return result < 0 ? result : use_mps(e, r, again);
}

int protect_begin(struct error *e, struct run *r)
{
    return r->own.terms.device_count > 0 ? make_session(e, r, -1, false) : 0;
}

/* Opens the ledger that the supervisor keeps open for the agent. */
static int find_ledger(struct run *r)
{
    char path[64], target[64];
    pid_t pid = run_supervisor(r);
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, SUPERVISOR_LEDGER_FD);
    ssize_t n = pid > 0 ? readlink(path, target, sizeof target - 1) : -1;
    if (n < 0)
        return -1;
    target[n] = '\0';
    return str_starts_with(target, "/memfd:gpumux-ledger") ? open(path, O_RDWR | O_CLOEXEC) : -1;
}

void protect_adopt(struct run *r)
{
    struct error e = {0};
    if (r->own.terms.device_count > 0 && make_session(&e, r, find_ledger(r), true) < 0)
        log_write(r->agent->log, LOG_ERROR, "attempt protection failed", "attempt=%s error=\"%s\"",
                  r->name, e.text);
}

void protect_forget(struct run *r)
{
    session_free(r->session);
    r->session = NULL;
}

void protect_end(struct run *r)
{
    bool had_mps = r->session && r->own.terms.has_mps;
    release_mps(r);
    protect_forget(r);
    /* also of an attempt that ended before this agent */
    unlinkat(r->agent->register_fd, r->name, 0);
    if (had_mps && !r->agent->mps) /* without the program no mps.c runs that would end the daemon */
        (void)mps_guard_sweep(&r->agent->mps_guard, NULL, MPS_GUARD_ALL);
}

int protect_ledger_fd(const struct run *r)
{
    return r->session ? session_ledger_fd(r->session) : -1;
}
