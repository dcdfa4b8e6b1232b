/* Dependencies between workloads. A workload can name only earlier ones, so there are no cycles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster_internal.h"

/* Ids in a text. The text of a longer list changes, and is stored, only when the list is this
 * short. */
enum { DEPENDENCIES_SHOWN = 8 };

/* The dependency can no longer be met: the workload fails, and so do its dependents in turn. */
void depend_fail(struct cluster *c, struct workload *w, uint64_t on)
{
    workload_set_text(w, "workload %llu did not succeed", (unsigned long long)on);
    workload_end(c, w, WORKLOAD_FAILED, FAILURE_DEPENDENCY);
}

static void drop(struct dependency *d)
{
    d->met = true;
    d->waiter->unmet_count--;
}

void depend_link(struct cluster *c, struct workload *w)
{
    for (size_t i = 0; i < w->dependency_count; i++) {
        struct dependency *d = &w->dependencies[i];
        struct workload *on = workload_find(c, d->on);
        d->waiter = w;
        list_init(&d->among_dependents);
        w->unmet_count++;
        if (on) {
            list_append(&on->dependents, &d->among_dependents);
            continue;
        }
        /* A workload that is no longer kept ended long ago and met the dependency, since otherwise
         * this workload would have failed at that time. */
        const struct finished *row = finished_find(c, d->on);
        if (row && d->succeeded && row->state != WORKLOAD_SUCCEEDED)
            w->dependency_failed = d->on;
        drop(d);
    }
    c->dependency_count += w->dependency_count;
    if (w->unmet_count == 0)
        depend_unlink(c, w);
}

void depend_unlink(struct cluster *c, struct workload *w)
{
    for (size_t i = 0; i < w->dependency_count; i++)
        if (!w->dependencies[i].met)
            list_remove(&w->dependencies[i].among_dependents);
    c->dependency_count -= w->dependency_count;
    w->dependency_count = 0;
    free(w->dependencies);
    w->dependencies = NULL;
}

static void tell(struct cluster *c, struct dependency *d, enum workload_state state)
{
    struct workload *w = d->waiter;
    if (d->succeeded && state != WORKLOAD_SUCCEEDED) {
        depend_fail(c, w, d->on);
        return;
    }
    drop(d);
    if (w->unmet_count == 0) {
        w->queued_boot_ms = c->now.boot_ms;
        depend_unlink(c, w);
    }
    if (w->unmet_count <= DEPENDENCIES_SHOWN)
        workload_touch(c, w);
    queue_consider(c, w);
}

void depend_settle(struct cluster *c)
{
    while (!list_empty(&c->ended)) {
        struct workload *w = list_entry(c->ended.next, struct workload, touched);
        while (!list_empty(&w->dependents)) {
            struct dependency *d =
                list_entry(w->dependents.next, struct dependency, among_dependents);
            list_remove(&d->among_dependents);
            tell(c, d, w->status.state);
        }
        list_remove(&w->touched);
        list_append(&c->buried, &w->touched);
    }
}

void depend_explain(const struct workload *w, char text[WORKLOAD_TEXT_MAX])
{
    const size_t room = WORKLOAD_TEXT_MAX;
    size_t length = (size_t)snprintf(text, room, "waits for"), shown = 0;
    for (size_t i = 0; i < w->dependency_count && shown < DEPENDENCIES_SHOWN; i++) {
        if (w->dependencies[i].met)
            continue;
        length += (size_t)snprintf(text + length, room - length, "%s %llu", shown ? "," : "",
                                   (unsigned long long)w->dependencies[i].on);
        shown++;
    }
    if (w->unmet_count > shown)
        (void)snprintf(text + length, room - length, " and %zu more", w->unmet_count - shown);
}
