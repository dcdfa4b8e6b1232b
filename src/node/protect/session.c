#include <dirent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "node/supervisor/process.h"
#include "node/protect/registrar_internal.h"

enum {
    DESCRIPTORS_LOOKED_AT_MAX = 65536,
};

/* ---- slots ---- */

static uint64_t owner_word(pid_t pid)
{
    return (uint64_t)pid << 32 | (uint32_t)process_start(pid);
}

static void update_slot_count(struct session *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < PAGE_PROCESSES_MAX; i++)
        if (s->slots[i].state != SLOT_FREE)
            count = i + 1;
    if (atomic_load(&s->limits.page->slot_count) != count)
        atomic_store(&s->limits.page->slot_count, count);
    if (atomic_load(&s->ledger.page->slot_count) != count)
        atomic_store(&s->ledger.page->slot_count, count);
}

/* Returns the memory of a slot, with contexts, also those being made. */
static uint64_t held_in(const struct session *s, uint32_t slot)
{
    uint64_t sum = 0;
    for (int i = 0; i < s->terms->device_count; i++) {
        sum = claims_add(sum, atomic_load(&s->ledger.page->held_bytes[i][slot]));
        sum = claims_add(sum, atomic_load(&s->ledger.page->context_bytes[i][slot]));
    }
    return sum;
}

void session_clear_slot(struct session *s, uint32_t slot)
{
    for (int i = 0; i < PAGE_DEVICES_MAX; i++) {
        atomic_store(&s->ledger.page->held_bytes[i][slot], 0);
        atomic_store(&s->ledger.page->context_bytes[i][slot], 0);
        atomic_store(&s->ledger.page->context_ms[i][slot], 0);
        atomic_store(&s->limits.page->overhead_bytes[i][slot], 0);
        atomic_store(&s->limits.page->measured_ms[i][slot], 0);
    }
    atomic_store(&s->ledger.page->owners[slot], 0);
    if (s->slots[slot].state == SLOT_DRAINING)
        s->draining_count--;
    s->slots[slot] = (struct slot){0};
    update_slot_count(s);
}

/* Leaves a slot. Its memory may stay on the device for a moment and is not available to others. */
static void leave_slot(struct session *s, uint32_t slot, pid_t pid)
{
    if (held_in(s, slot) == 0) {
        session_clear_slot(s, slot);
        return;
    }
    s->slots[slot] = (struct slot){.state = SLOT_DRAINING, .pid = pid, .died_ms = clock_boot_ms()};
    s->draining_count++;
    update_slot_count(s);
    if (s->registrar->options.on_death)
        s->registrar->options.on_death(s->registrar->options.arg);
}

static int find_slot(const struct session *s, int wanted)
{
    if (wanted >= 0)
        return wanted < PAGE_PROCESSES_MAX && s->slots[wanted].state == SLOT_FREE ? wanted : -1;
    for (int i = 0; i < PAGE_PROCESSES_MAX; i++)
        if (s->slots[i].state == SLOT_FREE)
            return i;
    return -1;
}

/* ---- members ---- */

static void on_ended(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    member_end(arg);
}

static bool watch_end(struct member *m)
{
    m->ended = event_new(m->session->registrar->options.base, m->pid_fd, EV_READ, on_ended, m);
    return m->ended && event_add(m->ended, NULL) == 0;
}

struct member *member_new(struct session *s, pid_t pid, int pid_fd, int wanted_slot)
{
    int slot = find_slot(s, wanted_slot);
    bool room = slot >= 0 && s->registrar->member_count < REGISTRAR_MEMBERS_MAX;
    struct member *m = room ? calloc(1, sizeof *m) : NULL;
    if (!m) {
        close(pid_fd);
        return NULL;
    }
    *m = (struct member){.session = s,
                         .pid = pid,
                         .pid_fd = pid_fd,
                         .fd = -1,
                         .slot = (uint32_t)slot,
                         .status.fd = -1};
    for (int i = 0; i < PAGE_DEVICES_MAX; i++)
        m->read_bytes[i] = CLAIM_MAX;
    if (!watch_end(m)) {
        if (m->ended)
            event_free(m->ended);
        close(pid_fd);
        free(m);
        return NULL;
    }
    s->slots[slot] = (struct slot){.state = SLOT_TAKEN, .pid = pid};
    atomic_store(&s->ledger.page->owners[slot], owner_word(pid));
    update_slot_count(s);
    list_append(&s->members, &m->link);
    s->member_count++;
    s->registrar->member_count++;
    return m;
}

void member_free(struct member *m)
{
    struct session *s = m->session;
    struct event *events[] = {m->ended, m->readable, m->writable};
    neighbours_withdraw(m);
    member_drop_files(m);
    status_done(&m->status);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            event_free(events[i]);
    if (m->fd >= 0)
        close(m->fd);
    close(m->pid_fd);
    list_remove(&m->link);
    s->member_count--;
    s->registrar->member_count--;
    free(m);
}

void member_end(struct member *m)
{
    struct session *s = m->session;
    uint32_t slot = m->slot;
    pid_t pid = m->pid;
    if (m->status.fd >= 0) {
        for (int i = 0; i < PAGE_COUNTERS_MAX; i++)
            s->ended_counters[i] =
                counters_add(i, s->ended_counters[i], m->status.page->counters[i]);
    }
    member_leave_files(m);
    status_clear_marks(&m->status);
    member_free(m);
    leave_slot(s, slot, pid);
}

/* ---- members of an earlier agent ---- */

static int open_status(pid_t pid, const char *name)
{
    char path[64], target[64];
    ssize_t n = -1;
    if (snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, name) < (int)sizeof path)
        n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return -1;
    target[n] = '\0';
    return str_starts_with(target, "/memfd:gpumux-status") ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

/* Finds the status page among the process's descriptors. The process sends the page when it
 * registers again; but an idle service registers late, and tasks that start meanwhile must see
 * it. */
static void find_status(struct member *m)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", m->pid);
    DIR *directory = opendir(path);
    int looked_at = 0;
    for (struct dirent *entry; directory && m->status.fd < 0 && (entry = readdir(directory)) &&
                               looked_at < DESCRIPTORS_LOOKED_AT_MAX;
         looked_at++) {
        int fd = open_status(m->pid, entry->d_name);
        if (fd < 0)
            continue;
        if (pages_take_status(fd, &m->status) < 0)
            close(fd);
        else if (m->status.page->slot != m->slot)
            status_done(&m->status); /* the parent's page, which a child has until its exec */
    }
    if (directory)
        closedir(directory);
}

static void adopt_slot(struct session *s, uint32_t slot)
{
    uint64_t owner = atomic_load(&s->ledger.page->owners[slot]);
    pid_t pid = (pid_t)(owner >> 32);
    int pid_fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (pid_fd >= 0 && owner_word(pid) == owner && s->belongs(s->arg, pid)) {
        struct member *m = member_new(s, pid, pid_fd, (int)slot);
        if (m)
            find_status(m);
        return;
    }
    if (pid_fd >= 0)
        close(pid_fd);
    if (owner)
        leave_slot(s, slot, pid > 0 ? pid : 0);
}

void session_adopt_members(struct session *s)
{
    if (!(s->ledger.page->header.features & LEDGER_HAS_OWNERS))
        return;
    for (uint32_t i = 0; i < PAGE_PROCESSES_MAX; i++)
        adopt_slot(s, i);
}

/* ---- sessions ---- */

static int make_pages(struct error *e, struct session *s, int ledger_fd)
{
    if (ledger_fd >= 0 && pages_take_ledger(ledger_fd, &s->ledger) < 0)
        close(ledger_fd);
    int r = s->ledger.page ? 0 : pages_make_ledger(e, &s->ledger);
    return r < 0 ? r : pages_make_limits(e, &s->limits);
}

static int protect(struct error *e, struct session *s, const struct session_options *options)
{
    int r = make_pages(e, s, options->ledger_fd);
    if (r < 0)
        return r;
    session_fill_limits(s);
    session_adopt_members(s);
    return registrar_listen(e, s, options->uid);
}

int session_new(struct error *e, struct registrar *r, const struct session_options *options,
                struct session **ret)
{
    struct session *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    s->registrar = r;
    s->terms = options->terms;
    s->belongs = options->belongs;
    s->arg = options->arg;
    s->listen_fd = s->limits.fd = s->ledger.fd = -1;
    str_copy(s->name, sizeof s->name, options->name);
    list_init(&s->members);
    list_init(&s->applicants);
    list_append(&r->sessions, &s->link);
    int result = 0;
    if (s->terms->is_protected)
        result = protect(e, s, options);
    else if (options->ledger_fd >= 0)
        close(options->ledger_fd);
    if (result < 0) {
        session_free(s);
        return result;
    }
    neighbours_find(s);
    sessions_update_limits(r);
    list_for_each (it, &s->members)
        neighbours_show(list_entry(it, struct member, link));
    *ret = s;
    return 0;
}

void session_free(struct session *s)
{
    if (!s)
        return;
    registrar_unlisten(s);
    list_for_each_safe (it, &s->members)
        member_free(list_entry(it, struct member, link));
    limits_done(&s->limits);
    ledger_done(&s->ledger);
    list_remove(&s->link);
    sessions_update_limits(s->registrar);
    free(s);
}

int session_ledger_fd(const struct session *s)
{
    return s->ledger.fd;
}

void session_terms_changed(struct session *s)
{
    if (s)
        sessions_update_limits(s->registrar);
}

void session_rest(struct session *s, bool rests)
{
    if (!s || s->rests == rests)
        return;
    s->rests = rests;
    s->rested_ms = clock_boot_ms();
}

size_t session_pids(const struct session *s, pid_t *ret_pids, size_t max)
{
    size_t count = 0;
    list_for_each (it, &s->members)
        if (count < max)
            ret_pids[count++] = list_entry(it, struct member, link)->pid;
    return count;
}

bool session_knows(const struct session *s, pid_t pid)
{
    for (size_t i = 0; i < PAGE_PROCESSES_MAX; i++)
        if (s->slots[i].state != SLOT_FREE && s->slots[i].pid == pid)
            return true;
    return false;
}

/* Returns whether the member is joining. A false claim in the ledger can delay the end of a
 * neighbour, for at most as long as that end waits. */
static bool joins(const struct member *m)
{
    const struct session *s = m->session;
    bool has_context = false;
    for (int i = 0; i < s->terms->device_count; i++) {
        uint64_t made_ms = atomic_load(&s->ledger.page->context_ms[i][m->slot]);
        if (made_ms == UINT64_MAX)
            return true;
        has_context = has_context || made_ms > 0;
    }
    return !has_context && m->came_ms > 0 && clock_boot_ms() - m->came_ms < JOINING_MS_MAX;
}

bool session_joins(const struct session *s)
{
    list_for_each (it, &s->members)
        if (joins(list_entry(it, struct member, link)))
            return true;
    return false;
}
