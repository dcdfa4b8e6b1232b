#include "base/str.h"
#include "node/protect/registrar_internal.h"

static int index_of(const struct ward *w, const char *uuid)
{
    for (int i = 0; i < w->terms->device_count; i++)
        if (str_equal(w->terms->devices[i], uuid))
            return i;
    return -1;
}

static bool sees_services(const struct ward *w)
{
    return w->terms->kind == WORKLOAD_TASK && w->limits.page;
}

/* False: its socket is full; it is told again when there is room. */
static bool tell_one(struct member *m, uint32_t number)
{
    const struct neighbour *n = &m->ward->neighbours[number];
    bool sent;
    if (n->service) {
        const struct register_neighbour packet = {
            .header = register_header_of(REGISTER_NEIGHBOUR, sizeof packet),
            .number = number,
            .device = n->device};
        sent = member_send(m, &packet, sizeof packet, n->service->status.fd);
    } else {
        const struct register_gone packet = {
            .header = register_header_of(REGISTER_GONE, sizeof packet), .number = number};
        sent = member_send(m, &packet, sizeof packet, -1);
    }
    if (sent)
        m->shown[number] = n->generation;
    return sent;
}

void neighbours_tell(struct member *m)
{
    bool sent = false, all = true;
    if (m->fd < 0 || !sees_services(m->ward))
        return;
    for (uint32_t i = 0; all && i < REGISTER_NEIGHBOURS_MAX; i++) {
        const struct neighbour *n = &m->ward->neighbours[i];
        if (!n->service && m->shown[i] == 0)
            m->shown[i] = n->generation; /* it came and went unseen */
        if (m->shown[i] == n->generation)
            continue;
        all = tell_one(m, i);
        sent = sent || all;
    }
    if (sent)
        atomic_fetch_add(&m->ward->limits.page->messages, 1);
    if (!all)
        member_await_room(m);
}

static void tell_all(struct ward *w)
{
    list_for_each (it, &w->members)
        neighbours_tell(list_entry(it, struct member, link));
}

static void count_neighbours(struct ward *w)
{
    uint32_t counts[PAGE_DEVICES_MAX] = {0};
    for (uint32_t i = 0; i < REGISTER_NEIGHBOURS_MAX; i++)
        if (w->neighbours[i].service)
            counts[w->neighbours[i].device]++;
    for (int i = 0; i < w->terms->device_count; i++)
        atomic_store(&w->limits.page->devices[i].neighbour_count, counts[i]);
    limits_changed(w);
}

/* More than there are numbers for stay unseen: the task's window still keeps it polite. */
static void add(struct ward *w, struct member *service, uint32_t device)
{
    for (uint32_t i = 0; i < REGISTER_NEIGHBOURS_MAX; i++)
        if (!w->neighbours[i].service) {
            w->neighbours[i] = (struct neighbour){
                .service = service, .device = device, .generation = ++w->generation};
            return;
        }
    log_write(w->registrar->options.log, LOG_WARN, "too many services to show",
              "attempt=%s most=%d", w->name, REGISTER_NEIGHBOURS_MAX);
}

static void show_to(struct ward *w, struct member *service)
{
    const struct terms *terms = service->ward->terms;
    if (!sees_services(w) || service->status.fd < 0)
        return;
    for (int i = 0; i < terms->device_count; i++) {
        int device = index_of(w, terms->devices[i]);
        if (device >= 0)
            add(w, service, (uint32_t)device);
    }
}

void neighbours_show(struct member *service)
{
    if (service->ward->terms->kind != WORKLOAD_SERVICE || service->status.fd < 0)
        return;
    list_for_each (it, &service->ward->registrar->wards) {
        struct ward *w = list_entry(it, struct ward, link);
        uint32_t before = w->generation;
        show_to(w, service);
        if (w->generation == before)
            continue;
        count_neighbours(w);
        tell_all(w);
    }
}

void neighbours_withdraw(struct member *service)
{
    const struct registrar *r = service->ward->registrar;
    if (service->ward->terms->kind != WORKLOAD_SERVICE || r->is_leaving)
        return;
    list_for_each (it, &r->wards) {
        struct ward *w = list_entry(it, struct ward, link);
        bool changed = false;
        for (uint32_t i = 0; i < REGISTER_NEIGHBOURS_MAX; i++) {
            if (w->neighbours[i].service != service)
                continue;
            w->neighbours[i] = (struct neighbour){.generation = ++w->generation};
            changed = true;
        }
        if (!changed)
            continue;
        count_neighbours(w);
        tell_all(w);
    }
}

void neighbours_find(struct ward *task)
{
    if (!sees_services(task))
        return;
    list_for_each (it, &task->registrar->wards) {
        struct ward *w = list_entry(it, struct ward, link);
        if (w->terms->kind != WORKLOAD_SERVICE)
            continue;
        list_for_each (at, &w->members)
            show_to(task, list_entry(at, struct member, link));
    }
    count_neighbours(task);
}
