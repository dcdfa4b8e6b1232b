#include <stdlib.h>

#include "world.h"

void network_send(struct world *w, const struct message *m)
{
    bool full = w->message_count == WORLD_MESSAGES;
    if (full || (!w->calm && world_chance(w, 4))) {
        free(m->runs);
        return;
    }
    struct message *queued = &w->messages[w->message_count++];
    *queued = *m;
    queued->not_before_ms = world_chance(w, 4) ? w->now_ms + (int64_t)world_below(w, 600) : 0;
}

static void deliver(struct world *w, const struct message *m)
{
    /* Control may still read messages of a broken connection, even after the hello of a newer
     * one. */
    if (m->type <= MESSAGE_GONE) {
        if (m->connection > w->dead_connections)
            control_receive(w, m);
    } else if (m->connection == w->machines[m->node].connection) {
        machine_receive(w, m);
    }
}

bool network_deliver(struct world *w)
{
    if (w->message_count == 0)
        return false;
    /* Mostly in order, so that work progresses; sometimes from anywhere. */
    size_t i = w->calm || world_chance(w, 70) ? 0 : world_below(w, w->message_count);
    while (!w->calm && i < w->message_count && w->messages[i].not_before_ms > w->now_ms)
        i++;
    if (i == w->message_count)
        return true;
    struct message m = w->messages[i];
    if (!w->calm && world_chance(w, 4)) {
        /* duplicate: to be delivered again */
        w->messages[i].not_before_ms = w->now_ms + (int64_t)world_below(w, 600);
        deliver(w, &m);
        return true;
    }
    w->message_count--;
    for (size_t k = i; k < w->message_count; k++)
        w->messages[k] = w->messages[k + 1];
    deliver(w, &m);
    free(m.runs);
    return true;
}

void network_done(struct world *w)
{
    for (size_t i = 0; i < w->message_count; i++)
        free(w->messages[i].runs);
    w->message_count = 0;
}
