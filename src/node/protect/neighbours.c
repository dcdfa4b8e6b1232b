#include "base/str.h"
#include "node/protect/registrar_internal.h"

static int index_of(const struct session *s, const char *uuid)
{
    for (int i = 0; i < s->terms->device_count; i++)
        if (str_equal(s->terms->devices[i], uuid))
            return i;
    return -1;
}

static bool sees_services(const struct session *s)
{
    return s->terms->kind == WORKLOAD_TASK && s->limits.page;
}

/* Sends one change. Returns false if the socket is full; the change is sent again later. */
static bool tell_one(struct member *m, uint32_t number)
{
    const struct neighbour *n = &m->session->neighbours[number];
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
    if (m->fd < 0 || !sees_services(m->session))
        return;
    for (uint32_t i = 0; all && i < REGISTER_NEIGHBOURS_MAX; i++) {
        const struct neighbour *n = &m->session->neighbours[i];
        if (!n->service && m->shown[i] == 0)
            m->shown[i] = n->generation; /* came and went between two messages */
        if (m->shown[i] == n->generation)
            continue;
        all = tell_one(m, i);
        sent = sent || all;
    }
    if (sent)
        atomic_fetch_add(&m->session->limits.page->messages, 1);
    if (!all)
        member_await_room(m);
}

static void tell_all(struct session *s)
{
    list_for_each (it, &s->members)
        neighbours_tell(list_entry(it, struct member, link));
}

static void count_neighbours(struct session *s)
{
    uint32_t counts[PAGE_DEVICES_MAX] = {0};
    for (uint32_t i = 0; i < REGISTER_NEIGHBOURS_MAX; i++)
        if (s->neighbours[i].service)
            counts[s->neighbours[i].device]++;
    for (int i = 0; i < s->terms->device_count; i++)
        atomic_store(&s->limits.page->devices[i].neighbour_count, counts[i]);
    limits_changed(s);
}

/* Adds a service. Services beyond the table are not shown; the task's window still protects
 * them. */
static void add(struct session *s, struct member *service, uint32_t device)
{
    for (uint32_t i = 0; i < REGISTER_NEIGHBOURS_MAX; i++)
        if (!s->neighbours[i].service) {
            s->neighbours[i] = (struct neighbour){
                .service = service, .device = device, .generation = ++s->generation};
            return;
        }
    log_write(s->registrar->options.log, LOG_WARN, "neighbour list truncated",
              "attempt=%s limit=%d", s->name, REGISTER_NEIGHBOURS_MAX);
}

static void show_to(struct session *s, struct member *service)
{
    const struct terms *terms = service->session->terms;
    if (!sees_services(s) || service->status.fd < 0)
        return;
    for (int i = 0; i < terms->device_count; i++) {
        int device = index_of(s, terms->devices[i]);
        if (device >= 0)
            add(s, service, (uint32_t)device);
    }
}

void neighbours_show(struct member *service)
{
    if (service->session->terms->kind != WORKLOAD_SERVICE || service->status.fd < 0)
        return;
    list_for_each (it, &service->session->registrar->sessions) {
        struct session *s = list_entry(it, struct session, link);
        uint32_t before = s->generation;
        show_to(s, service);
        if (s->generation == before)
            continue;
        count_neighbours(s);
        tell_all(s);
    }
}

void neighbours_withdraw(struct member *service)
{
    const struct registrar *r = service->session->registrar;
    if (service->session->terms->kind != WORKLOAD_SERVICE || r->is_leaving)
        return;
    list_for_each (it, &r->sessions) {
        struct session *s = list_entry(it, struct session, link);
        bool changed = false;
        for (uint32_t i = 0; i < REGISTER_NEIGHBOURS_MAX; i++) {
            if (s->neighbours[i].service != service)
                continue;
            s->neighbours[i] = (struct neighbour){.generation = ++s->generation};
            changed = true;
        }
        if (!changed)
            continue;
        count_neighbours(s);
        tell_all(s);
    }
}

void neighbours_find(struct session *task)
{
    if (!sees_services(task))
        return;
    list_for_each (it, &task->registrar->sessions) {
        struct session *s = list_entry(it, struct session, link);
        if (s->terms->kind != WORKLOAD_SERVICE)
            continue;
        list_for_each (at, &s->members)
            show_to(task, list_entry(at, struct member, link));
    }
    count_neighbours(task);
}
