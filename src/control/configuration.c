/* The configuration as the cluster needs it: numbers unchanged, names looked up. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "control/control.h"
#include "control/control_internal.h"

enum { QUEUE_PART = 4 }; /* divisor of queue_max: the default of queue_max_user */

static size_t queue_max_user(const struct config *config)
{
    if (config->queue_max_user >= 0)
        return (size_t)config->queue_max_user;
    return config->queue_max > QUEUE_PART ? (size_t)config->queue_max / QUEUE_PART : 1;
}

static void numbers_read(const struct config *config, struct cluster_config *k)
{
    k->max_neighbours = (int)config->max_neighbours;
    k->attempts_max = (int)config->attempts_max;
    k->cpu_tasks_max = (int)config->cpu_tasks_max;
    k->ageing_ms = config->ageing_ms;
    k->queue_max = (size_t)config->queue_max;
    k->queue_max_user = queue_max_user(config);
    k->lease_ms = config->lease_ms;
    k->fence_ms = config->fence_ms;
    k->drain_ms = config->drain_ms;
    k->margin_ms = config->lost_margin_ms;
    k->resend_ms = config->resend_ms;
    k->backoff_min_ms = config->backoff_min_ms;
    k->backoff_max_ms = config->backoff_max_ms;
    k->faults_max = (int)config->faults_max;
    k->keep_finished_ms = config->keep_finished_ms;
    k->keep_finished_max = (size_t)config->keep_finished_max;
}

static int policy_read(struct error *e, const char *name, const struct policy **ret)
{
    const struct policy *policy = policy_find(name);
    if (policy && policy->needs_truth)
        return error_set_field(e, ERR_INVALID, "policy",
                               "'%s' needs true durations and speeds, which only 'gpumux sim' "
                               "knows; choose another policy",
                               name);
    if (policy) {
        *ret = policy;
        return 0;
    }
    struct str names;
    str_init(&names, 1024);
    for (size_t i = 0; policy_at(i); i++)
        if (!policy_at(i)->needs_truth)
            str_printf(&names, "%s%s", i ? ", " : "", policy_at(i)->name);
    int r = error_set_field(e, ERR_INVALID, "policy", "there is no policy '%s'; there are: %s",
                            name, str_text(&names));
    str_done(&names);
    return r;
}

/* Checks whether a part can be left out. Only the simulator has a tuner and a gate in the
 * policy. */
static int part_check(struct error *e, const struct policy *policy, enum policy_part part)
{
    const char *name = policy_part_name(part);
    if (part == POLICY_PART_TUNER || part == POLICY_PART_GATE)
        return error_set_field(
            e, ERR_INVALID, "without", "'%s' can be left out only in 'gpumux sim': %s", name,
            part == POLICY_PART_TUNER
                ? "elsewhere batch sizes stay their users'"
                : "on a node 'gate_us_max: 0' lets tasks run beside a busy service");
    if (!policy_has_part(policy, part))
        return error_set_field(e, ERR_INVALID, "without",
                               "the policy '%s' has no '%s' that could be left out", policy->name,
                               name);
    return 0;
}

/* Reads the parts of the policy to leave out: "predictor,matching". */
static int parts_read(struct error *e, const char *text, const struct policy *policy,
                      struct policy_options *options)
{
    while (*text) {
        char word[32] = "";
        enum policy_part part;
        size_t length = strcspn(text, ",");
        if (length < sizeof word)
            memcpy(word, text, length);
        if (policy_part_parse(word, &part) < 0)
            return error_set_field(e, ERR_INVALID, "without",
                                   "a policy has no part '%.*s'; there are: predictor, optimizer, "
                                   "matching",
                                   (int)length, text);
        options->without[part] = true;
        text += length + (text[length] == ',');
    }
    int r = 0;
    for (enum policy_part part = 0; part < POLICY_PART_END && r == 0; part++)
        if (options->without[part])
            r = part_check(e, policy, part);
    return r;
}

int configuration_read(struct error *e, const struct config *config, struct cluster_config *ret,
                       struct cluster_allowance **ret_allowances)
{
    struct cluster_config k;
    struct cluster_allowance *allowances;
    cluster_config_default(&k);
    numbers_read(config, &k);
    int r = policy_read(e, config->policy, &k.policy);
    if (r == 0)
        r = parts_read(e, config->without, k.policy, &k.options);
    if (r == 0)
        r = allowances_read(e, &config->allowances, &allowances);
    if (r < 0)
        return r;
    k.allowances = allowances;
    k.allowance_count = config->allowances.count;
    *ret = k;
    *ret_allowances = allowances;
    return 0;
}

int control_check(struct error *e, const struct config *config)
{
    struct cluster_config ignored;
    struct cluster_allowance *allowances;
    int r = configuration_read(e, config, &ignored, &allowances);
    if (r == 0)
        free(allowances);
    return r;
}
