/* The records of ended workloads, kept for answers about them until retention expires. */
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster_internal.h"

enum {
    DELETES_PER_STEP_MAX = 500,
    AGE_CHECK_MAX_MS = 3600 * 1000, /* limit of the timer, because the wall clock may jump */
    CLOCK_JUMP_MS = 60 * 1000,      /* larger than any gradual correction of a clock */
};

void finished_init(struct finished_rows *f)
{
    *f = (struct finished_rows){.timer.owner = TIMER_RETENTION};
    hash_map_init(&f->by_id);
}

void finished_done(struct finished_rows *f)
{
    hash_map_done(&f->by_id);
    free(f->rows);
    f->rows = NULL;
}

/* The map stores index + 1 of a row as a pointer; indices never change. */
static int index_row(struct finished_rows *f, size_t position)
{
    return hash_map_put(&f->by_id, f->rows[position].id, (void *)(f->base + position + 1));
}

static int make_room(struct finished_rows *f)
{
    if (f->first + f->count < f->capacity)
        return 0;
    if (f->first > f->capacity / 2) {
        memmove(f->rows, f->rows + f->first, f->count * sizeof *f->rows);
        f->base += f->first;
        f->first = 0;
        return 0;
    }
    size_t capacity = f->capacity ? f->capacity * 2 : 64;
    struct finished *rows = realloc(f->rows, capacity * sizeof *rows);
    if (!rows)
        return -ERR_NO_MEMORY;
    f->rows = rows;
    f->capacity = capacity;
    return 0;
}

void finished_watch_clock(struct cluster *c)
{
    struct finished_rows *f = &c->finished;
    int64_t ahead_ms = c->now.wall_ms - c->now.boot_ms;
    if (llabs(ahead_ms - f->wall_ahead_ms) <= CLOCK_JUMP_MS)
        return;
    f->wall_ahead_ms = ahead_ms;
    f->steady_boot_ms = c->now.boot_ms;
}

/* Returns the time until ages count; 0: they count now. */
static int64_t until_steady_ms(const struct cluster *c)
{
    int64_t steady_ms = c->now.boot_ms - c->finished.steady_boot_ms;
    return steady_ms < c->config.clock_steady_ms ? c->config.clock_steady_ms - steady_ms : 0;
}

/* Sets the timer to the time at which the oldest row expires. */
static void set_timer(struct cluster *c)
{
    struct finished_rows *f = &c->finished;
    if (f->count == 0) {
        timer_clear(c, &f->timer);
        return;
    }
    int64_t age_ms = c->now.wall_ms - f->rows[f->first].ended_wall_ms;
    int64_t left_ms = c->config.keep_finished_ms - age_ms;
    if (left_ms < until_steady_ms(c))
        left_ms = until_steady_ms(c);
    if (f->count > c->config.keep_finished_max)
        left_ms = 0;
    if (left_ms > AGE_CHECK_MAX_MS)
        left_ms = AGE_CHECK_MAX_MS;
    timer_set(c, &f->timer, c->now.boot_ms + left_ms);
}

int finished_add(struct cluster *c, const struct finished *row, bool loading)
{
    struct finished_rows *f = &c->finished;
    if (make_room(f) < 0)
        return -ERR_NO_MEMORY;
    f->rows[f->first + f->count++] = *row;
    if (loading)
        return 0;
    if (f->count == 1 || f->count > c->config.keep_finished_max)
        set_timer(c);
    return index_row(f, f->first + f->count - 1);
}

static int by_end(const void *a, const void *b)
{
    const struct finished *x = a, *y = b;
    if (x->ended_wall_ms != y->ended_wall_ms)
        return x->ended_wall_ms < y->ended_wall_ms ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

int finished_sort(struct cluster *c)
{
    struct finished_rows *f = &c->finished;
    if (f->count > 0)
        qsort(f->rows + f->first, f->count, sizeof *f->rows, by_end);
    for (size_t i = 0; i < f->count; i++)
        if (index_row(f, f->first + i) < 0)
            return -ERR_NO_MEMORY;
    set_timer(c);
    return 0;
}

const struct finished *finished_find(const struct cluster *c, uint64_t id)
{
    const struct finished_rows *f = &c->finished;
    size_t index = (size_t)hash_map_get(&f->by_id, id);
    return index ? &f->rows[index - 1 - f->base] : NULL;
}

static bool is_due(const struct cluster *c, const struct finished *oldest)
{
    return c->finished.count > c->config.keep_finished_max ||
           (until_steady_ms(c) == 0 &&
            c->now.wall_ms - oldest->ended_wall_ms >= c->config.keep_finished_ms);
}

void finished_prune(struct cluster *c)
{
    struct finished_rows *f = &c->finished;
    size_t deleted = 0;
    while (f->count > 0 && deleted < DELETES_PER_STEP_MAX && is_due(c, &f->rows[f->first])) {
        struct finished *row = &f->rows[f->first];
        struct cluster_action *a = action_add(c, CLUSTER_STORE_DELETE);
        if (a)
            a->workload = row->id;
        (void)hash_map_remove(&f->by_id, row->id);
        submit_key_put(c, row->key);
        c->by_state[row->state]--;
        f->first++;
        f->count--;
        deleted++;
    }
    set_timer(c);
}
