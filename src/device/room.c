#include "device/room.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One step: the tasks of the look, and their records in the same order. */
struct step {
    struct room *room;
    const struct room_look *look;
    struct room_actions *actions;
    size_t count;
    const struct room_task_look *looks[ROOM_TASKS_MAX];
    struct room_task *tasks[ROOM_TASKS_MAX];
};

static struct room_action *act(struct step *s, enum room_action_kind kind, size_t i)
{
    struct room_action *action = &s->actions->items[s->actions->count++];
    *action = (struct room_action){.kind = kind};
    if (i < s->count) {
        action->workload = s->tasks[i]->workload;
        action->attempt = s->tasks[i]->attempt;
    }
    return action;
}

static void order(struct step *s, size_t i, uint64_t bytes)
{
    struct room_task *t = s->tasks[i];
    t->order_bytes = bytes;
    t->ordered_ms = s->look->now_ms;
    t->fits_since_ms = 0;
    act(s, ROOM_ORDER, i)->bytes = bytes;
}

static void evict(struct step *s, size_t i, const char *why)
{
    s->tasks[i]->is_leaving = true;
    (void)snprintf(act(s, ROOM_EVICT, i)->text, ROOM_TEXT_MAX, "%s", why);
}

/* ---- records ---- */

static struct room_task *find(struct room *room, const struct room_task_look *look)
{
    for (size_t i = 0; i < room->count; i++)
        if (room->tasks[i].workload == look->workload && room->tasks[i].attempt == look->attempt)
            return &room->tasks[i];
    return NULL;
}

/* A task that is new here, for an agent that was restarted, keeps its memory where it is. */
static struct room_task *add(struct room *room, const struct room_look *look,
                             const struct room_task_look *task)
{
    if (room->count == ROOM_TASKS_MAX)
        return NULL;
    struct room_task *t = &room->tasks[room->count++];
    *t = (struct room_task){.workload = task->workload,
                            .attempt = task->attempt,
                            .order_bytes = task->away_bytes,
                            .ordered_ms = look->now_ms,
                            .return_ms = ROOM_RETURN_MS,
                            .failures = task->failures};
    return t;
}

static void forget_absent(struct room *room)
{
    size_t kept = 0;
    for (size_t i = 0; i < room->count; i++)
        if (room->tasks[i].is_present)
            room->tasks[kept++] = room->tasks[i];
    room->count = kept;
}

static void match(struct step *s)
{
    struct room *room = s->room;
    for (size_t i = 0; i < room->count; i++)
        room->tasks[i].is_present = false;
    for (size_t i = 0; i < s->look->task_count; i++) {
        struct room_task *t = find(room, &s->look->tasks[i]);
        if (t)
            t->is_present = true;
    }
    forget_absent(room);
    for (size_t i = 0; i < s->look->task_count && s->count < ROOM_TASKS_MAX; i++) {
        struct room_task *t = find(room, &s->look->tasks[i]);
        bool is_new = !t;
        if (is_new && !(t = add(room, s->look, &s->look->tasks[i])))
            continue;
        s->tasks[s->count] = t;
        s->looks[s->count++] = &s->look->tasks[i];
        if (is_new && t->order_bytes > 0)
            order(s, s->count - 1, t->order_bytes);
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns the ordered bytes that the task can have in host memory. */
static uint64_t wanted_away(const struct step *s, size_t i)
{
    return least(s->tasks[i]->order_bytes, s->looks[i]->movable_bytes);
}

/* Returns the bytes that are still on their way to host memory. */
static uint64_t in_flight(const struct step *s, size_t i)
{
    uint64_t wanted = wanted_away(s, i), away = s->looks[i]->away_bytes;
    return wanted > away ? wanted - away : 0;
}

/* ---- progress of moves ---- */

/* Undoes an order that the task did not carry out. */
static void fail(struct step *s, size_t i)
{
    struct room_task *t = s->tasks[i];
    uint64_t away = s->looks[i]->away_bytes;
    if (t->order_bytes > away) {
        t->blocked_ms = s->look->now_ms + ROOM_AGAIN_MS;
    } else if (2 * t->return_ms <= ROOM_RETURN_MS_MAX) {
        t->return_ms *= 2; /* the room was taken by others */
    }
    order(s, i, away);
}

static void note_progress(struct step *s, size_t i)
{
    struct room_task *t = s->tasks[i];
    const struct room_task_look *look = s->looks[i];
    int64_t now_ms = s->look->now_ms;
    if (look->away_bytes > 0 && t->away_since_ms == 0) {
        bool is_soon = t->returned_ms > 0 && now_ms - t->returned_ms < ROOM_CALM_MS;
        t->away_since_ms = now_ms;
        if (!is_soon)
            t->return_ms = ROOM_RETURN_MS;
        else if (2 * t->return_ms <= ROOM_RETURN_MS_MAX)
            t->return_ms *= 2;
    } else if (look->away_bytes == 0 && t->away_since_ms > 0) {
        t->away_since_ms = 0;
        t->returned_ms = now_ms;
    }
    bool is_moving = in_flight(s, i) > 0 || (t->order_bytes == 0 && look->away_bytes > 0);
    bool has_failed = look->failures != t->failures;
    t->failures = look->failures;
    if (is_moving && (has_failed || now_ms - t->ordered_ms >= ROOM_MOVE_MS))
        fail(s, i);
    if (t->away_since_ms > 0 && now_ms - t->away_since_ms >= s->look->away_ms_max && !t->is_leaving)
        evict(s, i, "its memory was away for as long as memory_away allows");
}

/* ---- giving ---- */

/* Returns the bytes that the task could give besides those ordered. */
static uint64_t giveable(const struct step *s, size_t i)
{
    const struct room_task *t = s->tasks[i];
    uint64_t wanted = wanted_away(s, i), away = s->looks[i]->away_bytes;
    uint64_t gone = wanted > away ? wanted : away;
    if (!s->looks[i]->can_move || t->is_leaving || s->look->now_ms < t->blocked_ms)
        return 0;
    return s->looks[i]->movable_bytes - least(gone, s->looks[i]->movable_bytes);
}

/* Returns the task to give next: one that already stands still, or the one with most memory. */
static size_t choose_giver(const struct step *s, const bool *is_used)
{
    size_t best = s->count;
    for (size_t i = 0; i < s->count; i++) {
        if (is_used[i] || giveable(s, i) == 0)
            continue;
        bool is_still = s->looks[i]->away_bytes > 0;
        bool was_still = best < s->count && s->looks[best]->away_bytes > 0;
        if (best == s->count || is_still > was_still ||
            (is_still == was_still && giveable(s, i) > giveable(s, best)))
            best = i;
    }
    return best;
}

static void give(struct step *s, uint64_t needed)
{
    bool is_used[ROOM_TASKS_MAX] = {false};
    for (size_t i; needed > 0 && (i = choose_giver(s, is_used)) < s->count;) {
        uint64_t bytes = least(needed, giveable(s, i));
        uint64_t wanted = wanted_away(s, i), away = s->looks[i]->away_bytes;
        is_used[i] = true;
        needed -= bytes;
        order(s, i, (wanted > away ? wanted : away) + bytes);
    }
}

/* Evicts tasks that lose no work, the largest first, until the memory suffices. Returns whether any
 * task leaves or is leaving. */
static bool make_leave(struct step *s, uint64_t needed)
{
    uint64_t coming = 0;
    bool is_any = false;
    for (size_t i = 0; i < s->count; i++) {
        is_any = is_any || s->tasks[i]->is_leaving;
        coming += s->tasks[i]->is_leaving ? s->looks[i]->held_bytes : 0;
    }
    while (coming < needed) {
        size_t best = s->count;
        for (size_t i = 0; i < s->count; i++)
            if (s->looks[i]->can_leave && !s->tasks[i]->is_leaving && s->looks[i]->held_bytes > 0 &&
                (best == s->count || s->looks[i]->held_bytes > s->looks[best]->held_bytes))
                best = i;
        if (best == s->count)
            return is_any;
        coming += s->looks[best]->held_bytes;
        evict(s, best, "a service needs its device memory");
        is_any = true;
    }
    return is_any;
}

static void note_short_host(struct step *s, uint64_t needed)
{
    if (s->room->has_noted)
        return;
    s->room->has_noted = true;
    (void)snprintf(act(s, ROOM_NOTE, s->count)->text, ROOM_TEXT_MAX,
                   "tasks keep %" PRIu64 " MiB that a service lacks: only %" PRIu64
                   " MiB of host memory are to spare",
                   needed >> 20, s->look->host_bytes >> 20);
}

static void answer(struct step *s)
{
    s->room->settle_ms = s->look->now_ms + ROOM_SETTLE_MS;
    (void)act(s, ROOM_ANSWER, s->count);
}

/* Orders what services lack, unless moves for them are under way. */
static void serve(struct step *s)
{
    struct room *room = s->room;
    uint64_t needed = s->look->lacking_bytes, can_give = 0, moving = 0;
    if (needed == 0 || s->look->now_ms < room->settle_ms)
        return;
    for (size_t i = 0; i < s->count; i++) {
        can_give += giveable(s, i);
        moving += in_flight(s, i);
    }
    if (moving > 0)
        return;
    if (can_give >= needed && s->look->host_bytes >= needed) {
        room->has_noted = false;
        give(s, needed);
        return;
    }
    if (can_give >= needed)
        note_short_host(s, needed);
    if (make_leave(s, needed))
        return; /* the service looks for free memory by itself */
    s->actions->room_bytes = 0;
    answer(s);
}

/* ---- returning ---- */

static void look_for_return(struct step *s, size_t i, bool *is_taken)
{
    struct room_task *t = s->tasks[i];
    int64_t now_ms = s->look->now_ms;
    bool fits =
        s->look->lacking_bytes == 0 && !*is_taken && s->look->free_bytes >= s->looks[i]->away_bytes;
    if (t->order_bytes == 0 || s->looks[i]->away_bytes == 0 || in_flight(s, i) > 0)
        return;
    if (s->look->free_at_ms <= s->room->changed_ms)
        return; /* the sample is older than the last move */
    if (!fits) {
        t->fits_since_ms = 0;
        return;
    }
    *is_taken = true;
    if (t->fits_since_ms == 0)
        t->fits_since_ms = now_ms;
    if (now_ms - t->fits_since_ms < t->return_ms)
        return;
    s->room->changed_ms = now_ms;
    order(s, i, 0);
}

/* Memory returns to one task at a time, the task that has waited longest first. */
static void bring_back(struct step *s)
{
    bool is_taken = false, is_done[ROOM_TASKS_MAX] = {false};
    for (size_t i = 0; i < s->count; i++)
        is_taken = is_taken || (s->tasks[i]->order_bytes == 0 && s->looks[i]->away_bytes > 0);
    for (size_t n = 0; n < s->count; n++) {
        size_t oldest = s->count;
        for (size_t i = 0; i < s->count; i++)
            if (!is_done[i] && (oldest == s->count ||
                                s->tasks[i]->away_since_ms < s->tasks[oldest]->away_since_ms))
                oldest = i;
        is_done[oldest] = true;
        look_for_return(s, oldest, &is_taken);
    }
}

/* ---- the step ---- */

void room_step(struct room *room, const struct room_look *look, struct room_actions *ret)
{
    struct step s = {.room = room, .look = look, .actions = ret};
    uint64_t moving_before = 0, moving = 0;
    ret->count = 0;
    for (size_t i = 0; i < room->count; i++)
        moving_before += room->tasks[i].is_giving;
    match(&s);
    for (size_t i = 0; i < s.count; i++)
        note_progress(&s, i);
    for (size_t i = 0; i < s.count; i++)
        moving += in_flight(&s, i) > 0;
    if (moving_before > 0 && moving == 0) {
        room->changed_ms = look->now_ms;
        answer(&s);
    }
    ret->room_bytes = 0;
    for (size_t i = 0; i < s.count; i++)
        ret->room_bytes += giveable(&s, i) + in_flight(&s, i) +
                           (s.looks[i]->can_leave ? s.looks[i]->held_bytes : 0);
    serve(&s);
    for (size_t i = 0; i < s.count; i++)
        s.tasks[i]->is_giving = in_flight(&s, i) > 0;
    bring_back(&s);
}
