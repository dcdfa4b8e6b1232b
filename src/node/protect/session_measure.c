/* Compares the devices' account of memory with the processes' accounts. */
#include "base/clock.h"
#include "base/str.h"
#include "node/supervisor/process.h"
#include "node/protect/registrar_internal.h"

/* Age at which the memory of a dead process counts as free if the driver lists no processes: files
 * of the process are kept for 2 s at most (leaving.c), and then the driver destroys its context. */
enum { UNLISTED_MS = 10000 };

static uint64_t used_by(const struct gpu_sample *sample, pid_t pid, const char *uuid)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < sample->process_count; i++) {
        const struct gpu_process *p = &sample->processes[i];
        if (p->pid == pid && (!uuid || str_equal(sample->devices[p->device].uuid, uuid)))
            bytes += p->memory_used_bytes;
    }
    return bytes;
}

/* Returns whether the driver lists the device's processes. Without a list nothing is measured, and
 * contexts count with their assumed memory. */
static bool is_listed(const struct gpu_sample *sample, const char *uuid)
{
    for (size_t i = 0; i < sample->device_count; i++)
        if (str_equal(sample->devices[i].uuid, uuid))
            return !sample->is_unlisted[i];
    return true;
}

bool session_is_listed(const struct session *s, const struct gpu_sample *sample)
{
    for (int i = 0; i < s->terms->device_count; i++)
        if (!is_listed(sample, s->terms->devices[i]))
            return false;
    return true;
}

/*
 * Measures a process's memory beyond its account. The device and the account are not read at the
 * same moment. So a reading counts only if the account was constant around it (the same bytes, and
 * no allocation), and the smaller of two readings counts; otherwise freed memory would be charged.
 */
static void measure_beyond(struct member *m, const struct gpu_sample *sample, bool is_between)
{
    const struct session *s = m->session;
    uint64_t allocations = m->status.page ? m->status.page->counters[STATUS_allocations] : 0;
    is_between = is_between && allocations == m->read_allocations;
    m->read_allocations = allocations;
    for (int i = 0; i < s->terms->device_count; i++) {
        uint64_t account = claims_add(0, s->ledger.page->held_bytes[i][m->slot]);
        uint64_t away = m->status.page ? atomic_load(&m->status.page->away_bytes[i]) : 0;
        account -= away < account ? away : account;
        bool stood_still = is_between && account == m->read_bytes[i];
        m->read_bytes[i] = account;
        if (!stood_still || !is_listed(sample, s->terms->devices[i]))
            continue;
        uint64_t used = used_by(sample, m->pid, s->terms->devices[i]);
        struct reading *readings = m->readings[i];
        readings[0] = readings[1];
        readings[1] = (struct reading){.taken_ms = sample->taken_ms,
                                       .bytes = used > account ? used - account : 0};
        if (readings[0].taken_ms == 0)
            continue;
        struct limits_page *limits = s->limits.page;
        atomic_store(&limits->overhead_bytes[i][m->slot],
                     readings[0].bytes < readings[1].bytes ? readings[0].bytes : readings[1].bytes);
        atomic_store(&limits->measured_ms[i][m->slot], (uint64_t)readings[0].taken_ms);
    }
}

/* Returns whether a slot's memory is free. A live pid now belongs to another process or program,
 * which holds none of that memory. */
static bool is_free_again(const struct session *s, const struct slot *slot,
                          const struct gpu_sample *sample)
{
    if (sample->taken_ms <= slot->died_ms)
        return false;
    if (!session_is_listed(s, sample) && sample->taken_ms - slot->died_ms < UNLISTED_MS)
        return false;
    return used_by(sample, slot->pid, NULL) == 0 || process_is_alive(slot->pid);
}

static void drain(struct session *s, const struct gpu_sample *sample)
{
    for (uint32_t i = 0; s->draining_count > 0 && i < PAGE_PROCESSES_MAX; i++)
        if (s->slots[i].state == SLOT_DRAINING && is_free_again(s, &s->slots[i], sample))
            session_clear_slot(s, i);
}

static uint64_t count_held(const struct session *s)
{
    uint64_t sum = 0;
    for (int i = 0; i < s->terms->device_count; i++)
        for (uint32_t k = 0; k < PAGE_PROCESSES_MAX; k++)
            if (s->slots[k].state != SLOT_FREE)
                sum = claims_add(sum, s->ledger.page->held_bytes[i][k]);
    return sum;
}

static uint64_t count_overhead(const struct session *s)
{
    uint64_t sum = 0;
    for (int i = 0; i < s->terms->device_count; i++)
        for (uint32_t k = 0; k < PAGE_PROCESSES_MAX; k++)
            sum = claims_add(sum, s->limits.page->overhead_bytes[i][k]);
    return sum;
}

void registrar_measure(struct registrar *r, const struct gpu_sample *sample)
{
    bool is_between = sample->taken_ms > r->measured_ms;
    if (!is_between && r->measured_ms)
        return;
    r->measured_ms = clock_boot_ms();
    list_for_each (it, &r->sessions) {
        struct session *s = list_entry(it, struct session, link);
        if (!s->limits.page)
            continue;
        bool is_about_it = !s->rests && sample->taken_ms > s->rested_ms;
        list_for_each (at, &s->members) {
            struct member *m = list_entry(at, struct member, link);
            if (is_about_it)
                measure_beyond(m, sample, is_between);
            member_check_files(m);
        }
        drain(s, sample);
        uint64_t held = count_held(s);
        if (held > s->peak_bytes)
            s->peak_bytes = held;
    }
}

bool registrar_waits(const struct registrar *r)
{
    list_for_each (it, &r->sessions)
        if (list_entry(it, struct session, link)->draining_count > 0)
            return true;
    return false;
}

void session_measure(struct session *s, struct session_usage *ret)
{
    *ret = (struct session_usage){.members = s->member_count};
    if (!s->limits.page)
        return;
    uint64_t held = count_held(s);
    ret->counted_bytes = held;
    if (held > s->peak_bytes)
        s->peak_bytes = held;
    ret->peak_bytes = s->peak_bytes;
    ret->overhead_bytes = count_overhead(s);
    ret->mode = (enum limits_mode)atomic_load(&s->limits.page->devices[0].mode);
    for (int i = 0; i < PAGE_COUNTERS_MAX; i++) {
        uint64_t sum = s->ended_counters[i];
        list_for_each (it, &s->members) {
            const struct member *m = list_entry(it, struct member, link);
            if (m->status.page)
                sum = counters_add(i, sum, m->status.page->counters[i]);
        }
        ret->counters[i] = sum;
    }
}
