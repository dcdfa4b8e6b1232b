#include "node/device/give_way.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "device/room.h"
#include "node/agent_internal.h"
#include "node/device/host_memory.h"

enum {
    GIVE_WAY_LOOK_MS = 20,
    GIVE_WAY_MOVING_MS = 2, /* while a service waits */
};

struct give_way {
    struct event *timer;
    bool is_looking; /* the timer is armed */
    struct room rooms[NODE_DEVICES_MAX];
    int64_t sampled_ms; /* time of the readings; 0: none */
    uint64_t free_bytes[NODE_DEVICES_MAX];
    struct room_actions actions;
};

/* ---- tasks and services of a device ---- */

/* Returns the index of the device in the attempt's terms; -1: not there. */
static int place_of(const struct run *r, int device)
{
    for (int i = 0; r->session && run_is_on(r, device) && i < r->own.terms.device_count; i++)
        if (str_equal(r->own.terms.devices[i], r->agent->info.devices[device].uuid))
            return i;
    return -1;
}

static bool is_service(const struct run *r)
{
    return r->own.terms.kind == WORKLOAD_SERVICE;
}

/* Returns whether tasks and services with a quota share the device. */
static bool is_shared(const struct agent *a, int device)
{
    bool has_service = false, has_task = false;
    list_for_each (it, &a->runs) {
        const struct run *r = list_entry(it, struct run, link);
        if (place_of(r, device) < 0 || !r->own.terms.is_protected)
            continue;
        has_service = has_service || (is_service(r) && r->own.terms.quota_bytes > 0);
        has_task = has_task || !is_service(r);
    }
    return has_service && has_task;
}

static bool has_away(const struct agent *a, int device)
{
    list_for_each (it, &a->runs) {
        const struct run *r = list_entry(it, struct run, link);
        struct session_room room = {0};
        int place = r->own.terms.swappable ? place_of(r, device) : -1;
        if (place >= 0)
            session_read_room(r->session, place, &room);
        if (room.away_bytes > 0)
            return true;
    }
    return false;
}

static void look_at_task(const struct run *r, int place, struct room_task_look *ret)
{
    struct session_room room;
    const struct terms *terms = &r->own.terms;
    session_read_room(r->session, place, &room);
    *ret = (struct room_task_look){
        .workload = r->workload,
        .attempt = r->attempt,
        .held_bytes = room.held_bytes > room.away_bytes ? room.held_bytes - room.away_bytes : 0,
        .movable_bytes = room.movable_bytes,
        .away_bytes = room.away_bytes,
        .failures = room.failures,
        .can_move = terms->swappable && room.holders == 1,
        .can_leave = (terms->resumable || terms->suspendable) && !attempt_is_stopping(&r->life),
    };
}

static uint64_t lacking_on(const struct agent *a, int device)
{
    uint64_t sum = 0;
    list_for_each (it, &a->runs) {
        const struct run *r = list_entry(it, struct run, link);
        struct session_room room = {0};
        int place = is_service(r) && r->own.terms.quota_bytes > 0 ? place_of(r, device) : -1;
        if (place >= 0)
            session_read_room(r->session, place, &room);
        /* A service claims what it lacks: no claim beyond its quota and a context is believed. */
        uint64_t most = r->own.terms.quota_bytes + LIMITS_CONTEXT_BYTES;
        sum += room.lacking_bytes < most ? room.lacking_bytes : most;
    }
    return sum;
}

static uint64_t spare_host_bytes(const struct agent *a)
{
    uint64_t available = host_memory_available(),
             kept = (uint64_t)a->config->host_memory_kept_bytes;
    return available > kept ? available - kept : 0;
}

uint64_t give_way_movable(const struct run *r, int device)
{
    struct room_task_look look;
    int place = r->own.terms.swappable ? place_of(r, device) : -1;
    if (place < 0)
        return 0;
    look_at_task(r, place, &look);
    uint64_t here = look.can_move ? look.movable_bytes - look.away_bytes : 0;
    uint64_t spare = here > 0 ? spare_host_bytes(r->agent) : 0;
    /* Memory that is away may just have been on the device, or be on its way back. */
    return look.away_bytes + (here < spare ? here : spare);
}

/* ---- actions ---- */

static void evict(struct run *r, const char *why)
{
    struct attempt_event event = {.kind = ATTEMPT_EVICT};
    if (!r->own.terms.suspendable) {
        monitor_moves(r, why);
        return;
    }
    str_copy(event.text, sizeof event.text, why);
    run_tell(r, &event);
}

static void tell_order(struct agent *a, int device, struct run *r, uint64_t bytes)
{
    char text[WORKLOAD_TEXT_MAX];
    log_write(a->log, LOG_INFO, bytes ? "task gives way" : "task gets its memory back",
              "device=%s attempt=%s away_bytes=%" PRIu64, a->info.devices[device].uuid, r->name,
              bytes);
    if (bytes > 0)
        (void)snprintf(text, sizeof text,
                       "workload %" PRIu64 " gives %" PRIu64 " MiB of device memory to services",
                       r->workload, bytes >> 20);
    else
        (void)snprintf(text, sizeof text, "workload %" PRIu64 " gets its device memory back",
                       r->workload);
    monitor_note(a, device, text);
}

static void act(struct agent *a, int device, const struct room_action *action)
{
    const char *uuid = a->info.devices[device].uuid;
    struct run *r = run_find(a, action->workload, action->attempt);
    int place = r ? place_of(r, device) : -1;
    if (action->kind == ROOM_NOTE) {
        monitor_note(a, device, action->text);
    } else if (action->kind == ROOM_ORDER && place >= 0) {
        tell_order(a, device, r, action->bytes);
        session_order_away(r->session, place, action->bytes);
    } else if (action->kind == ROOM_EVICT && place >= 0) {
        log_write(a->log, LOG_WARN, "task evicted for device memory",
                  "device=%s attempt=%s reason=\"%s\"", uuid, r->name, action->text);
        evict(r, action->text);
    }
}

static void show_room(struct agent *a, int device, uint64_t bytes, bool has_answer)
{
    list_for_each (it, &a->runs) {
        struct run *r = list_entry(it, struct run, link);
        int place = is_service(r) && r->own.terms.quota_bytes > 0 ? place_of(r, device) : -1;
        if (place >= 0)
            session_show_room(r->session, place, bytes, has_answer);
    }
}

/* ---- looks ---- */

/* Returns whether to look again soon. */
static bool look_at_device(struct agent *a, int device)
{
    struct give_way *g = a->give_way;
    struct room_task_look tasks[ROOM_TASKS_MAX];
    struct room_look look = {.now_ms = clock_boot_ms(),
                             .lacking_bytes = lacking_on(a, device),
                             .free_at_ms = g->sampled_ms,
                             .free_bytes = g->free_bytes[device],
                             .away_ms_max = a->config->memory_away_ms,
                             .tasks = tasks};
    bool has_answer = false;
    list_for_each (it, &a->runs) {
        const struct run *r = list_entry(it, struct run, link);
        int place = is_service(r) || !r->own.terms.is_protected ? -1 : place_of(r, device);
        if (place >= 0 && look.task_count < ROOM_TASKS_MAX)
            look_at_task(r, place, &tasks[look.task_count++]);
    }
    if (look.lacking_bytes > 0)
        look.host_bytes = spare_host_bytes(a);
    room_step(&g->rooms[device], &look, &g->actions);
    agent_hold(a);
    for (size_t i = 0; i < g->actions.count; i++) {
        has_answer = has_answer || g->actions.items[i].kind == ROOM_ANSWER;
        act(a, device, &g->actions.items[i]);
    }
    show_room(a, device, g->actions.room_bytes, has_answer);
    agent_release(a);
    return look.lacking_bytes > 0;
}

static void look_again(struct give_way *g, int ms)
{
    const struct timeval wait = {.tv_usec = ms * 1000};
    g->is_looking = true;
    event_add(g->timer, &wait);
}

static void look(struct agent *a)
{
    struct give_way *g = a->give_way;
    bool is_needed = false, is_urgent = false;
    for (int i = 0; i < a->info.device_count; i++) {
        if (!is_shared(a, i) && !has_away(a, i) && g->rooms[i].count == 0)
            continue;
        is_urgent = look_at_device(a, i) || is_urgent;
        is_needed = is_needed || is_shared(a, i) || has_away(a, i);
    }
    g->is_looking = false;
    if (is_needed)
        look_again(g, is_urgent ? GIVE_WAY_MOVING_MS : GIVE_WAY_LOOK_MS);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    look(arg);
}

void give_way_sampled(struct agent *a, const struct gpu_reading *readings)
{
    struct give_way *g = a->give_way;
    g->sampled_ms = clock_boot_ms();
    for (int i = 0; i < a->info.device_count; i++) {
        const struct gpu_reading *r = &readings[i];
        bool is_known = r->valid && r->memory_used_bytes < r->memory_bytes;
        g->free_bytes[i] = is_known ? r->memory_bytes - r->memory_used_bytes : 0;
    }
    if (!g->is_looking)
        look(a);
}

void give_way_hurry(struct agent *a)
{
    if (a->give_way)
        look_again(a->give_way, GIVE_WAY_MOVING_MS);
}

int give_way_open(struct error *e, struct agent *a)
{
    a->give_way = calloc(1, sizeof *a->give_way);
    if (a->give_way)
        a->give_way->timer = evtimer_new(a->base, on_timer, a);
    return a->give_way && a->give_way->timer ? 0 : error_set(e, ERR_NO_MEMORY, "out of memory");
}

void give_way_close(struct agent *a)
{
    if (a->give_way && a->give_way->timer)
        event_free(a->give_way->timer);
    free(a->give_way);
    a->give_way = NULL;
}
