#include "node/attempt/terms.h"

#include <stdio.h>
#include <string.h>

bool terms_are_suspendable(const struct terms *terms)
{
    return terms->kind == WORKLOAD_TASK && !terms->has_mps && !terms->resumable &&
           !terms->swappable;
}

int terms_share_percent(const struct terms *terms)
{
    return terms->share_percent > 0 ? terms->share_percent : terms->share_max_percent;
}

void terms_lose_mps(struct terms *terms, const char *why)
{
    terms->has_mps = false;
    str_copy(terms->without_mps, sizeof terms->without_mps, why);
    terms->share_percent = 0; /* only MPS would have enforced it */
    terms->share_why[0] = '\0';
    terms->suspendable = terms_are_suspendable(terms);
}

#define OF struct terms
static const struct field terms_members[] = {
    FIELD("kind", kind, .names = &workload_kind_names),
    FIELD_LIST("devices", devices, device_count),
    FIELD("quota_bytes", quota_bytes),
    FIELD("share_min", share_min_percent, .most = 100),
    FIELD("share_max", share_max_percent, .most = 100),
    FIELD("program", program, .flags = FIELD_OPTIONAL),
    FIELD("protected", is_protected),
    FIELD("unprotected", unprotected),
    FIELD("suspect", is_suspect, .flags = FIELD_OPTIONAL),
    FIELD("mps", has_mps),
    FIELD("without_mps", without_mps),
    FIELD("suspendable", suspendable, .flags = FIELD_OPTIONAL),
    FIELD("resumable", resumable, .flags = FIELD_OPTIONAL),
    FIELD("swappable", swappable, .flags = FIELD_OPTIONAL),
    FIELD("share", share_percent, .most = 100, .flags = FIELD_OPTIONAL),
    FIELD("share_why", share_why, .flags = FIELD_OPTIONAL),
    FIELD("slo_percentile", slo_percentile, .most = 100, .flags = FIELD_OPTIONAL),
    FIELD("slo_latency_ms", slo_latency_ms, .most = WORKLOAD_TIME_MS_MAX, .flags = FIELD_OPTIONAL),
    FIELD("slo_first_ms", slo_first_ms, .most = WORKLOAD_TIME_MS_MAX, .flags = FIELD_OPTIONAL),
    FIELD("slo_between_ms", slo_between_ms, .most = WORKLOAD_TIME_MS_MAX, .flags = FIELD_OPTIONAL),
};
#undef OF
const struct fields terms_fields = FIELDS(struct terms, terms_members);

int terms_check(struct error *e, const struct terms *terms)
{
    return terms->share_min_percent <= terms->share_max_percent
               ? 0
               : error_set_field(e, ERR_CORRUPT, "share_min", "more than share_max");
}

static void describe_hold(const struct terms *terms, enum terms_loaded loaded,
                          char text[WORKLOAD_TEXT_MAX])
{
    const char *share = terms->share_max_percent < 100 && terms->kind == WORKLOAD_TASK
                            ? "by the rate of its launches"
                            : "is not limited";
    if (terms->is_protected && loaded != LOADED_BY_ALL)
        snprintf(text, WORKLOAD_TEXT_MAX,
                 "NOT enforced: %s loaded libgpumux-cuda.so (it is static, LD_PRELOAD was taken "
                 "away, or GPUMUX_DISABLE is set)%s",
                 loaded == LOADED_BY_NONE ? "no process of it has" : "one of its processes has not",
                 terms->has_mps ? "; MPS still limits its clients" : "");
    else if (!terms->is_protected && !terms->has_mps)
        snprintf(text, WORKLOAD_TEXT_MAX, "quota and share are not enforced: %.100s",
                 terms->unprotected);
    else if (!terms->is_protected)
        snprintf(text, WORKLOAD_TEXT_MAX, "quota and share are enforced by MPS alone: %.100s",
                 terms->unprotected);
    else if (terms->has_mps && terms->share_why[0])
        snprintf(text, WORKLOAD_TEXT_MAX,
                 "quota and share are enforced, through MPS: %d %% of the SMs, for %.100s",
                 terms_share_percent(terms), terms->share_why);
    else if (terms->has_mps)
        snprintf(text, WORKLOAD_TEXT_MAX, "quota and share are enforced, through MPS");
    else if (terms->quota_bytes == 0)
        snprintf(text, WORKLOAD_TEXT_MAX, "it has no quota, but its devices to itself; share %s",
                 share);
    else
        snprintf(text, WORKLOAD_TEXT_MAX, "quota is enforced, share %s: time-sliced, %.100s", share,
                 terms->without_mps);
}

char *terms_describe(const struct terms *terms, const struct terms_facts *facts,
                     char text[WORKLOAD_TEXT_MAX])
{
    describe_hold(terms, facts->loaded, text);
    size_t length = strlen(text);
    if (facts->is_unlisted && terms->is_protected && terms->quota_bytes > 0)
        snprintf(text + length, WORKLOAD_TEXT_MAX - length,
                 "; the driver does not say what processes hold, so contexts count by estimate");
    return text;
}
