/*
 * Activity of services, from the marks of their processes (abi/page.h). A process counts the
 * completed work of its streams in nanoseconds of the device's time, by the costs of its launches.
 * So the work completed between two looks is the time for which the service was busy, and
 * occasional looks suffice. Also: progress of a draining process's work.
 */
#include "base/clock.h"
#include "node/protect/registrar_internal.h"

enum {
    /* longest believable launch; beyond it the process or its marks hang */
    STUCK_US = 10 * 1000 * 1000,
};

/* Returns the sum of completed work; *ret_is_busy: work is outstanding. */
static uint64_t read_marks(const struct status_page *page, bool *ret_is_busy)
{
    uint64_t sum = 0;
    bool is_busy = false;
    for (int i = 0; i < PAGE_STREAMS_MAX; i++) {
        uint64_t completed = atomic_load(&page->completed[i]);
        is_busy |= atomic_load(&page->started[i]) != completed;
        sum += completed;
    }
    *ret_is_busy = is_busy;
    return sum;
}

/* Returns microseconds of the device's time since the last look. */
static double member_busy_us(struct member *m, int64_t now_us, int64_t elapsed_us)
{
    bool is_busy, was_busy = m->marks.is_busy, is_first = m->marks.moved_us == 0;
    uint64_t sum = read_marks(m->status.page, &is_busy);
    uint64_t done_ns = sum > m->marks.completed ? sum - m->marks.completed : 0;
    bool has_moved = sum != m->marks.completed || is_busy != was_busy || is_first;
    m->marks.completed = sum;
    m->marks.is_busy = is_busy;
    if (has_moved)
        m->marks.moved_us = now_us;
    if (is_first)
        return 0;
    /* A long launch counts when complete, but keeps the device busy now. */
    if (!has_moved && is_busy && now_us - m->marks.moved_us < STUCK_US)
        return (double)elapsed_us;
    return (double)done_ns / 1000;
}

double session_busy_fraction(struct session *s, int64_t now_us)
{
    int64_t elapsed_us = now_us - s->busy_looked_us;
    bool is_first = s->busy_looked_us == 0, is_known = false;
    double busy_us = 0;
    if (!is_first && elapsed_us <= 0)
        return -1;
    s->busy_looked_us = now_us;
    list_for_each (it, &s->members) {
        struct member *m = list_entry(it, struct member, link);
        if (!m->status.page || !(m->status.page->header.features & STATUS_HAS_MARKS))
            continue;
        is_known = true;
        busy_us += member_busy_us(m, now_us, is_first ? 0 : elapsed_us);
    }
    if (is_first || !is_known)
        return -1;
    return busy_us < (double)elapsed_us ? busy_us / (double)elapsed_us : 1;
}

/* Returns whether the process is draining, by its own claim, which can only end its own work. */
static bool drains(const struct member *m)
{
    return m->status.page && atomic_load(&m->status.page->state) == STATUS_DRAINING;
}

size_t session_take_stuck(struct session *s, int64_t for_ms, pid_t *ret_pids, size_t max)
{
    int64_t now_ms = clock_boot_ms();
    size_t count = 0;
    list_for_each (it, &s->members) {
        struct member *m = list_entry(it, struct member, link);
        bool is_busy;
        if (!drains(m)) {
            m->drain.still_ms = 0;
            continue;
        }
        uint64_t completed = read_marks(m->status.page, &is_busy);
        if (m->drain.still_ms == 0 || (completed != m->drain.completed && !m->drain.is_taken))
            m->drain.still_ms = now_ms;
        m->drain.completed = completed;
        if (m->drain.is_taken || now_ms - m->drain.still_ms < for_ms || count == max)
            continue;
        ret_pids[count++] = m->pid;
        m->drain.is_taken = true;
    }
    return count;
}
