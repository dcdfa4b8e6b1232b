#include "node/mps/mps.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "node/mps/mps_control.h"
#include "node/mps/mps_guard.h"

enum {
    /* A daemon's end or hang is detected within a second: a look, and two requests without
     * answer. */
    WATCH_MS = 200,
    ANSWER_MS = 400,
    COMMAND_MS = 1000,
    /* limit while the daemon starts its first server, which may delay any answer */
    FIRST_ANSWER_MS = 3000,
    PACE_MS_MAX = 100, /* limit for a program that only prints its version */
    /* runnable processes per CPU that count as a crowd, in which any process may wait */
    CROWD_PER_CPU = 2,
    CROWD_ANSWER_MS = 10000, /* limit for an answer in a crowd */
    SILENT_MS_MAX = 30000,   /* silence after which a daemon hangs, on any machine */
    START_MS = 10000,
    LINGER_MS = 3000, /* time after the last attempt, because the next often follows soon */
    SOCKET_PATH_MAX = 108,
    LONGEST_PIPE_NAME = 32, /* name in the daemon's directory */
    TRIM_EVERY_MS = 60000,  /* interval for trimming logs */
    UUID_PART = 8,          /* characters of a device's UUID that name its directory */
};

/* A device's daemon, and the thread that watches the daemon. */
struct mps_daemon {
    struct list link; /* in mps.daemons */
    struct mps *mps;
    struct mps_control control;
    pthread_t thread;
    int uses;            /* used by the loop only */
    enum mps_state told; /* last state reported to the loop; used by the loop only */
    unsigned losses_told, terminations_told;
    /* The daemon was in use before, so that its absence is a loss. Set before the thread starts. */
    bool was_there;
    pthread_mutex_t mutex;  /* protects all members below */
    pthread_cond_t changed; /* signals work for the thread */
    enum mps_state state;
    char text[MPS_TEXT_MAX];
    bool wanted;       /* the daemon is in use */
    uid_t user;        /* first of the present users, or of the last ones */
    bool is_for_one;   /* the daemon serves one user at a time */
    int64_t unused_ms; /* time since which the daemon is unused */
    bool leave;        /* the thread ends; a wanted daemon stays */
    unsigned losses;   /* number of losses; `loss` is the last reason */
    char loss[MPS_TEXT_MAX];
    bool hurry;      /* a caller waits for the next answer */
    int64_t well_ms; /* time of the last request that was answered */
    pid_t doomed[MPS_CLIENTS_MAX];
    size_t doomed_count;
    unsigned terminations;          /* number of completed terminations */
    bool ended;                     /* the thread has ended */
    pid_t servers[MPS_SERVERS_MAX]; /* last list of servers; used by the thread only */
    size_t server_count;
    uid_t server_user; /* user of the only server, if is_for_one */
};

struct mps {
    struct mps_options options;
    struct list daemons;
    int wake_fd; /* by which threads wake the loop */
    int stop_fd; /* readable: threads stop waiting for answers */
    struct event *woken;
};

const char *mps_state_name(enum mps_state state)
{
    static const char *const names[] = {
        [MPS_OFF] = "off",         [MPS_STARTING] = "starting", [MPS_READY] = "ready",
        [MPS_FAULTED] = "faulted", [MPS_SILENT] = "silent",     [MPS_BROKEN] = "broken",
        [MPS_FAILED] = "failed",   [MPS_DRAINING] = "draining"};
    return names[state];
}

/* ---- the thread ---- */

static void set_state(struct mps_daemon *d, enum mps_state state, const char *text)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&d->mutex);
    d->state = state;
    str_copy(d->text, sizeof d->text, text);
    pthread_mutex_unlock(&d->mutex);
    (void)!write(d->mps->wake_fd, &one, sizeof one);
}

/* Records a loss, which the loop must not miss even if states change quickly. */
static void lose(struct mps_daemon *d, const char *why)
{
    pthread_mutex_lock(&d->mutex);
    d->losses++;
    str_copy(d->loss, sizeof d->loss, why);
    pthread_mutex_unlock(&d->mutex);
    set_state(d, MPS_BROKEN, why);
}

/* Returns false if the thread must end. */
static bool pause_for(struct mps_daemon *d, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&d->mutex);
    while (!d->leave && !d->hurry && d->doomed_count == 0 &&
           pthread_cond_timedwait(&d->changed, &d->mutex, &until) == 0)
        ;
    bool go_on = !d->leave;
    d->hurry = false;
    pthread_mutex_unlock(&d->mutex);
    return go_on;
}

static bool is_unused(struct mps_daemon *d)
{
    pthread_mutex_lock(&d->mutex);
    bool unused = !d->wanted && clock_boot_ms() - d->unused_ms >= LINGER_MS;
    pthread_mutex_unlock(&d->mutex);
    return unused;
}

/* Stops offering the daemon: new users wait for the next one. Returns false if the daemon is in
 * use. */
static bool begin_draining(struct mps_daemon *d)
{
    pthread_mutex_lock(&d->mutex);
    bool wanted = d->wanted;
    if (!wanted)
        d->state = MPS_DRAINING;
    pthread_mutex_unlock(&d->mutex);
    return !wanted;
}

static void quit(const struct mps_daemon *d)
{
    struct mps_control control = d->control;
    control.stop_fd = 0;
    mps_control_end(&control, COMMAND_MS);
}

static bool is_leaving(struct mps_daemon *d)
{
    pthread_mutex_lock(&d->mutex);
    bool leave = d->leave;
    pthread_mutex_unlock(&d->mutex);
    return leave;
}

static size_t list_servers(struct mps_daemon *d, pid_t servers[MPS_SERVERS_MAX])
{
    struct str answer;
    str_init(&answer, MPS_ANSWER_MAX);
    size_t count = 0;
    if (mps_control_ask(NULL, &d->control, "get_server_list", COMMAND_MS, &answer) == 0)
        count = mps_control_parse_pids(str_text(&answer), servers, MPS_SERVERS_MAX);
    str_done(&answer);
    return count;
}

static void terminate_doomed(struct mps_daemon *d)
{
    pid_t doomed[MPS_CLIENTS_MAX], servers[MPS_SERVERS_MAX];
    pthread_mutex_lock(&d->mutex);
    size_t count = d->doomed_count;
    memcpy(doomed, d->doomed, count * sizeof *doomed);
    d->doomed_count = 0;
    pthread_mutex_unlock(&d->mutex);
    size_t server_count = count ? list_servers(d, servers) : 0;
    for (size_t i = 0; i < server_count; i++)
        for (size_t k = 0; k < count && !is_leaving(d); k++) {
            char line[64];
            snprintf(line, sizeof line, "terminate_client %d %d", servers[i], doomed[k]);
            (void)mps_control_ask(NULL, &d->control, line, COMMAND_MS, NULL);
        }
    if (count == 0)
        return;
    const uint64_t one = 1;
    pthread_mutex_lock(&d->mutex);
    d->terminations++;
    pthread_mutex_unlock(&d->mutex);
    (void)!write(d->mps->wake_fd, &one, sizeof one);
}

static bool lists(const pid_t *pids, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

static bool has_changed_hands(struct mps_daemon *d)
{
    pthread_mutex_lock(&d->mutex);
    bool changed = d->is_for_one && d->user != d->server_user;
    pthread_mutex_unlock(&d->mutex);
    return changed;
}

/* Takes the new list of servers. Returns false if a server crashed: a server ends otherwise only
 * with its daemon, or for another user's server. */
static bool take_servers(struct mps_daemon *d, const char *answer)
{
    pid_t servers[MPS_SERVERS_MAX];
    size_t count = mps_control_parse_pids(answer, servers, MPS_SERVERS_MAX);
    bool all_well = true;
    for (size_t i = 0; i < d->server_count; i++)
        all_well = all_well && lists(servers, count, d->servers[i]);
    all_well = all_well || has_changed_hands(d);
    if (count > 0 && !lists(d->servers, d->server_count, servers[0]))
        d->server_user = mps_control_server_user(servers[0]);
    memcpy(d->servers, servers, count * sizeof *servers);
    d->server_count = count;
    return all_well;
}

/* Asks the daemon and its servers, because a daemon may answer while its server does not. */
static int look(struct error *e, struct mps_daemon *d, int limit_ms, bool *ret_faulted)
{
    if (d->server_count == 0 && limit_ms < FIRST_ANSWER_MS)
        limit_ms = FIRST_ANSWER_MS;
    struct str answer;
    char line[64];
    bool faulted = false;
    str_init(&answer, MPS_ANSWER_MAX);
    int r = mps_control_ask(e, &d->control, "get_server_list", limit_ms, &answer);
    if (r == 0 && !take_servers(d, str_text(&answer)))
        r = error_set(e, ERR_NOT_FOUND, "its server has ended");
    for (size_t i = 0; r == 0 && i < d->server_count; i++) {
        str_clear(&answer);
        snprintf(line, sizeof line, "get_server_status %d", d->servers[i]);
        r = mps_control_ask(e, &d->control, line, limit_ms, &answer);
        faulted = faulted || str_starts_with(str_text(&answer), "FAULT");
    }
    str_done(&answer);
    *ret_faulted = faulted;
    return r;
}

/* Returns the number of runnable processes per processor. */
static long crowd(void)
{
    char line[128] = "";
    FILE *file = fopen("/proc/loadavg", "re"); /* "0.20 0.18 0.12 1/80 11206": the fourth number */
    if (file) {
        (void)!fgets(line, sizeof line, file);
        fclose(file);
    }
    const char *at = line;
    for (int i = 0; i < 3 && at; i++)
        at = (at = strchr(at, ' ')) ? at + 1 : NULL;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return at && processors > 0 ? strtol(at, NULL, 10) / processors : 0;
}

/* The tolerance for a daemon that does not answer. */
struct patience {
    int limit_ms;     /* longest wait for an answer */
    int64_t since_ms; /* start of the silence; 0: not silent */
};

/* Returns whether a silent daemon may only be slow. On an overloaded machine silence proves
 * nothing, and ending a sound daemon would end its clients. */
static bool may_be_slow(struct mps_daemon *d, struct patience *p)
{
    bool is_crowded = crowd() >= CROWD_PER_CPU;
    bool was_patient = p->limit_ms >= CROWD_ANSWER_MS;
    if (is_crowded)
        p->limit_ms = CROWD_ANSWER_MS;
    int64_t now_ms = clock_boot_ms();
    if (p->since_ms == 0) {
        p->since_ms = now_ms;
        return true;
    }
    return now_ms - p->since_ms < SILENT_MS_MAX &&
           ((is_crowded && !was_patient) ||
            mps_control_pace_ms(&d->control, COMMAND_MS) > PACE_MS_MAX);
}

/* Returns whether to ask again after a look without answer (r): the daemon may be slow, or could
 * not be asked while its process lives. Also true if the thread must leave, which ends the look. */
static bool may_be_well(struct mps_daemon *d, int r, struct patience *p)
{
    if (is_leaving(d))
        return true;
    return r == -ERR_IO ? mps_control_pid(&d->control) != 0
                        : r == -ERR_TIMEOUT && may_be_slow(d, p);
}

/* Records an answer to a request of that time. */
static void note_answer(struct mps_daemon *d, int64_t asked_ms, enum mps_state before, bool faulted)
{
    enum mps_state now = faulted ? MPS_FAULTED : MPS_READY;
    if (now != before)
        set_state(d, now,
                  faulted                 ? "a client faulted: all clients must leave"
                  : before == MPS_FAULTED ? "all clients have left, and it takes others"
                                          : "it answers again");
    pthread_mutex_lock(&d->mutex);
    d->well_ms = asked_ms;
    pthread_mutex_unlock(&d->mutex);
}

static void give_up(struct mps_daemon *d, const char *why)
{
    lose(d, why);
    mps_control_kill(&d->control);
    d->server_count = 0;
}

/* Watches the daemon until it is unneeded or lost. Returns whether it was lost. */
static bool watch(struct mps_daemon *d)
{
    enum mps_state state = MPS_READY;
    struct patience patience = {.limit_ms = ANSWER_MS};
    int64_t trim_ms = 0; /* at once, because an adopted daemon may have run for long */
    int r = 0;
    while (pause_for(d, r == -ERR_TIMEOUT ? 1 : WATCH_MS)) {
        struct error e = {0};
        bool faulted;
        terminate_doomed(d);
        if (is_unused(d))
            return false;
        int64_t asked_ms = clock_boot_ms();
        if (asked_ms >= trim_ms) {
            mps_control_trim_logs(&d->control);
            trim_ms = asked_ms + TRIM_EVERY_MS;
        }
        r = look(&e, d, patience.limit_ms, &faulted);
        if (r == 0) {
            note_answer(d, asked_ms, state, faulted);
            patience = (struct patience){.limit_ms = ANSWER_MS};
            state = faulted ? MPS_FAULTED : MPS_READY;
        } else if (may_be_well(d, r, &patience)) {
            if (state != MPS_SILENT)
                set_state(d, MPS_SILENT, e.text);
            state = MPS_SILENT;
        } else {
            give_up(d, r == -ERR_TIMEOUT ? "it hangs" : r == -ERR_IO ? "it has ended" : e.text);
            return true;
        }
    }
    return false;
}

/* Returns whether a daemon answers, with the tolerance of watch(). Also true if the thread must
 * leave. */
static bool adopt(struct mps_daemon *d)
{
    struct patience patience = {.limit_ms = ANSWER_MS};
    bool faulted;
    int r = look(NULL, d, patience.limit_ms, &faulted);
    while (r < 0 && may_be_well(d, r, &patience)) {
        if (!pause_for(d, r == -ERR_TIMEOUT ? 1 : WATCH_MS) || is_unused(d))
            return true;
        terminate_doomed(d);
        r = look(NULL, d, patience.limit_ms, &faulted);
    }
    return r == 0;
}

/* Adopts a daemon that answers, else replaces it. */
static int start_or_adopt(struct error *e, struct mps_daemon *d)
{
    bool is_there = adopt(d);
    if (!is_there && d->was_there && !mps_control_was_ended(&d->control))
        lose(d, "it ended while nobody watched it");
    d->was_there = false;
    if (is_there)
        return 0;
    mps_control_kill(&d->control);
    return mps_control_start(e, &d->control, START_MS);
}

static void learn_users(struct mps_daemon *d)
{
    bool is_for_one = mps_control_is_for_one_user(&d->control);
    pthread_mutex_lock(&d->mutex);
    d->is_for_one = is_for_one;
    pthread_mutex_unlock(&d->mutex);
}

static void *look_after(void *arg)
{
    struct mps_daemon *d = arg;
    struct error e = {0};
    bool lost = true;
    while (lost && !is_leaving(d)) {
        set_state(d, MPS_STARTING, "");
        if (start_or_adopt(&e, d) < 0) {
            set_state(d, MPS_FAILED, e.text);
            break;
        }
        learn_users(d);
        set_state(d, MPS_READY, "");
        lost = watch(d);
    }
    if (begin_draining(d)) {
        quit(d);
        set_state(d, MPS_OFF, "");
    }
    pthread_mutex_lock(&d->mutex);
    d->ended = true;
    pthread_mutex_unlock(&d->mutex);
    const uint64_t one = 1;
    (void)!write(d->mps->wake_fd, &one, sizeof one);
    return NULL;
}

/* ---- the loop's side ---- */

static struct mps_daemon *find(const struct mps *m, const char *uuid)
{
    list_for_each (it, &m->daemons) {
        struct mps_daemon *d = list_entry(it, struct mps_daemon, link);
        if (str_equal(d->control.uuid, uuid))
            return d;
    }
    return NULL;
}

static void daemon_free(struct mps_daemon *d)
{
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->mutex);
    list_remove(&d->link);
    free(d);
}

static int daemon_new(struct error *e, struct mps *m, const char *uuid, uid_t user, bool was_there,
                      struct mps_daemon **ret)
{
    struct mps_daemon *d = calloc(1, sizeof *d);
    struct mps_guard *guard = m->options.guard;
    pthread_condattr_t monotonic;
    int r = d ? mps_guard_start(e, guard) : error_set(e, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        free(d);
        return r;
    }
    d->mps = m;
    d->wanted = true;
    d->user = user;
    d->was_there = was_there;
    d->control = (struct mps_control){.program = guard->program,
                                      .is_multiuser = geteuid() == 0,
                                      .emulate = guard->emulate,
                                      .libraries = guard->libraries,
                                      .stop_fd = m->stop_fd};
    str_copy(d->control.uuid, sizeof d->control.uuid, uuid);
    if (!mps_directory(guard->directory, uuid, d->control.directory, sizeof d->control.directory) ||
        (mkdir(d->control.directory, 0755) < 0 && errno != EEXIST)) {
        free(d);
        return error_set(e, ERR_IO, "no directory for MPS under %s", guard->directory);
    }
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int failed = pthread_create(&d->thread, NULL, look_after, d);
    if (failed) {
        pthread_cond_destroy(&d->changed);
        pthread_mutex_destroy(&d->mutex);
        free(d);
        return error_set_errno(e, ERR_NO_MEMORY, failed, "no thread for MPS");
    }
    list_append(&m->daemons, &d->link);
    *ret = d;
    return 0;
}

/* Starts another thread if the daemon was wanted again while its thread ended. */
static void restart_if_wanted(struct mps *m, const char *uuid, uid_t user, int uses)
{
    struct mps_daemon *d;
    if (uses > 0 && daemon_new(NULL, m, uuid, user, false, &d) == 0)
        d->uses = uses;
}

static void on_woken(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct mps *m = arg;
    uint64_t count;
    (void)!read(fd, &count, sizeof count);
    list_for_each_safe (it, &m->daemons) {
        struct mps_daemon *d = list_entry(it, struct mps_daemon, link);
        char text[MPS_TEXT_MAX], loss[MPS_TEXT_MAX], uuid[DEVICE_UUID_MAX];
        pthread_mutex_lock(&d->mutex);
        enum mps_state state = d->state;
        bool ended = d->ended;
        bool lost = d->losses != d->losses_told;
        bool terminated = d->terminations != d->terminations_told || (ended && d->doomed_count > 0);
        d->losses_told = d->losses;
        d->terminations_told = d->terminations;
        str_copy(text, sizeof text, d->text);
        str_copy(loss, sizeof loss, d->loss);
        pthread_mutex_unlock(&d->mutex);
        int uses = d->uses;
        uid_t user = d->user;
        bool news = state != d->told || (lost && state == MPS_BROKEN);
        d->told = state;
        str_copy(uuid, sizeof uuid, d->control.uuid);
        if (ended && state != MPS_FAILED) {
            daemon_free(d);
            restart_if_wanted(m, uuid, user, uses);
        }
        if (terminated)
            m->options.on_terminated(m->options.arg, uuid);
        if (lost && state != MPS_BROKEN)
            m->options.on_change(m->options.arg, uuid, MPS_BROKEN, loss);
        if (news)
            m->options.on_change(m->options.arg, uuid, state, text);
    }
}

int mps_new(struct error *e, const struct mps_options *options, struct mps **ret)
{
    struct mps *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    m->options = *options;
    list_init(&m->daemons);
    m->stop_fd = eventfd(0, EFD_CLOEXEC);
    m->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (m->wake_fd >= 0 && m->stop_fd >= 0)
        m->woken = event_new(options->base, m->wake_fd, EV_READ | EV_PERSIST, on_woken, m);
    if (!m->woken || event_add(m->woken, NULL) < 0) {
        mps_free(m);
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    }
    *ret = m;
    return 0;
}

void mps_free(struct mps *m)
{
    const uint64_t one = 1;
    if (!m)
        return;
    list_for_each (it, &m->daemons) {
        struct mps_daemon *d = list_entry(it, struct mps_daemon, link);
        bool is_needed = mps_guard_is_needed(m->options.guard, d->control.directory);
        pthread_mutex_lock(&d->mutex);
        d->wanted = is_needed;
        d->leave = true;
        pthread_cond_signal(&d->changed);
        pthread_mutex_unlock(&d->mutex);
    }
    if (m->stop_fd >= 0)
        (void)!write(m->stop_fd, &one, sizeof one);
    list_for_each_safe (it, &m->daemons)
        daemon_free(list_entry(it, struct mps_daemon, link));
    if (m->woken)
        event_free(m->woken);
    if (m->wake_fd >= 0)
        close(m->wake_fd);
    if (m->stop_fd >= 0)
        close(m->stop_fd);
    free(m);
}

bool mps_directory(const char *directory, const char *uuid, char *path, size_t size)
{
    const char *part = str_starts_with(uuid, "GPU-") ? uuid + strlen("GPU-") : uuid;
    int length = snprintf(path, size, "%s/%.*s", directory, UUID_PART, part);
    return length > 0 && (size_t)length < size && length + LONGEST_PIPE_NAME < SOCKET_PATH_MAX;
}

bool mps_has(const struct mps *m, const char *directory)
{
    bool has = false;
    if (m)
        list_for_each (it, &m->daemons)
            has =
                has ||
                str_equal(strrchr(list_entry(it, struct mps_daemon, link)->control.directory, '/'),
                          strrchr(directory, '/'));
    return has;
}

static enum mps_state state_of(struct mps_daemon *d)
{
    pthread_mutex_lock(&d->mutex);
    enum mps_state state = d->state;
    pthread_mutex_unlock(&d->mutex);
    return state;
}

static int use(struct error *e, struct mps *m, const char *uuid, uid_t user, bool was_there)
{
    struct mps_daemon *d = find(m, uuid);
    if (d && d->uses == 0 && state_of(d) == MPS_FAILED) {
        daemon_free(d); /* starting may succeed now */
        d = NULL;
    }
    int r = d ? 0 : daemon_new(e, m, uuid, user, was_there, &d);
    if (r < 0)
        return r;
    pthread_mutex_lock(&d->mutex);
    d->wanted = true;
    if (d->uses == 0)
        d->user = user;
    pthread_mutex_unlock(&d->mutex);
    d->uses++;
    return 0;
}

int mps_use(struct error *e, struct mps *m, const char *uuid, uid_t user)
{
    return use(e, m, uuid, user, false);
}

int mps_use_again(struct error *e, struct mps *m, const char *uuid, uid_t user)
{
    return use(e, m, uuid, user, true);
}

void mps_release(struct mps *m, const char *uuid)
{
    struct mps_daemon *d = find(m, uuid);
    if (!d || --d->uses > 0)
        return;
    pthread_mutex_lock(&d->mutex);
    d->wanted = false;
    d->unused_ms = clock_boot_ms();
    pthread_mutex_unlock(&d->mutex);
}

enum mps_state mps_state_of(const struct mps *m, const char *uuid)
{
    struct mps_daemon *d = find(m, uuid);
    if (!d)
        return MPS_OFF;
    enum mps_state state = state_of(d);
    bool comes_back = d->uses > 0 && (state == MPS_DRAINING || state == MPS_OFF);
    return comes_back ? MPS_STARTING : state;
}

bool mps_has_failed(const struct mps *m, const char *uuid)
{
    struct mps_daemon *d = find(m, uuid);
    return d && d->uses > 0 && state_of(d) == MPS_FAILED;
}

bool mps_takes(const struct mps *m, const char *uuid, uid_t user)
{
    struct mps_daemon *d = find(m, uuid);
    if (!d || d->uses == 0)
        return true;
    pthread_mutex_lock(&d->mutex);
    bool takes = !d->is_for_one || d->user == user;
    pthread_mutex_unlock(&d->mutex);
    return takes;
}

bool mps_terminate(struct mps *m, const char *uuid, const pid_t *pids, size_t count)
{
    struct mps_daemon *d = find(m, uuid);
    if (!d)
        return false;
    pthread_mutex_lock(&d->mutex);
    if (d->ended) {
        pthread_mutex_unlock(&d->mutex);
        return false;
    }
    for (size_t i = 0; i < count && d->doomed_count < MPS_CLIENTS_MAX; i++)
        d->doomed[d->doomed_count++] = pids[i];
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->mutex);
    return true;
}

bool mps_is_well_since(struct mps *m, const char *uuid, int64_t since_ms)
{
    struct mps_daemon *d = find(m, uuid);
    if (!d)
        return true;
    pthread_mutex_lock(&d->mutex);
    bool well = (d->well_ms > since_ms || d->ended) && d->losses == d->losses_told;
    if (!well) {
        d->hurry = true;
        pthread_cond_signal(&d->changed);
    }
    pthread_mutex_unlock(&d->mutex);
    return well;
}
