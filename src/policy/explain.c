/*
 * Explains in one sentence why a workload waits: first conditions that can never be met (unknown
 * model, a quota larger than any device, more devices than any node has), then the present
 * obstacles.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "policy/policy.h"

/* Facts for the sentence, gathered in one pass over the devices. */
struct survey {
    size_t misfits[POLICY_MISFIT_END];
    size_t model_matches;       /* devices of the model, anywhere */
    uint64_t memory_max_bytes;  /* largest memory of these devices */
    uint64_t left_max_bytes;    /* largest memory left by quotas, of devices that lack memory */
    int share_max_free_percent; /* largest free share, of devices that lack share */
    size_t node_matches_max;    /* largest number of devices of the model on one node */
    size_t node_fits_max;       /* largest number of fitting devices on one node */
    size_t nodes_usable, nodes_labelled, nodes_full;
    const struct policy_node *full;     /* the first full node; NULL: none */
    uint64_t kept_for;                  /* workload that devices are kept for */
    const struct device_health *health; /* of the first device that admits nothing; NULL: unknown */
};

/* A sentence under construction, truncated at its end. */
struct sentence {
    char *text;
    size_t length;
};

static void __attribute__((format(printf, 2, 3))) say(struct sentence *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(s->text + s->length, WORKLOAD_TEXT_MAX - s->length, format, args);
    va_end(args);
    if (n > 0)
        s->length += (size_t)n;
    if (s->length >= WORKLOAD_TEXT_MAX)
        s->length = WORKLOAD_TEXT_MAX - 1;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0 * 1024.0);
}

static void survey_device(const struct policy_snapshot *snapshot,
                          const struct policy_device *device, const struct policy_waiting *waiting,
                          int max_neighbours, struct survey *survey)
{
    enum policy_misfit misfit = policy_device_fit(snapshot, device, waiting, max_neighbours);
    survey->misfits[misfit]++;
    if (misfit == POLICY_KEPT)
        survey->kept_for = device->kept_for;
    if (misfit == POLICY_UNHEALTHY && !survey->health)
        survey->health = device->health;
    if (policy_model_matches(device->model, waiting->needs->model)) {
        survey->model_matches++;
        if (device->memory_bytes > survey->memory_max_bytes)
            survey->memory_max_bytes = device->memory_bytes;
    }
    if (misfit == POLICY_NO_MEMORY && device->memory_bytes > device->quota_bytes &&
        device->memory_bytes - device->quota_bytes > survey->left_max_bytes)
        survey->left_max_bytes = device->memory_bytes - device->quota_bytes;
    if (misfit == POLICY_NO_SHARE &&
        100 - device->share_min_percent > survey->share_max_free_percent)
        survey->share_max_free_percent = 100 - device->share_min_percent;
}

static struct survey survey_all(const struct policy_snapshot *snapshot,
                                const struct policy_waiting *waiting, int max_neighbours)
{
    struct survey survey = {0};
    for (size_t n = 0; n < snapshot->node_count; n++) {
        const struct policy_node *node = &snapshot->nodes[n];
        size_t matches_before = survey.model_matches, fits_before = survey.misfits[POLICY_FITS];
        for (size_t d = 0; d < node->device_count; d++)
            survey_device(snapshot, &snapshot->devices[node->first_device + d], waiting,
                          max_neighbours, &survey);
        if (survey.model_matches - matches_before > survey.node_matches_max)
            survey.node_matches_max = survey.model_matches - matches_before;
        if (survey.misfits[POLICY_FITS] - fits_before > survey.node_fits_max)
            survey.node_fits_max = survey.misfits[POLICY_FITS] - fits_before;
        survey.nodes_usable += node->usable;
        if (policy_node_fit(node, waiting) == POLICY_NODE_FULL && survey.nodes_full++ == 0)
            survey.full = node;
        survey.nodes_labelled +=
            !waiting->node_labels || pairs_contain(node->labels, waiting->node_labels);
    }
    return survey;
}

/* Writes "NVIDIA H200, NVIDIA T4": the first few distinct models. */
static void say_models(const struct policy_snapshot *snapshot, struct sentence *s)
{
    enum { MODELS_SHOWN = 4 };
    const char *shown[MODELS_SHOWN];
    size_t count = 0;
    for (size_t d = 0; d < snapshot->device_count && count < MODELS_SHOWN; d++) {
        size_t i = 0;
        while (i < count && strcmp(shown[i], snapshot->devices[d].model) != 0)
            i++;
        if (i < count)
            continue;
        say(s, "%s%s", count ? ", " : "", snapshot->devices[d].model);
        shown[count++] = snapshot->devices[d].model;
    }
}

/* Writes conditions that only another node could meet; returns false if there are none. */
static bool say_never(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                      const struct survey *survey, struct sentence *s)
{
    const struct workload_needs *needs = waiting->needs;
    if (snapshot->node_count == 0) {
        say(s, "no node has joined yet");
    } else if (survey->nodes_labelled == 0) {
        say(s, "no node has the requested labels");
    } else if (needs->devices == 0) {
        return false;
    } else if (snapshot->device_count == 0) {
        say(s, "no node has a device");
    } else if (survey->model_matches == 0) {
        say(s, "no such model in the cluster (requested '%s', present: ", needs->model);
        say_models(snapshot, s);
        say(s, ")");
    } else if (needs->quota_bytes > survey->memory_max_bytes) {
        say(s, "%.1f GiB requested, more than any device has (at most %.1f GiB)",
            gib(needs->quota_bytes), gib(survey->memory_max_bytes));
    } else if ((size_t)needs->devices > survey->node_matches_max) {
        say(s, "%d devices on one node requested, no node has more than %zu that match",
            needs->devices, survey->node_matches_max);
    } else {
        return false;
    }
    return true;
}

/* Writes the health of unavailable devices; the first device's cause stands for all. A healthy
 * device that admits no tasks is being repaired, which its cause describes, or was repaired just
 * now. */
static void say_health(const struct device_health *health, size_t count, struct sentence *s)
{
    enum { CAUSE_SAID_MAX = 90 };
    const char *one = count > 1 ? "one is " : "";
    if (!health || !health->cause[0])
        return;
    if (health->state != DEVICE_HEALTHY)
        say(s, " (%s%s: %.*s)", one, device_state_name(health->state), CAUSE_SAID_MAX,
            health->cause);
    else if (health->admits == ADMIT_NONE)
        say(s, " (%sin repair: %.*s)", one, CAUSE_SAID_MAX, health->cause);
    else
        say(s, " (%srepaired, and services come back first)", one);
}

/* Names the limit that a full node has reached, and its value. */
static void say_full(const struct policy_node *node, struct sentence *s)
{
    int most = policy_cpu_only_max(node);
    if (node->attempts >= node->attempts_max)
        say(s, "%s runs %d workloads, the limit (attempts_max: %d)", node->name, node->attempts,
            node->attempts_max);
    else if (most == node->cpu_tasks_max)
        say(s, "%s runs %d CPU-only workload%s, the limit (cpu_tasks_max: %d)", node->name,
            node->cpu_only, node->cpu_only == 1 ? "" : "s", most);
    else
        say(s, "%s runs %d CPU-only workloads, the limit (three quarters of attempts_max: %d)",
            node->name, node->cpu_only, node->attempts_max);
}

static void say_misfit(enum policy_misfit misfit, size_t count, int max_neighbours,
                       const struct workload_needs *needs, const struct survey *survey,
                       struct sentence *s)
{
    const char *have = count == 1 ? "has" : "have";
    switch (misfit) {
    case POLICY_NODE_UNUSABLE:
        say(s, "%zu on nodes that are drained, held or not connected", count);
        break;
    case POLICY_NODE_FULL:
        say(s, "%zu on full nodes (attempts_max: %d)", count, survey->full->attempts_max);
        break;
    case POLICY_NODE_DOUBTFUL:
        say(s, "%zu on nodes where a start failed", count);
        break;
    case POLICY_WRONG_MODEL:
        say(s, "%zu of another model", count);
        break;
    case POLICY_WRONG_LABELS:
        say(s, "%zu on nodes without the labels", count);
        break;
    case POLICY_NO_MEMORY:
        say(s, "%zu %s too little memory (%.1f GiB requested, quotas leave at most %.1f)", count,
            have, gib(needs->quota_bytes), gib(survey->left_max_bytes));
        break;
    case POLICY_NO_SHARE:
        say(s, "%zu %s too little free share (%d%% requested, at most %d%% free)", count, have,
            needs->share_min_percent, survey->share_max_free_percent);
        break;
    case POLICY_UNHEALTHY:
        say(s, "%zu %s new %ss now", count, count == 1 ? "takes no" : "take no",
            workload_kind_name(needs->kind));
        say_health(survey->health, count, s);
        break;
    case POLICY_SUSPECT:
        say(s, "%zu %s another suspect of a GPU fault", count, have);
        break;
    case POLICY_NEIGHBOURS:
        if (max_neighbours == 1)
            say(s, "%zu in use", count);
        else if (needs->quota_bytes == 0)
            say(s, "%zu in use, and a workload without a quota needs %s", count,
                needs->devices == 1 ? "a whole device" : "whole devices");
        else
            say(s, "%zu in use (at most %d neighbours)", count, max_neighbours);
        break;
    case POLICY_KEPT:
        say(s, "%zu kept for workload %llu, which waits for room", count,
            (unsigned long long)survey->kept_for);
        break;
    case POLICY_FITS:
    case POLICY_MISFIT_END:
        break;
    }
}

bool policy_explain_misfit(const struct policy_snapshot *snapshot,
                           const struct policy_waiting *waiting, const struct policy *policy,
                           char text[WORKLOAD_TEXT_MAX])
{
    int max_neighbours = policy->one_a_device ? 1 : snapshot->max_neighbours;
    struct survey survey = survey_all(snapshot, waiting, max_neighbours);
    struct sentence s = {.text = text};
    text[0] = '\0';
    if (say_never(snapshot, waiting, &survey, &s))
        return snapshot->node_count > 0; /* before the first node, nothing is certain */
    if (waiting->needs->devices == 0) {
        if (survey.full)
            say_full(survey.full, &s);
        else
            say(&s, survey.nodes_usable ? "no usable node has the requested labels"
                                        : "no node is usable: drained, held or not connected");
        if (survey.nodes_full > 1)
            say(&s, "; %zu nodes are full", survey.nodes_full);
        return false;
    }
    size_t fits = survey.misfits[POLICY_FITS];
    if (waiting->needs->devices > 1)
        say(&s, "%d devices on one node requested, at most %zu fit: ", waiting->needs->devices,
            survey.node_fits_max);
    else
        say(&s, "%zu of %zu device%s fit%s: ", fits, snapshot->device_count,
            snapshot->device_count == 1 ? "" : "s", fits == 1 ? "s" : "");
    const char *separator = "";
    for (int m = POLICY_FITS + 1; m < POLICY_MISFIT_END; m++) {
        if (survey.misfits[m] == 0)
            continue;
        say(&s, "%s", separator);
        say_misfit((enum policy_misfit)m, survey.misfits[m], max_neighbours, waiting->needs,
                   &survey, &s);
        separator = ", ";
    }
    return false;
}
