/* Explains where a workload would be placed now: every candidate, and the reason against it. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cluster/cluster_internal.h"

enum {
    NAMES_MAX = 2 * DEVICE_NAME_MAX, /* leaves room for a sentence around the names */
    MORE_MAX = sizeof " and 16 more",
};

struct explaining {
    struct cluster *cluster;
    const struct workload *workload;
    struct policy_snapshot snapshot;
    struct place_outcome outcome;
    struct cluster_explanation *ret;
};

static bool is_on(const struct workload *w, const char *uuid)
{
    const struct attempt *a = w->node ? workload_status_attempt(&w->status) : NULL;
    for (int i = 0; a && i < a->device_count; i++)
        if (strcmp(a->devices[i], uuid) == 0)
            return true;
    return false;
}

static bool is_chosen(const struct explaining *x, size_t device)
{
    for (size_t i = 0; i < x->outcome.decision.device_count; i++)
        if (x->outcome.verdict == POLICY_PLACES && x->outcome.decision.devices[i] == device)
            return true;
    return false;
}

static struct cluster_candidate *add(struct explaining *x, size_t device)
{
    struct cluster_candidate *to = &x->ret->candidates[x->ret->count++];
    const struct policy_device *d = &x->snapshot.devices[device];
    *to = (struct cluster_candidate){.devices = 1,
                                     .neighbours = (size_t)d->neighbours,
                                     .here = is_on(x->workload, d->uuid),
                                     .chosen = is_chosen(x, device)};
    (void)str_copy(to->node, sizeof to->node, x->snapshot.nodes[d->node].name);
    (void)str_copy(to->device, sizeof to->device, d->uuid);
    cluster_device_name(x->cluster, to->node, to->device, to->name);
    (void)str_copy(to->model, sizeof to->model, d->model);
    return to;
}

/* Devices that represent a class. */
struct shown {
    size_t device; /* the chosen device, else the workload's own, else any */
    size_t own;    /* the workload's own, if not `device`; FLEET_NONE: none */
};

static struct shown shown_of(const struct explaining *x, const struct fleet_class *c)
{
    size_t chosen = FLEET_NONE, own = FLEET_NONE;
    for (size_t d = c->first; d != FLEET_NONE; d = x->snapshot.fleet->devices[d].next) {
        bool is_here = is_on(x->workload, x->snapshot.devices[d].uuid);
        if (is_chosen(x, d) && (chosen == FLEET_NONE || is_here))
            chosen = d;
        if (is_here && (own == FLEET_NONE || is_chosen(x, d)))
            own = d;
    }
    if (chosen == FLEET_NONE || chosen == own)
        return (struct shown){.device = own != FLEET_NONE ? own : c->first, .own = FLEET_NONE};
    return (struct shown){.device = chosen, .own = own};
}

/* Writes "box:0 box:1": the chosen devices, or the node of a workload without a device. */
static const char *name_chosen(const struct explaining *x, char ret[NAMES_MAX])
{
    const struct policy_decision *d = &x->outcome.decision;
    const char *node = x->snapshot.nodes[d->node].name;
    size_t i = 0, length = 0;
    (void)str_copy(ret, NAMES_MAX, node);
    for (; i < d->device_count && length + DEVICE_NAME_MAX < NAMES_MAX - MORE_MAX; i++) {
        if (i > 0)
            ret[length++] = ' ';
        cluster_device_name(x->cluster, node, x->snapshot.devices[d->devices[i]].uuid,
                            ret + length);
        length += strlen(ret + length);
    }
    if (i < d->device_count)
        (void)snprintf(ret + length, NAMES_MAX - length, " and %zu more", d->device_count - i);
    return ret;
}

static void give_reason(const struct explaining *x, const struct policy_candidate *judged,
                        struct cluster_candidate *to)
{
    char names[NAMES_MAX];
    if (to->chosen)
        (void)snprintf(to->reason, sizeof to->reason, "chosen");
    else if (judged->misfit != POLICY_FITS)
        (void)snprintf(to->reason, sizeof to->reason, "%s", policy_misfit_text(judged->misfit));
    else if (judged->objection != POLICY_OBJECTS_NONE)
        (void)snprintf(to->reason, sizeof to->reason, "%s",
                       policy_objection_text(judged->objection));
    else if (x->outcome.verdict == POLICY_WAITS)
        (void)snprintf(to->reason, sizeof to->reason,
                       "waiting for the next free device ends sooner, by %.0f s",
                       (x->outcome.now_ms - x->outcome.wait_ms) / 1000);
    else if (allowance_is_spent(x->cluster, x->workload->requirement->allowance,
                                &x->workload->needs))
        (void)snprintf(to->reason, sizeof to->reason,
                       "the device has room, but the allowance is used up");
    else if (x->outcome.verdict == POLICY_REFUSES)
        (void)snprintf(to->reason, sizeof to->reason, "too few devices of the node fit");
    else
        (void)snprintf(to->reason, sizeof to->reason, "the policy prefers %s",
                       name_chosen(x, names));
}

/* A p99 that was not measured is marked as such, because it is no reason for a refusal. */
static void add_doubt(struct cluster_candidate *to)
{
    size_t length = strlen(to->reason);
    const char *doubt = "";
    if (to->slo_ms > 0 && !(to->p99_ms > 0))
        doubt = "; p99 unknown: too few requests measured yet";
    else if (to->is_p99_guess)
        doubt = "; p99 is a guess: not measured with these neighbours";
    (void)snprintf(to->reason + length, sizeof to->reason - length, "%s", doubt);
}

/* Returns whether candidate i lost to a chosen one of the same score. */
static bool is_as_good(const struct explaining *x, const struct policy_candidate *all, size_t count,
                       size_t i)
{
    const struct fleet_device *devices = x->snapshot.fleet->devices;
    if (x->outcome.verdict != POLICY_PLACES || all[i].misfit != POLICY_FITS ||
        all[i].objection != POLICY_OBJECTS_NONE)
        return false;
    size_t chosen = devices[x->outcome.decision.devices[0]].class_index;
    for (size_t k = 0; k < count; k++)
        if (all[k].class_index == chosen)
            return all[k].score == all[i].score;
    return false;
}

static void add_judged(struct explaining *x, const struct policy_candidate *judged, bool is_as_good,
                       size_t device, size_t alike)
{
    if (x->ret->count == CLUSTER_CANDIDATES_MAX)
        return;
    struct cluster_candidate *to = add(x, device);
    to->devices = alike;
    to->judged = judged->misfit == POLICY_FITS;
    to->pd = judged->pd;
    to->speed = to->judged ? 1 / judged->pd : 0;
    to->gain = judged->speed_after - judged->speed_before;
    to->p99_ms = judged->p99_ms;
    to->slo_ms = judged->slo_ms;
    to->is_p99_guess = judged->is_p99_guess;
    to->service = judged->service;
    give_reason(x, judged, to);
    char names[NAMES_MAX];
    if (is_as_good && !to->chosen)
        (void)snprintf(to->reason, sizeof to->reason, "as good as %s, which was chosen",
                       name_chosen(x, names));
    add_doubt(to);
}

static void explain_judged(struct explaining *x)
{
    struct policy_candidate all[CLUSTER_CANDIDATES_MAX];
    size_t count = policy_candidates(x->cluster->config.policy, &x->snapshot, x->snapshot.waiting,
                                     all, CLUSTER_CANDIDATES_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct fleet_class *c = &x->snapshot.fleet->classes[all[i].class_index];
        bool as_good = is_as_good(x, all, count, i);
        struct shown shown = shown_of(x, c);
        bool has_own = shown.own != FLEET_NONE;
        add_judged(x, &all[i], as_good, shown.device, c->device_count - has_own);
        if (has_own)
            add_judged(x, &all[i], as_good, shown.own, 1);
    }
}

static void explain_plain(struct explaining *x)
{
    const struct policy *policy = x->cluster->config.policy;
    int most = policy->one_a_device ? 1 : x->snapshot.max_neighbours;
    for (size_t d = 0; d < x->snapshot.device_count && x->ret->count < CLUSTER_CANDIDATES_MAX;
         d++) {
        struct policy_candidate judged = {.misfit = policy_device_fit(&x->snapshot,
                                                                      &x->snapshot.devices[d],
                                                                      x->snapshot.waiting, most)};
        struct cluster_candidate *to = add(x, d);
        if (!to->chosen && judged.misfit == POLICY_FITS && x->outcome.verdict == POLICY_PLACES)
            (void)snprintf(to->reason, sizeof to->reason, "another device was chosen");
        else
            give_reason(x, &judged, to);
    }
}

static bool would_stay(const struct explaining *x)
{
    const struct policy_decision *d = &x->outcome.decision;
    bool stays = strcmp(x->workload->node->info.name, x->snapshot.nodes[d->node].name) == 0;
    for (size_t i = 0; stays && i < d->device_count; i++)
        stays = is_on(x->workload, x->snapshot.devices[d->devices[i]].uuid);
    return stays;
}

static void explain_running(struct explaining *x)
{
    const char *node = x->workload->node->info.name;
    char would[WORKLOAD_TEXT_MAX];
    (void)str_copy(would, sizeof would, x->ret->text);
    if (x->outcome.verdict == POLICY_PLACES && would_stay(x))
        (void)snprintf(x->ret->text, sizeof x->ret->text,
                       "placed on %s; if placed now: would go there again", node);
    else
        (void)snprintf(x->ret->text, sizeof x->ret->text, "placed on %s; if placed now: %.*s", node,
                       (int)(sizeof would - strlen(node) - sizeof "placed on ; if placed now: "),
                       would);
}

static bool is_backing_off(const struct workload *w)
{
    return w->status.state == WORKLOAD_QUEUED && w->timer.member.position;
}

static void explain_outcome(struct explaining *x)
{
    const struct workload *w = x->workload;
    char *text = x->ret->text, names[NAMES_MAX];
    if (w->unmet_count > 0) {
        depend_explain(w, text);
    } else if (is_backing_off(w)) {
        (void)str_copy(text, WORKLOAD_TEXT_MAX, w->status.text);
    } else if (x->outcome.verdict == POLICY_PLACES) {
        (void)snprintf(text, WORKLOAD_TEXT_MAX, "would go to %s", name_chosen(x, names));
    } else {
        (void)queue_explain_refusal(x->cluster, &x->snapshot, w->requirement->allowance,
                                    x->outcome.verdict, text);
        keep_explain(x->cluster, w->requirement, text);
    }
    if (w->node)
        explain_running(x);
}

int cluster_explain(struct cluster *c, uint64_t workload, struct cluster_explanation *ret)
{
    struct workload *w = workload_find(c, workload);
    struct explaining x = {.cluster = c, .workload = w, .ret = ret};
    if (!w)
        return -ERR_NOT_FOUND;
    bool booked = w->booked;
    inventory_release(c, w);
    if (w->node)
        inventory_count(c, w->node, &w->needs, -1);
    struct policy_waiting waiting = queue_waiting(c, w);
    inventory_snapshot(c, &x.snapshot);
    if (!c->failed) {
        *ret = (struct cluster_explanation){.measured_pd = w->measured_pd,
                                            .predicted_pd = w->predicted_pd};
        x.snapshot.waiting = &waiting;
        x.snapshot.waiting_count = 1;
        (void)queue_decide(c, &x.snapshot, w->requirement->allowance, &x.outcome);
        if (w->needs.devices == 0)
            ret->count = 0; /* no device requested */
        else if (c->judges)
            explain_judged(&x);
        else
            explain_plain(&x);
        explain_outcome(&x);
    }
    if (w->node)
        inventory_count(c, w->node, &w->needs, 1);
    if (booked)
        inventory_book(c, w);
    return c->failed ? -ERR_NO_MEMORY : 0;
}
